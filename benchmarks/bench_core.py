"""Is a page dropped only for one that came through, what is kept twice, and what does it cost?

Each round crawls

1. a made-up site whose items take 2 s in a pipeline, copies right behind their originals: how many
   pages are dropped for one of which no item had come;
2. and 3. the rows `callback` and `duplicates` of bench_crawl: what is found, CPU, memory;
4. the made-up site on 40 hosts, with items of 8 s: what is kept twice, and how long it takes.

With `--kills N`, N crawls follow whose judge is killed with -9, and N that are killed themselves,
each with another crawl on its store. If a document is lost then, or a page is dropped for one of
which its crawl had no item, or the store is damaged, the exit code is 1. `--beside` runs 1 to 4
with another checkout, too, in turns; each has one process that reads pages. Not measured: networks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from crawling import ONE_PROCESS, MemoryHandler, number_of
from machine import print_table, progress, write_result
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from sites import EXAMPLE_PAGES, make_page, make_site

from scrapy_simhash.signals import near_duplicate_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

ROOT = Path(__file__).parent.parent
PAGES = 200
_ITEM_SECONDS = 0.1
# Stores, documents, and pages dropped; there may be none.
_BAD = ("damaged", "lost", "undelivered", "wrong")
_COUNTED = ("kills", "twice", *_BAD)


class SlowPipeline:
    """Takes its time for each item, and then notes that it came through."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler, self._given = crawler, crawler.settings["BENCH_GIVEN"]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> SlowPipeline:
        """Make the pipeline; called by Scrapy."""
        return cls(crawler)

    async def process_item(self, item: dict[str, int]) -> dict[str, int]:
        """Wait, and note; kill what is to be killed after so many items."""
        await asyncio.sleep(self._given["item_seconds"])
        delivered: set[int] = self._crawler.spider.delivered  # type: ignore[union-attr]
        delivered.add(item["number"])
        if len(delivered) == self._given["killed_after"]:
            own = psutil.Process()
            for process in own.children() if self._given["killed"] == "judge" else [own]:
                process.kill()
        return item


class CoreSpider(Spider):
    """Fetches every page once, and looks at each drop."""

    name = "core"

    async def start(self) -> AsyncIterator[Any]:
        """Ask for every page."""
        given, self.site = self.settings["BENCH_GIVEN"], self.settings["BENCH_SITE"]
        self.delivered, self.first_copies = set[int](), defaultdict[int, set[int]](set)
        self.found = dict.fromkeys(("drops", "undelivered", "wrong"), 0)
        self.crawler.signals.connect(self.note, near_duplicate_found)
        order = list(range(PAGES))
        if given["adjacent"]:
            order.sort(key=lambda number: (self.site.families[number], number))
        for number in order:
            yield Request(f"http://{number % given['hosts']}.example/{number}")
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


