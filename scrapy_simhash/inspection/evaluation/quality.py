"""Measure how often answers are right: precision, recall, intervals; and recommend settings."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.judging.rule import PLAIN_DISTANCE_BITS
from scrapy_simhash.pages.links import MOSTLY_NEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_simhash.inspection.evaluation.labels import LabelledPair
    from scrapy_simhash.inspection.evaluation.sampling import Survey
    from scrapy_simhash.judging.rule import Rule


NO_DISTANCE = 65  # if a page has no fingerprint
_DISTANCES_SHOWN = range(11)
# 95 % of a normal distribution are within this number of standard deviations.
NORMAL_95 = 1.959964
# The values of SIMHASH_CONFIRM that are tried on every pair.
SIMILARITIES = (0.75, 0.8, 0.85, 0.9, 0.95)


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
    confirmed: bool = False  # whatever the distance; `confirmed_at`: with each of `SIMILARITIES`
    confirmed_at: Mapping[float | None, bool] = MappingProxyType({})
    tests: tuple[str, ...] = ()
    new_links: float | None = None  # share of the second page's links that the first one lacks

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict contradicts the label."""
        return self.pair.label != "unknown" and self.duplicate != (self.pair.label == "dup")

    def would_drop(self, rule: Rule) -> bool:
        """Whether another rule would drop one page of the pair for the other."""
        if rule.confirm is None:
            return self.plain_distance <= rule.distance
        candidate = self.named or self.distance <= rule.distance
        return candidate and self.confirmed_at.get(rule.confirm, False)

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

    # Numbers of pairs; a label may stand for several.
    right: float = 0
    wrong: float = 0
    missed: float = 0
    distinct: float = 0
    matches: int = 0  # this and the next: numbers of labels, however many pairs they stand for
    duplicates: int = 0

    def add(self, label: str, *, duplicate: bool, pairs: float = 1) -> None:
        """Count the answer to a labelled pair, which stands for `pairs` of the store."""
        same, distinct = label == "dup", label == "distinct"
        self.right += pairs * (duplicate and same)
        self.missed += pairs * (not duplicate and same)
        self.wrong += pairs * (duplicate and distinct)
        self.distinct += pairs * distinct
        self.matches += duplicate and (same or distinct)
        self.duplicates += same

    @property
    def precision(self) -> float | None:
        """The share of matches that are duplicates; None without matches."""
        return self.right / (self.right + self.wrong) if self.matches else None

    @property
    def recall(self) -> float | None:
        """The share of duplicates that are found; None without duplicates."""
        return self.right / (self.right + self.missed) if self.duplicates else None

    def describe_shares(self, prefix: str = "") -> dict[str, Any]:
        """Return precision and recall with their 95 % intervals."""
        return {
            f"{prefix}precision": rounded(self.precision),
            f"{prefix}precision_interval": wilson(self.precision, self.matches),
            f"{prefix}recall": rounded(self.recall),
            f"{prefix}recall_interval": wilson(self.recall, self.duplicates),
        }

    def describe(self) -> dict[str, Any]:
        """Return all figures."""
        return {
            **self.describe_shares(),
            "false_positives": self.wrong,
            "false_negatives": self.missed,
            "duplicates": self.right + self.missed,
            "distinct": self.distinct,
        }


def wilson(share: float | None, of: int) -> list[float] | None:
    """Get the 95 % interval of a share (Wilson, JASA 1927); None for a share of nothing."""
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
    stands_for: Callable[[Judged], float] = lambda _: 1,
) -> Tally:
    """Count the answers to labelled pairs."""
    counted = Tally()
    for pair in judged:
        counted.add(pair.pair.label, duplicate=answer(pair), pairs=stands_for(pair))
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
        "duplicates_with_new_links": _count_new_links(known),
        "by_distance": [_at_distance(known, bits) for bits in rows],
        "by_source": {source: tally(pairs).describe() for source, pairs in groups},
    }


