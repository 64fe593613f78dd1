"""What `evaluate` takes to judge stored pages again by other settings, a page.

The pages are made up: two random fingerprints each, texts, titles; one of ten is a near-duplicate
of the page before it.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.inspection.whatif import replay
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.rule import CONFIRM, Rule
from scrapy_simhash.pages.sketch import sketch_text
from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHINGLES = 500


def make_documents(count: int) -> Iterator[Document]:
    """Make so many pages, the same ones each time."""
    draw = np.random.default_rng(1)
    bits: list[int] = []
    sketch = b""
    for number in range(count):
        if number % 10 == 9:
            bits = [each ^ 1 << int(draw.integers(64)) for each in bits]
        else:
            bits = draw.integers(0, 2**64, 2, np.uint64).tolist()
            text = draw.integers(0, 2**64, _SHINGLES, np.uint64)
            sketch = sketch_text(text, text)
        yield Document(
            identity=b"%d" % number,
            fingerprints=tuple(bits),
            text_digest=b"%d" % number,
            url=f"http://site{number % 7}.example/page/{number}",
            title=f"Title of {number - (number % 10 == 9)}",
            sketch=sketch,
            features=_SHINGLES,
            words=1_000,
            whole_words=1_200,
            crawl="bench",
        )


def measure(count: int, distances: Sequence[int]) -> Iterator[tuple[int, float, int]]:
    """Yield each distance, milliseconds of the processor a page, and the number of drops."""
    with open_store("memory:", 7, confirm=CONFIRM) as store:
        store.start_crawl("bench", "bench")
        verdicts = store.find_and_add(list(make_documents(count)))
        numbers = [verdict.document for verdict in verdicts]
        store.mark_done(numbers, "bench")
        for distance in distances:
            started = time.process_time()
            judged = replay(store, numbers, Rule(distance, CONFIRM))
            drops = sum(each.match is not None for each in judged)
            yield distance, 1_000 * (time.process_time() - started) / count, drops


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="2000,8000", help="numbers of pages")
    parser.add_argument("--distances", default="3,7,12,15", help="in bits")
    options = parser.parse_args()
    distances = [int(bits) for bits in options.distances.split(",")]
    print("| pages | bits | ms a page | drops |\n| ---: | ---: | ---: | ---: |")
    for count in map(int, options.documents.split(",")):
        for distance, milliseconds, drops in measure(count, distances):
            print(f"| {count:,} | {distance} | {milliseconds:.2f} | {drops:,} |", flush=True)


if __name__ == "__main__":
    main()
