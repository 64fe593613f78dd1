"""Cut a self-join into tasks of bounded size, *cells*, which machines can work on separately.

Each table is cut into ranges of permuted values, never within a prefix, so the fingerprints of one
range, a cell, can be joined on their own. If more fingerprints share a prefix than a cell may hold,
this crowd is cut with tables of its own, made of the other bits, and so on. A sample decides where
to cut; its quality affects how even the cells are, never which pairs are found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.batch.joins.tables import JoinTable, choose_join_blocks, make_join_tables
from scrapy_simhash.simhash import FINGERPRINT_BITS
from scrapy_simhash.tables.permutation import sort_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_LARGEST = 2**FINGERPRINT_BITS - 1
_CROWD = -1
# Each time a crowd is cut, its fingerprints are sent once for each of the inner tables. A group
# that is still crowded after this number of cuts is one cluster; its cost is its number of pairs.
_MOST_NESTED = 4


@dataclass(frozen=True)
class Cut:
    """How one table is cut into parts."""

    table: JoinTable
    starts: NDArray[np.uint64]  # least permuted value of each part, ascending, the first one 0
    cells: tuple[int, ...]  # for each part, the number of its cell; -1 for a crowd
    crowds: dict[int, tuple[Cut, ...]]  # how each crowd is cut, by the number of its part

    def scatter(self, values: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Distribute fingerprints, in any order, to their cells."""
        # Those of a crowd come permuted by its table. Yields the number of a cell and fingerprints
        # in it. `selfjoin.join_cell` takes all fingerprints of a cell, concatenated and sorted.
        permuted = self.table.table.permute_array(values)
        permuted.sort()
        ends = [*np.searchsorted(permuted, self.starts[1:]).tolist(), permuted.size]
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
    """All cells of a join."""

    cuts: tuple[Cut, ...] = ()  # one for each table
    paths: list[tuple[JoinTable, ...]] = field(default_factory=list)  # tables leading to each cell

    def scatter(self, values: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Distribute fingerprints to the cells of all tables, see `Cut.scatter`."""
        for cut in self.cuts:
            yield from cut.scatter(values)


def plan_cells(
    sample: NDArray[np.uint64], rate: float, distance: int, blocks: int, most: int
) -> CellPlan:
    """Decide where to cut, from a sample with the share `rate` of all fingerprints."""
    # A cell should have at most `most` fingerprints. Sampling errors make some larger: with 512
    # sampled fingerprints a cell, one in a thousand is 14 % larger. Cost: sorting the sample for
    # each table, and a few searches for each cell.
    plan = CellPlan()
    planner = _Planner(plan, rate, distance, max(1, int(most * rate)))
    plan.cuts = tuple(planner.cut(sample, (table,)) for table in make_join_tables(blocks, distance))
    return plan


@dataclass(frozen=True)
class _Planner:
    """Cuts tables for a plan; `most` is the number of sampled fingerprints in a cell."""

    plan: CellPlan
    rate: float
    distance: int
    most: int

    def cut(self, sample: NDArray[np.uint64], path: tuple[JoinTable, ...]) -> Cut:
        """Cut the last table of a path; the sample is permuted by those before it."""
        suffix = path[-1].suffix
        permuted = sort_distinct(path[-1].table.permute_array(sample))
        prefixes = permuted & ~suffix
        borders = np.append(np.flatnonzero(prefixes[1:] != prefixes[:-1]) + 1, permuted.size)
        parts = _Parts(self, path)
        begin = 0
        while permuted.size - begin > self.most:
            fitting = int(np.searchsorted(borders, begin + self.most, "right")) - 1
            end = int(borders[fitting]) if fitting >= 0 else 0
            if end > begin:
                parts.add_cell(int(prefixes[end]))
            else:
                end = int(borders[np.searchsorted(borders, begin, "right")])
                parts.add_crowd(int(prefixes[begin]), permuted[begin:end])
            begin = end
        return parts.finish()

    def cut_crowd(self, crowd: NDArray[np.uint64], path: tuple[JoinTable, ...]) -> tuple[Cut, ...]:
        """Cut a crowd with tables of the bits in which it differs; () if that does not pay."""
        bits = FINGERPRINT_BITS - path[-1].table.prefix_bits
        blocks = choose_join_blocks(int(crowd.size / self.rate), self.distance, bits)
        if not blocks or len(path) == _MOST_NESTED:
            return ()
        tables = make_join_tables(blocks, self.distance, bits)
        return tuple(self.cut(crowd, (*path, table)) for table in tables)


class _Parts:
    """Builds the parts of one cut, in ascending order."""

    def __init__(self, planner: _Planner, path: tuple[JoinTable, ...]) -> None:
        self._planner = planner
        self._path = path
        self._starts: list[int] = []
        self._cells: list[int] = []
        self._crowds: dict[int, tuple[Cut, ...]] = {}
        self._next = 0

    def add_cell(self, end: int) -> None:
        """Make a cell of the fingerprints below `end` that are in no part yet."""
        if end > self._next:
            self._starts.append(self._next)
            self._cells.append(len(self._planner.plan.paths))
            self._planner.plan.paths.append(self._path)
            self._next = end

    def add_crowd(self, prefix: int, crowd: NDArray[np.uint64]) -> None:
        """Make a part of all fingerprints with one prefix."""
        after = (prefix | int(self._path[-1].suffix)) + 1
        self.add_cell(prefix)
        cuts = self._planner.cut_crowd(crowd, self._path)
        if not cuts:
            self.add_cell(after)
            return
        self._crowds[len(self._starts)] = cuts
        self._starts.append(prefix)
        self._cells.append(_CROWD)
        self._next = after

    def finish(self) -> Cut:
        """Make a cell of the rest."""
        self.add_cell(_LARGEST + 1)
        starts = np.array(self._starts, np.uint64)
        return Cut(self._path[-1], starts, tuple(self._cells), self._crowds)
