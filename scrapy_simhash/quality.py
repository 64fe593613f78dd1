"""How often answers are right: precision, recall, intervals, by distance, source and kind."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.config import PLAIN_DISTANCE_BITS
from scrapy_simhash.links import MOSTLY_NEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy_simhash.corpus import LabelledPair

NO_DISTANCE = 65
MOST_DISTANCE_SHOWN = 10
# 95 % of a normal distribution lie within so many standard deviations.
NORMAL_95 = 1.959964
# Pairs that the corpus calls hard but about which people differ, too.
_ARGUABLE_TAGS = {"near-identical-wording-other-page", "error-page-other-status"}
# What leave-one-source-out chooses from; it takes the highest recall at this precision.
_DISTANCES = (3, 4, 5, 6, 7)
SIMILARITIES = (0.75, 0.8, 0.85, 0.9, 0.95)
LEAST_PRECISION = 0.99


class Judged(NamedTuple):
    """A labelled pair and what the plugin makes of it.

    Attributes:
        duplicate: the plugin would drop the second page.
        distance: bits between their nearest fingerprints; 65 where a page has none.
        plain_distance: bits between the fingerprints of their main texts; likewise.
        similarity: of their sketches, 0 to 1.
        confirmed: what the confirmation says, whatever the distance.
        confirmed_at: what it would say with each of `SIMILARITIES`.
        tests: why, for people.
        new_links: share of the second page's links that are not on the first, 0 to 1; None where
            there are none to compare.
    """

    pair: LabelledPair
    language: str
    duplicate: bool
    distance: int
    plain_distance: int
    similarity: float
    confirmed: bool
    confirmed_at: dict[float, bool]
    tests: tuple[str, ...]
    new_links: float | None = None

    @property
    def is_wrong(self) -> bool:
        """Say whether the plugin's answer is another than the label."""
        return self.pair.label != "unknown" and self.duplicate != (self.pair.label == "dup")

    def describe(self) -> dict[str, Any]:
        """Give what a person wants to know of the pair."""
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
        """Count the answer to one pair."""
        self.right += duplicate and label == "dup"
        self.missed += not duplicate and label == "dup"
        self.wrong += duplicate and label == "distinct"
        self.distinct += label == "distinct"

    @property
    def precision(self) -> float | None:
        """Of the matches, the share that is right; None without matches."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        """Of the duplicates, the share that is found; None without duplicates."""
        return self.right / (self.right + self.missed) if self.right + self.missed else None

    def describe(self) -> dict[str, Any]:
        """Give the figures with their 95 % intervals (Wilson, JASA 1927)."""
        return {
            "precision": rounded(self.precision),
            "precision_interval": wilson(self.right, self.right + self.wrong),
            "recall": rounded(self.recall),
            "recall_interval": wilson(self.right, self.right + self.missed),
            "false_positives": self.wrong,
            "false_negatives": self.missed,
            "duplicates": self.right + self.missed,
            "distinct": self.distinct,
        }


def wilson(hits: float, of: float) -> list[float] | None:
    """Get the 95 % interval of a share; None where there is nothing to share.

    Args:
        hits: of them.
        of: how many there are; of weighted ones the effective number, which is no whole one.
    """
    if not of:
        return None
    share, z = hits / of, NORMAL_95
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5 / (1 + z * z / of)
    return [round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)]


def rounded(share: float | None) -> float | None:
    """Round to four digits, for people and JSON."""
    return None if share is None else round(share, 4)


def summarise(judged: Sequence[Judged], distance: int) -> dict[str, Any]:
    """Count the answers in every way.

    Args:
        judged: all pairs; those labelled `unknown` are counted and otherwise left out.
        distance: the one in force, in bits.
    """
    known = [pair for pair in judged if pair.pair.label != "unknown"]
    by_source = _group(known, lambda judged: judged.pair.source)
    return {
        "unknown": len(judged) - len(known),
        **_tally(known).describe(),
        "mean_over_sources": _mean_over(by_source.values()),
        "plain": _tally(known, lambda pair: pair.plain_distance <= PLAIN_DISTANCE_BITS).describe(),
        "hard": _describe_hard(known),
        "duplicates_with_new_links": _count_new_links(known),
        "leave_one_source_out": leave_one_out(by_source),
        "by_distance": [
            _at_distance(known, bits) for bits in range(max(MOST_DISTANCE_SHOWN, distance) + 1)
        ],
        "by_source": _describe(by_source),
        "by_language": _describe(_group(known, lambda judged: judged.language or "und")),
        "by_tag": _describe(_group(known, lambda judged: judged.pair.tag or "untagged")),
    }


def _tally(
    judged: Iterable[Judged], answer: Callable[[Judged], bool] = lambda judged: judged.duplicate
) -> Tally:
    tally = Tally()
    for pair in judged:
        tally.add(pair.pair.label, duplicate=answer(pair))
    return tally


def _group(judged: Iterable[Judged], key: Callable[[Judged], str]) -> dict[str, list[Judged]]:
    groups: defaultdict[str, list[Judged]] = defaultdict(list)
    for pair in judged:
        groups[key(pair)].append(pair)
    return dict(sorted(groups.items()))


def _describe(groups: dict[str, list[Judged]]) -> dict[str, Any]:
    return {name: _tally(pairs).describe() for name, pairs in groups.items()}


def _mean_over(groups: Iterable[Sequence[Judged]]) -> dict[str, float | None]:
    """Mean of the sources' figures, each counting the same however many pairs it has."""
    tallies = [_tally(pairs) for pairs in groups]
    return {
        "precision": _mean([tally.precision for tally in tallies]),
        "recall": _mean([tally.recall for tally in tallies]),
    }


