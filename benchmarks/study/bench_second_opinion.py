"""What a second opinion on pages without a main text would change, on labelled pages.

`python benchmarks/study/bench_second_opinion.py FOLDER... [--seeds 5] [--output FILE]`. Where the
default reader finds no main text, all visible text stands for it. Here trafilatura-fast reads such
pages again, if they have enough words for a fingerprint: the whole page, or its main text only. CPU
is of both readings, by that of the first one alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from seeds import describe_seeds, judge_by_seed

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.evaluation.labels import read_corpus
from scrapy_simhash.judging.rule import MIN_FEATURES
from scrapy_simhash.pages import turbohtml_reader
from scrapy_simhash.pages.fingerprint import load_reader
from scrapy_simhash.pages.recipe import SECOND_EXTRACTOR

# `machine` is one folder up, beside the benchmarks.
sys.path.append(str(Path(__file__).parent.parent))
from machine import write_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_simhash.pages.text import PageText

_LEAST_WORDS = MIN_FEATURES


@dataclass
class _Reader:
    """Reads pages as the default reader does, and some of them again."""

    way: str
    first: Callable[[str], PageText] = turbohtml_reader.read
    second: Callable[[str], PageText] = field(default_factory=lambda: load_reader(SECOND_EXTRACTOR))
    pages: int = 0
    again: int = 0
    found: int = 0
    first_seconds: float = 0.0
    second_seconds: float = 0.0

    def __call__(self, html: str) -> PageText:
        started = time.process_time()
        page = self.first(html)
        self.first_seconds += time.process_time() - started
        self.pages += 1
        if self.way == "none" or not page.fell_back or len(page.whole.split()) < _LEAST_WORDS:
            return page
        started = time.process_time()
        other = self.second(html)
        self.second_seconds += time.process_time() - started
        self.again += 1
        if other.fell_back:
            return page
        self.found += 1
        if self.way == "whole page":
            return other
        return page._replace(main=other.main, fell_back=False, main_at=None)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=5, help="0 to N - 1 (default 5)")
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    figures = {}
    print("| corpus | second opinion | precision | recall | wrong | missed | read again | CPU |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for place, folder in enumerate(options.folders, 1):
        corpus = read_corpus(folder)
        for way in ("none", "whole page", "main text"):
            reader = _Reader(way)
            with patch.object(turbohtml_reader, "read", reader):
                load_reader.cache_clear()
                judged = judge_by_seed(corpus, Config(workers=0), options.seeds)
            load_reader.cache_clear()
            found = describe_seeds([answers for _, answers in judged])
            cpu = 1 + reader.second_seconds / reader.first_seconds
            counts = {"pages": reader.pages, "again": reader.again, "found": reader.found}
            figures[f"{place} {way}"] = {**found, **counts, "cpu": cpu}
            print(
                f"| {place} | {way} | {found['precision']:.4f} | {found['recall']:.4f} "
                f"| {found['false_positives']:g} | {found['false_negatives']:g} "
                f"| {reader.again} of {reader.pages}, {reader.found} found | {cpu:.2f} |",
                flush=True,
            )
    write_result(
        options.output, ("turbohtml", "trafilatura", "lxml"), seeds=options.seeds, figures=figures
    )


if __name__ == "__main__":
    main()
