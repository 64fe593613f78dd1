"""What judging a page costs, beside plain `trafilatura.extract` on the same pages.

Page by page, side by side in one process: decode and `trafilatura.extract` with its default
settings; then everything the plugin does with a page: decode, parse, extract, both texts, features,
fingerprints and sketches, and the verdict of a store that holds all pages before it, confirmation
included (`find_and_add`, groups of 16 as in a busy crawl; durable): once with pages of no host, and
once as if all were of one host, whose sample is kept and asked. A pair is two pages that are
compared, with their site. Medians of several rounds; the second row has the pages of about 800
words only. **Not measured**: the trip to the worker process and back, network, Scrapy.
"""

from __future__ import annotations

import gzip
import json
import logging
import statistics
import tempfile
import time
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import trafilatura
from machine import describe_machine, describe_versions
from msgspec import structs
from sites import make_parser

from scrapy_simhash.config import Config
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.judging.comparison import compare, make_context
from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.judging.sites import Site
from scrapy_simhash.pages.fingerprint import fingerprint_text, load_features, read_page
from scrapy_simhash.pages.text import decode
from scrapy_simhash.stores.keyvalues import SAMPLE
from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_simhash.judging.documents import Document
    from scrapy_simhash.pages.features import FeatureSet

_PAGES_PER_GROUP = 16
_ABOUT_800_WORDS = range(600, 1_001)


class Cost(NamedTuple):
    """Milliseconds for one page.

    Attributes:
        words: of its main text.
        plain: `trafilatura.extract`.
        extract: decoding, parsing, main and whole text.
        fingerprint: features, fingerprints, sketches, links.
        store: the verdict, its page's share of a group.
        site: the same, on one host.
        pair: two pages compared, with their site.
    """

    words: int
    plain: float
    extract: float
    fingerprint: float
    store: float
    site: float
    pair: float

    @property
    def judging(self) -> float:
        """All but the extraction."""
        return self.fingerprint + self.store

    @property
    def whole(self) -> float:
        """All that the plugin does."""
        return self.extract + self.judging


def read_bodies(folder: Path, count: int) -> list[bytes]:
    """Read the pages below a folder, evenly spread over it."""
    paths = sorted([*folder.rglob("*.html"), *folder.rglob("*.html.gz")])
    step = max(1, len(paths) // count)
    return [
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in paths[::step][:count]
    ]


def measure(bodies: list[bytes], features: FeatureSet) -> Iterator[Cost]:
    """Measure every page that has a text."""
    config = Config()
    documents: list[Document] = []
    costs: list[Cost] = []
    for number, body in enumerate(bodies):
        try:
            started = time.perf_counter()
            trafilatura.extract(decode(body, None))
            plain = time.perf_counter()
            text = read_page(body, None, config.extractor)
            extracted = time.perf_counter()
            made = fingerprint_text(text, features, url=f"http://site.example/{number}")
            finished = time.perf_counter()
        except UnjudgedError:
            continue
        costs.append(
            Cost(
                made.words,
                1000 * (plain - started),
                1000 * (extracted - plain),
                1000 * (finished - extracted),
                0.0,
                0.0,
                0.0,
            )
        )
        document = make_document(made, config.rule, identity=b"%d" % number)
        documents.append(structs.replace(document, url=str(number), crawl="bench"))
    at_home = [structs.replace(page, url=f"http://site.example/{page.url}") for page in documents]
    store, site = judge(documents, config), judge(at_home, config)
    pair = compare_pairs(at_home, config)
    return (cost._replace(store=store, site=site, pair=pair) for cost in costs)


def judge(documents: list[Document], config: Config) -> float:
    """Judge documents against all before them; returns milliseconds for each, on average."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(folder, config.distance, confirm=config.confirm) as store,
    ):
        store.start_crawl("bench", "bench")
        started = time.perf_counter()
        for start in range(0, len(documents), _PAGES_PER_GROUP):
            store.find_and_add(documents[start : start + _PAGES_PER_GROUP])
        return 1000 * (time.perf_counter() - started) / max(1, len(documents))


def compare_pairs(documents: list[Document], config: Config) -> float:
    """Compare each document with the next one; returns milliseconds for each pair, on average."""
    site = Site(dict(enumerate(documents[:SAMPLE])))
    context = make_context(site, site)
    started = time.perf_counter()
    for first, second in pairwise(documents):
        compare(first, second, config.rule, context=context)
    return 1000 * (time.perf_counter() - started) / max(1, len(documents) - 1)


def summarise(rounds: list[list[Cost]]) -> dict[str, float]:
    """Take the median over rounds of each round's mean, and the ratio of these."""
    names = ("plain", "extract", "fingerprint", "store", "site", "pair", "judging", "whole")
    figures = {
        name: round(
            statistics.median(
                statistics.fmean(getattr(cost, name) for cost in costs) for costs in rounds
            ),
            3,
        )
        for name in names
    }
    ratios = [
        sum(cost.whole for cost in costs) / sum(cost.plain for cost in costs) for costs in rounds
    ]
    return {"pages": len(rounds[0]), **figures, "ratio": round(statistics.median(ratios), 3)}


def main() -> None:
    """Print two Markdown tables."""
    options = make_parser(__doc__, count=300).parse_args()
    logging.disable(logging.CRITICAL)
    bodies = read_bodies(options.pages, options.count)
    features = load_features(Config().features)
    list(measure(bodies[:2], features))  # warm up
    rounds = [list(measure(bodies, features)) for _ in range(options.runs)]
    about_800 = [[cost for cost in costs if cost.words in _ABOUT_800_WORDS] for costs in rounds]
    groups = {"all pages": rounds, "600 to 1,000 words": about_800}
    figures = {name: summarise(costs) for name, costs in groups.items() if costs[0]}
    print(
        "| pages | number | trafilatura.extract | ours: extract | fingerprint | store "
        "| on one host | a pair | ratio |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, row in figures.items():
        print(
            f"| {name} | {row['pages']} | {row['plain']} ms | {row['extract']} ms | "
            f"{row['fingerprint']} ms | {row['store']} ms | {row['site']} ms | {row['pair']} ms | "
            f"{row['ratio']} |"
        )
    if options.output:
        record = {
            "machine": describe_machine(),
            "versions": describe_versions("trafilatura", "lmdb", "numpy"),
            "runs": options.runs,
            "figures": figures,
        }
        options.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
