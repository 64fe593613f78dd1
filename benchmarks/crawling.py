"""One crawl of bench_crawl, in this process: its speed, CPU time, memory and delays.

A page is finished when Scrapy is done with it, whether its callback ran or it was dropped. CPU
times and speed are those from the end of the warm-up to the last page. The delay of the event loop
is how late a task comes that asked to sleep for 5 ms, from the first request to the last page,
warm-up included; a stall counts once for each 5 ms it lasts, so that percentiles are those of
time.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
import trafilatura
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response

from scrapy_simhash.config import Config
from scrapy_simhash.pages.fingerprint import load_features
from scrapy_simhash.pages.recipe import DEFAULT_FEATURES
from scrapy_simhash.signals import near_duplicate_found
from scrapy_simhash.simhash import simhash

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from scrapy.crawler import Crawler
    from sites import Site

KINDS = ("off", "naive", "flag", "drop")
THRESHOLDS = "thresholds"  # `flag`, with the garbage collector's thresholds of docs/running.md
# One process reads pages, also of a checkout in which the setting had another name.
ONE_PROCESS = {
    f"SIMHASH_{name.upper()}": 1 for name in ("processes", "workers") if hasattr(Config, name)
}
WARM_UP_PAGES = 100
_SLEEP_SECONDS = 0.005
_MB = 1e6
_NAIVE_BITS = 3


class MemoryHandler:
    """Answers every request from the pages in memory."""

    lazy = False
    pages: list[bytes]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> MemoryHandler:
        """Make the handler; called by Scrapy."""
        handler = cls()
        handler.pages = crawler.settings["BENCH_SITE"].pages
        return handler

    async def download_request(self, request: Request) -> Response:
        """Answer a request."""
        body = self.pages[number_of(request.url)]
        return HtmlResponse(request.url, body=body, headers={"Content-Type": "text/html"})

    async def close(self) -> None:
        """Nothing to close."""


class NaiveMiddleware:
    """As one would write it in an evening: all on the event loop, fingerprints in a list."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._seen: list[tuple[int, str]] = []
        self._features = load_features(DEFAULT_FEATURES)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> NaiveMiddleware:
        """Make the middleware; called by Scrapy."""
        return cls(crawler)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Compare with every page before it; nothing is dropped."""
        text = trafilatura.extract(response.text) if isinstance(response, HtmlResponse) else None
        if not text:
            return response
        value = simhash(*self._features.extract(text))
        for other, url in self._seen:
            if (value ^ other).bit_count() <= _NAIVE_BITS:
                await self._crawler.signals.send_catch_log_async(
                    near_duplicate_found, request=request, verdict={"match_url": url}
                )
                return response
        self._seen.append((value, request.url))
        return response


class _Reading(NamedTuple):
    """What the clocks say at one moment: seconds."""

    at: float
    main: float
    others: dict[int, float]  # by process id


class _Collecting:
    """Counts the time that Python's garbage collector takes, from now on."""

    def __init__(self) -> None:
        self._began = self._seconds = 0.0
        self._start = time.perf_counter()
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        now = time.perf_counter()
        self._seconds += (now - self._began) * (phase == "stop")
        self._began = now

    def percent(self) -> float:
        """Return its share of the time."""
        return 100 * self._seconds / (time.perf_counter() - self._start)


