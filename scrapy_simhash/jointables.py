"""Tables for joins: how many blocks pay, and which table reports a pair.

A join goes through all fingerprints anyway, so unlike a store it may take as many tables as
make it fast, and it can cut those bits again that a crowd of fingerprints does not have in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.designs import block_widths, lay_blocks
from scrapy_simhash.permutation import Block, Table
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALL_BITS = 2**FINGERPRINT_BITS - 1
# Values that numpy works on at a time: 256 kB, so that they stay in the cache of a core.
CHUNK = 32_768
# Nanoseconds on one core of an Intel Xeon at 2.5 GHz with numpy 2.4: of a table whatever its
# size, of a table per fingerprint (permute, sort, compare with the next one), and of each further
# comparison. Measured by hand: they need only be right enough to choose a number of blocks, and
# bench_pairs compares that number with others.
_TABLE_NS, _FINGERPRINT_NS, _COMPARISON_NS = 150_000, 35, 20
# Beyond, making the tables takes longer than joining what fits into memory.
_MOST_TABLES = 20_000


@dataclass(frozen=True)
class JoinTable:
    """A table, and which of the pairs with a common prefix it reports.

    A pair within k bits agrees in m - k blocks at least, often in more, and so shares the prefixes
    of several tables. The one that leads with the first m - k blocks in which it agrees reports
    it: for this table, every block that it passed over differs.

    Attributes:
        table: the permutation; it leads with what all fingerprints have in common, then with
            m - k blocks.
        passed_over: masks of the other blocks that stand above the last of these m - k.
    """

    table: Table
    passed_over: tuple[np.uint64, ...]

    @cached_property
    def suffix(self) -> np.uint64:
        """The largest XOR of two permuted fingerprints with one prefix."""
        return np.uint64(_ALL_BITS >> self.table.prefix_bits)

    def is_first(self, differing: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Say which pairs this table reports.

        Args:
            differing: XOR of the fingerprints of each pair, not permuted, shape (pairs,); their
                prefixes agree in this table.
        """
        first = np.ones(differing.shape, np.bool_)
        for block in self.passed_over:
            first &= differing & block != 0
        return first

    def may_report(self, varying: NDArray[np.uint64]) -> bool:
        """Say whether this table reports any pair of a crowd with one prefix.

        It does not where all agree in a block that was passed over: another table has them then.

        Args:
            varying: the bits in which not all are equal, permuted, shape (1,).
        """
        return bool(self.is_first(self.table.restore_array(varying))[0])


def check_join(distance: int, blocks: int | None) -> None:
    """Refuse a join that would not be complete.

    Args:
        distance: bits.
        blocks: as the user gave it, or None.

    Raises:
        ValueError: the distance is not 0 to 63, or the blocks are not more than it, up to 64.
    """
    if not 0 <= distance < FINGERPRINT_BITS:
        raise ValueError(f"distance {distance}: must be 0 to {FINGERPRINT_BITS - 1} bits")
    if blocks is None:
        return
    if not distance < blocks <= FINGERPRINT_BITS:
        raise ValueError(
            f"{blocks} blocks: pairs within {distance} bits are found by {distance + 1} to "
            f"{FINGERPRINT_BITS} blocks only, because each differing bit may spoil one of them"
        )
    if math.comb(blocks, distance) > _MOST_TABLES:
        raise ValueError(
            f"{blocks} blocks for {distance} bits are {math.comb(blocks, distance):,} tables; "
            f"take blocks with at most {_MOST_TABLES:,}"
        )


def choose_join_blocks(count: int, distance: int, bits: int = FINGERPRINT_BITS) -> int:
    """Pick the number of blocks that makes the quickest self-join.

    More blocks are more tables with wider prefixes: more sorting, fewer comparisons. The rule is
    the least of tables * (150 us + count * 35 ns + comparisons * 20 ns), where a table has
    count**2 / 2 / 2**prefix comparisons, as fingerprints drawn evenly have.

    >>> choose_join_blocks(10_000_000, 3)
    5

    Args:
        count: fingerprints to be joined.
        distance: bits.
        bits: that are to be cut, 1 to 64.

    Returns:
        More than `distance`, up to `bits`; 0 if comparing each with each is quicker.
    """

    def cost(blocks: int) -> float:
        tables = math.comb(blocks, distance) if blocks else 1
        prefix = sum(block_widths(blocks, bits)[distance:]) if blocks else 0
        comparisons = count * count / 2 / float(1 << prefix)
        return tables * (_TABLE_NS + count * _FINGERPRINT_NS + comparisons * _COMPARISON_NS)

    possible = [m for m in range(distance + 1, bits + 1) if math.comb(m, distance) <= _MOST_TABLES]
    return min([0, *possible], key=cost)


def make_join_tables(
    blocks: int, distance: int, bits: int = FINGERPRINT_BITS
) -> tuple[JoinTable, ...]:
    """Make one table for each choice of `blocks - distance` leading blocks.

    Args:
        blocks: into which the bits are cut; 0 for one table under whose prefix all stand.
        distance: bits, less than the blocks.
        bits: only the lowest so many are cut; those above all fingerprints have in common.
    """
    cut = lay_blocks(block_widths(blocks or 1, bits), bits)
    shared = (Block(bits, FINGERPRINT_BITS - bits),) if bits < FINGERPRINT_BITS else ()
    tables = []
    for leading in combinations(cut, max(0, blocks - distance)):
        others = [block for block in cut if block not in leading]
        prefix_bits = sum(block.width for block in (*shared, *leading))
        passed_over = [block for block in others if leading and block.shift > leading[-1].shift]
        tables.append(
            JoinTable(
                Table((*shared, *leading, *others), prefix_bits),
                tuple(np.uint64((2**block.width - 1) << block.shift) for block in passed_over),
            )
        )
    return tuple(tables)


def sort_distinct(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort fingerprints and leave out repeated ones; shape (n,) in, at most that out.

    `np.unique` of numpy 2.3 and later hashes first, which takes much longer than a sort.
    """
    ordered = np.sort(fingerprints)
    kept = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered if kept.all() else ordered[kept]


def sort_rows(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort rows by their first two columns, and leave out repeated ones.

    >>> sort_rows(np.array([[3, 1], [1, 3], [3, 1]], np.uint64)).tolist()
    [[1, 3], [3, 1]]

    Args:
        rows: shape (n, 2) or more columns; the others follow from the first two.

    Returns:
        At most n rows. Cost: two sorts, of which one is stable; `np.lexsort` makes two stable
        ones and takes longer.
    """
    order = np.argsort(rows[:, 1])
    rows = rows[order[np.argsort(rows[order, 0], kind="stable")]]
    kept = np.ones(len(rows), np.bool_)
    kept[1:] = (rows[1:, :2] != rows[:-1, :2]).any(axis=1)
    return rows if kept.all() else rows[kept]


def contains(ordered: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Say which values are among sorted ones; `np.isin` would hash or sort all of these first."""
    if not ordered.size:
        return np.zeros(wanted.size, np.bool_)
    at = np.minimum(np.searchsorted(ordered, wanted), ordered.size - 1)
    found: NDArray[np.bool_] = ordered[at] == wanted
    return found
