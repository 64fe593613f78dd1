"""What does the plugin cost a crawl: speed, CPU time, memory, delay of the event loop?

Each crawl is a process of its own, with pages from memory. The kinds of a row crawl the same pages,
in turns: `off` is without the plugin, `flag` and `drop` are the plugin with its defaults in a fresh
store. All callbacks take title, links and paragraphs; of the pages of the row `callback` none is a
near-duplicate, of those of `duplicates` 30 %. What is said to be beyond `off` is beyond that of the
same round; all but the first page is counted from the end of a warm-up to the last page. Not
measured: networks, and what is not fetched because links of dropped pages are not followed.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from crawling import PLUGIN, answer_html, crawl, number_of
from measuring import (
    make_parser,
    print_figures,
    run_apart,
    run_script,
    show_range,
    take_turns,
    write_result,
)
from scrapy import Request, Spider
from sites import EXAMPLE_PAGES, Site, load_pages, make_site

from scrapy_simhash.signals import near_duplicate_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

VERSIONS = ("scrapy-simhash", "scrapy", "turbohtml", "lmdb", "numpy")
ROWS = ("callback", "duplicates")
KINDS = ("off", "flag", "drop")
WARM_UP_PAGES = 100
_SLEEP_SECONDS = 0.005
# Shown of each kind, whole or beyond `off`.
_WHOLE = {
    "pages/s": "pages_per_second",
    "CPU of others, ms a page": "others_cpu_ms",
    "resident, MB": "resident_mb",
    "collector, %": "gc_percent",
    "copies dropped or flagged": "right",
    "other pages": "wrong",
}
_BEYOND = {
    "CPU added to Scrapy's process, ms a page": "main_cpu_ms",
    "worst delay beyond off, ms": "delay_worst_ms",
    "first page beyond off, s": "first_page_s",
}


class _Clocks(NamedTuple):
    """What the clocks say at one moment: seconds."""

    at: float
    main: float
    others: dict[int, float]  # by process id


class BenchSpider(Spider):
    """Fetches every page once, and looks at the clocks."""

    name = "bench"
    site: Site

    async def start(self) -> AsyncIterator[Any]:
        """Ask for every page."""
        self.worst_delay = 0.0
        self.finished = 0
        self.found: dict[int, int] = {}  # of each near-duplicate, the page it is said to be like
        self.warm_up = min(WARM_UP_PAGES, len(self.site.pages) // 5)
        self._others = _list_others()  # that takes milliseconds, so not during the crawl
        self.crawler.signals.connect(self._note, near_duplicate_found)
        self._watch = asyncio.get_running_loop().create_task(self._watch_loop())
        self.warm = _read_clocks(self._others)
        for number in range(len(self.site.pages)):
            yield Request(f"http://bench.invalid/{number}", errback=self.finish)
            # Otherwise Scrapy takes all of them in one go as soon as it has enough to do, and holds
            # the loop for 0.1 ms a request, with the plugin or without.
            await asyncio.sleep(0)

    def _note(self, request: Request, verdict: dict[str, Any]) -> None:
        self.found[number_of(request.url)] = number_of(verdict["match_url"])

    async def _watch_loop(self) -> None:
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(_SLEEP_SECONDS)
            late = time.perf_counter() - asked - _SLEEP_SECONDS
            self.worst_delay = max(self.worst_delay, late)

    def parse(self, response: Response) -> Iterator[Any]:
        """Do what spiders do."""
        yield {
            "title": response.css("title::text").get(),
            "links": [response.urljoin(each) for each in response.css("a::attr(href)").getall()],
            "paragraphs": [" ".join(each.css("::text").getall()) for each in response.css("p")],
        }
        self.finish()

    def finish(self, _: object = None) -> None:
        """Count a page with which Scrapy is done, whether it was dropped or not."""
        self.finished += 1
        if self.finished == 1:
            self.first = time.perf_counter()
        if self.finished == self.warm_up:
            self.warm = _read_clocks(self._others)
        if self.finished == len(self.site.pages):
            self._watch.cancel()
            self.end = _read_clocks(_list_others())
            self.resident = sum(map(_measure_memory, _list_others()))


def _list_others() -> list[psutil.Process]:
    """List the processes of the plugin."""
    return psutil.Process().children(recursive=True)


def _measure_memory(process: psutil.Process) -> float:
    """Measure resident bytes of a process, but for those of LMDB's file, which the system keeps."""
    maps = process.memory_maps()
    return float(sum(each.rss for each in maps if not each.path.endswith("data.mdb")))


