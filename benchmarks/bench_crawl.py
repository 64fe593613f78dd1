"""What the plugin costs a crawl: pages per second and the delay of the event loop.

Each run is a crawl of its own process over the same pages, answered from memory by a download
handler without I/O, so that middlewares are measured and not sockets. Side by side in one run:

* off: the plugin is not there;
* flag and drop: the plugin with its defaults, in a fresh store; every commit is synced;
* naive: a middleware as one would write it in an evening: trafilatura and a set of simhashes on
  the event loop, nothing kept.

The delay of the event loop is how late a task comes that asked to sleep for 5 ms; a stall counts
once for each 5 ms it lasts, so that percentiles are those of time. Not measured:
networks, politeness, and callbacks: this one does nothing, since parsing of its own would hold the
loop in every kind of run.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import describe_machine, describe_versions
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler

KINDS = ("off", "naive", "flag", "drop")
SLEEP_SECONDS = 0.005
EXAMPLE_PAGES = Path(__file__).parent.parent / "example_project" / "docsite" / "pages"


def load_pages(folder: Path, count: int) -> list[bytes]:
    """Read so many pages, spread over the folder; gzip ones are unpacked."""
    paths = sorted(p for p in folder.rglob("*") if p.name.endswith((".html", ".html.gz")))
    if not paths:
        sys.exit(f"no .html or .html.gz files below {folder}")
    chosen = [paths[i * len(paths) // count] for i in range(min(count, len(paths)))]
    return [gzip.open(p).read() if p.suffix == ".gz" else p.read_bytes() for p in chosen]


class MemoryHandler:
    """Answers every request from the pages in memory."""

    lazy = False
    pages: list[bytes]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> MemoryHandler:
        """Make the handler; called by Scrapy."""
        handler = cls()
        handler.pages = crawler.settings["BENCH_PAGES"]
        return handler

    async def download_request(self, request: Request) -> Response:
        """Answer a request."""
        body = self.pages[int(request.url.rpartition("/")[2])]
        return HtmlResponse(request.url, body=body, headers={"Content-Type": "text/html"})

    async def close(self) -> None:
        """Nothing to close."""


class NaiveMiddleware:
    """Extraction and simhash on the event loop, all fingerprints in a list."""

    def __init__(self) -> None:
        self._seen: list[int] = []

    async def process_response(self, request: Request, response: Response) -> Response:
        """Compare with every page before it."""
        from scrapy_simhash.fingerprint import fingerprint_page  # noqa: PLC0415
        from scrapy_simhash.text import UnjudgedError  # noqa: PLC0415

        try:
            value = fingerprint_page(response.body).fingerprint
        except UnjudgedError:
            return response
        if any((value ^ other).bit_count() <= 3 for other in self._seen):
            request.meta["duplicate"] = True
        else:
            self._seen.append(value)
        return response


class BenchSpider(Spider):
    """Fetches every page once."""

    name = "bench"
    delays: list[float]
    began: float

    async def start(self) -> AsyncIterator[Any]:
        """Ask for every page."""
        self.delays = []
        self._watch = asyncio.get_running_loop().create_task(self._watch_loop())
        self.crawler.signals.connect(self._stop, signals.spider_closed)
        self.began = time.perf_counter()
        for number in range(len(self.settings["BENCH_PAGES"])):
            yield Request(f"http://bench.invalid/{number}")

    async def _watch_loop(self) -> None:
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(SLEEP_SECONDS)
            late = time.perf_counter() - asked - SLEEP_SECONDS
            while late >= 0:
                self.delays.append(1000 * late)
                late -= SLEEP_SECONDS

    def _stop(self) -> None:
        self._watch.cancel()

    def parse(self, response: Response) -> Any:
        """Note when the last page came."""
        self.last = time.perf_counter()
        yield {"bytes": len(response.body)}


def crawl(kind: str, pages: list[bytes]) -> dict[str, float]:
    """Run one crawl in this process."""
    settings: dict[str, Any] = {
        "BENCH_PAGES": pages,
        "DOWNLOAD_HANDLERS": {"http": MemoryHandler},
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "WARNING",
        "TELNETCONSOLE_ENABLED": False,
    }
    if kind == "naive":
        settings["DOWNLOADER_MIDDLEWARES"] = {NaiveMiddleware: 545}
    if kind in {"flag", "drop"}:
        settings["ADDONS"] = {"scrapy_simhash.Addon": 500}
        settings["SIMHASH_ACTION"] = kind
    with tempfile.TemporaryDirectory() as folder:
        settings["SIMHASH_STORE"] = folder
        process = AsyncCrawlerProcess(settings)
        crawler = process.create_crawler(BenchSpider)
        process.crawl(crawler)
        process.start()
    spider, stats = crawler.spider, crawler.stats
    assert isinstance(spider, BenchSpider)  # noqa: S101
    assert stats is not None  # noqa: S101
    delays = sorted(spider.delays)
    return {
        "pages_per_second": len(pages) / (spider.last - spider.began),
        "delay_p50_ms": statistics.median(delays),
        "delay_p99_ms": delays[int(0.99 * (len(delays) - 1))],
        "delay_worst_ms": delays[-1],
        "near_duplicates": float(stats.get_value("simhash/near_duplicate", 0)),
        "unjudged": float(
            sum(v for k, v in stats.get_stats().items() if k.startswith("simhash/unjudged"))
        ),
    }


def main() -> None:
    """Run the crawls in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pages", type=Path, default=EXAMPLE_PAGES, help="folder of HTML files")
    parser.add_argument("--count", type=int, default=500, help="pages to crawl (default 500)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each kind (default 5)")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    parser.add_argument("--one", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(crawl(options.one, load_pages(options.pages, options.count))))
        return
    pages = load_pages(options.pages, options.count)
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for _ in range(options.runs):
        for kind in KINDS:
            command = [sys.executable, __file__, "--one", kind, "--count", str(options.count)]
            command += ["--pages", str(options.pages)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs[kind].append(json.loads(done.stdout.splitlines()[-1]))
    medians = {
        kind: {key: statistics.median(run[key] for run in of_kind) for key in of_kind[0]}
        for kind, of_kind in runs.items()
    }
    print_table(medians, len(pages), sum(map(len, pages)) / len(pages), options.runs)
    if options.output:
        versions = describe_versions("scrapy-simhash", "scrapy", "trafilatura", "lmdb", "lxml")
        document: dict[str, Any] = {"pages": len(pages), "runs": options.runs}
        document |= {"machine": describe_machine(), "versions": versions}
        options.output.write_text(
            json.dumps(document | {"medians": medians, "all": runs}, indent=1)
        )


def print_table(
    medians: dict[str, dict[str, float]], pages: int, bytes_per_page: float, runs: int
) -> None:
    """Print the medians as a Markdown table."""
    print(f"{pages} pages, {bytes_per_page / 1000:.0f} kB on average, medians of {runs} runs")
    print()
    print("| plugin | pages/s | loop delay p50 ms | p99 ms | worst ms | near-duplicates |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for kind, row in medians.items():
        print(
            f"| {kind} | {row['pages_per_second']:.0f} | {row['delay_p50_ms']:.1f} | "
            f"{row['delay_p99_ms']:.1f} | {row['delay_worst_ms']:.1f} | "
            f"{row['near_duplicates']:.0f} |"
        )


if __name__ == "__main__":
    main()
