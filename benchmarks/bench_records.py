"""What does a site of records cost: one template, thousands of pages, little of their own?

Each site of a folder of labelled pages (`--folder`, see `study/labels.py`) is crawled in turns
without the plugin and with it, from memory, with a callback that does nothing: wall seconds, pages
that were not compared, drops, and bytes of the store's file. `--board N` makes N records instead,
of 40 words of their own in a template of 20 sentences, and prints the CPU time of judging them in
a fresh store, a thousand after another. Reading the pages is not counted there.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawling import PLUGIN, answer_html, crawl
from measuring import (
    make_parser,
    print_figures,
    run_apart,
    run_script,
    take_medians,
    take_turns,
    write_result,
)
from scrapy import Request, Spider

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
    from scrapy.http import Response

VERSIONS = ("scrapy-simhash", "scrapy", "turbohtml", "lmdb", "numpy")
_PAGES_PER_GROUP = 16
_SLICE = 1_000


class RecordSpider(Spider):
    """Fetches every page once."""

    name = "records"
    urls: list[str]

    async def start(self) -> AsyncIterator[Any]:
        """Ask for the pages."""
        for url in self.urls:
            yield Request(url, dont_filter=True)

    def parse(self, response: Response) -> Iterator[Any]:
        """Do next to nothing."""
        yield {"bytes": len(response.body)}


def _read_sites(folder: str) -> dict[str, list[LabelledPage]]:
    by_site: defaultdict[str, list[LabelledPage]] = defaultdict(list)
    for page in read_corpus(Path(folder)).pages.values():
        by_site[page.source].append(page)
    return by_site


def crawl_here(given: dict[str, Any]) -> dict[str, float]:
    """Crawl a site in this process; `given` has its folder, its name, and whether to judge it."""
    site = _read_sites(given["folder"])[given["site"]]
    pages = {Request(locate(page)).url: page.read() for page in site}

    async def answer(request: Request) -> Response:
        return answer_html(request, pages[request.url])

    with tempfile.TemporaryDirectory() as folder:
        settings = {"SIMHASH_STORE": folder} | ({"ADDONS": PLUGIN} if given["plugin"] else {})
        began = time.perf_counter()
        spider = crawl(RecordSpider, answer, settings, urls=[*pages])
        seconds = time.perf_counter() - began
        octets = sum(path.stat().st_size for path in Path(folder).rglob("*.mdb"))
    assert spider.crawler.stats is not None  # noqa: S101
    stats = spider.crawler.stats.get_stats()
    not_judged = (n for name, n in stats.items() if name.startswith("simhash/not_judged/"))
    return {
        "pages": len(pages),
        "seconds": seconds,
        "not compared": sum(not_judged),
        "dropped": stats.get("simhash/near_duplicate", 0),
        "bytes a page": octets / len(pages),
    }


def make_board(count: int) -> Iterator[str]:
    """Make the pages of a board: a heading, 40 words of its own, and 20 sentences that all have."""
    chance = random.Random(0)  # noqa: S311
    words = ["".join(chance.choices("abcdefghijklmnoprstuvw", k=7)) for _ in range(3_000)]
    template = "".join(f"<p>{' '.join(chance.choices(words, k=17))}.</p>" for _ in range(20))
    for number in range(count):
        own = " ".join(chance.choices(words, k=40))
        yield (
            f"<html><head><title>Job</title></head><body><div><h1>Job {number}</h1><p>{own}</p>"
            f"</div><div>{template}</div></body></html>"
        )


def judge_board(count: int) -> list[float]:
    """Judge a board in a fresh store; returns CPU milliseconds a page, by thousands."""
    rule, spent = Rule(WORDS_DISTANCE_BITS), [0.0] * -(-count // _SLICE)
    with tempfile.TemporaryDirectory() as folder, open_store(folder, rule.distance) as store:
        group = []
        for number, html in enumerate(make_board(count)):
            url = f"http://board.example/job/{number}"
            made = fingerprint_page(html, seed=store.seed, url=url)
            reader = Reader("bench", "parse")
            page = Page(url, identity=b"%d" % number, time=time.time(), reader=reader)
            group.append(make_document(made, rule, page))
            if len(group) == _PAGES_PER_GROUP or number == count - 1:
                started = time.process_time()
                store.find_and_add(group, crawl="bench")
                spent[number // _SLICE] += 1000 * (time.process_time() - started)
                group = []
    sizes = (min(_SLICE, count - at) for at in range(0, count, _SLICE))
    return [total / size for total, size in zip(spent, sizes, strict=True)]


def main() -> None:
    """Measure and print what was asked for."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", help="labelled pages of sites of records")
    parser.add_argument("--board", type=int, default=0, metavar="N", help="pages, made up")
    parser.add_argument("--runs", type=int, default=3, help="rounds (default 3)")
    options = parser.parse_args()
    figures = {}
    for site in _read_sites(options.folder) if options.folder else ():
        given = {"folder": options.folder, "site": site}
        subjects = {
            kind: partial(run_apart, {**given, "plugin": kind == "on"}) for kind in ("off", "on")
        }
        off, on = map(take_medians, take_turns(subjects, options.runs).values())
        figures[site] = on | {"seconds beyond off": on["seconds"] - off["seconds"]}
    print_figures(figures)
    board = {
        f"board, to {(number + 1) * _SLICE:,}": {"judging, CPU ms a page": spent}
        for number, spent in enumerate(judge_board(options.board))
    }
    print_figures(board)
    write_result(options.output, VERSIONS, sites=figures, board=board)


if __name__ == "__main__":
    run_script(main, crawl_here)