def _read_clocks(others: list[psutil.Process]) -> _Clocks:
    """Read this process's clocks first, because the others take a while."""
    at, main = time.perf_counter(), time.process_time()
    times = {process.pid: process.cpu_times() for process in others if process.is_running()}
    return _Clocks(at, main, {pid: spent.user + spent.system for pid, spent in times.items()})


def measure_here(given: dict[str, Any]) -> dict[str, float]:
    """Run one crawl in this process; `given` has its row, its kind and the file of the site."""
    site = Site(*pickle.loads(Path(given["site"]).read_bytes()))  # noqa: S301 - our own file
    collected = 0.0
    began = time.perf_counter()

    def note(phase: str, _: dict[str, int]) -> None:
        nonlocal collected
        now = time.perf_counter()
        collected += -now if phase == "start" else now

    gc.callbacks.append(note)
    plugin = {} if given["kind"] == "off" else {"ADDONS": PLUGIN}

    async def answer(request: Request) -> Response:
        return answer_html(request, site.pages[number_of(request.url)])

    with tempfile.TemporaryDirectory() as store:
        settings = {**plugin, "SIMHASH_STORE": store, "SIMHASH_ACTION": given["kind"]}
        spider = crawl(BenchSpider, answer, settings, site=site)
    warm, end, pages = spider.warm, spider.end, len(site.pages) - spider.warm_up
    others = sum(spent - warm.others.get(pid, 0.0) for pid, spent in end.others.items())
    right = sum(site.families[one] == site.families[two] for one, two in spider.found.items())
    found = {"right": right, "wrong": len(spider.found) - right}
    return {
        "pages_per_second": pages / (end.at - warm.at),
        "main_cpu_ms": 1000 * (end.main - warm.main) / pages,
        "others_cpu_ms": 1000 * others / pages,
        "resident_mb": spider.resident / 1e6,
        "delay_worst_ms": 1000 * spider.worst_delay,
        "gc_percent": 100 * collected / (time.perf_counter() - began),
        "first_page_s": spider.first - began,
        **(found if given["row"] == "duplicates" else {}),  # elsewhere nobody knows
    }


def make_row(row: str, folder: Path, count: int) -> Site:
    """Make the pages that a row crawls."""
    if row == "duplicates":
        # Of more pages than are needed: few of them have little in common with the others.
        return make_site(load_pages(folder, 10 * count), count)
    pages = load_pages(folder, count)
    return Site(pages, list(range(len(pages))))


def _describe(found: list[dict[str, float]], off: list[dict[str, float]]) -> dict[str, str]:
    """Show the figures of a kind, beside those of `off` in the same rounds."""
    pairs = list(zip(found, off, strict=True))
    speeds = [one["pages_per_second"] / other["pages_per_second"] for one, other in pairs]
    return (
        {"share of off": show_range(speeds)}
        | {
            name: show_range([one[key] for one in found])
            for name, key in _WHOLE.items()
            if key in off[0]
        }
        | {name: show_range([a[key] - b[key] for a, b in pairs]) for name, key in _BEYOND.items()}
    )


def main() -> None:
    """Run the crawls in turns, and print what they took."""
    parser = make_parser(__doc__)
    parser.add_argument("--pages", type=Path, default=EXAMPLE_PAGES, help="folder of HTML files")
    parser.add_argument("--count", type=int, default=500, help="pages (default 500)")
    parser.add_argument("--runs", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, help="default: all")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="default: all")
    options = parser.parse_args()
    shown, rows = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for row in options.rows:
            site = make_row(row, options.pages, options.count)
            file = Path(folder, row)
            file.write_bytes(pickle.dumps(tuple(site)))
            subjects = {
                kind: partial(run_apart, {"row": row, "kind": kind, "site": str(file)})
                for kind in dict.fromkeys(["off", *options.kinds])
            }
            rows[row] = take_turns(subjects, options.runs)
            copies = len(site.pages) - len(set(site.families))
            for kind, found in rows[row].items():
                name = f"{row}, {len(site.pages)} pages, {copies} copies, {kind}"
                shown[name] = _describe(found, rows[row]["off"])
    print_figures(shown)
    write_result(options.output, VERSIONS, all=rows)


if __name__ == "__main__":
    run_script(main, measure_here)