class BenchSpider(Spider):
    """Fetches every page once."""

    name = "bench"
    site: Site
    found: dict[int, int]  # of each page called a near-duplicate, the one it is said to be like
    delays: list[float]
    first: float  # when Scrapy was done with the first page
    warm: _Reading
    end: _Reading
    resident: list[float]  # bytes of the processes of the plugin

    async def start(self) -> AsyncIterator[Any]:
        """Ask for every page."""
        self.site = self.settings["BENCH_SITE"]
        self.delays, self.found, self._finished = [], {}, 0
        self._warm_up = min(WARM_UP_PAGES, len(self.site.pages) // 5)
        self._others = _list_others()  # that takes milliseconds, so not during the crawl
        self._count_finished()
        self.crawler.signals.connect(self._note, near_duplicate_found)
        self._watch = asyncio.get_running_loop().create_task(self._watch_loop())
        if not self._warm_up:
            self.warm = _read_clocks(lambda: self._others)
        for number in range(len(self.site.pages)):
            yield Request(f"{self.settings['BENCH_ROOT']}/{number}")
            # Otherwise Scrapy takes all of them in one go as soon as it has enough to do, and holds
            # the loop for 0.1 ms a request, with the plugin or without.
            await asyncio.sleep(0)

    def _count_finished(self) -> None:
        """Have every page counted when Scrapy is done with it, dropped or not."""
        # No signal tells that: dropped pages do not reach the callback, and the others are in the
        # queue before the callback for a while.
        assert self.crawler.engine is not None  # noqa: S101
        slot = self.crawler.engine.scraper.slot
        assert slot is not None  # noqa: S101
        finish = slot.finish_response

        def finish_and_count(result: Any, request: Request) -> None:
            finish(result, request)
            self._finished += 1
            if self._finished == 1:
                self.first = time.perf_counter()
            if self._finished == self._warm_up:
                self.warm = _read_clocks(lambda: self._others)
            if self._finished == len(self.site.pages):
                self._watch.cancel()
                self.end = _read_clocks(_list_others)
                self.resident = [_measure_memory(process) for process in _list_others()]

        slot.finish_response = finish_and_count  # type: ignore[method-assign]

    def _note(self, request: Request, verdict: dict[str, Any]) -> None:
        self.found[number_of(request.url)] = number_of(verdict["match_url"])

    async def _watch_loop(self) -> None:
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(_SLEEP_SECONDS)
            late = time.perf_counter() - asked - _SLEEP_SECONDS
            while late >= 0:
                self.delays.append(1000 * late)
                late -= _SLEEP_SECONDS

    def parse(self, response: Response) -> Iterator[Any]:
        """Do next to nothing, or what spiders do."""
        if not self.settings["BENCH_CALLBACK"]:
            yield {"bytes": len(response.body)}
            return
        yield {
            "title": response.css("title::text").get(),
            "links": [response.urljoin(link) for link in response.css("a::attr(href)").getall()],
            "paragraphs": [
                " ".join(paragraph.css("::text").getall()) for paragraph in response.css("p")
            ],
        }


def number_of(url: str) -> int:
    """Read the number of a page at the end of its address."""
    return int(url.rpartition("/")[2])


def _list_others() -> list[psutil.Process]:
    """List the processes of the plugin."""
    return psutil.Process().children(recursive=True)


def _measure_memory(process: psutil.Process) -> float:
    """Measure resident bytes of a process, but for those of LMDB's file, which the system keeps."""
    maps = process.memory_maps()
    return float(sum(each.rss for each in maps if not each.path.endswith("data.mdb")))


def _read_clocks(list_others: Callable[[], list[psutil.Process]]) -> _Reading:
    """Read this process's clocks first, because the others take a while."""
    at, main = time.perf_counter(), time.process_time()
    times = {p.pid: p.cpu_times() for p in list_others() if p.is_running()}
    return _Reading(at, main, {pid: spent.user + spent.system for pid, spent in times.items()})


def crawl(kind: str, site: Site, root: str | None, *, callback: bool) -> dict[str, float]:
    """Run one crawl in this process.

    Args:
        kind: one of `KINDS`, or `THRESHOLDS`.
        site: what is crawled.
        root: URL of a server of that site; None to take its pages from memory.
        callback: do what spiders do with a page, instead of nothing.
    """
    settings: dict[str, Any] = {
        "BENCH_SITE": site,
        "BENCH_CALLBACK": callback,
        "BENCH_ROOT": root or "http://bench.invalid",
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "WARNING",
        "TELNETCONSOLE_ENABLED": False,
        # Pages as they were captured may send on to their real hosts.
        "METAREFRESH_ENABLED": False,
        "REDIRECT_ENABLED": False,
        "RETRY_ENABLED": False,
    }
    if root is None:
        settings["DOWNLOAD_HANDLERS"] = {"http": MemoryHandler}
    if kind == "naive":
        settings["DOWNLOADER_MIDDLEWARES"] = {NaiveMiddleware: 545}
    if kind in {"flag", "drop", THRESHOLDS}:
        settings |= ONE_PROCESS | {"ADDONS": {"scrapy_simhash.Addon": 500}}
        settings["SIMHASH_ACTION"] = "drop" if kind == "drop" else "flag"
    if kind == THRESHOLDS:
        gc.set_threshold(10_000, 20, 100)
    collecting = _Collecting()
    with tempfile.TemporaryDirectory() as folder:
        settings["SIMHASH_STORE"] = folder
        process = AsyncCrawlerProcess(settings)
        crawler = process.create_crawler(BenchSpider)
        began = time.perf_counter()
        process.crawl(crawler)
        process.start()
    assert isinstance(crawler.spider, BenchSpider)  # noqa: S101
    first = {"first_page_s": crawler.spider.first - began}
    return _describe(crawler.spider) | first | {"gc_percent": collecting.percent()}


def _describe(spider: BenchSpider) -> dict[str, float]:
    """Work out the figures of a crawl that ended."""
    warm, end, site = spider.warm, spider.end, spider.site
    pages = len(site.pages) - spider._warm_up  # noqa: SLF001 - of this module
    delays = sorted(spider.delays) or [0.0]
    others = sum(spent - warm.others.get(pid, 0.0) for pid, spent in end.others.items())
    right = sum(site.families[a] == site.families[b] for a, b in spider.found.items())
    return {
        "pages_per_second": pages / (end.at - warm.at),
        "main_cpu_ms": 1000 * (end.main - warm.main) / pages,
        "others_cpu_ms": 1000 * others / pages,
        "resident_mb": sum(spider.resident) / _MB,
        "delay_p50_ms": statistics.median(delays),
        "delay_p99_ms": delays[int(0.99 * (len(delays) - 1))],
        "delay_worst_ms": delays[-1],
        "near_duplicates": len(spider.found),
        # Where it is known which pages are.
        "right": right,
        "wrong": len(spider.found) - right,
    }
