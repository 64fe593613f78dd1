"""Table designs: which bits lead each permuted, sorted table (paper, section 3.1).

Fingerprints that differ in at most k of 64 bits, cut into m > k blocks, agree in at least m - k
of the blocks. For each choice of m - k blocks a *permutation* moves these to the front; in the
table of the permuted fingerprints, sorted, everything that agrees in them stands side by side.
A 12-bit example with m = 3 blocks of 4 bits, k = 1, table "B C first"::

    fingerprint   A=0101 B=1100 C=0011        a neighbour with one bit changed in A
    permuted      1100 0011 0101              1100 0011 0111   <- the same leading 8 bits
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_ALL_BITS = 2**FINGERPRINT_BITS - 1
FINGERPRINT_BYTES = FINGERPRINT_BITS // 8
# Of a row: a table's number, then its permuted fingerprint.
ROW_BYTES = 1 + FINGERPRINT_BYTES
# numpy works on so many at a time, 256 kB: they stay in the cache of a core.
_VALUES_PER_PASS = 32_768
# A table's number is one byte of its keys in a store.
_MOST_TABLES = 255
# `auto` adds tables once a look-up would read more than this many fingerprints of one table, with
# four tables in a store of 67 million. Ten tables answer faster from about 200 on (13 million), but
# take six times the room and twice the time to write, so they wait until speed needs them.
_CANDIDATES_PER_TABLE = 1_024


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
    """A set of tables that together are complete within `distance_bits`.

    Attributes:
        name: how a setting, a store's header and a log name it: "4", "10", "16", "20" or "m:k".
        distance_bits: the largest k for which a probe of every table misses nothing.
        reach_bits: the largest k when each table is probed with any one bit of its prefix flipped
            as well (multi-index hashing: Norouzi, Punjani, Fleet, CVPR 2012).
        tables: the permutations.
    """

    name: str
    distance_bits: int
    reach_bits: int
    tables: tuple[Table, ...]

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
        """Leading whole bytes that are a table's key in a store, 1 to 3.

        At most three: up to 2**32 documents a four-byte key would hold one fingerprint each, and
        the keys would cost more than the fingerprints.
        """
        return min(self.prefix_bits // 8, 3)


def block_widths(count: int) -> tuple[int, ...]:
    """Cut 64 bits into blocks as equal as possible, wider ones first.

    >>> block_widths(6)
    (11, 11, 11, 11, 10, 10)
    """
    width, wider = divmod(FINGERPRINT_BITS, count)
    return (width + 1,) * wider + (width,) * (count - wider)


def _blocks(widths: Sequence[int], top: int) -> tuple[Block, ...]:
    """Lay blocks of these widths side by side, the first one ending below bit `top`."""
    blocks = []
    for width in widths:
        top -= width
        blocks.append(Block(top, width))
    return tuple(blocks)


def _table(leading: Sequence[Block], others: Sequence[Block]) -> Table:
    return Table((*leading, *others), sum(block.width for block in leading))


def choose_blocks(blocks: int, distance_bits: int) -> tuple[Table, ...]:
    """Make one table for each choice of `blocks - distance_bits` leading blocks."""
    cut = _blocks(block_widths(blocks), FINGERPRINT_BITS)
    return tuple(
        _table(leading, [block for block in cut if block not in leading])
        for leading in combinations(cut, blocks - distance_bits)
    )


def _nested_sixteen() -> tuple[Table, ...]:
    """Make the 16 tables of Example 3.1: one of 4 blocks of 16 bits, then one of 4 of 12 bits.

    Three differing bits leave one of the four blocks of 16 alone; they also leave alone one of
    the four blocks into which the other 48 bits are cut.
    """
    tables = []
    outer = _blocks((16,) * 4, FINGERPRINT_BITS)
    for first in outer:
        rest = [block for block in outer if block is not first]
        # The 48 remaining bits are cut in fingerprint order; a block of 12 may straddle the gap.
        bits = [bit for block in rest for bit in _descending(block)]
        inner = [_runs(bits[start : start + 12]) for start in range(0, 48, 12)]
        for second in inner:
            others = [run for runs in inner if runs is not second for run in runs]
            tables.append(_table([first, *second], others))
    return tuple(tables)


def _descending(block: Block) -> range:
    return range(block.shift + block.width - 1, block.shift - 1, -1)


def _runs(bits: Sequence[int]) -> list[Block]:
    """Group bit numbers, given in descending order, into blocks of neighbours."""
    runs: list[Block] = []
    for bit in bits:
        if runs and runs[-1].shift == bit + 1:
            runs[-1] = Block(bit, runs[-1].width + 1)
        else:
            runs.append(Block(bit, 1))
    return runs


def parse_design(name: str | int) -> Design:
    """Read a design: 4, 10, 16 or 20 (Example 3.1, k = 3), or blocks and distance as "m:k".

    Raises:
        ValueError: no such design; says which there are.
    """
    paper = {"4": (4, 3), "10": (5, 3), "20": (6, 3)}
    text = str(name)
    if text == "16":
        # Of 4 differing bits, one block of 16 has at most one, and if it has one, the other three
        # leave one of the four blocks of 12 alone. Of 5, each may find a second.
        return Design(text, 3, 4, _nested_sixteen())
    try:
        blocks, distance_bits = paper.get(text) or map(int, text.split(":"))
    except ValueError:
        raise ValueError(
            f"{name!r} is no table design; take auto, 4, 10, 16, 20 or blocks and distance "
            "as 'm:k', for instance '6:3'"
        ) from None
    if not 0 <= distance_bits < blocks <= FINGERPRINT_BITS:
        raise ValueError(
            f"table design {name!r}: needs 0 <= distance < blocks <= {FINGERPRINT_BITS}"
        )
    count = math.comb(blocks, distance_bits)
    if count > _MOST_TABLES:
        raise ValueError(f"table design {name!r} has {count:,} tables; at most {_MOST_TABLES}")
    reach_bits = _reach(blocks, blocks - distance_bits)
    design = Design(text, distance_bits, reach_bits, choose_blocks(blocks, distance_bits))
    if not design.key_bytes:
        raise ValueError(
            f"table design {name!r} leads with {design.prefix_bits} bits only; "
            "at least 8 are needed: take fewer blocks"
        )
    return design


def _reach(blocks: int, leading: int) -> int:
    """Find the largest k for which some choice of leading blocks has at most one differing bit.

    At worst the bits are spread evenly, so that even the blocks with fewest have many.
    """
    distance_bits = 0
    while True:
        each, left = divmod(distance_bits + 1, blocks)
        if leading * each + max(0, left - (blocks - leading)) > 1:
            return distance_bits
        distance_bits += 1


def choose_design(documents: int, distance: int = 3) -> Design:
    """Pick the design with the fewest tables for a store of this size.

    Args:
        documents: fingerprints the store is to hold.
        distance: bits within which it must be complete.

    Returns:
        The first of 4 and 10 tables whose keys leave at most 1,024 fingerprints each on average;
        16 and 20 tables have keys of the same width here, so `auto` never prefers them.
    """
    four, ten = parse_design(4), parse_design(10)
    few = documents <= _CANDIDATES_PER_TABLE << 8 * four.key_bytes
    return four if few or distance > ten.reach_bits else ten


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
