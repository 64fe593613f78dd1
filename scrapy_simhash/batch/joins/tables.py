"""Tables for joins: choose the number of blocks, and decide which table reports a pair.

A join reads all fingerprints anyway, so unlike a store it can use as many tables as make it
fastest, and for a crowd it can make tables of the bits in which its fingerprints differ.

*Cells* cut a self-join into tasks of bounded size, which machines can work on separately. Each
table is cut into ranges of permuted values, never within a prefix, so the fingerprints of one
range, a cell, can be joined on their own. If more fingerprints share a prefix than a cell may hold,
this crowd is cut with tables of its own, made of the other bits, and so on. A sample decides where
to cut; its quality affects how even the cells are, never which pairs are found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.pages.facts import FINGERPRINT_BITS
from scrapy_simhash.pages.features import sort_distinct
from scrapy_simhash.tables import BitBlock, Table, block_widths, lay_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_ALL_BITS = 2**FINGERPRINT_BITS - 1
# Values that numpy works on at a time: 256 kB, so that they fit in the cache of a core.
CHUNK = 32_768
# Nanoseconds on one core of an Intel Xeon at 2.5 GHz with numpy 2.4: for a table of any size, for
# each fingerprint in a table (permute, sort, compare with the next one), and for each further
# comparison. Measured by hand: they need only be precise enough to choose the number of blocks,
# which bench_batch compares with others.
_TABLE_NS, _FINGERPRINT_NS, _COMPARISON_NS = 150_000, 35, 20
# Making more tables would take longer than joining all fingerprints that fit into memory.
_MOST_TABLES = 20_000
# Stands in place of the number of a cell.
_CROWD = -1
# Each time a crowd is cut, its fingerprints are sent once for each of the inner tables. A group
# that is still crowded after this number of cuts is one cluster; its cost is its number of pairs.
_MOST_NESTED = 4


@dataclass(frozen=True)
class JoinTable:
    """A table, and which pairs with a common prefix it reports."""

    # A pair within k bits agrees in at least m - k blocks, often in more, and so shares the
    # prefixes of several tables. Only the table that leads with the first m - k blocks in which the
    # pair agrees reports it: there, the pair differs in every block that was passed over.

    table: Table  # leads with the bits that all fingerprints share, then with m - k blocks
    passed_over: tuple[np.uint64, ...]  # other blocks above the last of these m - k, as masks

    @cached_property
    def suffix(self) -> np.uint64:
        """The largest XOR of two permuted fingerprints with the same prefix."""
        return np.uint64(_ALL_BITS >> self.table.prefix_bits)

    @cached_property
    def unreported(self) -> np.uint64 | None:
        """The largest XOR of two that agree in the next block, too, if that was passed over."""
        # `make_join_tables` lays the first such block right after the prefix. Another table leads
        # with it, and reports these pairs.
        if not self.passed_over:
            return None
        return np.uint64(int(self.suffix) >> int(self.passed_over[0]).bit_count())

    def is_first(self, differing: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Mark the pairs that this table reports, given their XORs; the prefixes must agree."""
        first = np.ones(differing.shape, np.bool_)
        for block in self.passed_over:
            first &= differing & block != 0
        return first

    def may_report(self, varying: NDArray[np.uint64]) -> bool:
        """Return True if this table reports any pair of a crowd with one prefix."""
        # If all agree in a block that was passed over, another table reports their pairs.
        return bool(self.is_first(self.table.restore(varying))[0])


def check_join(distance: int, blocks: int | None) -> None:
    """Reject a distance or number of blocks (None for any) for which no join is complete."""
    if not 0 <= distance < FINGERPRINT_BITS:
        raise ValueError(f"distance {distance}: must be 0 to {FINGERPRINT_BITS - 1} bits")
    if blocks is None:
        return
    if not distance < blocks <= FINGERPRINT_BITS:
        raise ValueError(
            f"{blocks} blocks: finding all pairs within {distance} bits takes {distance + 1} to "
            f"{FINGERPRINT_BITS} blocks, because each differing bit may be in another one"
        )
    if math.comb(blocks, distance) > _MOST_TABLES:
        raise ValueError(
            f"{blocks} blocks for {distance} bits need {math.comb(blocks, distance):,} tables; "
            f"take a number of blocks that needs at most {_MOST_TABLES:,}"
        )


