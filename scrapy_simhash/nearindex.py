"""Fingerprints in memory, added and found one at a time.

All that will ever be asked is known before. So all pairs are joined at once, in a second for
200,000 fingerprints; only where crowds of them are near to each other, and pairs would fill the
memory, they are looked up in tables: four of 16 leading bits, as the paper's Example 3.1 has them,
where a probe flips as many bits of each prefix as the distance needs (multi-index hashing: Norouzi,
Punjani, Fleet, CVPR 2012).
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scrapy_simhash.jointables import sort_distinct
from scrapy_simhash.selfjoin import find_all
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_BLOCKS = 4
_PREFIX_BITS = FINGERPRINT_BITS // _BLOCKS
_PREFIX = 2**_PREFIX_BITS - 1
_SHIFTS = tuple(range(0, FINGERPRINT_BITS, _PREFIX_BITS))
_MOST_FLIPS = 3
# Three flipped bits are 697 keys a table. Two pages that have nothing to do with each other are
# within so many bits once in 50,000 pairs.
MOST_BITS = _BLOCKS * (_MOST_FLIPS + 1) - 1
# Joining takes 80 bytes a pair.
MOST_PAIRS = 4_000_000
# Of a crowd that has a fiftieth of all, one of so many is a member, but for once in 170 times.
_SAMPLES = 256


class Index(Protocol):
    """A set of fingerprints that are found by what is near to them."""

    def add(self, fingerprint: int) -> None:
        """Add a fingerprint; harmless when it is there."""

    def find_near(self, fingerprint: int, distance: int) -> list[tuple[int, int]]:
        """List what is within a distance, nearest first, of equals the smallest first.

        Args:
            fingerprint: the query.
            distance: bits, not more than the index is made for.

        Returns:
            (distance, fingerprint) of each.
        """


def check_near_distance(distance: int) -> None:
    """Refuse a distance that is out of range.

    Raises:
        ValueError: names it and the range.
    """
    if not 0 <= distance <= MOST_BITS:
        raise ValueError(f"distance {distance}: must be 0 to {MOST_BITS} bits")


def make_index(fingerprints: NDArray[np.uint64], distance: int) -> Index:
    """Make an empty index for fingerprints that are known.

    >>> index = make_index(np.array([1, 5, 7], np.uint64), 1)
    >>> for each in (1, 7, 5): index.add(each)
    >>> index.find_near(5, 1)
    [(0, 5), (1, 1), (1, 7)]

    Args:
        fingerprints: all that will be added or asked for, shape (n,).
        distance: bits, 0 to 15.

    Raises:
        ValueError: the distance is out of range.
    """
    check_near_distance(distance)
    distinct = sort_distinct(fingerprints)
    if _expect_pairs(distinct, distance) > MOST_PAIRS:
        return TableIndex(distance)
    return PairIndex(distinct, distance)


def _expect_pairs(distinct: NDArray[np.uint64], distance: int) -> float:
    samples = distinct[:: max(1, distinct.size // _SAMPLES)]
    near = sum(np.count_nonzero(np.bitwise_count(distinct ^ one) <= distance) for one in samples)
    return float(near) / max(1, samples.size) * distinct.size / 2


class PairIndex:
    """Looks neighbours up in a list of all pairs; see `Index`.

    Args:
        distinct: all fingerprints that will be added or asked for, sorted.
        distance: bits.
    """

    def __init__(self, distinct: NDArray[np.uint64], distance: int) -> None:
        self._held: set[int] = set()
        pairs = find_all(distinct, distance)
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        first, starts = np.unique(pairs[:, 0], return_index=True)
        rows = pairwise([*starts.tolist(), len(pairs)])
        self._rows = dict(zip(first.tolist(), rows, strict=True))
        self._neighbours = pairs[:, 1]

    def add(self, fingerprint: int) -> None:
        """See `Index.add`."""
        self._held.add(fingerprint)

    def find_near(self, fingerprint: int, distance: int) -> list[tuple[int, int]]:
        """See `Index.find_near`."""
        start, end = self._rows.get(fingerprint, (0, 0))
        near = self._neighbours[start:end].tolist() if distance and end else []
        return _nearest([fingerprint, *near], self._held, fingerprint, distance)


class TableIndex:
    """Looks neighbours up in tables; see `Index`.

    Args:
        distance: bits, 0 to 15.

    Cost: a probe looks up 4 prefixes, from a distance of 4 on 68, from 8 on 548, from 12 on 2,788,
    and compares all fingerprints that share one, of random ones one in 65,536 each. A fingerprint
    takes 200 bytes.
    """

    def __init__(self, distance: int) -> None:
        # Of the bits by which two differ, one of four blocks has a quarter at most.
        self._masks = [
            sum(1 << bit for bit in bits)
            for flips in range(distance // _BLOCKS + 1)
            for bits in combinations(range(_PREFIX_BITS), flips)
        ]
        self._held: set[int] = set()
        self._tables: tuple[dict[int, list[int]], ...] = tuple({} for _ in _SHIFTS)

    def add(self, fingerprint: int) -> None:
        """See `Index.add`."""
        if fingerprint in self._held:
            return
        self._held.add(fingerprint)
        for table, shift in zip(self._tables, _SHIFTS, strict=True):
            table.setdefault(fingerprint >> shift & _PREFIX, []).append(fingerprint)

    def find_near(self, fingerprint: int, distance: int) -> list[tuple[int, int]]:
        """See `Index.find_near`."""
        near = {fingerprint}
        for table, shift in zip(self._tables, _SHIFTS, strict=True):
            prefix = fingerprint >> shift & _PREFIX
            near.update(*(table.get(prefix ^ mask, ()) for mask in self._masks))
        return _nearest(near, self._held, fingerprint, distance)


def _nearest(
    near: Iterable[int], held: set[int], fingerprint: int, distance: int
) -> list[tuple[int, int]]:
    found = [((each ^ fingerprint).bit_count(), each) for each in near if each in held]
    return sorted(each for each in found if each[0] <= distance)
