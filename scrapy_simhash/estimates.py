"""What labels of some pairs say of all pairs of a store: precision and recall, weighted back.

Labels are not spread over the pairs as these are over the store: equally many at each distance, or
most of them at the decision's edge. Each label therefore stands for as many pairs as there are in
its cell (`sampling`) for each label there (Horvitz and Thompson, JASA 1952, with cells as
post-strata). Intervals are Wilson's with the effective number of labels, (sum w)^2 / sum w^2 (Kish,
Survey Sampling, 1965), so one label that stands for much makes them wide.

Recall is relative to the duplicates among the pairs within 10 bits: nobody has seen the others.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.quality import (
    LEAST_PRECISION,
    MOST_DISTANCE_SHOWN,
    NORMAL_95,
    SIMILARITIES,
    rounded,
    wilson,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_simhash.quality import Judged
    from scrapy_simhash.sampling import Cell

# A setting is recommended when its interval is above this: enough labels, and nearly all right.
LEAST_SURE_PRECISION = 0.95
# So many labels of drops, all of them right, put Wilson's interval there: n / (n + z^2) = .95.
LEAST_LABELS = math.ceil(LEAST_SURE_PRECISION / (1 - LEAST_SURE_PRECISION) * NORMAL_95**2)
# Of the pairs, that may be at distances without any label.
_MOST_UNSEEN = 0.05


class Weighed(NamedTuple):
    """A labelled pair and how many pairs of the store it stands for."""

    judged: Judged
    weight: float

    @property
    def is_same(self) -> bool:
        """Say whether people called it a duplicate."""
        return self.judged.pair.label == "dup"


class Setting(NamedTuple):
    """A value of SIMHASH_DISTANCE and one of SIMHASH_CONFIRM."""

    distance: int
    confirm: float | None

    def drops(self, judged: Judged) -> bool:
        """Say whether a page of a pair would be dropped for the other one.

        Args:
            judged: its similarity was compared with `confirm`, see `Judged.confirmed_at`.
        """
        if self.confirm is None:
            return judged.plain_distance <= self.distance
        return judged.distance <= self.distance and judged.confirmed_at[self.confirm]


class Estimate(NamedTuple):
    """A share of the pairs of a store.

    Attributes:
        share: None where no label says anything.
        interval: 95 %.
        effective: number of labels that would say as much if all stood for equally many pairs.
    """

    share: float | None
    interval: list[float] | None
    effective: float


def weigh(
    cells: Sequence[Cell], sizes: Mapping[Cell, float]
) -> tuple[list[float], dict[int, float]]:
    """Let the pairs of each cell be stood for by its labels.

    Where a cell has no label, those of the nearest band at the same distance stand for it.

    Args:
        cells: of each labelled pair.
        sizes: pairs of the store in each cell.

    Returns:
        The weight of each label, and how many pairs there are at the distances without any.
    """
    labels = Counter(cells)
    stood_for = dict.fromkeys(labels, 0.0)
    unseen: dict[int, float] = {}
    for cell, pairs in sizes.items():
        bits, band = cell
        there = [labelled for labelled in labels if labelled[0] == bits]
        if there:
            nearest = min(there, key=lambda other: (abs(other[1] - band), other[1]))
            stood_for[nearest] += pairs
        else:
            unseen[bits] = unseen.get(bits, 0.0) + pairs
    return [stood_for[cell] / labels[cell] for cell in cells], unseen


def estimate(pairs: Iterable[tuple[float, bool]]) -> Estimate:
    """Estimate a share of weighted pairs.

    Args:
        pairs: weight, and whether it is counted.
    """
    listed = [(weight, hit) for weight, hit in pairs if weight > 0]
    if not listed:
        return Estimate(None, None, 0.0)
    total = math.fsum(weight for weight, _ in listed)
    share = math.fsum(weight for weight, hit in listed if hit) / total
    effective = total**2 / math.fsum(weight**2 for weight, _ in listed)
    return Estimate(share, wilson(share * effective, effective), effective)


def estimate_precision(labels: Sequence[Weighed], drops: Callable[[Judged], bool]) -> Estimate:
    """Estimate which share of the drops is right."""
    return estimate((each.weight, each.is_same) for each in labels if drops(each.judged))


def estimate_recall(labels: Sequence[Weighed], drops: Callable[[Judged], bool]) -> Estimate:
    """Estimate which share of the duplicates within 10 bits is dropped."""
    return estimate((each.weight, drops(each.judged)) for each in labels if each.is_same)


def describe_distances(
    labels: Sequence[Weighed], sizes: Mapping[Cell, float], confirm: float | None
) -> list[dict[str, Any]]:
    """Give the figures at and within each distance.

    Args:
        labels: those that are `dup` or `distinct`.
        sizes: pairs of the store in each cell.
        confirm: SIMHASH_CONFIRM in force; None leaves out the figures with confirmation.
    """
    return [
        _describe_distance(labels, sizes, confirm, bits) for bits in range(MOST_DISTANCE_SHOWN + 1)
    ]


def _describe_distance(
    labels: Sequence[Weighed], sizes: Mapping[Cell, float], confirm: float | None, bits: int
) -> dict[str, Any]:
    at = [each for each in labels if each.judged.distance == bits]
    setting = Setting(bits, confirm)
    return {
        "distance": bits,
        "pairs": round(sum(pairs for cell, pairs in sizes.items() if cell[0] == bits)),
        "labelled": len(at),
        **_name("same_at", estimate((each.weight, each.is_same) for each in at)),
        **_describe_rule("plain_", labels, lambda judged: judged.distance <= bits),
        **(_describe_rule("", labels, setting.drops) if confirm is not None else {}),
    }


def _describe_rule(
    prefix: str, labels: Sequence[Weighed], drops: Callable[[Judged], bool]
) -> dict[str, Any]:
    return {
        **_name(f"{prefix}precision", estimate_precision(labels, drops)),
        **_name(f"{prefix}recall", estimate_recall(labels, drops)),
    }


def _name(name: str, estimated: Estimate) -> dict[str, Any]:
    return {name: rounded(estimated.share), f"{name}_interval": estimated.interval}


def describe_setting(labels: Sequence[Weighed], setting: Setting) -> dict[str, Any]:
    """Give the figures of a setting."""
    return {
        "distance": setting.distance,
        "confirm": setting.confirm,
        **_describe_rule("", labels, setting.drops),
        "wrong_pairs": round(
            math.fsum(
                each.weight for each in labels if setting.drops(each.judged) and not each.is_same
            ),
            1,
        ),
    }


class Recommendation(NamedTuple):
    """What the labels speak for.

    Attributes:
        setting: None where there are too few.
        missing: how many labels of drops there should be more, at least.
        why: for people.
    """

    setting: Setting | None
    missing: int
    why: str


def recommend(
    labels: Sequence[Weighed], unseen: Mapping[int, float], in_force: Setting, reach_bits: int
) -> Recommendation:
    """Choose the setting that finds most duplicates while practically all of its drops are right.

    Practically all: 99 % by the estimate, and its interval above 95 %. Of equals the one in force
    stays, else the smaller distance is taken.

    Args:
        labels: those that are `dup` or `distinct`.
        unseen: pairs at distances without labels.
        in_force: the present setting.
        reach_bits: largest distance that the store's tables are complete for.
    """
    total = math.fsum(each.weight for each in labels) + sum(unseen.values())
    if sum(unseen.values()) > _MOST_UNSEEN * total:
        bits = ", ".join(map(str, sorted(unseen)))
        return Recommendation(None, LEAST_LABELS, f"no label yet of pairs at {bits} bits")
    # On the grid only: a similarity that was tried on no pair is a guess.
    grid = {
        Setting(bits, least)
        for bits in range(reach_bits + 1)
        for least in {None, *SIMILARITIES, in_force.confirm}
    }
    precision = {setting: estimate_precision(labels, setting.drops) for setting in grid}
    good = [setting for setting in grid if (precision[setting].share or 0.0) >= LEAST_PRECISION]
    sure = [
        setting
        for setting in good
        if (interval := precision[setting].interval) and interval[0] >= LEAST_SURE_PRECISION
    ]
    if sure:
        return Recommendation(_find_most(sure, labels, in_force), 0, "finds most of the duplicates")
    if good:
        missing = min(_count_missing(precision[setting]) for setting in good)
        return Recommendation(None, missing, "too few labels of pairs that would be dropped")
    most = max(estimated.effective for estimated in precision.values())
    if most < LEAST_LABELS:
        missing = math.ceil(LEAST_LABELS - most)
        return Recommendation(None, missing, "too few labels of pairs that would be dropped")
    return Recommendation(
        None,
        0,
        f"no setting is right in {LEAST_PRECISION:.0%} of its drops; look at the wrong ones",
    )


def _count_missing(estimated: Estimate) -> int:
    """Count how many more labels, right as often, would put the interval where it has to be."""
    share, labels = estimated.share or 0.0, math.ceil(estimated.effective)
    while (interval := wilson(share * labels, labels)) and interval[0] < LEAST_SURE_PRECISION:
        labels += 1
    return max(1, math.ceil(labels - estimated.effective))


def _find_most(
    settings: Iterable[Setting], labels: Sequence[Weighed], in_force: Setting
) -> Setting:
    def worth(setting: Setting) -> tuple[float, bool, int, float]:
        recall = estimate_recall(labels, setting.drops).share or 0.0
        strict = 0.0 if setting.confirm is None else setting.confirm
        return recall, setting == in_force, -setting.distance, strict

    return max(settings, key=worth)
