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
from typing import TYPE_CHECKING, TypeVar

from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FINGERPRINT_BYTES = FINGERPRINT_BITS // 8
# With up to 2**32 documents, a four-byte key would have about one fingerprint, and the keys would
# take more space than the fingerprints.
MOST_KEY_BYTES = 3
# One, or an array of shape (n,).
AnyFingerprints = TypeVar("AnyFingerprints", int, "NDArray[np.uint64]")
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

    def permute(self, fingerprints: AnyFingerprints) -> AnyFingerprints:
        """Move the leading blocks of a fingerprint to the front, or of all in an array."""
        return _move(fingerprints, self._moves)

    def restore(self, permuted: AnyFingerprints) -> AnyFingerprints:
        """Undo `permute`."""
        return _move(permuted, self._moves_back)


def _move(values: AnyFingerprints, moves: tuple[tuple[int, int, int], ...]) -> AnyFingerprints:
    if isinstance(values, int) or values.size <= _VALUES_PER_PASS:
        moved = values ^ values
        for source, mask, target in moves:
            moved |= (values >> source & mask) << target
        return moved
    whole = values.copy()
    for start in range(0, values.size, _VALUES_PER_PASS):
        part = whole[start : start + _VALUES_PER_PASS]
        part[:] = _move(part, moves)
    return whole


@dataclass(frozen=True)
class Design:
    """A set of tables, and how they are probed.

    Attributes:
        name: as in the settings, in a store's header and in logs (`designs.parse_design`).
        tables: the permutations.
        reaches: the distances in bits that the tables are complete for, where a probe flips up to
            0, 1, ... bits of each table's prefix, in all combinations (multi-index hashing:
            Norouzi, Punjani, Fleet, CVPR 2012); flipping none is the paper's own probe.
    """

    name: str
    tables: tuple[Table, ...]
    reaches: tuple[int, ...]

    def rows(self, fingerprint: int) -> bytes:
        """Make the rows of a fingerprint side by side: the table's number, what it permutes to."""
        return b"".join(
            bytes((number,)) + table.permute(fingerprint).to_bytes(FINGERPRINT_BYTES)
            for number, table in enumerate(self.tables)
        )

    @property
    def reach_bits(self) -> int:
        """The largest distance for which probes miss nothing."""
        return self.reaches[-1]

    def flips_for(self, distance: int) -> int:
        """Return how many bits of each prefix a probe must flip to find all within a distance.

        Raises:
            ValueError: the design is not complete at this distance.
        """
        for flips, reach_bits in enumerate(self.reaches):
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
