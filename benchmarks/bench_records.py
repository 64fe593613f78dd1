"""What does a site of records cost: one template, thousands of pages, little of their own?

Each site of a folder of labelled pages (`--folder`, see `study/labels.py`) is crawled in turns
without the plugin and with it, from memory, with a callback that does nothing: wall seconds, pages
that were not compared, drops, and bytes of the store's file; with `--together` all pages at once.
`--board N` makes N records instead, of 40 words of their own in a template of 20 sentences, and
`--titles N` N pages of one text under other titles; both print the CPU time of judging them in a
fresh store, a thousand after another. Reading the pages is not counted.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from machine import print_table, progress, write_result
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response

from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.judging.evidence import WORDS_DISTANCE_BITS, Rule
from scrapy_simhash.pages.facts import Page, Reader
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.stores.opening import open_store

# Labelled pages are what the study is of.
sys.path.append(str(Path(__file__).parent / "study"))
from labels import locate, read_corpus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from labels import LabelledPage
    from scrapy.crawler import Crawler


VERSIONS = ("scrapy-simhash", "scrapy", "turbohtml", "lmdb", "numpy")
_READER = Reader("bench", "parse")
_PAGES_PER_GROUP = 16
_SLICE = 1_000
_ALL = "all sites"


class _Handler:
    """Answers every request from the pages in memory."""

    lazy = False
    pages: dict[str, bytes]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> _Handler:
        handler = cls()
        handler.pages = crawler.settings["BENCH_PAGES"]
        return handler

    async def download_request(self, request: Request) -> HtmlResponse:
        body = self.pages[request.url]
        return HtmlResponse(request.url, body=body, headers={"Content-Type": "text/html"})

    async def close(self) -> None:
        pass


class _Spider(Spider):
    name = "bench"

    async def start(self) -> AsyncIterator[Any]:
        for url in self.settings["BENCH_PAGES"]:
            yield Request(url, dont_filter=True)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"bytes": len(response.body)}


def crawl(pages: list[LabelledPage], *, plugin: bool) -> dict[str, float]:
    """Crawl pages in this process."""
    settings: dict[str, Any] = {
        "BENCH_PAGES": {Request(locate(page)).url: page.read() for page in pages},
        "DOWNLOAD_HANDLERS": {"http": _Handler, "https": _Handler},
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "METAREFRESH_ENABLED": False,
    }
    if plugin:
        settings["ADDONS"] = {"scrapy_simhash.Addon": 500}
    with tempfile.TemporaryDirectory() as folder:
        settings["SIMHASH_STORE"] = folder
        process = AsyncCrawlerProcess(settings)
        crawler = process.create_crawler(_Spider)
        started = time.perf_counter()
        process.crawl(crawler)
        process.start()
        seconds = time.perf_counter() - started
        octets = sum(path.stat().st_size for path in Path(folder).rglob("*.mdb"))
    assert crawler.stats is not None  # noqa: S101
    stats = crawler.stats.get_stats()
    not_judged = (n for name, n in stats.items() if name.startswith("simhash/not_judged/"))
    return {
        "pages": len(settings["BENCH_PAGES"]),
        "seconds": seconds,
        "not_compared": sum(not_judged),
        "dropped": stats.get("simhash/near_duplicate", 0),
        "bytes_a_page": octets / len(settings["BENCH_PAGES"]),
    }


def _draw_words() -> tuple[random.Random, list[str]]:
    chance = random.Random(0)  # noqa: S311
    return chance, ["".join(chance.choices("abcdefghijklmnoprstuvw", k=7)) for _ in range(3_000)]


def make_board(count: int) -> Iterator[str]:
    """Make the pages of a board: a heading, 40 words of its own, and 20 sentences that all have."""
    chance, words = _draw_words()
    template = "".join(f"<p>{' '.join(chance.choices(words, k=17))}.</p>" for _ in range(20))
    for number in range(count):
        own = " ".join(chance.choices(words, k=40))
        yield (
            f"<html><head><title>Job</title></head><body><div><h1>Job {number}</h1><p>{own}</p>"
            f"</div><div>{template}</div></body></html>"
        )


def make_titles(count: int) -> Iterator[str]:
    """Make pages of one text, each under another title."""
    chance, words = _draw_words()
    text = "".join(f"<p>{' '.join(chance.choices(words, k=40))}.</p>" for _ in range(10))
    for _ in range(count):
        title = " ".join(chance.choices(words, k=3))
        yield f"<html><head><title>{title}</title></head><body><h1>{title}</h1>{text}</body></html>"


def judge(pages: Iterator[str], count: int) -> list[float]:
    """Judge pages in a fresh store; returns CPU milliseconds a page, by thousands."""
    rule, spent = Rule(WORDS_DISTANCE_BITS), [0.0] * -(-count // _SLICE)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(folder, rule.distance) as store,
    ):
        group = []
        for number, html in enumerate(pages):
            url = f"http://board.example/job/{number}"
            made = fingerprint_page(html, seed=store.seed, url=url)
            page = Page(url, identity=b"%d" % number, time=time.time(), reader=_READER)
            group.append(make_document(made, rule, page))
            if len(group) == _PAGES_PER_GROUP or number == count - 1:
                started = time.process_time()
                store.find_and_add(group, crawl="bench")
                spent[number // _SLICE] += 1000 * (time.process_time() - started)
                group = []
    sizes = [min(_SLICE, count - at) for at in range(0, count, _SLICE)]
    return [total / size for total, size in zip(spent, sizes, strict=True)]


def main() -> None:
    """Measure and print what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="labelled pages of sites of records")
    parser.add_argument("--sites", help="some of them, such as emojie,szylah")
    parser.add_argument(
        "--board", type=int, default=0, metavar="N", help="pages of a made-up board"
    )
    parser.add_argument(
        "--titles", type=int, default=0, metavar="N", help="pages of one text under other titles"
    )
    parser.add_argument("--together", action="store_true", help="crawl all sites at once")
    parser.add_argument("--runs", type=int, default=3, help="runs (default 3)")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # off or on
    options = parser.parse_args()
    by_site: defaultdict[str, list[LabelledPage]] = defaultdict(list)
    for page in read_corpus(options.folder).pages.values() if options.folder else ():
        by_site[_ALL if options.together else page.source].append(page)
    names = options.sites.split(",") if options.sites else list(by_site)
    if options.one:
        print(json.dumps(crawl(by_site[names[0]], plugin=options.one == "on")))
        return
    figures = {}
    for name in names:
        progress(name)
        figures[name] = _take_medians(options, name)
    if figures:
        columns = (
            "pages",
            "off, s",
            "on, s",
            "beyond off, s",
            "not compared",
            "dropped",
            "B a page",
        )
        print_table(("site", *columns), ((name, *each.values()) for name, each in figures.items()))
    made: dict[str, list[float]] = {}
    for name, count, make in (
        ("board", options.board, make_board),
        ("titles", options.titles, make_titles),
    ):
        if count:
            made[name] = judge(make(count), count)
            rows = ((f"to {(n + 1) * _SLICE:,}", spent) for n, spent in enumerate(made[name]))
            print_table((f"pages, {name}", "judging, CPU ms a page"), rows)
    write_result(options.output, VERSIONS, sites=figures, **made)


def _take_medians(options: argparse.Namespace, name: str) -> dict[str, float]:
    """Crawl a site in turns, each time in a process of its own."""
    runs: dict[str, list[dict[str, float]]] = {"off": [], "on": []}
    for _ in range(options.runs):
        for kind, found in runs.items():
            command = [sys.executable, __file__, "--folder", str(options.folder)]
            command += ["--together"] if options.together else ["--sites", name]
            command += ["--one", kind]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found.append(json.loads(done.stdout))
    off, on = (median(run["seconds"] for run in found) for found in runs.values())
    last = runs["on"][-1]
    return {
        "pages": last["pages"],
        "off": off,
        "on": on,
        "beyond": on - off,
        **{key: last[key] for key in ("not_compared", "dropped", "bytes_a_page")},
    }


if __name__ == "__main__":
    main()
