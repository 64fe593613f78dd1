"""Table designs: which bits lead each permuted, sorted table (paper, section 3.1).

Fingerprints that differ in at most k of 64 bits, cut into m > k blocks, agree in at least m - k
of the blocks. For each choice of m - k blocks a *permutation* moves these to the front; in the
table of the permuted fingerprints, sorted, everything that agrees in them stands side by side.
A 12-bit example with m = 3 blocks of 4 bits, k = 1, table "B C first"::

    fingerprint   A=0101 B=1100 C=0011        a neighbour with one bit changed in A
    permuted      1100 0011 0101              1100 0011 0111   <- the same leading 8 bits
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.completeness import covered_bits
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALL_BITS = 2**FINGERPRINT_BITS - 1
FINGERPRINT_BYTES = FINGERPRINT_BITS // 8
# Of a row: a table's number, then its permuted fingerprint.
ROW_BYTES = 1 + FINGERPRINT_BYTES
# Up to 2**32 documents a four-byte key would hold one fingerprint each, and the keys would cost
# more than the fingerprints.
MOST_KEY_BYTES = 3
# numpy works on so many at a time, 256 kB: they stay in the cache of a core.
_VALUES_PER_PASS = 32_768


@dataclass(frozen=True, slots=True)
class Block:
    """A run of bits of the fingerprint: `width` bits, the lowest of them at bit `shift`."""

    shift: int
    width: int


@dataclass(frozen=True)
class Table:
    """One permutation: the blocks in their new order, most significant first.

    Attributes:
        blocks: all blocks of the fingerprint, in permuted order; their widths sum to 64.
        prefix_bits: width of the leading blocks, the paper's p.
    """

    blocks: tuple[Block, ...]
    prefix_bits: int

    @cached_property
    def prefix(self) -> int:
        """The bits of the fingerprint that lead the permuted one, as a mask."""
        return self.restore(_ALL_BITS >> self.prefix_bits ^ _ALL_BITS)

    @cached_property
    def _moves(self) -> tuple[tuple[int, int, int], ...]:
        """(source shift, mask, target shift) of each run of blocks that stay together."""
        runs: list[Block] = []
        for block in self.blocks:
            if runs and runs[-1].shift == block.shift + block.width:
                runs[-1] = Block(block.shift, runs[-1].width + block.width)
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
        permuted = 0
        for source, mask, target in self._moves:
            permuted |= (fingerprint >> source & mask) << target
        return permuted

    def restore(self, permuted: int) -> int:
        """Undo `permute`."""
        fingerprint = 0
        for target, mask, source in self._moves_back:
            fingerprint |= (permuted >> target & mask) << source
        return fingerprint

    def permute_array(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Permute many fingerprints at once; shape (n,) in, shape (n,) out."""
        return _move_array(fingerprints, self._moves)

    def restore_array(self, permuted: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Undo `permute_array`."""
        return _move_array(permuted, self._moves_back)


def _move_array(
    values: NDArray[np.uint64], moves: tuple[tuple[int, int, int], ...]
) -> NDArray[np.uint64]:
    masks: dict[int, int] = {}  # of the bits that move equally far to the left
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
        name: how a setting, a store's header and a log name it (`designs.parse_design`).
        tables: the permutations.
        most_flips: with so many bits of its prefix flipped, one after the other and in all
            combinations, a table may be probed (multi-index hashing: Norouzi, Punjani, Fleet,
            CVPR 2012); 0 is the paper's own probe.
    """

    name: str
    tables: tuple[Table, ...]
    most_flips: int

    def covered_bits(self, radii: tuple[int, ...]) -> int:
        """Find the largest k within which no pair is missed.

        Args:
            radii: of each table, up to how many flipped bits it is probed with; -1 for a table
                that is passed over.

        Returns:
            k in bits, -1 if all tables are passed over. Cost: `completeness.covered_bits`.
        """
        return covered_bits(self._prefixes, radii)

    def widen(self, radii: tuple[int, ...], flips: int, distance: int) -> tuple[int, ...]:
        """Choose tables to probe with one more bit flipped: as few as make up for the others.

        Args:
            radii: of each table, up to how many flipped bits nothing of it was passed over.
            flips: what they would be if nothing had been.
            distance: bits within which nothing should be missed.

        Returns:
            The radii, some one larger; they may still not cover the distance. Cost: a call of
            `covered_bits` for each table.
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
        """The k that the tables are complete for, by the flipped bits."""
        count = len(self.tables)
        return tuple(self.covered_bits((flips,) * count) for flips in range(self.most_flips + 1))

    @property
    def distance_bits(self) -> int:
        """The largest k for which a probe of every table misses nothing, no bit flipped."""
        return self._reaches[0]

    @property
    def reach_bits(self) -> int:
        """The largest k for which nothing is missed with up to `most_flips` bits flipped."""
        return self._reaches[-1]

    def flips_for(self, distance: int) -> int:
        """Say how many bits of each prefix must be flipped to miss nothing.

        Raises:
            ValueError: the design is not complete for so many bits.
        """
        for flips, reach_bits in enumerate(self._reaches):
            if 0 <= distance <= reach_bits:
                return flips
        raise ValueError(
            f"distance {distance}: table design {self.name} is complete for 0 to "
            f"{self.reach_bits} bits"
        )

    @cached_property
    def _spread(self) -> tuple[tuple[int, int, int], ...]:
        """(source shift, mask, multiplier) of each block that occurs in the tables.

        The multiplier has one bit a table: where the block's lowest bit stands in its row.
        """
        multipliers: dict[Block, int] = {}
        target = 8 * ROW_BYTES * len(self.tables)
        for table in self.tables:
            target -= 8  # its number
            for block in table.blocks:
                target -= block.width
                multipliers[block] = multipliers.get(block, 0) | 1 << target
        return tuple(
            (block.shift, 2**block.width - 1, multiplier)
            for block, multiplier in multipliers.items()
        )

    @cached_property
    def _numbers(self) -> int:
        """The rows of fingerprint 0, as one number: the table numbers alone."""
        row = bytes(FINGERPRINT_BYTES)
        return int.from_bytes(b"".join([bytes((i,)) + row for i in range(len(self.tables))]), "big")

    def rows(self, fingerprint: int) -> bytes:
        """Permute a fingerprint for all tables at once: one multiplication puts a block into all.

        Returns:
            A row of 9 bytes for each table: its number, then the permuted fingerprint, big-endian.
        """
        rows = self._numbers
        for source, mask, multiplier in self._spread:
            rows += (fingerprint >> source & mask) * multiplier
        return rows.to_bytes(ROW_BYTES * len(self.tables), "big")

    @property
    def prefix_bits(self) -> int:
        """Width of the narrowest prefix, which decides how many candidates a probe reads."""
        return min(table.prefix_bits for table in self.tables)

    @property
    def key_bytes(self) -> int:
        """Leading whole bytes that are a table's key in a store, 1 to 3."""
        return min(self.prefix_bits // 8, MOST_KEY_BYTES)


def check_fingerprint(fingerprint: int) -> int:
    """Return a fingerprint unchanged if it is one.

    Raises:
        ValueError: not a whole number from 0 to 2**64 - 1.
    """
    if not isinstance(fingerprint, int) or not 0 <= fingerprint <= _ALL_BITS:
        raise ValueError(
            f"a fingerprint is a whole number from 0 to 2**64 - 1, got {fingerprint!r}"
        )
    return fingerprint