def _mean(shares: Iterable[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return round(sum(known) / len(known), 4) if known else None


def _hard(judged: Iterable[Judged]) -> list[Judged]:
    """Pick the distinct pairs that look most alike, without those about which people differ."""
    return [
        pair
        for pair in judged
        if pair.pair.label == "distinct"
        and pair.pair.difficulty == "hard"
        and pair.pair.tag not in _ARGUABLE_TAGS
    ]


def _describe_hard(judged: Iterable[Judged]) -> dict[str, Any]:
    hard = _hard(judged)
    wrong = sum(pair.duplicate for pair in hard)
    return {
        "pairs": len(hard),
        "false_positives": wrong,
        "false_positive_rate": round(wrong / len(hard), 4) if hard else None,
        "interval": wilson(wrong, len(hard)),
    }


def _count_new_links(judged: Iterable[Judged]) -> dict[str, int]:
    """Count the true duplicates whose links SIMHASH_FOLLOW_NEW_LINKS would follow all the same."""
    shares = [
        pair.new_links for pair in judged if pair.pair.label == "dup" and pair.new_links is not None
    ]
    return {"with_links": len(shares), "mostly_new": sum(share >= MOSTLY_NEW for share in shares)}


def _at_distance(judged: Sequence[Judged], bits: int) -> dict[str, Any]:
    """Give the figures with k at this many bits, with and without confirmation."""
    confirmed = _tally(judged, lambda pair: pair.confirmed and pair.distance <= bits)
    plain = _tally(judged, lambda pair: pair.plain_distance <= bits)
    return {
        "distance": bits,
        "precision": rounded(confirmed.precision),
        "recall": rounded(confirmed.recall),
        "false_positives": confirmed.wrong,
        "plain_precision": rounded(plain.precision),
        "plain_recall": rounded(plain.recall),
        "plain_false_positives": plain.wrong,
    }


def leave_one_out(by_source: dict[str, list[Judged]]) -> dict[str, Any] | None:
    """Judge each source with the distance and similarity that are best on the others.

    Best is the highest recall with a precision of at least .99. What this gives is an estimate
    for sites nobody has seen; what the settings in force give is not, if they were chosen here.
    """
    if len(by_source) < 2:  # noqa: PLR2004 - nothing is left of one
        return None
    settings = [(bits, least) for bits in _DISTANCES for least in SIMILARITIES]
    tallies = {
        setting: {name: _tally(pairs, _rule(*setting)) for name, pairs in by_source.items()}
        for setting in settings
    }
    total = Tally()
    chosen = {}
    for name, pairs in by_source.items():
        best = max(settings, key=lambda setting: _worth(tallies[setting], name))
        chosen[name] = {"distance": best[0], "confirm": best[1]}
        for pair in pairs:
            total.add(pair.pair.label, duplicate=_rule(*best)(pair))
    return {**total.describe(), "chosen": chosen}


def _rule(bits: int, least: float) -> Callable[[Judged], bool]:
    return lambda judged: judged.confirmed_at.get(least, False) and judged.distance <= bits


def _worth(tallies: dict[str, Tally], left_out: str) -> tuple[bool, float]:
    others = [tally for name, tally in tallies.items() if name != left_out]
    both = Tally(
        sum(tally.right for tally in others),
        sum(tally.wrong for tally in others),
        sum(tally.missed for tally in others),
    )
    precise = both.precision is None or both.precision >= LEAST_PRECISION
    return precise, (both.recall if precise else both.precision) or 0.0
