"""Detectors and pages for the tests of the detector."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scrapy_simhash.config import Config
from scrapy_simhash.decisionlog import new_decision
from scrapy_simhash.detector import Detector, Page

EXTRACTOR = "html2txt"


def make(store: Path, **fields: Any) -> Detector:
    """Extract in this process unless told otherwise: quicker, and the same but for its faults."""
    fields = {"workers": 0, "extractor": EXTRACTOR, **fields}
    return Detector(Config(store=str(store), **fields))


@asynccontextmanager
async def running(store: Path, **fields: Any) -> AsyncIterator[Detector]:
    detector = make(store, **fields)
    await detector.open("spider")
    try:
        yield detector
    finally:
        await detector.close()


def fetched(name: str, html: str | bytes, **fields: Any) -> Page:
    body = html if isinstance(html, bytes) else html.encode()
    fields = {"encoding": "utf-8", "identity": name.encode(), **fields}
    return Page(url=f"http://site.example/{name}", body=body, **fields)


async def judge(detector: Detector, *pages: Page, done: bool = True) -> list[str]:
    """Judge pages one after the other; their items come through."""
    verdicts = []
    for page_ in pages:
        decision = await detector.judge(page_)
        assert list(decision) == list(new_decision("", ""))
        assert json.loads(json.dumps(decision)) == decision
        if done:
            detector.mark_done(decision)
        verdicts.append(f"{decision['status']} {decision['reason']}".strip())
    return verdicts
