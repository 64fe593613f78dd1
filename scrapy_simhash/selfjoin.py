"""All pairs of fingerprints within a distance: a self-join over permuted, sorted tables.

In each table fingerprints with one prefix stand side by side (paper, section 3.1), so it is enough
to compare neighbours as long as their prefixes agree. Where very many share a prefix, as those of
one template do (section 4.2), they are joined by tables of their own, made of the bits that are
left.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scrapy_simhash.jointables import (
    CHUNK,
    JoinTable,
    check_join,
    choose_join_blocks,
    make_join_tables,
    sort_distinct,
    sort_rows,
)
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

# So many fingerprints with one prefix are compared each with each; for more of them, tables of
# their own cost less than these hundred thousand comparisons.
_LONGEST_RUN = 512


class _Pairs(NamedTuple):
    """Pairs, not yet in order: one fingerprint of each, and the XOR of both; shape (pairs,)."""

    first: NDArray[np.uint64]
    differing: NDArray[np.uint64]


def find_all(
    fingerprints: NDArray[np.uint64],
    distance: int,
    blocks: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> NDArray[np.uint64]:
    """Find all pairs of distinct fingerprints within a distance.

    >>> find_all(np.array([5, 1, 96, 5], np.uint64), 1).tolist()
    [[1, 5]]

    Args:
        fingerprints: in any order, shape (n,); repeated ones count once.
        distance: bits, 0 to 63.
        blocks: into which the 64 bits are cut, more than `distance`, up to 64; None for the
            number that is quickest for so many fingerprints (`jointables.choose_join_blocks`).
        progress: is told after each table how many are done, and how many there are.

    Returns:
        Shape (pairs, 2): the smaller fingerprint first, pairs in ascending order.

    Raises:
        ValueError: a distance or number of blocks that is out of range.

    Cost: a sort of all fingerprints for each of the C(blocks, distance) tables; all cores work,
    each on a table. Memory: 8 bytes a fingerprint, 8 more for each core, and 80 bytes a pair.
    Pairs grow with the square of a cluster's size, and so do time and memory then.
    """
    check_join(distance, blocks)
    values = sort_distinct(fingerprints)
    if blocks is None:
        blocks = choose_join_blocks(values.size, distance)
    tables = make_join_tables(blocks, distance)
    found = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        joined = pool.map(lambda table: _gather(_join_table(values, table, distance)), tables)
        for done, pairs in enumerate(joined, 1):
            found.append(pairs)
            if progress is not None:
                progress(done, len(tables))
    return _sort_pairs(_gather(found))


def join_cell(
    ordered: NDArray[np.uint64], path: Sequence[JoinTable], distance: int
) -> NDArray[np.uint64]:
    """Find the pairs that one table reports of a part of the fingerprints, see `joincells`.

    Args:
        ordered: distinct and sorted, permuted by the tables of the path one after the other; with
            each prefix of the last table all that there are. Shape (n,).
        path: the table, after those that the crowd was in from which it was cut.
        distance: bits.

    Returns:
        As `find_all`. Cost: as one of its tables.
    """
    pairs = _gather(_in_batches(_join_sorted(ordered, path[-1], distance)))
    for table in reversed(path):
        pairs = _report(pairs, table)
    return _sort_pairs(pairs)


def _gather(parts: Iterable[_Pairs]) -> _Pairs:
    parts = list(parts)
    nothing = np.empty(0, np.uint64)
    return _Pairs(
        np.concatenate([nothing, *(part.first for part in parts)]),
        np.concatenate([nothing, *(part.differing for part in parts)]),
    )


def _sort_pairs(pairs: _Pairs) -> NDArray[np.uint64]:
    second = pairs.first ^ pairs.differing
    return sort_rows(
        np.stack([np.minimum(pairs.first, second), np.maximum(pairs.first, second)], axis=1)
    )


def _join_table(values: NDArray[np.uint64], table: JoinTable, distance: int) -> Iterator[_Pairs]:
    """Find the pairs that this table reports, among distinct, sorted values."""
    permuted = table.table.permute_array(values)
    if table.passed_over:  # otherwise every block stays where it is, and all are in order
        permuted.sort()
    for found in _in_batches(_join_sorted(permuted, table, distance)):
        yield _report(found, table)


def _report(pairs: _Pairs, table: JoinTable) -> _Pairs:
    """Restore permuted pairs, and keep those that this table reports."""
    differing = table.table.restore_array(pairs.differing)
    reported = table.is_first(differing)
    return _Pairs(table.table.restore_array(pairs.first[reported]), differing[reported])


def _in_batches(parts: Iterable[_Pairs]) -> Iterator[_Pairs]:
    """Put parts together: to restore ten pairs takes as long as to restore a thousand."""
    batch: list[_Pairs] = []
    pairs = 0
    for part in parts:
        batch.append(part)
        pairs += part.first.size
        if pairs >= CHUNK:
            yield _gather(batch)
            batch, pairs = [], 0
    if batch:
        yield _gather(batch)


def _join_sorted(ordered: NDArray[np.uint64], table: JoinTable, distance: int) -> Iterator[_Pairs]:
    """Find all pairs with one prefix, still permuted."""
    done = 0
    for start, end in _long_runs(ordered, table):
        yield from _compare(ordered[done:start], table.suffix, distance)
        yield from _join_crowd(ordered[start:end], table, distance)
        done = end
    yield from _compare(ordered[done:], table.suffix, distance)


def _long_runs(ordered: NDArray[np.uint64], table: JoinTable) -> list[tuple[int, int]]:
    """Find where more fingerprints have one prefix than should be compared each with each."""
    prefixes: list[NDArray[np.uint64]] = []
    for start in range(0, ordered.size - _LONGEST_RUN, CHUNK):
        left = ordered[start : min(start + CHUNK, ordered.size - _LONGEST_RUN)]
        right = ordered[start + _LONGEST_RUN :][: left.size]
        if (alike := left[left ^ right <= table.suffix]).size:
            prefixes.append(sort_distinct(alike | table.suffix))
    if not prefixes:
        return []
    lasts = sort_distinct(np.concatenate(prefixes))
    starts = np.searchsorted(ordered, lasts ^ table.suffix)
    ends = np.searchsorted(ordered, lasts, "right")
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _join_crowd(crowd: NDArray[np.uint64], table: JoinTable, distance: int) -> Iterator[_Pairs]:
    """Find all pairs among many permuted fingerprints that have the whole prefix in common."""
    varying = np.bitwise_or.reduce(crowd ^ crowd[0], keepdims=True)
    if not table.may_report(varying):
        return
    bits = FINGERPRINT_BITS - table.table.prefix_bits
    blocks = choose_join_blocks(crowd.size, distance, bits)
    if not blocks:
        yield from _compare(crowd, table.suffix, distance)
        return
    for inner in make_join_tables(blocks, distance, bits):
        yield from _join_table(crowd, inner, distance)


def _compare(ordered: NDArray[np.uint64], suffix: np.uint64, distance: int) -> Iterator[_Pairs]:
    """Compare each of the sorted fingerprints with those after it that have its prefix."""
    for start in range(0, ordered.size - 1, CHUNK):
        right = ordered[start + 1 : start + 1 + CHUNK]
        left = ordered[start : start + right.size]
        place = np.arange(start + 1, start + 1 + right.size)
        while True:
            differing = left ^ right
            alike = np.flatnonzero(differing <= suffix)
            if not alike.size:
                break
            left, differing, place = left[alike], differing[alike], place[alike] + 1
            near = np.flatnonzero(np.bitwise_count(differing) <= distance)
            if near.size:
                yield _Pairs(left[near], differing[near])
            if place[-1] == ordered.size:
                left, place = left[:-1], place[:-1]
            right = ordered[place]