def group_by_source(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Group pairs by their source, in alphabetical order."""
    groups: defaultdict[str, list[Judged]] = defaultdict(list)
    for pair in judged:
        groups[pair.pair.source].append(pair)
    return dict(sorted(groups.items()))


def _count_new_links(judged: Iterable[Judged]) -> dict[str, int]:
    """Count the true duplicates whose links `SIMHASH_FOLLOW_NEW_LINKS` would still follow."""
    shares = [
        pair.new_links for pair in judged if pair.pair.label == "dup" and pair.new_links is not None
    ]
    return {"with_links": len(shares), "mostly_new": sum(share >= MOSTLY_NEW for share in shares)}


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


# Recommended settings must have this precision, and an interval above the second figure, which
# takes enough labels, nearly all of them right. A hundred labels have some sixty of drops, and are
# enough: with .95 they hardly ever recommended something on two labelled corpora, with .93 nearly
# always, and what they recommended was right in .99 of the other drops (docs/study.md).
_LEAST_PRECISION = 0.99
_LEAST_SURE_PRECISION = 0.93
# If all of this number of drops are labelled right, Wilson's interval reaches .93 = n / (n + z^2).
LEAST_LABELS = math.ceil(_LEAST_SURE_PRECISION / (1 - _LEAST_SURE_PRECISION) * NORMAL_95**2)
# The largest share of pairs that may be at distances without any label.
_MOST_UNSEEN = 0.05
_NAMES = {"dup": "same", "distinct": "different", "unknown": "unknown"}


class Sample:
    """Labelled pairs of a store; those at a distance stand for all its pairs there (`sizes`)."""

    def __init__(self, judged: Iterable[Judged], sizes: Mapping[int, float]) -> None:
        self.judged = [
            each for each in judged if each.pair.label != "unknown" and each.distance in sizes
        ]
        self.sizes = sizes
        self.labelled = Counter(each.distance for each in self.judged)
        self.unseen = {bits: pairs for bits, pairs in sizes.items() if not self.labelled[bits]}

    def tally(self, drops: Callable[[Judged], bool]) -> Tally:
        """Estimate how many pairs of the store are judged rightly and wrongly."""
        return tally(
            self.judged,
            drops,
            lambda each: self.sizes[each.distance] / self.labelled[each.distance],
        )

    def find_thin(self, reach_bits: int) -> dict[int, int]:
        """Count missing labels by distance: where one speaks for over twice the mean."""
        # No setting drops anything beyond the reach of the tables. The order of `Survey` leaves
        # none missing, but later crawls may add many pairs at one distance.
        sizes = {bits: pairs for bits, pairs in self.sizes.items() if bits <= reach_bits}
        labels, total = sum(self.labelled[bits] for bits in sizes), sum(sizes.values())
        least = {bits: int(labels * pairs / total / 2) for bits, pairs in sizes.items()}
        return {
            bits: count - self.labelled[bits]
            for bits, count in least.items()
            if self.labelled[bits] < count
        }

    def tally_rule(self, rule: Rule) -> Tally:
        """Estimate how many pairs of the store a rule would judge rightly and wrongly."""
        return self.tally(lambda judged: judged.would_drop(rule))


def describe_distance(sample: Sample, rule: Rule, bits: int) -> dict[str, Any]:
    """Return the figures at and within a distance, with confirmation if the rule has it."""
    at = tally(each for each in sample.judged if each.distance == bits)
    share = at.duplicates / sample.labelled[bits] if sample.labelled[bits] else None
    plain = sample.tally(lambda judged: judged.distance <= bits)
    confirmed = {}
    if rule.confirm is not None:
        confirmed = sample.tally_rule(rule._replace(distance=bits)).describe_shares()
    return {
        "distance": bits,
        "pairs": round(sample.sizes.get(bits, 0)),
        "labelled": sample.labelled[bits],
        "same_at": rounded(share),
        "same_at_interval": wilson(share, sample.labelled[bits]),
        **plain.describe_shares("plain_"),
        **confirmed,
    }


def describe_rule(sample: Sample, rule: Rule) -> dict[str, Any]:
    """Return the figures of a rule."""
    counted = sample.tally_rule(rule)
    return {
        "distance": rule.distance,
        "confirm": rule.confirm,
        **counted.describe_shares(),
        "wrong_pairs": round(counted.wrong, 1),
    }


class Recommendation(NamedTuple):
    """The recommended rule, or at least how many more labels of drops are needed."""

    rule: Rule | None
    missing: int
    why: str


def recommend(sample: Sample, in_force: Rule, reach_bits: int) -> Recommendation:
    """Choose the rule that finds most duplicates while practically all of its drops are right."""
    # Of equally good rules it prefers the current one, then the smaller distance. The store's
    # tables are complete for `reach_bits`.
    if sum(sample.unseen.values()) > _MOST_UNSEEN * sum(sample.sizes.values()):
        return Recommendation(
            None, LEAST_LABELS, f"no labels yet for pairs at {_join(sample.unseen)}"
        )
    if thin := sample.find_thin(reach_bits):
        why = f"too few labels for the many pairs that the store has at {_join(thin)}"
        return Recommendation(None, sum(thin.values()), why)
    # Only the similarities that were tried: any other would be a guess.
    tallies = {
        rule: sample.tally_rule(rule)
        for bits in range(reach_bits + 1)
        for least in {None, *SIMILARITIES, in_force.confirm}
        for rule in (in_force._replace(distance=bits, confirm=least),)
    }
    good = [rule for rule in tallies if (tallies[rule].precision or 0.0) >= _LEAST_PRECISION]
    missing = {rule: _count_missing(tallies[rule]) for rule in good}
    if sure := [rule for rule in good if not missing[rule]]:

        def worth(rule: Rule) -> tuple[float, bool, int, float]:
            return tallies[rule].recall or 0.0, rule == in_force, -rule.distance, rule.confirm or 0

        return Recommendation(max(sure, key=worth), 0, "finds most of the duplicates")
    most = max(counted.matches for counted in tallies.values())
    if good or most < LEAST_LABELS:
        least = min(missing.values()) if good else LEAST_LABELS - most
        return Recommendation(None, least, "too few labels for pairs that would be dropped")
    return Recommendation(
        None,
        0,
        f"no setting is right in {_LEAST_PRECISION:.0%} of its drops; look at the wrong ones",
    )


def _join(distances: Iterable[int]) -> str:
    return f"{', '.join(map(str, sorted(distances)))} bits"


def _count_missing(counted: Tally) -> int:
    """Count how many more labels, as often right, would lift the interval far enough."""
    labels = counted.matches
    while (bounds := wilson(counted.precision, labels)) and bounds[0] < _LEAST_SURE_PRECISION:
        labels += 1
    return labels - counted.matches


def advise(
    known: Survey, judged: Sequence[Judged], in_force: Rule, reach_bits: int
) -> dict[str, Any]:
    """Compute the figures of labelled pairs, and recommend a rule."""
    sample = Sample(judged, known.sizes)
    advised = recommend(sample, in_force, reach_bits)
    counts = Counter(_NAMES[each.pair.label] for each in judged)
    return {
        "documents": known.documents,
        "pairs": round(sum(known.sizes.values())),
        "share_looked_at": round(known.share, 4),
        "labels": {name: counts[name] for name in _NAMES.values()},
        "pairs_at_unseen_distances": round(sum(sample.unseen.values())),
        "in_force": describe_rule(sample, in_force),
        "by_distance": [describe_distance(sample, in_force, bits) for bits in _DISTANCES_SHOWN],
        "recommended": advised.rule and describe_rule(sample, advised.rule),
        "missing_labels": advised.missing,
        "why": advised.why,
    }
