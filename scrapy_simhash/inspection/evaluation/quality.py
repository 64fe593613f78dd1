"""Measure how often answers are right: precision and recall, with their intervals."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.judging.rule import PLAIN_DISTANCE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy_simhash.inspection.evaluation.labels import LabelledPair


NO_DISTANCE = 65  # if a page has no fingerprint
_DISTANCES_SHOWN = range(11)
# 95 % of a normal distribution are within this number of standard deviations.
NORMAL_95 = 1.959964


class Judged(NamedTuple):
    """A labelled pair and the plugin's answer."""

    pair: LabelledPair
    duplicate: bool  # the plugin would drop the second page, by what it knows of the site
    known: bool = False  # the site is known
    duplicate_if_unknown: bool = False  # it would, if it were not
    distance: int = NO_DISTANCE  # bits between their nearest fingerprints
    named: bool = False  # the one is found for the other by a name, whatever the distance
    plain_distance: int = NO_DISTANCE  # bits between those of their main texts
    similarity: float = 0.0  # of their sketches
    confirmed: bool = False  # whatever the distance
    tests: tuple[str, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict contradicts the label."""
        return self.pair.label != "unknown" and self.duplicate != (self.pair.label == "dup")

    def describe(self) -> dict[str, Any]:
        """Describe the pair for display."""
        return {
            "first": self.pair.first,
            "second": self.pair.second,
            "label": self.pair.label,
            "judged": "dup" if self.duplicate else "distinct",
            "distance": None if self.distance == NO_DISTANCE else self.distance,
            "similarity": self.similarity,
            "tests": list(self.tests),
            "source": self.pair.source,
            "why": self.pair.why,
        }


@dataclass
class Tally:
    """Counts of right and wrong answers."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    distinct: int = 0

    def add(self, label: str, *, duplicate: bool) -> None:
        """Count the answer to a labelled pair."""
        same, distinct = label == "dup", label == "distinct"
        self.right += duplicate and same
        self.missed += not duplicate and same
        self.wrong += duplicate and distinct
        self.distinct += distinct

    @property
    def matches(self) -> int:
        """The number of pairs that would be dropped."""
        return self.right + self.wrong

    @property
    def duplicates(self) -> int:
        """The number of pairs labelled as duplicates."""
        return self.right + self.missed

    @property
    def precision(self) -> float | None:
        """The share of matches that are duplicates; None without matches."""
        return self.right / self.matches if self.matches else None

    @property
    def recall(self) -> float | None:
        """The share of duplicates that are found; None without duplicates."""
        return self.right / self.duplicates if self.duplicates else None

    def describe(self) -> dict[str, Any]:
        """Return all figures, precision and recall with their 95 % intervals."""
        return {
            "precision": rounded(self.precision),
            "precision_interval": wilson(self.precision, self.matches),
            "recall": rounded(self.recall),
            "recall_interval": wilson(self.recall, self.duplicates),
            "false_positives": self.wrong,
            "false_negatives": self.missed,
            "duplicates": self.duplicates,
            "distinct": self.distinct,
        }


def wilson(share: float | None, of: int) -> list[float] | None:
    """Return the 95 % interval of a share (Wilson, JASA 1927), or None for a share of nothing."""
    if share is None or not of:
        return None
    z = NORMAL_95
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5 / (1 + z * z / of)
    return [round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)]


def rounded(share: float | None) -> float | None:
    """Round to four digits, for display and JSON."""
    return None if share is None else round(share, 4)


def tally(
    judged: Iterable[Judged],
    answer: Callable[[Judged], bool] = lambda judged: judged.duplicate,
) -> Tally:
    """Count the answers to labelled pairs."""
    counted = Tally()
    for pair in judged:
        counted.add(pair.pair.label, duplicate=answer(pair))
    return counted


def summarise(judged: Sequence[Judged], distance: int) -> dict[str, Any]:
    """Count the answers; pairs labelled `unknown` are counted and otherwise left out."""
    known = [pair for pair in judged if pair.pair.label != "unknown"]
    rows = range(max(_DISTANCES_SHOWN.stop, distance + 1))
    groups = group_by_source(known).items()
    return {
        "unknown": len(judged) - len(known),
        **tally(known).describe(),
        "site_known": {
            "known": sum(pair.known for pair in known),
            **tally(known).describe(),
        },
        "site_unknown": tally(known, lambda pair: pair.duplicate_if_unknown).describe(),
        "plain": tally(known, lambda pair: pair.plain_distance <= PLAIN_DISTANCE_BITS).describe(),
        "by_distance": [_at_distance(known, bits) for bits in rows],
        "by_source": {source: tally(pairs).describe() for source, pairs in groups},
    }


def group_by_source(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Group pairs by their source, in alphabetical order."""
    groups: defaultdict[str, list[Judged]] = defaultdict(list)
    for pair in judged:
        groups[pair.pair.source].append(pair)
    return dict(sorted(groups.items()))


def _at_distance(judged: Sequence[Judged], bits: int) -> dict[str, Any]:
    """Return precision, recall and false positives at a distance, with and without confirmation."""
    confirmed = tally(judged, lambda each: each.confirmed and (each.named or each.distance <= bits))
    plain = tally(judged, lambda pair: pair.plain_distance <= bits)
    return {
        "distance": bits,
        "precision": rounded(confirmed.precision),
        "recall": rounded(confirmed.recall),
        "false_positives": confirmed.wrong,
        "plain_precision": rounded(plain.precision),
        "plain_recall": rounded(plain.recall),
        "plain_false_positives": plain.wrong,
    }
