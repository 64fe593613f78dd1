"""The pairs of a corpus judged with several seeds: their means, and the worst."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from evaluate import evaluate, rounded, tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from evaluate import Judged
    from labels import Corpus

    from scrapy_simhash.config import Config


def judge_by_seed(
    corpus: Corpus, config: Config, seeds: int, advance: Callable[[], object] = lambda: None
) -> list[tuple[dict[str, Any], list[Judged]]]:
    """Evaluate a corpus with the seeds 0 to `seeds` - 1; `advance` is called for each page."""
    return [evaluate(corpus, config, advance, seed) for seed in range(seeds)]


def describe_seeds(judged: Sequence[Sequence[Judged]]) -> dict[str, Any]:
    """Give what several seeds have in common: the answers to the same pairs with each of them."""
    tallies = [tally(pair for pair in pairs if pair.pair.label != "unknown") for pairs in judged]
    each: list[dict[str, Any]] = [
        {
            "seed": seed,
            "precision": rounded(counted.precision),
            "recall": rounded(counted.recall),
            "false_positives": counted.wrong,
            "false_negatives": counted.missed,
        }
        for seed, counted in enumerate(tallies)
    ]
    return {
        "precision": rounded(_mean([counted.precision for counted in tallies])),
        "recall": rounded(_mean([counted.recall for counted in tallies])),
        "false_positives": fmean(counted.wrong for counted in tallies),
        "false_negatives": fmean(counted.missed for counted in tallies),
        # The one with most errors; of equals the one with most wrong answers.
        "worst": max(each, key=lambda row: (_count_errors(row), row["false_positives"])),
        "each": each,
    }


def _count_errors(figures: dict[str, Any]) -> float:
    return float(figures["false_positives"] + figures["false_negatives"])


def _mean(shares: Iterable[float | None]) -> float | None:
    """Take the mean of the shares that there are."""
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None
