"""Cells: a self-join cut into tasks of bounded size, for machines that do not see all of it.

In each table the fingerprints are cut into ranges of their permuted values, never within a prefix:
what lies in one range, a *cell*, can be joined by itself. Where more have one prefix than a cell
may hold, that crowd is cut by tables of its own, made of the bits that are left, and these by
others again: as `selfjoin` does within one machine. Where to cut is decided on a sample; how well
decides how even the cells are, never what is found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.jointables import (
    JoinTable,
    choose_join_blocks,
    make_join_tables,
    sort_distinct,
)
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_LARGEST = 2**FINGERPRINT_BITS - 1
_CROWD = -1
# Each time a crowd is cut its fingerprints are sent once for each of the inner tables. What is a
# crowd still after so many tables is one cluster, whose pairs are what costs.
_MOST_NESTED = 4


@dataclass(frozen=True)
class Cut:
    """How one table is cut into parts.

    Attributes:
        table: the permutation.
        starts: the least permuted value of each part, ascending, the first one 0; shape (parts,).
        cells: the number of the cell that each part is; -1 where it is a crowd.
        crowds: how these are cut, by the number of the part.
    """

    table: JoinTable
    starts: NDArray[np.uint64]
    cells: tuple[int, ...]
    crowds: dict[int, tuple[Cut, ...]]

    def scatter(self, values: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Cut fingerprints.

        Args:
            values: some of the fingerprints, in any order; of a crowd, as its table permuted them.

        Yields:
            Number of a cell, and what lies in it, as `selfjoin.join_cell` takes it once all parts
            of the cell are put together and sorted.
        """
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
    """All cells of a join.

    Attributes:
        cuts: one for each table.
        paths: of each cell, the tables that lead to it.
    """

    cuts: tuple[Cut, ...] = ()
    paths: list[tuple[JoinTable, ...]] = field(default_factory=list)

    def scatter(self, values: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Cut fingerprints by all tables, see `Cut.scatter`."""
        for cut in self.cuts:
            yield from cut.scatter(values)


def plan_cells(
    sample: NDArray[np.uint64], rate: float, distance: int, blocks: int, most: int
) -> CellPlan:
    """Decide on a sample where to cut.

    Args:
        sample: some of the fingerprints, shape (n,).
        rate: their share of all, above 0 up to 1.
        distance: bits.
        blocks: into which the 64 bits are cut, more than `distance`.
        most: fingerprints that a cell should have at most. It has about as many more as the sample
            is off: with 512 of them in the sample, one cell in a thousand is 14 % larger.

    Returns:
        The cells. Cost: sorting the sample for each table, and a few searches for each cell.
    """
    plan = CellPlan()
    planner = _Planner(plan, rate, distance, max(1, int(most * rate)))
    plan.cuts = tuple(planner.cut(sample, (table,)) for table in make_join_tables(blocks, distance))
    return plan


@dataclass(frozen=True)
class _Planner:
    """Cuts tables.

    Attributes:
        plan: gets the cells.
        rate: share of the sample.
        distance: bits.
        most: of the sample, in a cell.
    """

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
        """Cut a crowd by tables of the bits that it does not have in common; () where none pay."""
        bits = FINGERPRINT_BITS - path[-1].table.prefix_bits
        blocks = choose_join_blocks(int(crowd.size / self.rate), self.distance, bits)
        if not blocks or len(path) == _MOST_NESTED:
            return ()
        tables = make_join_tables(blocks, self.distance, bits)
        return tuple(self.cut(crowd, (*path, table)) for table in tables)


class _Parts:
    """The parts of one cut, as they are made in ascending order."""

    def __init__(self, planner: _Planner, path: tuple[JoinTable, ...]) -> None:
        self._planner = planner
        self._path = path
        self._starts: list[int] = []
        self._cells: list[int] = []
        self._crowds: dict[int, tuple[Cut, ...]] = {}
        self._next = 0

    def add_cell(self, end: int) -> None:
        """Make a cell of what lies below `end` and in no part yet."""
        if end > self._next:
            self._starts.append(self._next)
            self._cells.append(len(self._planner.plan.paths))
            self._planner.plan.paths.append(self._path)
            self._next = end

    def add_crowd(self, prefix: int, crowd: NDArray[np.uint64]) -> None:
        """Make a part of exactly one prefix."""
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
