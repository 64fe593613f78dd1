"""Which pairs of a store are shown to be labelled, and in which order.

A *cell* is all pairs at one exact distance whose sketches are about equally alike. Within a cell
pairs come in random order, so the labelled ones stand for all of it, however many labels a cell
has got; what is telling is decided among cells, never among the pairs of one. So estimates can be
weighted back (`estimates`), whichever plan the labels came from.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

Cell: TypeAlias = tuple[int, int]
Key = TypeVar("Key", int, Cell)
# Where bands of similarity begin; the default SIMHASH_CONFIRM stands in the middle of one.
BANDS = (0.65, 0.75, 0.85, 0.95)
_BAND_MIDDLES = (0.6, 0.7, 0.8, 0.9, 1.0)
_BAND_WIDTH = 0.1
# A pair beyond k by so many bits is as far from the decision's edge as one whose similarity is a
# band away.
_BITS_OF_A_BAND = 2
# More than anybody labels. The standard error of a cell's share in its distance is 1.6 % at most.
_MOST_AT_A_DISTANCE = 1_000


class Pool(NamedTuple):
    """Pairs drawn from a population, at random within each distance.

    Attributes:
        documents: numbers in the store, the older one first; shape (n, 2), in random order.
        distances: bits between their nearest fingerprints; shape (n,).
        stand_for: how many pairs of the population each stands for; shape (n,).
    """

    documents: NDArray[np.int64]
    distances: NDArray[np.int64]
    stand_for: NDArray[np.float64]


def draw_pool(
    documents: NDArray[np.int64], distances: NDArray[np.int64], share: float, seed: int
) -> Pool:
    """Draw at most a thousand pairs at each distance.

    Args:
        documents: the population, in an order that does not change; shape (n, 2).
        distances: bits; shape (n,).
        share: of all pairs, that the population is a random sample of; above 0, at most 1.
        seed: of the draw; the same pairs come in the same order with the same one.
    """
    order = np.random.default_rng(seed).permutation(len(documents))
    chosen, stand_for = [], []
    for bits in np.unique(distances).tolist():
        there = order[distances[order] == bits]
        taken = there[:_MOST_AT_A_DISTANCE]
        chosen.append(taken)
        stand_for.append(np.full(taken.size, there.size / taken.size / share))
    if not chosen:
        return Pool(documents, distances, np.zeros(0))
    places = np.concatenate(chosen)
    return Pool(documents[places], distances[places], np.concatenate(stand_for))


def cell_of(distance: int, similarity: float) -> Cell:
    """Name the cell of a pair: its distance in bits, and its band of similarity."""
    return distance, sum(similarity >= least for least in BANDS)


def measure_cells(cells: Sequence[Cell], stand_for: Iterable[float]) -> dict[Cell, float]:
    """Estimate how many pairs of the population are in each cell."""
    sizes: dict[Cell, float] = {}
    for cell, pairs in zip(cells, stand_for, strict=True):
        sizes[cell] = sizes.get(cell, 0.0) + pairs
    return sizes


def order_by_distance(cells: Sequence[Cell], labelled: Iterable[Cell]) -> list[int]:
    """Order pairs so that each exact distance gets equally many labels, as in the paper (4.1).

    Args:
        cells: of the pairs that have no label, in random order.
        labelled: cells of those that have one.

    Returns:
        Their places, the one to be shown first at first.
    """
    return _order([bits for bits, _ in cells], [bits for bits, _ in labelled], lambda _: 1.0, float)


def order_by_tellingness(
    cells: Sequence[Cell],
    labelled: Iterable[Cell],
    sizes: Mapping[Cell, float],
    distance: int,
    confirm: float | None,
) -> list[int]:
    """Order pairs by what their labels tell about the decision.

    Cells at its edge come first and get most labels. One with a large share of all pairs gets more,
    too, wherever it is: otherwise few labels would stand for most of the store.

    Args:
        cells: of the pairs that have no label, in random order.
        labelled: cells of those that have one.
        sizes: pairs of the population in each cell.
        distance: k of the settings in force, bits.
        confirm: SIMHASH_CONFIRM of the settings in force; None for plain simhash.

    Returns:
        Their places, the most telling one first.
    """
    total = sum(sizes.values()) or 1.0

    def margin(cell: Cell) -> float:
        return measure_margin(cell, distance, confirm)

    def rate(cell: Cell) -> float:
        return 1 / (1 + margin(cell)) + math.sqrt(sizes.get(cell, 0.0) / total)

    return _order(cells, labelled, rate, margin)


def measure_margin(cell: Cell, distance: int, confirm: float | None) -> float:
    """Measure how far a cell is from the decision's edge: 0 at it, 1 a band of similarity away.

    Args:
        cell: the one to look at.
        distance: k, bits.
        confirm: similarity that a match must reach; None if the distance alone decides.
    """
    bits, band = cell
    beyond = (bits - distance - 0.5) / _BITS_OF_A_BAND
    if confirm is None:
        return abs(beyond)
    unlike = (confirm - _BAND_MIDDLES[band]) / _BAND_WIDTH
    # A match is as sure as the nearer edge is far; what is no match would have to cross both.
    if beyond < 0 and unlike <= 0:
        return min(-beyond, -unlike)
    return max(beyond, unlike, 0.0)


def _order(
    keys: Sequence[Key],
    labelled: Iterable[Key],
    rate: Callable[[Key], float],
    first: Callable[[Key], float],
) -> list[int]:
    """Take turns: a key with twice the rate comes twice as often; labels there are count as turns.

    Args:
        keys: of each pair.
        labelled: of the pairs that have had their turn.
        rate: how often a key comes, above 0.
        first: of keys whose turn it is, the one with the least comes first.
    """
    turns = Counter(labelled)
    places = []
    for place, key in enumerate(keys):
        turns[key] += 1
        places.append((turns[key] / rate(key), first(key), place))
    return [place for _, _, place in sorted(places)]
