"""How often a way to tell near-duplicates is right; for bench_features and bench_methods."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from summary import summarise_for_study

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.evaluation.quality import Judged
from scrapy_simhash.judging.comparison import compare
from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.judging.rule import MIN_FEATURES
from scrapy_simhash.judging.rule import Rule as JudgingRule
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from scrapy_simhash.inspection.evaluation.labels import LabelledPair
    from scrapy_simhash.judging.documents import Document
    from scrapy_simhash.pages.fingerprint import PageFingerprint

    Answer = Callable[[str, str], bool]
    Fingerprints = Mapping[str, PageFingerprint]

CONFIG = Config()
PLAIN_DISTANCES = (3, 7)


def score(pairs: Iterable[LabelledPair], answer: Answer) -> dict[str, Any]:
    """Count how often an answer is right.

    Args:
        pairs: labelled ones; those labelled `unknown` are left out.
        answer: from the ids of two pages, whether they are near-duplicates.
    """
    judged = [Judged(pair, duplicate=answer(pair.first, pair.second)) for pair in pairs]
    return brief(summarise_for_study(judged))


def brief(figures: dict[str, Any]) -> dict[str, Any]:
    """Keep of an evaluation's figures what the tables show."""
    kept = ("precision", "recall", "false_positives", "false_negatives", "duplicates", "distinct")
    intervals = ("precision_interval", "recall_interval", "mean_over_sources")
    tricky = {
        group: {name: figures[group][name] for name in ("pairs", "false_positives")}
        for group in ("hard", "near_identical")
    }
    return {**{name: figures[name] for name in (*kept, *intervals)}, **tricky}


@dataclass(frozen=True)
class Rule:
    """The product's rule, of which a study changes a part.

    Attributes:
        distance: bits within which two fingerprints of the pages must be.
        least: similarity that confirms; None takes the distance alone.
        config: says which texts make a fingerprint, and from how many features on.
    """

    distance: int = CONFIG.distance
    least: float | None = CONFIG.confirm
    config: Config = CONFIG

    def over(self, pages: Fingerprints) -> Answer:
        """Judge with the fingerprints of these pages; pages without one are like no other."""
        documents = {name: make_document(page, self.config.rule) for name, page in pages.items()}

        def answer(first: str, second: str) -> bool:
            if first not in documents or second not in documents:
                return False
            return self._alike(documents[first], documents[second])

        return answer

    def _alike(self, first: Document, second: Document) -> bool:
        rule = JudgingRule(self.distance, self.least)
        return compare(first, second, rule).duplicate


def plain(pages: Fingerprints, distance: int, least_features: int = MIN_FEATURES) -> Answer:
    """Judge by the fingerprints of the main texts alone, as the paper does."""

    def answer(first: str, second: str) -> bool:
        one, other = pages.get(first), pages.get(second)
        if one is None or other is None or min(one.features, other.features) < least_features:
            return False
        return hamming_distance(one.fingerprint, other.fingerprint) <= distance

    return answer


def score_all(pairs: Sequence[LabelledPair], pages: Fingerprints) -> dict[str, Any]:
    """Count how often plain simhash and the product's rule are right with these fingerprints."""
    scored = {f"k={k}": score(pairs, plain(pages, k)) for k in PLAIN_DISTANCES}
    return {**scored, "rule": score(pairs, Rule().over(pages))}


def print_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print a Markdown table; its first column is text, all others are figures."""
    if title:
        print(f"\n### {title}\n")
    print(f"| {' | '.join(head)} |")
    print(f"| --- |{' ---: |' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def share(value: float | None) -> str:
    """Format a share with three places, as .987."""
    return "-" if value is None else f"{value:.3f}".removeprefix("0")


def both(figures: dict[str, Any]) -> tuple[str, str]:
    """Format precision and recall."""
    return share(figures["precision"]), share(figures["recall"])


def with_intervals(figures: dict[str, Any]) -> tuple[str, str]:
    """Format precision and recall with their 95 % intervals."""
    precision, recall = (
        _with_interval(figures[name], figures[f"{name}_interval"])
        for name in ("precision", "recall")
    )
    return precision, recall


def _with_interval(value: float | None, interval: list[float] | None) -> str:
    if value is None or interval is None:
        return "-"
    return f"{share(value)} ({share(interval[0])}-{share(interval[1])})"


def update_json(path: Path | None, figures: dict[str, Any]) -> None:
    """Write figures to a file, if one is wanted; what else stands in it stays."""
    if path is not None:
        old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps({**old, **figures}, indent=1) + "\n", encoding="utf-8")
