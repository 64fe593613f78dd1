"""How often the rule is right on labelled pages, as means of several seeds, and by its constants.

`python benchmarks/study/bench_rule.py FOLDER... [--seeds 5]` prints precision and recall, wrong and
missed pairs, with the site known and unknown, and recall where `SIMHASH_SCOPE = "site"` compares
only the pages of one site; `--constants` judges with each constant of the rule on words a quarter
smaller and larger, too, and without new paragraphs and inserted blocks, one at a time.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING
from unittest.mock import patch

from evaluate import evaluate, tally
from labels import locate, read_corpus

from scrapy_simhash.config import Config
from scrapy_simhash.judge.scopes import find_site
from scrapy_simhash.judging import rule as words
from scrapy_simhash.pages.addresses import host_of

# One folder up, beside the benchmarks.
sys.path.append(str(Path(__file__).parent.parent))
from measuring import print_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from evaluate import Judged, Tally

_CONSTANTS = (
    "OWN_SHARE",
    "NAMES_WORDS",
    "LEAST_COMMON",
    "LEAST_COMMON_UNKNOWN",
    "LEAST_MAIN",
    "PARAGRAPH_WORDS",
    "PARAGRAPH_SHARE",
    "FIELD_WORDS",
    "INSERTED_SHARE",
)
_ERRORS = ("wrong", "missed")
# No paragraph is new, and no block is inserted.
_SWITCHED_OFF = {"PARAGRAPH_WORDS": inf, "INSERTED_SHARE": 0.0}


def _judge(folder: Path, seeds: int) -> tuple[list[list[Judged]], list[list[Judged]]]:
    """Judge the pairs of a folder with each seed, also if only those of one site are compared.

    Left out are those that nobody can label.
    """
    corpus = read_corpus(folder)
    judged = (evaluate(corpus, Config(), seed=seed)[1] for seed in range(seeds))
    known = [[each for each in pairs if each.pair.label != "unknown"] for pairs in judged]
    sites = {name: find_site(host_of(locate(page))) for name, page in corpus.pages.items()}
    apart = {pair for pair in corpus.pairs if sites[pair.first] != sites[pair.second]}
    return known, [
        [each._replace(duplicate=each.duplicate and each.pair not in apart) for each in pairs]
        for pairs in known
    ]


def _describe(
    by_seed: Sequence[Iterable[Judged]], in_site: Sequence[Iterable[Judged]]
) -> dict[str, str]:
    shown = {}
    for state, answer in (
        ("site known", lambda each: each.duplicate),
        ("unknown", lambda each: each.duplicate_if_unknown),
    ):
        tallies = [tally(pairs, answer) for pairs in by_seed]
        shown[f"P / R, {state}"] = f"{_mean(tallies, 'precision')} / {_mean(tallies, 'recall')}"
        wrong, missed = (fmean(getattr(each, name) for each in tallies) for name in _ERRORS)
        shown[f"wrong + missed, {state}"] = f"{wrong:.1f} + {missed:.1f}"
    return shown | {"recall, scope `site`": _mean(map(tally, in_site), "recall")}


def _mean(tallies: Iterable[Tally], name: str) -> str:
    return f"{fmean(getattr(each, name) or 0.0 for each in tallies):.3f}"


def main() -> None:
    """Judge the folders, and print a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="labelled pages")
    parser.add_argument("--seeds", type=int, default=5, help="judge with so many (default: 5)")
    parser.add_argument("--constants", action="store_true", help="with other values of each")
    arguments = parser.parse_args()
    tried: list[tuple[str, Callable[[], AbstractContextManager[object]] | None]] = [("", None)]
    if arguments.constants:
        others = [
            (name, share * getattr(words, name)) for name in _CONSTANTS for share in (0.75, 1.25)
        ]
        tried += [
            (f"{name} {value:g}", partial(patch.object, words, name, value))
            for name, value in (*others, *_SWITCHED_OFF.items())
        ]
    for label, other in tried:
        with ExitStack() as stack:
            if other is not None:
                stack.enter_context(other())
            if label:
                print(f"\n### {label}")
            print_figures(
                {
                    folder.name: _describe(*_judge(folder, arguments.seeds))
                    for folder in arguments.folders
                }
            )


if __name__ == "__main__":
    main()