def crawl(given: dict[str, Any]) -> dict[str, Any]:
    """Crawl the made-up site in this process.

    Args:
        given: `store`, `item_seconds`, `hosts`, `adjacent`, `killed` (`judge` or `crawl`) and after
            how many items it is, or 0.
    """
    site = make_site((make_page(number, 0) for number in range(PAGES)), PAGES)
    process = AsyncCrawlerProcess(
        ONE_PROCESS
        | {
            "ADDONS": {"scrapy_simhash.Addon": 500},
            "BENCH_GIVEN": given,
            "BENCH_SITE": site,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            "DOWNLOAD_DELAY": 0,
            "DOWNLOAD_HANDLERS": {"http": MemoryHandler},
            "ITEM_PIPELINES": {SlowPipeline: 300},
            "LOG_LEVEL": "ERROR",
            "SIMHASH_STORE": given["store"],
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    crawler, began = process.create_crawler(CoreSpider), time.monotonic()
    process.crawl(crawler)
    process.start()
    assert isinstance(crawler.spider, CoreSpider)  # noqa: S101
    delivered = crawler.spider.delivered
    families = {site.families[number] for number in delivered}
    return {
        **crawler.spider.found,
        "seconds": time.monotonic() - began,
        "twice": len(delivered) - len(families),
        "lost": len(set(site.families) - families),
    }


def _start(checkout: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a script of this folder with the package of a checkout."""
    command = [sys.executable, str(Path(__file__).parent / script), *arguments]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def _crawl(checkout: Path, store: str, **given: Any) -> dict[str, Any]:
    """Crawl the made-up site; returns nothing of a crawl that was killed."""
    usual = {"hosts": 1, "adjacent": False, "killed_after": 0, "item_seconds": _ITEM_SECONDS}
    work = json.dumps(usual | {"store": store} | given)
    with _start(checkout, "bench_core.py", "--one", work) as done:
        output, _ = done.communicate()
    found: dict[str, Any] = json.loads(output.splitlines()[-1]) if output else {}
    if done.returncode != (-signal.SIGKILL if given.get("killed") == "crawl" else 0):
        sys.exit(f"a crawl ended with {done.returncode}")
    return found


def measure(checkout: Path, options: argparse.Namespace) -> dict[str, float]:
    """Run a round with the package of a checkout."""
    with tempfile.TemporaryDirectory() as name:
        adjacent = _crawl(checkout, f"{name}/1", item_seconds=2, adjacent=True)
        slow = _crawl(checkout, f"{name}/4", item_seconds=8, hosts=40)
        output = Path(name, "crawls.json")
        rows = "--rows", "callback,duplicates", "--kinds", "off,flag,drop", "--runs", "1"
        which = "--pages", str(options.pages), "--count", str(options.count)
        with _start(checkout, "bench_crawl.py", *rows, *which, "--output", str(output)) as done:
            done.communicate()
        rows_found = json.loads(output.read_text())["rows"]
    callback, duplicates = rows_found["callback"]["medians"], rows_found["duplicates"]
    off, flag, dropped = callback["off"], callback["flag"], duplicates["medians"]["drop"]
    return {
        "items of 2 s, adjacent: drops": adjacent["drops"],
        "of these for a page of which no item had come": adjacent["undelivered"],
        f"near-duplicates found, of {duplicates['duplicates']}": dropped["right"],
        "others dropped": dropped["wrong"],
        "CPU added to Scrapy's process, ms a page": flag["main_cpu_ms"] - off["main_cpu_ms"],
        "CPU of other processes, ms a page": flag["others_cpu_ms"],
        "resident, MB": flag["resident_mb"],
        "first page, s beyond off": flag["first_page_s"] - off["first_page_s"],
        "items of 8 s, 40 hosts: kept twice": slow["twice"],
        "the same: seconds": slow["seconds"],
    }


def kill(kind: str, number: int) -> dict[str, int]:
    """Kill a judge, or a crawl, with -9, and crawl on its store; count what came of it."""
    after = random.Random(f"{kind} {number}").randint(1, PAGES // 2)  # noqa: S311
    with tempfile.TemporaryDirectory() as store:
        first = _crawl(ROOT, store, killed=kind, killed_after=after)
        second = _crawl(ROOT, store)
        command = [sys.executable, "-m", "scrapy", "simhash", "check", "--store", store]
        checked = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    found = {key: first.get(key, 0) + second.get(key, 0) for key in ("twice", *_BAD)}
    return found | {"kills": 1, "damaged": int(checked.returncode != 0)}


def main() -> int:
    """Run everything in turns, print the tables and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=Path, default=EXAMPLE_PAGES, help="for bench_crawl")
    parser.add_argument("--count", type=int, default=500, help="pages of bench_crawl (default 500)")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another one, in turns")
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="of each kind, default 0")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(crawl(options.one)))
        return 0
    checkouts = {"this": ROOT} | ({"beside": options.beside} if options.beside else {})
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for number in range(options.rounds):
        for name, checkout in checkouts.items():
            progress(f"round {number + 1}, {name}")
            rounds[name].append(measure(checkout, options))
    names = rounds["this"][0] if rounds["this"] else ()
    shown = [(name, *(_show(name, found) for found in rounds.values())) for name in names]
    print_table(("what", *rounds), shown)
    kills = {kind: Counter[str]() for kind in ("judge", "crawl")}
    for number in range(options.kills):
        progress(f"kill {number + 1}")
        for kind, counts in kills.items():
            counts.update(kill(kind, number))
    print_table(
        ("killed", *_COUNTED), [(kind, *map(found.get, _COUNTED)) for kind, found in kills.items()]
    )
    versions = ("scrapy-simhash", "scrapy", "turbohtml", "lmdb", "numpy")
    write_result(options.output, versions, rounds=rounds, kills=kills)
    return int(any(found[key] for found in kills.values() for key in _BAD))


def _show(name: str, rounds: list[dict[str, float]]) -> str:
    """Show the median of a figure, and the smallest and largest."""
    values = [each[name] for each in rounds]
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
