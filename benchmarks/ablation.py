"""The product's rule taken apart: parts left out, constants moved, seeds, other signals.

Imported by bench_features. All tables judge the same fingerprints of the default features, except
the one of the seeds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from urllib.parse import urlsplit

import numpy as np
import regex
from labelled import DEFAULT
from scoring import (
    CONFIG,
    Rule,
    both,
    plain,
    print_table,
    score,
    share,
    without_names,
    without_whole_text,
)
from tqdm import tqdm

import scrapy_simhash.confirm as confirm_module
from scrapy_simhash.features import FEATURE_SETS
from scrapy_simhash.fingerprint import fingerprint_text
from scrapy_simhash.sketch import (
    SKETCH_WINDOW,
    Similarity,
    compare_sketches,
    sketch_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from labelled import Page, Pages
    from numpy.typing import NDArray
    from scoring import Answer, Fingerprints

    from scrapy_simhash.corpus import Corpus, LabelledPair
    from scrapy_simhash.fingerprint import PageFingerprint

    Shingles = tuple[NDArray[np.uint64], NDArray[np.uint64]]

_FEATURES = FEATURE_SETS[CONFIG.features]
_SEEDS = range(5)
_CHEAPEST = "resiliparse, main content"
_LEAST_GROUP = 5
_LEAST_BOILERPLATE_SHARE = 0.5
_NUMBER = regex.compile(r"\d+(?:[.,]\d+)*")


def measure_seeds(pages: Pages, pairs: Sequence[LabelledPair]) -> dict[str, Any]:
    """Score two extractors with several secrets of the token hash: between seeds all is chance."""
    figures = {}
    for extractor, suffix in ((DEFAULT, ""), (_CHEAPEST, f", {_CHEAPEST}")):
        for seed in tqdm(_SEEDS, desc="seeds", leave=False):
            made = {
                name: fingerprint_text(page.read_by(extractor), _FEATURES, seed)
                for name, page in pages.items()
            }
            figures[f"seed {seed}{suffix}"] = {
                **{f"plain, k={k}": score(pairs, plain(made, k)) for k in (3, 7)},
                **{f"rule, {k} bits": score(pairs, Rule(distance=k).over(made)) for k in (5, 7, 8)},
            }
    columns = list(figures["seed 0"])
    print_table(
        ["seed", *(f"{what}, {name}" for name in columns for what in ("precision", "recall"))],
        (
            [seed, *(cell for name in columns for cell in both(of[name]))]
            for seed, of in figures.items()
        ),
        "Secrets of the token hash",
    )
    return figures


def measure_ablation(
    corpus: Corpus, pages: Pages, base: Fingerprints, pairs: Sequence[LabelledPair]
) -> dict[str, Any]:
    """Score the rule with parts left out or replaced."""
    figures = {"the rule": score(pairs, Rule().over(base))}
    rules = {
        "without whole text": Rule(change=without_whole_text, config=replace(CONFIG, confirm=None)),
        "whole text proposes, but does not confirm": Rule(change=without_whole_text),
        "without names test": Rule(change=without_names),
        "confirmation only, any distance": Rule(distance=64),
        "fingerprints only, main or whole, k=3": Rule(distance=3, least=None),
        "fingerprints only, main or whole, k=7": Rule(least=None),
    }
    figures |= {name: score(pairs, rule.over(base)) for name, rule in rules.items()}
    figures |= {f"main text only, k={k}": score(pairs, plain(base, k)) for k in (3, 7)}
    with comparing(_without_contradiction):
        figures["without contradiction tests"] = score(pairs, Rule().over(base))
        bare = Rule(change=without_names)
        figures["without names and contradiction tests"] = score(pairs, bare.over(base))
    for window in (1, 2, 3, 5):
        name = f"exact Jaccard of words-{window} for the sketch"
        with comparing(exact_similarity(pages, base, window)):
            figures[name] = score(pairs, Rule().over(base))
    cleaned = remove_boilerplate(corpus, pages, base)
    figures["learned boilerplate removed before the sketch"] = score(pairs, Rule().over(cleaned))
    _print("Parts of the rule", figures)
    return figures


@contextmanager
def comparing(compare: Callable[[bytes, Sequence[bytes]], Similarity]) -> Iterator[None]:
    """Let the confirmation compare sketches in another way."""
    with patch.object(confirm_module, "compare_sketches", compare):
        yield


def _without_contradiction(sketch: bytes, others: Sequence[bytes]) -> Similarity:
    """Take the larger similarity for both, so that neither text contradicts the other."""
    similar = compare_sketches(sketch, others)
    larger = np.maximum(similar.main, similar.whole)
    return Similarity(larger, larger)


def exact_similarity(
    pages: Pages, base: Fingerprints, window: int
) -> Callable[[bytes, Sequence[bytes]], Similarity]:
    """Compare sets of shingles instead of sketches.

    The sketches still say which texts are meant: two pages with one sketch have one set here.
    """
    known = {}
    for name, page in base.items():
        texts = pages[name].text
        known[page.sketch] = tuple(
            np.unique(_FEATURES.read(text).shingle(window)) for text in (texts.main, texts.whole)
        )

    def compare(sketch: bytes, others: Sequence[bytes]) -> Similarity:
        alike = [
            [
                jaccard(mine, theirs)
                for mine, theirs in zip(known[sketch], known[other], strict=True)
            ]
            for other in others
        ]
        return Similarity(*np.array(alike).T)

    return compare


def jaccard(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> float:
    """Get how alike two sets are; empty ones are like nothing."""
    common = len(np.intersect1d(first, second, assume_unique=True))
    either = len(first) + len(second) - common
    return common / either if either else 0.0


def remove_boilerplate(
    corpus: Corpus, pages: Pages, base: Fingerprints
) -> dict[str, PageFingerprint]:
    """Sketch the texts without those shingles that half of the pages of a site have.

    A site is a source and a host; those with fewer than five pages stay as they are. Learned from
    the very pages that are judged: a crawl would know less.
    """
    shingled = {
        name: tuple(
            np.unique(_FEATURES.read(text).shingle(SKETCH_WINDOW))
            for text in (pages[name].text.main, pages[name].text.whole)
        )
        for name in base
    }
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name in base:
        labelled = corpus.pages[name]
        groups[labelled.source, urlsplit(labelled.url).hostname or ""].append(name)
    cleaned = dict(base)
    for names in groups.values():
        if len(names) < _LEAST_GROUP:
            continue
        hashes, counts = np.unique(
            np.concatenate([shingled[name][1] for name in names]), return_counts=True
        )
        frequent = hashes[counts >= _LEAST_BOILERPLATE_SHARE * len(names)]
        for name in names:
            main, whole = (np.setdiff1d(text, frequent) for text in shingled[name])
            cleaned[name] = replace(base[name], sketch=sketch_text(main) + sketch_text(whole))
    return cleaned


def measure_constants(base: Fingerprints, pairs: Sequence[LabelledPair]) -> dict[str, Any]:
    """Score the rule with one of its constants moved."""
    figures = {"the rule": score(pairs, Rule().over(base))}
    for least in (0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        figures[f"SIMHASH_CONFIRM {least}"] = score(pairs, Rule(least=least).over(base))
    for bits in range(3, 11):
        figures[f"SIMHASH_DISTANCE {bits}"] = score(pairs, Rule(distance=bits).over(base))
    for least_features in (1, 8, 16, 32, 64, 128):
        config = replace(CONFIG, min_features=least_features)
        name = f"SIMHASH_MIN_FEATURES {least_features}"
        figures[name] = score(pairs, Rule(config=config).over(base))
        figures[f"{name}, plain k=3"] = score(pairs, plain(base, 3, least_features))
    for name, values in _CONSTANTS.items():
        for value in values:
            with patch.object(confirm_module, name, value):
                figures[f"{name} {value}"] = score(pairs, Rule().over(base))
    _print("Constants", figures)
    return figures


# Values beside the ones in force. An empty `ARTICLES` takes no main text for an article;
# (0, 0.0) takes every one. A similarity of 2.0 is never reached, and one of 0.0 always.
_CONSTANTS: dict[str, tuple[Any, ...]] = {
    "ARTICLES": (
        (),
        ((300, 0.0),),
        ((300, 0.0), (100, 0.2)),
        ((150, 0.0), (100, 0.2), (50, 0.3)),
        ((600, 0.0), (100, 0.2), (50, 0.3)),
        ((300, 0.0), (100, 0.1), (50, 0.15)),
        ((0, 0.0),),
    ),
    "LEAST_WHOLE_OF_STUBS": (0.5, 0.65, 0.85),
    "LEAST_MAIN_OF_TEMPLATE": (0.0, 0.2, 0.6, 0.8),
    "SAME_WHOLE": (0.9, 0.95, 2.0),
    "LEAST_ALIKE_NAMES": (0.0, 0.5, 0.6, 0.7, 0.9, 1.0),
}


@dataclass(frozen=True)
class Signal:
    """Something that might veto a match.

    Attributes:
        agree: whether two pages agree in it; None where it has nothing to say.
    """

    name: str
    agree: Callable[[Page, Page], bool | None]


def _same_language(first: Page, second: Page) -> bool | None:
    one, other = (page.text.language.partition("-")[0] for page in (first, second))
    return one == other if one and other else None


def _same_canonical(first: Page, second: Page) -> bool | None:
    one, other = first.text.canonical, second.text.canonical
    return one == other if one and other else None


def _of_sets(least: float, read: Callable[[Page], set[str]]) -> Callable[[Page, Page], bool | None]:
    def agree(first: Page, second: Page) -> bool | None:
        one, other = read(first), read(second)
        return len(one & other) >= least * len(one | other) if one or other else None

    return agree


def _length_ratio(least: float) -> Callable[[Page, Page], bool | None]:
    def agree(first: Page, second: Page) -> bool | None:
        shorter, longer = sorted(len(page.text.main) for page in (first, second))
        return shorter >= least * longer

    return agree


def _numbers(page: Page) -> set[str]:
    return set(_NUMBER.findall(page.text.main))


def _links(page: Page) -> set[str]:
    return set(page.text.links)


SIGNALS = [
    Signal("main texts of like length (0.8)", _length_ratio(0.8)),
    Signal("main texts of like length (0.5)", _length_ratio(0.5)),
    Signal("same declared language", _same_language),
    Signal("half of the numbers in common", _of_sets(0.5, _numbers)),
    Signal("nine in ten numbers in common", _of_sets(0.9, _numbers)),
    Signal("same rel=canonical", _same_canonical),
    Signal("half of the links in common", _of_sets(0.5, _links)),
    Signal("nine in ten links in common", _of_sets(0.9, _links)),
]


def measure_signals(
    pages: Pages, base: Fingerprints, pairs: Sequence[LabelledPair]
) -> dict[str, Any]:
    """Count the matches that each signal would veto, right and wrong ones, of three rules."""
    rules: dict[str, Answer] = {
        "rule": Rule().over(base),
        "fingerprints only, k=7": Rule(least=None).over(base),
        "main text only, k=3": plain(base, 3),
    }
    figures: dict[str, Any] = {
        name: _count_vetoes([pair for pair in pairs if answer(pair.first, pair.second)], pages)
        for name, answer in rules.items()
    }
    head = ["veto unless", *(f"{name}: {label}" for name in rules for label in ("right", "wrong"))]
    rows = [
        [row, *(str(figures[name][row][label]) for name in rules for label in ("dup", "distinct"))]
        for row in ("(all matches)", *(signal.name for signal in SIGNALS))
    ]
    print_table(head, rows, "Other signals: matches that a veto would undo")
    return figures


def _count_vetoes(matches: Sequence[LabelledPair], pages: Pages) -> dict[str, dict[str, int]]:
    def count(chosen: Sequence[LabelledPair]) -> dict[str, int]:
        labels = Counter(pair.label for pair in chosen)
        return {"dup": labels["dup"], "distinct": labels["distinct"]}

    vetoed = {
        signal.name: count(
            [
                pair
                for pair in matches
                if signal.agree(pages[pair.first], pages[pair.second]) is False
            ]
        )
        for signal in SIGNALS
    }
    return {"(all matches)": count(matches), **vetoed}


def _print(title: str, figures: dict[str, Any]) -> None:
    print_table(
        (
            "rule",
            "precision",
            "recall",
            "wrong",
            "missed",
            "wrong of the hard",
            "means over sources",
        ),
        (
            [
                name,
                *both(of),
                str(of["false_positives"]),
                str(of["false_negatives"]),
                str(of["hard"]["false_positives"]),
                " / ".join(share(of["mean_over_sources"][key]) for key in ("precision", "recall")),
            ]
            for name, of in figures.items()
        ),
        title,
    )
