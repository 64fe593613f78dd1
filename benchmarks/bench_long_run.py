"""What a long crawl leaves lying: memory, file, threads, processes and open files, by page.

One crawl over pages made as they are asked for, answered from memory; every fifth is a copy of an
earlier one. After every hundredth part of the pages it notes

* anonymous memory of the crawl and of its workers (`RssAnon`): what they allocated. Pages of the
  store's file that are mapped into memory (`RssFile`) are noted too; the system takes them back;
* bytes of the store's data file and of the decision log;
* threads, child processes, open files.

The first tenth is warm-up. Then memory must grow by less than 5 MB (medians of the first and of
the last tenth that follow), the file along a straight line, and the numbers of threads, processes
and open files not at all. Memory and file are judged from 10,000 pages on: before, caches still
fill.

Not measured: real pages, networks, callbacks; Scrapy's filter of duplicate requests is left out,
which keeps every request for ever.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import describe_machine, describe_versions
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scrapy.crawler import Crawler

RESULTS = Path(__file__).parent / "results" / "long-run.json"
SAMPLES = 100
WORDS_PER_PAGE = 200
# So many pages before it is the original of every fifth page.
TWIN_DISTANCE = 3
FEWEST_PAGES_JUDGED = 10_000
MOST_GROWTH_MB = 5.0
# Of a straight line through the file's bytes; the file grows in steps of a page.
LEAST_R_SQUARED = 0.99
# Growth of the second half of the pages by that of the first: n^1.2 comes to 1.17.
MOST_GROWTH_OF_HALVES = 1.1
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
_WORDS = [a + b for a in _SYLLABLES for b in _SYLLABLES]
_COUNTED = ("threads", "processes", "open_files")


def make_page(number: int) -> bytes:
    """Make a page of a few kB; every fifth has the words and the title of one before it."""
    twin = number % 5 == 4
    seed = number - TWIN_DISTANCE if twin else number
    words = random.Random(seed).choices(_WORDS, k=WORDS_PER_PAGE)  # noqa: S311
    paragraphs = "".join(
        f"<p>{' '.join(words[start : start + 50])}.</p>" for start in range(0, len(words), 50)
    )
    links = "".join(f'<li><a href="/{number + step}">More</a></li>' for step in range(1, 6))
    return (
        f'<!DOCTYPE html><html lang="en"><head><title>{" ".join(words[:4])}</title></head><body>'
        f"<nav><ul>{links}</ul></nav><main><article><h1>{' '.join(words[:2])}</h1>{paragraphs}"
        f"</article></main></body></html>"
    ).encode()


class MadeHandler:
    """Answers every request with the page of its number."""

    lazy = False

    @classmethod
    def from_crawler(cls, _: Crawler) -> MadeHandler:
        """Make the handler; called by Scrapy."""
        return cls()

    async def download_request(self, request: Request) -> Response:
        """Answer a request."""
        body = make_page(int(request.url.rpartition("/")[2]))
        return HtmlResponse(request.url, body=body, headers={"Content-Type": "text/html"})

    async def close(self) -> None:
        """Nothing to close."""


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
        "crawl_mb": read_memory("self", "RssAnon"),
        "workers_mb": sum(read_memory(pid, "RssAnon") for pid in children),
        "crawl_mapped_mb": read_memory("self", "RssFile"),
        "store_bytes": (store / "data.mdb").stat().st_size,
        "log_bytes": (store / "log.jsonl").stat().st_size,
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "processes": len(children),
        "open_files": len(list(Path("/proc/self/fd").iterdir())),
    }


def list_children() -> list[str]:
    """List the process ids of this process's children."""
    found = (path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return sorted(pid for text in found for pid in text.split())


def read_memory(pid: str, kind: str) -> float:
    """Read a kind of memory of a process in MB; 0 when it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    kilobytes = (int(line.split()[1]) for line in lines if line.startswith(f"{kind}:"))
    return next(kilobytes, 0) * 1024 / 1e6


def crawl(pages: int, store: Path) -> dict[str, Any]:
    """Run the crawl; see what it counted and what it left behind."""
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
    began = time.perf_counter()
    process.start()
    seconds = time.perf_counter() - began
    spider, stats = crawler.spider, crawler.stats
    assert isinstance(spider, LongSpider)  # noqa: S101
    assert stats is not None  # noqa: S101
    counted = stats.get_stats()
    return {
        "pages": spider.seen,
        "pages_per_second": round(spider.seen / seconds, 1),
        "counted": {k: v for k, v in counted.items() if k.startswith("simhash/")},
        "errors": counted.get("log_count/ERROR", 0),
        "left_behind": list_left_behind(store),
        "samples": spider.samples,
    }


def list_left_behind(store: Path) -> list[str]:
    """List threads, workers and open files of the plugin that outlived the crawl."""
    threads = [t.name for t in threading.enumerate() if "simhash" in t.name]
    files = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in list_children()]
    workers = [command.replace("\0", " ") for command in commands if "worker.main" in command]
    return [*threads, *workers, *(file for file in files if file.startswith(str(store)))]


def judge(samples: list[dict[str, float]]) -> dict[str, Any]:
    """Say how much each figure grew after warm-up."""
    kept = samples[len(samples) // 10 :]
    tenth = max(1, len(kept) // 10)

    def grown(name: str) -> float:
        medians = [statistics.median(s[name] for s in part) for part in (first, last)]
        return round(medians[1] - medians[0], 3)

    first, last = kept[:tenth], kept[-tenth:]
    pages = np.array([sample["pages"] for sample in kept])
    octets = np.array([sample["store_bytes"] for sample in kept])
    middle, end = len(kept) // 2, len(kept) - 1
    return {
        "crawl_growth_mb": grown("crawl_mb"),
        "workers_growth_mb": grown("workers_mb"),
        "crawl_mapped_growth_mb": grown("crawl_mapped_mb"),
        "store_bytes_per_page": round(float(np.polyfit(pages, octets, 1)[0]), 1),
        "store_r_squared": round(float(np.corrcoef(pages, octets)[0, 1] ** 2), 5),
        "store_growth_second_half_to_first": round(
            float((octets[end] - octets[middle]) / max(1, octets[middle] - octets[0])), 3
        ),
        **{
            f"{name}_growth": max(s[name] for s in last) - max(s[name] for s in first)
            for name in _COUNTED
        },
    }


def find_faults(run: dict[str, Any], growth: dict[str, Any], pages: int) -> Iterable[str]:
    """Name the bounds that were broken."""
    if run["pages"] != pages:
        yield f"{run['pages']} of {pages} pages came"
    if run["errors"]:
        yield f"{run['errors']} errors in the log"
    if run["left_behind"]:
        yield f"left behind: {run['left_behind']}"
    # A connection, or a worker that is being replaced, comes and goes; a leak grows.
    yield from (f"{name} grew" for name in _COUNTED if growth[f"{name}_growth"] > 0)
    if pages < FEWEST_PAGES_JUDGED:
        return
    for name in ("crawl", "workers"):
        if growth[f"{name}_growth_mb"] >= MOST_GROWTH_MB:
            yield f"memory of the {name} grew by {growth[f'{name}_growth_mb']} MB"
    if growth["store_r_squared"] < LEAST_R_SQUARED:
        yield f"the file did not grow linearly: R^2 is {growth['store_r_squared']}"
    halves = growth["store_growth_second_half_to_first"]
    if halves > MOST_GROWTH_OF_HALVES:
        yield f"the file grew {halves} times as much in the second half of the pages"


def main() -> None:
    """Crawl, print the growth, and fail where a bound was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pages", type=int, default=100_000, help="to crawl (default 100,000)")
    parser.add_argument(
        "--output", type=Path, default=RESULTS, help="of the result (default results/long-run.json)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = crawl(options.pages, Path(folder))
    growth = judge(run["samples"])
    faults = list(find_faults(run, growth, options.pages))
    print(f"{run['pages']:,} pages, {run['pages_per_second']} a second; after the first tenth:")
    print("\n| figure | growth |\n| --- | ---: |")
    for name, value in growth.items():
        print(f"| {name.replace('_', ' ')} | {value:,} |")
    if options.pages < FEWEST_PAGES_JUDGED:
        print(f"\nMemory and file are not judged below {FEWEST_PAGES_JUDGED:,} pages.")
    print(f"\n{'; '.join(faults) or 'every bound was kept'}")
    versions = describe_versions("scrapy-simhash", "scrapy", "trafilatura", "lmdb", "lxml")
    document = {"machine": describe_machine(), "versions": versions}
    document |= {"growth": growth, "faults": faults, **run}
    options.output.write_text(json.dumps(document, indent=1))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
