"""Crawls in processes of their own; run as a script, this is such a crawl, without a main guard.

Items are written to a file as they come out of the spider, so that one can see after `kill -9`
which ones came through.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.http import Response
from scrapy.utils.misc import load_object

from tests.helpers.crawling import SETTINGS, Ended, PagesSpider, describe, read_lines
from tests.helpers.processes import PATIENCE_SECONDS, ROOT, environment


class ItemFile:
    """An item pipeline that appends every item to the file ITEM_FILE."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @classmethod
    def from_crawler(cls, crawler: Any) -> "ItemFile":
        return cls(crawler.settings["ITEM_FILE"])

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        os.write(self._file, json.dumps(item).encode() + b"\n")
        return item


class HoldingSpider(PagesSpider):
    """Keeps the items of the pages in HELD_URLS back, for HELD_SECONDS or for ever."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        if response.url in self.settings.getlist("HELD_URLS"):
            await asyncio.sleep(self.settings.getfloat("HELD_SECONDS", PATIENCE_SECONDS))
        yield describe(response)


@dataclass
class ScriptCrawl(Ended):
    """A crawl in a process of its own: what it wrote and said."""

    exit_code: int
    items: list[dict[str, Any]]
    stats: dict[str, Any]
    log: str


def start_crawl(
    folder: Path, urls: Iterable[str], name: str = "crawl", **settings: Any
) -> subprocess.Popen[str]:
    """Start a crawl with its store in `folder / "store"`; finish it with `finish_crawl`.

    The setting SPIDER is the import path of another spider.
    """
    # Those of a crawl without a reactor, unless one is asked for.
    other = {"TWISTED_REACTOR_ENABLED"}
    if settings.get("TWISTED_REACTOR_ENABLED", True):
        other.add("DOWNLOAD_HANDLERS")
    given = {
        **{key: value for key, value in SETTINGS.items() if key not in other},
        "SIMHASH_STORE": str(folder / "store"),
        # By its own name, importing this module would start another crawl.
        "ITEM_PIPELINES": {"__main__.ItemFile": 300},
        "ITEM_FILE": str(folder / f"{name}.jsonl"),
        **settings,
    }
    # Its log goes to a file: a pipe that nobody reads stops the crawl when it is full.
    with _find_log(folder, name).open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.crawlscript", json.dumps([list(urls), given])],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def _find_log(folder: Path, name: str) -> Path:
    return folder / f"{name}.stderr"


def finish_crawl(process: subprocess.Popen[str], folder: Path, name: str = "crawl") -> ScriptCrawl:
    """Wait for the end of a crawl, however it ends."""
    answer, _ = process.communicate(timeout=PATIENCE_SECONDS)
    stats = json.loads(answer.splitlines()[-1]) if answer else {}
    log = _find_log(folder, name).read_text()
    return ScriptCrawl(process.returncode, read_lines(folder / f"{name}.jsonl"), stats, log)


def run_crawl(folder: Path, urls: Iterable[str], **settings: Any) -> ScriptCrawl:
    return finish_crawl(start_crawl(folder, urls, **settings), folder)


def _crawl(urls: list[str], settings: dict[str, Any]) -> None:
    other = "asyncio" not in settings.get("TWISTED_REACTOR", "asyncio")
    process = (CrawlerProcess if other else AsyncCrawlerProcess)(settings)
    spider = load_object(settings.get("SPIDER", HoldingSpider))
    crawler = process.create_crawler(spider)
    process.crawl(crawler, requests=urls)
    process.start()
    stats = crawler.stats.get_stats() if crawler.stats else {}
    print(json.dumps(stats, default=str))  # noqa: T201 - the answer to the test


if sys.argv[1:] and Path(sys.argv[0]) == Path(__file__):
    _crawl(*json.loads(sys.argv[1]))
