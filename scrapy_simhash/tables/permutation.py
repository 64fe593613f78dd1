"""Table designs: which bits lead each permuted, sorted table (paper, section 3.1).

Fingerprints that differ in at most k of 64 bits, cut into m > k blocks, agree in at least m - k
of the blocks. For each choice of m - k blocks, a *permutation* moves them to the front; in the
sorted table of permuted fingerprints, those that agree in these blocks stand side by side.
A 12-bit example with m = 3 blocks of 4 bits, k = 1, table "B C first"::

    fingerprint   A=0101 B=1100 C=0011        a neighbour with one bit changed in A
    permuted      1100 0011 0101              1100 0011 0111   <- the same leading 8 bits
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.simhash import FINGERPRINT_BITS
from scrapy_simhash.tables.completeness import covered_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALL_BITS = 2**FINGERPRINT_BITS - 1
FINGERPRINT_BYTES = FINGERPRINT_BITS // 8
# With up to 2**32 documents, a four-byte key would have about one fingerprint, and the keys would
# take more space than the fingerprints.
MOST_KEY_BYTES = 3
# numpy works on 256 kB at a time, which stay in the cache of a core.
_VALUES_PER_PASS = 32_768


@dataclass(frozen=True, slots=True)
class BitBlock:
    """A run of `width` bits of the fingerprint; its lowest is bit `shift`."""

    shift: int
    width: int


@dataclass(frozen=True)
class Table:
    """One permutation: all blocks of the fingerprint, most significant first."""

    blocks: tuple[BitBlock, ...]
    prefix_bits: int  # width of the leading blocks, the paper's p

    @cached_property
    def prefix(self) -> int:
        """Mask of the fingerprint's bits that lead the permuted one."""
        return self.restore(_ALL_BITS >> self.prefix_bits ^ _ALL_BITS)

    @cached_property
    def _moves(self) -> tuple[tuple[int, int, int], ...]:
        """(source shift, mask, target shift) for each run of blocks that stay together."""
        runs: list[BitBlock] = []
        for block in self.blocks:
            if runs and runs[-1].shift == block.shift + block.width:
                runs[-1] = BitBlock(block.shift, runs[-1].width + block.width)
            else:
                runs.append(block)
        moves: list[tuple[int, int, int]] = []
        target = FINGERPRINT_BITS
        for run in runs:
            target -= run.width
            moves.append((run.shift, 2**run.width - 1, target))
        return tuple(moves)

    @cached_property
    def _moves_back(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((target, mask, source) for source, mask, target in self._moves)

    def permute(self, fingerprint: int) -> int:
        """Move the leading blocks of a fingerprint to the front."""
        return _move(fingerprint, self._moves)

    def restore(self, permuted: int) -> int:
        """Undo `permute`."""
        return _move(permuted, self._moves_back)

    def permute_array(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Permute many fingerprints at once; shape (n,) in, shape (n,) out."""
        return _move_array(fingerprints, self._moves)

    def restore_array(self, permuted: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Undo `permute_array`."""
        return _move_array(permuted, self._moves_back)


def _move(value: int, moves: tuple[tuple[int, int, int], ...]) -> int:
    moved = 0
    for source, mask, target in moves:
        moved |= (value >> source & mask) << target
    return moved


def _move_array(
    values: NDArray[np.uint64], moves: tuple[tuple[int, int, int], ...]
) -> NDArray[np.uint64]:
    masks: dict[int, int] = {}  # the bits that move equally far to the left
    for source, mask, target in moves:
        masks[target - source] = masks.get(target - source, 0) | mask << source
    moved = np.zeros_like(values)
    for start in range(0, values.size, _VALUES_PER_PASS):
        some = values[start : start + _VALUES_PER_PASS]
        for left, mask in masks.items():
            bits = some & np.uint64(mask)
            if left > 0:
                bits <<= np.uint64(left)
            elif left < 0:
                bits >>= np.uint64(-left)
            moved[start : start + _VALUES_PER_PASS] |= bits
    return moved


@dataclass(frozen=True)
class Design:
    """A set of tables, and how they are probed.

    Attributes:
        name: as in the settings, in a store's header and in logs (`designs.parse_design`).
        tables: the permutations.
        most_flips: the most bits of a table's prefix that a probe may flip, in all combinations
            (multi-index hashing: Norouzi, Punjani, Fleet, CVPR 2012); 0 is the paper's own probe.
    """

    name: str
    tables: tuple[Table, ...]
    most_flips: int

    def covered_bits(self, radii: tuple[int, ...]) -> int:
        """Find the largest k within which no pair is missed; see `completeness.covered_bits`.

        `radii` gives, for each table, the most bits that a probe flips; -1 for a table that is
        skipped. Returns bits, -1 if all tables are skipped.
        """
        return covered_bits(self._prefixes, radii)

    def widen(self, radii: tuple[int, ...], flips: int, distance: int) -> tuple[int, ...]:
        """Flip one more bit in as few tables as possible, to make up for skipped buckets.

        `radii` gives, for each table, the most flipped bits with which no bucket was skipped,
        mostly `flips`. Returns the radii to probe instead, which may still not cover the distance.
        Cost: one call of `covered_bits` for each table.
        """
        wider = list(radii)
        for number, radius in enumerate(radii):
            if self.covered_bits(tuple(wider)) >= distance:
                break
            if radius == flips:
                wider[number] += 1
        return tuple(wider)

    @cached_property
    def _prefixes(self) -> tuple[int, ...]:
        return tuple(table.prefix for table in self.tables)

    @cached_property
    def _reaches(self) -> tuple[int, ...]:
        """The k that the tables are complete for, for each number of flipped bits."""
        count = len(self.tables)
        return tuple(self.covered_bits((flips,) * count) for flips in range(self.most_flips + 1))

    @property
    def distance_bits(self) -> int:
        """The largest k for which probes without flipped bits miss nothing."""
        return self._reaches[0]

    @property
    def reach_bits(self) -> int:
        """The largest k for which probes with up to `most_flips` flipped bits miss nothing."""
        return self._reaches[-1]

    def flips_for(self, distance: int) -> int:
        """Return how many bits of each prefix a probe must flip to find all within a distance.

        Raises:
            ValueError: the design is not complete at this distance.
        """
        for flips, reach_bits in enumerate(self._reaches):
            if 0 <= distance <= reach_bits:
                return flips
        raise ValueError(
            f"distance {distance}: table design {self.name} is complete for 0 to "
            f"{self.reach_bits} bits"
        )

    @property
    def prefix_bits(self) -> int:
        """Width of the narrowest prefix, which determines how many candidates a probe reads."""
        return min(table.prefix_bits for table in self.tables)

    @cached_property
    def key_bytes(self) -> int:
        """Number of leading whole bytes that make up a table's key in a store, 1 to 3."""
        return min(self.prefix_bits // 8, MOST_KEY_BYTES)


def check_fingerprint(fingerprint: int) -> int:
    """Return a fingerprint unchanged; `ValueError` unless it is a whole number below 2**64."""
    if not isinstance(fingerprint, int) or not 0 <= fingerprint <= _ALL_BITS:
        raise ValueError(
            f"a fingerprint is a whole number from 0 to 2**64 - 1, got {fingerprint!r}"
        )
    return fingerprint


def sort_distinct(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort fingerprints and leave out repeated ones; shape (n,) in, (n,) or shorter out."""
    # `np.unique` of numpy 2.3 and later hashes first, which takes much longer than a sort.
    ordered = np.sort(fingerprints)
    kept = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered if kept.all() else ordered[kept]


def contains(ordered: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return True for each value among sorted ones; `np.isin` would hash or sort all of these."""
    if not ordered.size:
        return np.zeros(wanted.size, np.bool_)
    at = np.minimum(np.searchsorted(ordered, wanted), ordered.size - 1)
    found: NDArray[np.bool_] = ordered[at] == wanted
    return found
