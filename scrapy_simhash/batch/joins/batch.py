"""Many queries against many stored fingerprints at once (paper, section 3.3).

The tables hold the queries, in memory; the stored fingerprints are read once, in chunks, in any
order. A bitmap for each table records which prefixes the queries have; few stored fingerprints
share one with any query.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.batch.joins.tables import (
    CHUNK,
    JoinTable,
    check_join,
    choose_join_blocks,
    make_join_tables,
    sort_rows,
)
from scrapy_simhash.pages.facts import FINGERPRINT_BITS
from scrapy_simhash.pages.features import sort_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

# The map has 32 bits for each query, so 3 % of the prefixes that no query has pass it. With a
# million queries it takes 4 MB and still fits in the cache.
_MAP_BITS_BEYOND_QUERIES, _MOST_MAP_BITS = 5, 25
# Stored fingerprints that a core handles at a time.
_VALUES_PER_TASK = 4 * CHUNK
# Comparisons made at a time; each takes three times 8 bytes.
_COMPARISONS = 1 << 20
# Beyond this number of comparisons within one prefix (10 ms), other tables may be quicker.
_CROWD = 1 << 20


def batch_query(
    queries: NDArray[np.uint64],
    chunks: Iterable[NDArray[np.uint64]],
    distance: int,
    blocks: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> NDArray[np.uint64]:
    """Find all stored fingerprints within a distance of any query.

    >>> batch_query(np.array([5], np.uint64), [np.array([4, 5], np.uint64)], 1).tolist()
    [[5, 4, 1], [5, 5, 0]]

    Args:
        queries: in any order, shape (q,); repeated ones count once.
        chunks: the stored fingerprints, in any number of arrays of any size, read once; arrays of
            100,000 or more keep all cores busy. Repeated fingerprints count once.
        distance: bits, 0 to 63.
        blocks: number of blocks into which to cut the 64 bits, more than `distance`, up to 64;
            None for the number that is fastest for these queries.
        progress: called after each chunk with the number of stored fingerprints done.

    Returns:
        Shape (matches, 3): query, stored fingerprint, and how many bits they differ in; one row
        for each distinct pair, in ascending order.

    Raises:
        ValueError: the distance or the number of blocks is out of range.

    Cost: all stored fingerprints are permuted once for each of the C(blocks, distance) tables.
    Memory: for each table 8 bytes a query and up to 4 MB; a chunk; and 80 bytes a match. A cluster
    has as many matches as the product of its queries and fingerprints: time and memory grow alike.
    """
    check_join(distance, blocks)
    distinct = sort_distinct(queries)
    if not distinct.size:
        return np.empty((0, 3), np.uint64)
    if blocks is None:
        # A stored fingerprint shares its prefix with as many queries as another query does.
        blocks = choose_join_blocks(distinct.size, distance) or distance + 1
    tables = [_QueryTable(table, distinct) for table in make_join_tables(blocks, distance)]
    found, done = [np.empty((0, 3), np.uint64)], 0

    def match(values: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
        return [rows for table in tables for rows in table.match(values, distance)]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for chunk in chunks:
            tasks = [
                chunk[start : start + _VALUES_PER_TASK]
                for start in range(0, chunk.size, _VALUES_PER_TASK)
            ]
            for rows in pool.map(match, tasks):
                found.extend(rows)
            if progress is not None:
                progress(done := done + chunk.size)
    # Sorted by query, then fingerprint; several chunks may have found the same pair.
    return sort_rows(np.concatenate(found))


class _QueryTable:
    """One table of distinct queries, which may have `shared_bits` leading bits in common."""

    def __init__(self, table: JoinTable, queries: NDArray[np.uint64], shared_bits: int = 0) -> None:
        self._table = table
        self._queries = table.table.permute(queries)
        self._queries.sort()
        self._shared_bits = np.uint64(shared_bits)
        bits = min(
            table.table.prefix_bits - shared_bits,
            queries.size.bit_length() + _MAP_BITS_BEYOND_QUERIES,
            _MOST_MAP_BITS,
        )
        self._map_shift = np.uint64(FINGERPRINT_BITS - bits)
        has_query = np.zeros(1 << bits, np.bool_)
        has_query[self._look_up(self._queries)] = True
        self._map = np.packbits(has_query, bitorder="little")

    def _look_up(self, permuted: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Find the positions of the prefixes in the map."""
        if self._shared_bits:
            permuted = permuted << self._shared_bits
        return permuted >> self._map_shift

    def match(self, values: NDArray[np.uint64], distance: int) -> Iterator[NDArray[np.uint64]]:
        """Find the pairs of a query and a value that this table reports, in rows of three."""
        suffix = self._table.suffix
        candidates = sort_distinct(self._filter(values))
        starts = np.searchsorted(self._queries, candidates & ~suffix)
        nearest = self._queries[np.minimum(starts, self._queries.size - 1)]
        met = np.flatnonzero(nearest ^ candidates <= suffix)
        candidates, starts = candidates[met], starts[met]
        counts = np.searchsorted(self._queries, candidates | suffix, "right") - starts
        few = np.ones(candidates.size, np.bool_)
        for first, end in _find_crowds(starts, counts):
            queries = self._queries[starts[first] : starts[first] + counts[first]]
            crowd = self._match_crowd(queries, candidates[first:end], distance)
            if crowd is not None:
                few[first:end] = False
                yield from crowd
        yield from self._compare(candidates[few], starts[few], counts[few], distance)

    def _match_crowd(
        self, queries: NDArray[np.uint64], values: NDArray[np.uint64], distance: int
    ) -> Iterator[NDArray[np.uint64]] | None:
        """Match queries and values with one prefix, or return None if comparing all is faster."""
        both = np.concatenate([queries, values])
        if not self._table.may_report(np.bitwise_or.reduce(both ^ both[0], keepdims=True)):
            return iter(())
        prefix_bits = self._table.table.prefix_bits
        bits = FINGERPRINT_BITS - prefix_bits
        # Chosen as for a self-join of both together.
        blocks = choose_join_blocks(queries.size + values.size, distance, bits)
        if not blocks:
            return None
        return (
            self._restore(rows)
            # Not kept: the tables of all crowds together could fill the memory.
            for table in make_join_tables(blocks, distance, bits)
            for rows in _QueryTable(table, queries, prefix_bits).match(values, distance)
        )

    def _compare(
        self,
        candidates: NDArray[np.uint64],
        starts: NDArray[np.int64],
        counts: NDArray[np.int64],
        distance: int,
    ) -> Iterator[NDArray[np.uint64]]:
        """Compare each candidate with all queries that have its prefix."""
        ends = np.cumsum(counts)
        cuts = np.flatnonzero(np.diff(ends // _COMPARISONS)) + 1
        for part in np.split(np.arange(candidates.size), cuts):
            total = counts[part].sum()
            before = ends[part] - counts[part]  # comparisons of earlier candidates
            places = np.repeat(starts[part] - before, counts[part])
            places += np.arange(before[0], before[0] + total) if total else 0
            values_of = np.repeat(candidates[part], counts[part])
            queries_of = self._queries[places]
            bits = np.bitwise_count(queries_of ^ values_of)
            near = np.flatnonzero(bits <= distance)
            columns = (queries_of[near], values_of[near], bits[near].astype(np.uint64))
            yield self._restore(np.stack(columns, axis=1))

    def _filter(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Permute values, and leave out those whose prefix no query has."""
        kept = [np.empty(0, np.uint64)]
        for start in range(0, values.size, CHUNK):
            permuted = self._table.table.permute(values[start : start + CHUNK])
            prefixes = self._look_up(permuted)
            octets = self._map[(prefixes >> np.uint64(3)).view(np.int64)]
            bits = octets >> (prefixes & np.uint64(7)).astype(np.uint8)
            kept.append(permuted[(bits & np.uint8(1)).view(np.bool_)])
        return np.concatenate(kept)

    def _restore(self, rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Keep the permuted rows that this table reports, and restore them."""
        restore = self._table.table.restore
        rows = rows[self._table.is_first(restore(rows[:, 0] ^ rows[:, 1]))]
        rows[:, 0] = restore(rows[:, 0])
        rows[:, 1] = restore(rows[:, 1])
        return rows


def _find_crowds(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Find runs of candidates whose prefix very many queries share; yields (first, end)."""
    if not starts.size:
        return
    firsts = np.append(0, np.flatnonzero(np.diff(starts)) + 1)
    ends = np.append(firsts[1:], starts.size)
    crowds = np.flatnonzero((ends - firsts) * counts[firsts] > _CROWD)
    yield from zip(firsts[crowds].tolist(), ends[crowds].tolist(), strict=True)
