"""Figures that only the study wants: hard pairs, near-identical ones, means over sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evaluate import group_by_source, rounded, summarise, tally, wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from evaluate import Judged
    from labels import LabelledPair

# Pairs that the corpus calls hard but about which people differ, too.
_NEAR_IDENTICAL = "near-identical-wording-other-page"
_ARGUABLE_TAGS = {_NEAR_IDENTICAL, "error-page-other-status"}


def summarise_for_study(judged: Sequence[Judged], distance: int = 0) -> dict[str, Any]:
    """Count the answers as `evaluate.py` does, and in the study's own ways."""
    known = [pair for pair in judged if pair.pair.label != "unknown"]
    by_source = group_by_source(known)
    return {
        **summarise(judged, distance),
        "mean_over_sources": _mean_over(by_source.values()),
        "hard": _describe_wrong(pair for pair in known if _is_hard(pair.pair)),
        "near_identical": _describe_wrong(
            pair for pair in known if read_tag(pair.pair) == _NEAR_IDENTICAL
        ),
    }


def read_tag(pair: LabelledPair) -> str:
    """Read what kind of pair it is: the first part of `why`, or ""."""
    return pair.why.partition(";")[0].strip()


def read_difficulty(pair: LabelledPair) -> str:
    """Read how hard the pair is to tell: the second part of `why`, or ""."""
    parts = pair.why.split(";")
    return parts[1].strip() if len(parts) > 1 else ""


def _mean_over(groups: Iterable[Sequence[Judged]]) -> dict[str, float | None]:
    """Mean of the sources' figures, each counting the same however many pairs it has."""
    tallies = [tally(pairs) for pairs in groups]
    return {
        "precision": _mean([counted.precision for counted in tallies]),
        "recall": _mean([counted.recall for counted in tallies]),
    }


def _mean(shares: Iterable[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return round(sum(known) / len(known), 4) if known else None


def _is_hard(pair: LabelledPair) -> bool:
    """Whether it is one of those that look most alike, and about which people agree."""
    return read_difficulty(pair) == "hard" and read_tag(pair) not in _ARGUABLE_TAGS


def _describe_wrong(judged: Iterable[Judged]) -> dict[str, Any]:
    """Count how many of the distinct pairs are taken for duplicates."""
    distinct = [pair for pair in judged if pair.pair.label == "distinct"]
    wrong = sum(pair.duplicate for pair in distinct)
    share = wrong / len(distinct) if distinct else None
    return {
        "pairs": len(distinct),
        "false_positives": wrong,
        "false_positive_rate": rounded(share),
        "interval": wilson(share, len(distinct)),
    }
