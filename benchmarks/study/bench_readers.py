"""How right the plugin is by each reader, on labelled pages: means over seeds, and the worst one.

`python benchmarks/study/bench_readers.py FOLDER... [--readers turbohtml,trafilatura-fast]
[--seeds 5] [--output FILE]`. The pairs go the way of `evaluate.py`, with everything
else of the recipe and the rule at its defaults. "Hard" are the distinct pairs that look most alike,
see `summary`. Not measured: time (`bench_page`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from labels import read_corpus
from seeds import describe_seeds, judge_by_seed
from summary import summarise_for_study

from scrapy_simhash._progress import show_steps
from scrapy_simhash.config import Config

# `machine` is one folder up, beside the benchmarks.
sys.path.append(str(Path(__file__).parent.parent))
from machine import write_result

if TYPE_CHECKING:
    from labels import Corpus

READERS = "turbohtml,trafilatura-fast"


def judge(corpus: Corpus, reader: str, seeds: int) -> dict[str, Any]:
    """Judge a corpus by a reader with several seeds."""
    with show_steps(reader, seeds * len(corpus.pages)) as advance:
        by_seed = judge_by_seed(corpus, Config(extractor=reader), seeds, advance)
    found = describe_seeds([judged for _, judged in by_seed])
    hard = [summarise_for_study(judged)["hard"] for _, judged in by_seed]
    return {
        **found,
        "hard_pairs": hard[0]["pairs"],
        "hard_false_positives": fmean(each["false_positives"] for each in hard),
        "most_hard_false_positives": max(each["false_positives"] for each in hard),
        "not_judged": sum(by_seed[0][0]["not_judged"].values()),
    }


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--readers", default=READERS, help=f"by name (default {READERS})")
    parser.add_argument("--seeds", type=int, default=5, help="0 to N - 1 (default 5)")
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    print(
        "| corpus | reader | precision | recall | wrong | missed | worst seed | wrong of the hard |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |")
    for place, folder in enumerate(options.folders, 1):
        corpus = read_corpus(folder)
        for reader in options.readers.split(","):
            found = figures[f"{place} {reader}"] = judge(corpus, reader, options.seeds)
            worst = found["worst"]
            print(
                f"| {place} | {reader} | {found['precision']:.4f} | {found['recall']:.4f} "
                f"| {found['false_positives']:g} | {found['false_negatives']:g} "
                f"| {worst['seed']}: {worst['precision']:.4f}, {worst['recall']:.4f} "
                f"| {found['hard_false_positives']:g} of {found['hard_pairs']} |",
                flush=True,
            )
    write_result(
        options.output, ("turbohtml", "trafilatura", "lxml"), seeds=options.seeds, figures=figures
    )


if __name__ == "__main__":
    main()