def choose_join_blocks(count: int, distance: int, bits: int = FINGERPRINT_BITS) -> int:
    """Pick the number of blocks with which a self-join of `count` fingerprints is fastest.

    More blocks make more tables with wider prefixes: more sorting, fewer comparisons. The choice
    minimizes tables * (150 us + count * 35 ns + comparisons * 20 ns), where a table takes
    count**2 / 2 / 2**prefix comparisons, as for evenly spread fingerprints. 0 means to compare
    each with each.

    >>> choose_join_blocks(10_000_000, 3)
    5
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
    """Make one table for each choice of `blocks - distance` leading blocks of the lowest bits."""
    # The fingerprints share all higher bits. 0 blocks make one table with only those as prefix.
    cut = lay_blocks(block_widths(blocks or 1, bits), bits)
    shared = (BitBlock(bits, FINGERPRINT_BITS - bits),) if bits < FINGERPRINT_BITS else ()
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


def sort_rows(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort rows by their first two columns, and leave out repeated ones.

    >>> sort_rows(np.array([[3, 1], [1, 3], [3, 1]], np.uint64)).tolist()
    [[1, 3], [3, 1]]

    The first two columns determine the others. Two sorts, one of them stable, are faster than the
    two stable ones of `np.lexsort`.
    """
    order = np.argsort(rows[:, 1])
    rows = rows[order[np.argsort(rows[order, 0], kind="stable")]]
    kept = np.ones(len(rows), np.bool_)
    kept[1:] = (rows[1:, :2] != rows[:-1, :2]).any(axis=1)
    return rows if kept.all() else rows[kept]


@dataclass
class Cut:
    """How one table is cut into parts, in ascending order."""

    table: JoinTable
    starts: list[int] = field(default_factory=list)  # least permuted value of each part, first 0
    cells: list[int] = field(default_factory=list)  # of each part; -1 for a crowd
    crowds: dict[int, list[Cut]] = field(default_factory=dict)  # how the crowd of a part is cut

    def scatter(self, values: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Distribute fingerprints, in any order, to their cells."""
        # Those of a crowd come permuted by its table. Yields the number of a cell and fingerprints
        # in it. `selfjoin.join_cell` takes all fingerprints of a cell, concatenated and sorted.
        permuted = self.table.table.permute(values)
        permuted.sort()
        starts = np.array(self.starts[1:], np.uint64)
        ends = [*np.searchsorted(permuted, starts).tolist(), permuted.size]
        start = 0
        for part, (cell, end) in enumerate(zip(self.cells, ends, strict=True)):
            if start < end and cell == _CROWD:
                for inner in self.crowds[part]:
                    yield from inner.scatter(permuted[start:end])
            elif start < end:
                yield cell, permuted[start:end]
            start = end


@dataclass
class CellPlan:
    """Cells of a join, cut so that each has at most `most` members of a sample."""

    distance: int
    rate: float  # share of all fingerprints that is in the sample
    most: int
    cuts: list[Cut] = field(default_factory=list)  # one for each table
    paths: list[tuple[JoinTable, ...]] = field(default_factory=list)  # tables leading to each cell

    def cut(self, sample: NDArray[np.uint64], path: tuple[JoinTable, ...]) -> Cut:
        """Cut the last table of a path; the sample is permuted by those before it."""
        made, suffix = Cut(path[-1]), path[-1].suffix
        permuted = sort_distinct(path[-1].table.permute(sample))
        prefixes = permuted & ~suffix
        borders = np.append(np.flatnonzero(prefixes[1:] != prefixes[:-1]) + 1, permuted.size)
        begin = after = 0  # in the sample; and the least value that is in no part yet

        def add_cell(end: int) -> int:
            if end > after:
                made.starts.append(after)
                made.cells.append(len(self.paths))
                self.paths.append(path)
            return max(end, after)

        while permuted.size - begin > self.most:
            fitting = int(np.searchsorted(borders, begin + self.most, "right")) - 1
            end = int(borders[fitting]) if fitting >= 0 else 0
            if end > begin:
                after = add_cell(int(prefixes[end]))
            else:
                end = int(borders[np.searchsorted(borders, begin, "right")])
                prefix = int(prefixes[begin])
                after = add_cell(prefix)
                if crowd := self._cut_crowd(permuted[begin:end], path):
                    made.crowds[len(made.starts)] = crowd
                    made.starts.append(prefix)
                    made.cells.append(_CROWD)
                    after = (prefix | int(suffix)) + 1
                else:
                    after = add_cell((prefix | int(suffix)) + 1)
            begin = end
        add_cell(_ALL_BITS + 1)
        return made

    def _cut_crowd(self, crowd: NDArray[np.uint64], path: tuple[JoinTable, ...]) -> list[Cut]:
        """Cut a crowd with tables of the bits in which it differs; [] if that does not pay."""
        bits = FINGERPRINT_BITS - path[-1].table.prefix_bits
        blocks = choose_join_blocks(int(crowd.size / self.rate), self.distance, bits)
        if not blocks or len(path) == _MOST_NESTED:
            return []
        tables = make_join_tables(blocks, self.distance, bits)
        return [self.cut(crowd, (*path, table)) for table in tables]


def plan_cells(
    sample: NDArray[np.uint64], rate: float, distance: int, blocks: int, most: int
) -> CellPlan:
    """Decide where to cut, from a sample with the share `rate` of all fingerprints."""
    # A cell should have at most `most` fingerprints. Sampling errors make some larger: with 512
    # sampled fingerprints a cell, one in a thousand is 14 % larger. Cost: sorting the sample for
    # each table, and a few searches for each cell.
    plan = CellPlan(distance, rate, max(1, int(most * rate)))
    plan.cuts = [plan.cut(sample, (table,)) for table in make_join_tables(blocks, distance)]
    return plan
