"""Does a long crawl leave anything lying: memory, file, threads, processes, open files?

One crawl over pages made as they are asked for, answered from memory; every fifth is a copy of an
earlier one. After every hundredth part of the pages it looks at

* anonymous memory of the crawl and of its judge (`RssAnon`), without mapped pages of the store;
* bytes of the store's data file; threads, child processes, open files.

After the first tenth memory must grow by less than 5 MB (medians of the first and of the last tenth
that follow), the file along a straight line, the others not at all, and nothing may outlive the
crawl; otherwise the exit code is 1. Memory and file are judged from 10,000 pages on: before, caches
still fill. Not measured: real pages, networks, callbacks; Scrapy's filter of duplicate requests,
which keeps every request for ever.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import print_table, write_result
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response
from sites import make_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler

SAMPLES = 100
# So many pages before it is the original of every fifth page.
TWIN_DISTANCE = 3
FEWEST_PAGES_JUDGED = 10_000
MOST_GROWTH_MB = 5.0
# Of a straight line through the file's bytes; the file grows in steps of a page.
LEAST_R_SQUARED = 0.99
_COUNTED = ("threads", "processes", "open_files")


class MadeHandler:
    """Answers every request with the page of its number."""

    lazy = False

    @classmethod
    def from_crawler(cls, _: Crawler) -> MadeHandler:
        """Make the handler; called by Scrapy."""
        return cls()

    async def download_request(self, request: Request) -> Response:
        """Answer a request; every fifth page has the words and the title of one before it."""
        number = int(request.url.rpartition("/")[2])
        body = make_page(number - TWIN_DISTANCE if number % 5 == 4 else number, number)
        return HtmlResponse(request.url, body=body, headers={"Content-Type": "text/html"})

    async def close(self) -> None:
        """Do nothing."""


class LongSpider(Spider):
    """Fetches every page once, and takes samples as they come."""

    name = "long"
    samples: list[dict[str, float]]
    seen: int = 0

    async def start(self) -> AsyncIterator[Any]:
        """Ask for every page, never for many at once."""
        self.samples = []
        self.crawler.signals.connect(self._count, signals.response_received)
        for number in range(self.settings.getint("BENCH_PAGES")):
            yield Request(f"http://bench.invalid/{number}", dont_filter=True)
            if number % 50 == 0:
                await self.crawler.signals.wait_for(signals.scheduler_empty)

    def _count(self) -> None:
        self.seen += 1
        if self.seen % max(1, self.settings.getint("BENCH_PAGES") // SAMPLES) == 0:
            self.samples.append(take_sample(Path(self.settings["SIMHASH_STORE"]), self.seen))

    def parse(self, response: Response) -> Any:
        """Yield something, so that the page is done."""
        yield {"bytes": len(response.body)}


def take_sample(store: Path, pages: int) -> dict[str, float]:
    """Look at this process, its children and the store."""
    children = list_children()
    return {
        "pages": pages,
        "crawl_mb": read_memory("self"),
        "judge_mb": sum(read_memory(pid) for pid in children),
        "store_bytes": (store / "data.mdb").stat().st_size,
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "processes": len(children),
        "open_files": len(list(Path("/proc/self/fd").iterdir())),
    }


def list_children() -> list[str]:
    """List the process ids of this process's children."""
    found = (path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return sorted(pid for text in found for pid in text.split())


def read_memory(pid: str) -> float:
    """Return the anonymous memory of a process in MB; 0 when it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    kilobytes = (int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return next(kilobytes, 0) * 1024 / 1e6


def crawl(pages: int, store: Path) -> tuple[LongSpider, int]:
    """Run the crawl; returns its spider, and the number of errors in its log."""
    process = AsyncCrawlerProcess(
        {
            "ADDONS": {"scrapy_simhash.Addon": 500},
            "SIMHASH_STORE": str(store),
            "BENCH_PAGES": pages,
            "DOWNLOAD_HANDLERS": {"http": MadeHandler},
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            "DOWNLOAD_DELAY": 0,
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    crawler = process.create_crawler(LongSpider)
    process.crawl(crawler)
    process.start()
    assert isinstance(crawler.spider, LongSpider)  # noqa: S101
    assert crawler.stats is not None  # noqa: S101
    return crawler.spider, crawler.stats.get_value("log_count/ERROR", 0)


def list_left_behind(store: Path) -> list[str]:
    """List threads, judges and open files of the plugin that outlived the crawl."""
    threads = [t.name for t in threading.enumerate() if "simhash" in t.name]
    files = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in list_children()]
    judges = [
        command.replace("\0", " ") for command in commands if "judge.process import" in command
    ]
    return [*threads, *judges, *(file for file in files if file.startswith(str(store)))]


def judge(samples: list[dict[str, float]]) -> dict[str, Any]:
    """Return how much each figure grew after warm-up."""
    kept = samples[len(samples) // 10 :]
    tenth = max(1, len(kept) // 10)
    first, last = kept[:tenth], kept[-tenth:]

    def grown(name: str) -> float:
        before, after = (statistics.median(s[name] for s in part) for part in (first, last))
        return round(after - before, 3)

    pages = np.array([sample["pages"] for sample in kept])
    octets = np.array([sample["store_bytes"] for sample in kept])
    return {
        **{f"{name}_growth": grown(name) for name in ("crawl_mb", "judge_mb")},
        "store_bytes_a_page": round(float(np.polyfit(pages, octets, 1)[0]), 1),
        "store_r_squared": round(float(np.corrcoef(pages, octets)[0, 1] ** 2), 5),
        **{
            f"{name}_growth": max(s[name] for s in last) - max(s[name] for s in first)
            for name in _COUNTED
        },
    }


def find_faults(growth: dict[str, Any], pages: int) -> Iterator[str]:
    """Name the bounds that were broken."""
    # A connection, or a judge that is being replaced, comes and goes; a leak grows.
    yield from (f"{name} grew" for name in _COUNTED if growth[f"{name}_growth"] > 0)
    if pages >= FEWEST_PAGES_JUDGED:
        for name in ("crawl_mb", "judge_mb"):
            if growth[f"{name}_growth"] >= MOST_GROWTH_MB:
                yield f"{name} grew by {growth[f'{name}_growth']}"
        if growth["store_r_squared"] < LEAST_R_SQUARED:
            yield f"the file did not grow linearly: R^2 is {growth['store_r_squared']}"


def main() -> None:
    """Crawl, print the growth, and fail where a bound was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=100_000, help="to crawl (default 100,000)")
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        spider, errors = crawl(options.pages, Path(folder))
        left_behind = list_left_behind(Path(folder))
    speed = spider.seen / (time.perf_counter() - began)
    growth = judge(spider.samples)
    faults = list(find_faults(growth, options.pages))
    if spider.seen != options.pages or errors or left_behind:
        faults.append(f"{spider.seen} pages came, {errors} errors, left behind: {left_behind}")
    print(f"{spider.seen:,} pages, {speed:.1f} a second; after the first tenth:")
    print_table(["figure", "growth"], growth.items())
    print(f"\n{'; '.join(faults) or 'every bound was kept'}")
    names = ("scrapy-simhash", "scrapy", "trafilatura", "lmdb", "lxml")
    figures = {"pages_per_second": round(speed, 1), "samples": spider.samples}
    write_result(options.output, names, growth=growth, faults=faults, **figures)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
