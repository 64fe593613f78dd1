"""Detectors and pages for the tests of the detector."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from scrapy_simhash.config import Config
from scrapy_simhash.detector.detector import Detector
from scrapy_simhash.detector.log import Decision
from scrapy_simhash.detector.messages import Mark
from scrapy_simhash.detector.workers import Workers
from scrapy_simhash.pages.facts import Page, PageFingerprint
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.recipe import Recipe
from tests.helpers.pages import page

EXTRACTOR = "html2txt"


def make(store: Path | str, **fields: Any) -> Detector:
    """Extract in this process unless told otherwise: quicker, and the same but for its faults."""
    fields = {"workers": 0, "extractor": EXTRACTOR, **fields}
    return Detector(Config(store=str(store), **fields))


@asynccontextmanager
async def running(store: Path | str, **fields: Any) -> AsyncIterator[Detector]:
    detector = make(store, **fields)
    await detector.open("spider")
    try:
        yield detector
    finally:
        await detector.close()


@asynccontextmanager
async def working(
    count: int, seconds: float = 1.0, memory_bytes: int = 2**30
) -> AsyncIterator[Workers]:
    """Run so many workers, with these bounds of a page."""
    workers = Workers(count, seconds, memory_bytes)
    await workers.start()
    try:
        yield workers
    finally:
        await workers.stop()


def check_read(seed: int, found: Any, recipe: Recipe | None = None) -> None:
    """Check that a worker found the fingerprint of a page, and by the first reader."""
    assert isinstance(found, PageFingerprint), found
    expected = fingerprint_page(page(seed), recipe=recipe, seed=7)
    made = expected.facts.fingerprint, expected.facts.text_digest
    assert (found.facts.fingerprint, found.facts.text_digest) == made
    assert (found.extractor, found.second_opinion) == (expected.extractor, "")


def fetched(name: str, html: str | bytes, **fields: Any) -> Page:
    body = html if isinstance(html, bytes) else html.encode()
    fields = {"encoding": "utf-8", "identity": name.encode(), **fields}
    return Page(url=f"http://site.example/{name}", body=body, **fields)


def new_decision(url: str = "", crawl: str = "", **fields: Any) -> Decision:
    """Make the decision on a page that nobody has judged."""
    now = round(time.time(), 3)
    return Decision(**{"time": now, "url": url, "status": "not_judged", "crawl": crawl, **fields})


def new_line(url: str = "", crawl: str = "", **fields: Any) -> dict[str, Any]:
    """Make the line of the log on a page that nobody has judged."""
    line: dict[str, Any] = msgspec.to_builtins(new_decision(url, crawl, **fields))
    return line


def write_decision(detector: Detector, decision: Decision) -> None:
    """Write to the detector's log, as a crawl does."""
    assert detector.has_log
    detector.write(decision)


async def judge(detector: Detector, *pages: Page, done: bool = True) -> list[str]:
    """Judge pages one after the other; their items come through."""
    verdicts = []
    for page_ in pages:
        decision = await detector.judge(page_)
        verdict = msgspec.to_builtins(decision)
        assert tuple(verdict) == Decision.__struct_fields__
        assert json.loads(json.dumps(verdict)) == verdict
        if done:
            detector.mark(Mark(done=decision.document))
        verdicts.append(f"{decision.status} {decision.reason}".strip())
    return verdicts
