"""Does a long crawl leave anything lying: memory, file, threads, processes, open files?

One crawl over pages made as they are asked for, answered from memory; every fifth is a copy of an
earlier one. After every hundredth part of the pages it looks at

* anonymous memory of the crawl and of its judge (`RssAnon`), without mapped pages of the store;
* bytes of the store's data file; threads, child processes, open files.

After three fifths memory must grow by less than 5 MB (medians of the first and of the last tenth
that follow), the file along a straight line, the others not at all. Every copy must be found, and
nothing outlive the crawl; otherwise the exit code is 1. Memory and file are judged from 100,000
pages on: before, links of dropped pages fill 17 MB. Not measured: real pages, networks, callbacks;
Scrapy's filter of duplicate requests, which keeps every request for ever.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from crawling import PLUGIN, answer_html, crawl, number_of
from measuring import make_parser, print_figures, write_result
from scrapy import Request, Spider, signals
from sites import make_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

SAMPLES = 100
# So many pages before it is the original of every fifth page.
TWIN_DISTANCE = 3
FEWEST_PAGES_JUDGED, WARM_UP = 100_000, 0.6
MOST_GROWTH_MB = 5.0
LEAST_R_SQUARED = 0.99  # of a straight line through the file's bytes
COUNTED = ("simhash/pages", "simhash/near_duplicate", "log_count/ERROR")


class LongSpider(Spider):
    """Fetches every page once, and takes samples as they come."""

    name = "long"
    pages: int
    store: Path

    async def start(self) -> AsyncIterator[Any]:
        """Ask for every page, never for many at once."""
        self.samples: list[dict[str, float]] = []
        self.seen = 0
        self.crawler.signals.connect(self._count, signals.response_received)
        for number in range(self.pages):
            yield Request(f"http://bench.invalid/{number}", dont_filter=True)
            if number % 50 == 0:
                await self.crawler.signals.wait_for(signals.scheduler_empty)

    def _count(self) -> None:
        self.seen += 1
        if self.seen % max(1, self.pages // SAMPLES) == 0:
            self.samples.append(take_sample(self.store, self.seen))

    def parse(self, response: Response) -> Any:
        """Yield something, so that the page is done."""
        yield {"bytes": len(response.body)}


async def answer(request: Request) -> Response:
    """Answer a request; every fifth page has the words and the title of one before it."""
    number = number_of(request.url)
    text = number - TWIN_DISTANCE if number % 5 == 4 else number
    return answer_html(request, make_page(text, number))


def take_sample(store: Path, pages: int) -> dict[str, float]:
    """Look at this process, its children and the store."""
    own = psutil.Process()
    children = own.children()
    return {
        "pages": pages,
        "crawl, MB": _read_memory(own),
        "judge, MB": sum(map(_read_memory, children)),
        "store, bytes": (store / "data.mdb").stat().st_size,
        "threads": own.num_threads(),
        "processes": len(children),
        "open files": own.num_fds(),
    }


def _read_memory(process: psutil.Process) -> float:
    """Return the anonymous memory of a process in MB; 0 when it has just ended."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except FileNotFoundError:
        return 0.0
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024 / 1e6


def list_left_behind(store: Path) -> list[str]:
    """List threads, judges and open files of the plugin that outlived the crawl."""
    own = psutil.Process()
    commands = (" ".join(process.cmdline()) for process in own.children())
    files = (os.path.realpath(path) for path in Path("/proc/self/fd").iterdir())
    return [
        *(thread.name for thread in threading.enumerate() if "simhash" in thread.name),
        *(command for command in commands if "judge.judge import" in command),
        *(file for file in files if file.startswith(str(store))),
    ]


def measure_growth(samples: list[dict[str, float]]) -> dict[str, float]:
    """Return how much each figure grew after warm-up."""
    kept = samples[int(WARM_UP * len(samples)) :]
    tenth = max(1, len(kept) // 10)
    first, last = kept[:tenth], kept[-tenth:]
    growth = {
        # A connection, or a judge that is being replaced, comes and goes; a leak grows.
        name: measure(each[name] for each in last) - measure(each[name] for each in first)
        for names, measure in (
            (("crawl, MB", "judge, MB"), median),
            (("threads", "processes", "open files"), max),
        )
        for name in names
    }
    pages, octets = (np.array([each[name] for each in kept]) for name in ("pages", "store, bytes"))
    return {
        **growth,
        "store, bytes a page": float(np.polyfit(pages, octets, 1)[0]),
        "R^2 of a line": float(np.corrcoef(pages, octets)[0, 1] ** 2),
    }


def find_faults(growth: dict[str, float], pages: int) -> Iterator[str]:
    """Name the bounds that were broken."""
    bounds = {"threads": 0.0, "processes": 0.0, "open files": 0.0}
    if pages >= FEWEST_PAGES_JUDGED:
        bounds |= {"crawl, MB": MOST_GROWTH_MB, "judge, MB": MOST_GROWTH_MB}
        if growth["R^2 of a line"] < LEAST_R_SQUARED:
            yield f"the file did not grow linearly: R^2 is {growth['R^2 of a line']}"
    yield from (
        f"{name} grew by {growth[name]:g}" for name, most in bounds.items() if growth[name] > most
    )


def main() -> bool:
    """Crawl, print the growth, and fail where a bound was broken."""
    parser = make_parser(__doc__)
    parser.add_argument("--pages", type=int, default=100_000, help="to crawl (default 100,000)")
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        settings = {"ADDONS": PLUGIN, "SIMHASH_STORE": folder, "LOG_LEVEL": "WARNING"}
        spider = crawl(LongSpider, answer, settings, pages=options.pages, store=store)
        left_behind = list_left_behind(store)
    growth = measure_growth(spider.samples)
    faults = list(find_faults(growth, options.pages))
    assert spider.crawler.stats is not None  # noqa: S101
    counts = [spider.crawler.stats.get_value(name, 0) for name in COUNTED]
    if counts != [options.pages, options.pages // 5, 0] or left_behind:
        faults.append(f"judged pages, copies, errors: {counts}, left behind: {left_behind}")
    speed = {"pages a second": spider.seen / (time.perf_counter() - began)}
    print_figures({f"{spider.seen:,} pages, after three fifths": growth | speed})
    print(f"\n{'; '.join(faults) or 'every bound was kept'}")
    names = ("scrapy-simhash", "scrapy", "turbohtml", "lmdb")
    write_result(options.output, names, growth=growth, faults=faults, samples=spider.samples)
    return bool(faults)


if __name__ == "__main__":
    raise SystemExit(main())
