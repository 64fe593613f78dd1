"""Is a page dropped only for one that came through, what is kept twice, and what is lost?

Crawls a made-up site of 200 pages, 60 of them copies, in each round

1. with items that take 2 s in a pipeline, and copies right behind their originals: how many pages
   are dropped for one of which no item had come;
2. on 40 hosts, with items of 8 s: what is kept twice, and how long it takes.

With `--kills N`, N crawls follow whose judge is killed with -9, and N that are killed themselves,
each with another crawl on its store. If a document is lost then, or a page is dropped for one of
which its crawl had no item, or the store is damaged, the exit code is 1. `--beside` runs 1 and 2
with another checkout, too, in turns. What a crawl costs is measured by bench_crawl.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil
from crawling import PLUGIN, answer_html, crawl, number_of
from measuring import (
    ROOT,
    make_parser,
    print_figures,
    progress,
    run_apart,
    run_script,
    show_range,
    take_turns,
    write_result,
)
from scrapy import Request, Spider
from sites import Site, make_page, make_site

from scrapy_simhash.signals import near_duplicate_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

PAGES = 200
# Stores, documents, and pages dropped; there may be none.
_BAD = ("damaged", "lost", "undelivered", "wrong")


class SlowPipeline:
    """Takes its time for each item, and then notes that it came through."""

    def __init__(self, crawler: Crawler) -> None:
        assert isinstance(crawler.spider, CoreSpider)  # noqa: S101
        self._delivered, self._given = crawler.spider.delivered, crawler.spider.given

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the pipeline; called by Scrapy."""
        return cls(crawler)

    async def process_item(self, item: dict[str, int]) -> dict[str, int]:
        """Wait, and note; kill what is to be killed after so many items."""
        await asyncio.sleep(self._given.get("item_seconds", 0.1))
        self._delivered.add(item["number"])
        if len(self._delivered) == self._given.get("killed_after"):
            own = psutil.Process()
            for process in own.children() if self._given["killed"] == "judge" else [own]:
                process.kill()
        return item


class CoreSpider(Spider):
    """Fetches every page once, and looks at each drop."""

    name = "core"
    site: Site
    given: dict[str, Any]
    delivered: set[int]

    async def start(self) -> AsyncIterator[Any]:
        """Ask for every page."""
        self.first_copies = defaultdict[int, set[int]](set)
        self.found = dict.fromkeys(("drops", "undelivered", "wrong"), 0)
        self.crawler.signals.connect(self.note, near_duplicate_found)
        order = list(range(len(self.site.pages)))
        if self.given.get("adjacent"):
            order.sort(key=lambda number: (self.site.families[number], number))
        for number in order:
            host = f"{self.given.get('name', '')}{number % self.given.get('hosts', 1)}.example"
            yield Request(f"http://{host}/{number}")
            await asyncio.sleep(0)

    def note(self, response: Response, verdict: dict[str, Any]) -> None:
        """Look at a drop: whether it is of a copy, and for a page that came through."""
        page, original = map(number_of, (response.url, verdict["match_url"]))
        if verdict["action"] == "drop":
            families, got = self.site.families, {original, *self.first_copies[original]}
            self.found["drops"] += 1
            self.found["undelivered"] += self.delivered.isdisjoint(got)
            self.found["wrong"] += families[page] != families[original]
        else:  # it stands for a page of an earlier crawl
            self.first_copies[original].add(page)

    def parse(self, response: Response) -> Iterator[dict[str, int]]:
        """Give an item."""
        yield {"number": number_of(response.url)}


def crawl_here(given: dict[str, Any]) -> dict[str, Any]:
    """Crawl the made-up site in this process.

    Args:
        given: `store`; there may be `pages` (200), `item_seconds`, `hosts` and `name`, with which
            they begin, `adjacent`, and `killed` (`judge` or `crawl`) with `killed_after`, how many
            items.
    """
    pages = given.get("pages", PAGES)
    site = make_site((make_page(number, 0) for number in range(pages)), pages)

    async def answer(request: Request) -> Response:
        return answer_html(request, site.pages[number_of(request.url)])

    settings = {
        "ADDONS": PLUGIN,
        "ITEM_PIPELINES": {SlowPipeline: 300},
        "SIMHASH_STORE": given["store"],
    }
    began, delivered = time.monotonic(), set[int]()
    spider = crawl(CoreSpider, answer, settings, site=site, given=given, delivered=delivered)
    families = {site.families[number] for number in delivered}
    return {
        **spider.found,
        "seconds": time.monotonic() - began,
        "twice": len(delivered) - len(families),
        "lost": len(set(site.families) - families),
    }


def measure(checkout: Path) -> dict[str, float]:
    """Run a round with the package of a checkout."""
    with tempfile.TemporaryDirectory() as name:
        near = {"store": f"{name}/1", "item_seconds": 2, "adjacent": True}
        slow = {"store": f"{name}/2", "item_seconds": 8, "hosts": 40}
        first, second = (run_apart(given, checkout) for given in (near, slow))
    return {
        "items of 2 s, adjacent: drops": first["drops"],
        "of these for a page of which no item had come": first["undelivered"],
        "items of 8 s, 40 hosts: kept twice": second["twice"],
        "the same: seconds": second["seconds"],
    }


def kill(kind: str, number: int) -> dict[str, int]:
    """Kill a judge, or a crawl, with -9, and crawl on its store; count what came of it."""
    after = random.Random(f"{kind} {number}").randint(1, PAGES // 2)  # noqa: S311
    first: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as store:
        try:
            first = run_apart({"store": store, "killed": kind, "killed_after": after})
        except subprocess.CalledProcessError as error:
            if kind != "crawl" or error.returncode != -signal.SIGKILL:
                raise
        second = run_apart({"store": store})
        command = [sys.executable, "-m", "scrapy", "simhash", "check", "--store", store]
        checked = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    found = {key: first.get(key, 0) + second.get(key, 0) for key in ("twice", *_BAD)}
    return found | {"kills": 1, "damaged": int(checked.returncode != 0)}


def main() -> bool:
    """Run everything in turns, print the tables and write the file."""
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another one, in turns")
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="of each kind, default 0")
    options = parser.parse_args()
    checkouts = {"this": ROOT} | ({"beside": options.beside} if options.beside else {})
    subjects = {name: partial(measure, checkout) for name, checkout in checkouts.items()}
    rounds = take_turns(subjects, options.runs)
    print_figures(
        {
            name: {key: show_range([each[key] for each in found]) for key in found[0]}
            for name, found in rounds.items()
        }
    )
    kills = {kind: Counter[str]() for kind in ("judge", "crawl")}
    for number in range(options.kills):
        progress(f"kill {number + 1}")
        for kind, counts in kills.items():
            counts.update(kill(kind, number))
    print_figures({f"{kind} killed": found for kind, found in kills.items() if found})
    versions = ("scrapy-simhash", "scrapy", "turbohtml", "lmdb", "numpy")
    write_result(options.output, versions, rounds=rounds, kills=kills)
    return any(found[key] for found in kills.values() for key in _BAD)


if __name__ == "__main__":
    run_script(main, crawl_here)
