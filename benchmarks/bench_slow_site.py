"""What is left of the readers for one site, beside another whose pages are slow to read?

Two crawls of so many seconds with one worker: of a site of ordinary pages from memory, eight in
flight, and of the same beside a site with eight pages of 4 MB in flight that take five seconds each
or more. Printed are pages a second of the first site, how long they waited, and what became of the
second site's pages. Not measured: networks, several workers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from crawling import MemoryHandler
from machine import print_table
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from sites import make_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

SLOW = b"<p>words of a page" + b"<table><tr><td>" * 270_000
_IN_FLIGHT = 8
_ORDINARY = 1_000_000  # number of the first ordinary page


class Pages:
    """What both sites answer, by the number at the end of an address: small ones are slow."""

    def __getitem__(self, number: int) -> bytes:
        """Make a page."""
        return SLOW if number < _ORDINARY else make_page(number, number)


class SlowSpider(Spider):
    """Asks for one page more of a site whenever it gets one, until the time is over."""

    name = "slow"

    async def start(self) -> AsyncIterator[Any]:
        """Ask for the first pages."""
        self.ends = time.perf_counter() + self.settings["BENCH_SECONDS"]
        self.waited: list[float] = []
        self.became: Counter[str] = Counter()
        for number in range(_IN_FLIGHT):
            yield self._ask(_ORDINARY + number)
            if self.settings["BENCH_SLOW"]:
                yield self._ask(number)

    def _ask(self, number: int) -> Request:
        return Request(f"http://{'slow' if number < _ORDINARY else 'ordinary'}.example/{number}")

    def parse(self, response: Response) -> Iterator[Any]:
        """Note how long a page waited, and ask for another one."""
        now, verdict = time.perf_counter(), response.meta["simhash"]
        number = int(response.url.rpartition("/")[2])
        if now > self.ends:
            return
        if number < _ORDINARY:
            self.became[verdict["reason"] or verdict["status"]] += 1
        else:
            self.waited.append(time.time() - verdict["time"])
        yield self._ask(number + _IN_FLIGHT)


def crawl(seconds: float, *, slow: bool) -> dict[str, Any]:
    """Run one crawl in this process."""
    with tempfile.TemporaryDirectory() as folder:
        process = AsyncCrawlerProcess(
            {
                "ADDONS": {"scrapy_simhash.Addon": 500},
                "BENCH_SECONDS": seconds,
                "BENCH_SITE": SimpleNamespace(pages=Pages()),
                "BENCH_SLOW": slow,
                "CONCURRENT_REQUESTS_PER_DOMAIN": _IN_FLIGHT,
                "DOWNLOAD_DELAY": 0,
                "DOWNLOAD_HANDLERS": {"http": MemoryHandler},
                "LOG_LEVEL": "ERROR",
                "SIMHASH_STORE": folder,
                "SIMHASH_WORKERS": 1,
                "TELNETCONSOLE_ENABLED": False,
            }
        )
        crawler = process.create_crawler(SlowSpider)
        process.crawl(crawler)
        process.start()
    spider = crawler.spider
    assert isinstance(spider, SlowSpider)  # noqa: S101
    waited = spider.waited or [seconds]
    return {
        "pages a second": len(spider.waited) / seconds,
        "median wait, s": median(waited),
        "longest wait, s": max(waited),
        "slow pages": ", ".join(f"{count} {name}" for name, count in spider.became.items()),
    }


def main() -> None:
    """Run both crawls and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--one", choices=("alone", "beside"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(crawl(options.seconds, slow=options.one == "beside")))
        return
    rows = []
    for name in ("alone", "beside"):
        command = [sys.executable, __file__, "--seconds", str(options.seconds), "--one", name]
        found = json.loads(subprocess.check_output(command))
        rows.append((name, *found.values()))
    print_table(("ordinary site", *found), rows)


if __name__ == "__main__":
    main()
