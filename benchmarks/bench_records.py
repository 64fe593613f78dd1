"""What does a site of records cost: one template, thousands of pages, little of their own?

Makes `--board` records of 40 words of their own in a template of 20 sentences, and prints the CPU
time of judging them in a fresh store, a thousand after another. Reading the pages is not counted.
"""

from __future__ import annotations

import random
import tempfile
import time
from typing import TYPE_CHECKING

from measuring import make_parser, print_figures, write_result

from scrapy_simhash.judging.documents import WORDS_DISTANCE_BITS, Rule, make_document
from scrapy_simhash.pages.facts import Fetched, Reader
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = ("scrapy-simhash", "scrapy", "turbohtml", "lmdb", "numpy")
_PAGES_PER_GROUP = 16
_SLICE = 1_000


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
            page = Fetched(url, identity=b"%d" % number, time=time.time(), reader=reader)
            group.append(make_document(made, rule, page))
            if len(group) == _PAGES_PER_GROUP or number == count - 1:
                started = time.process_time()
                store.find_and_add(group, crawl="bench")
                spent[number // _SLICE] += 1000 * (time.process_time() - started)
                group = []
    sizes = (min(_SLICE, count - at) for at in range(0, count, _SLICE))
    return [total / size for total, size in zip(spent, sizes, strict=True)]


def main() -> None:
    """Measure, and print a row for each thousand."""
    parser = make_parser(__doc__)
    parser.add_argument("--board", type=int, default=5_000, metavar="N", help="pages, made up")
    options = parser.parse_args()
    board = {
        f"board, to {(number + 1) * _SLICE:,}": {"judging, CPU ms a page": spent}
        for number, spent in enumerate(judge_board(options.board))
    }
    print_figures(board)
    write_result(options.output, VERSIONS, board=board)


if __name__ == "__main__":
    main()
