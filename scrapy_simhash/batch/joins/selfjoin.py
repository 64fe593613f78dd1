"""Find all pairs within a distance, by joining permuted, sorted tables; and clusters of pairs.

In each table, fingerprints with the same prefix stand side by side (paper, section 3.1), so only
these need to be compared.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

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
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray


# Up to this number, fingerprints with one prefix are compared each with each; for more of them,
# separate tables cost less than those comparisons, which are 130,000 and more.
_LONGEST_RUN = 512


class _Pairs(NamedTuple):
    """Unsorted pairs: one fingerprint of each pair, and the XOR of both; shape (pairs,)."""

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
        blocks: number of blocks into which to cut the 64 bits, more than `distance`, up to 64;
            None for the number that is fastest here (`tables.choose_join_blocks`).
        progress: called after each table with the number of tables done and of all tables.

    Returns:
        Shape (pairs, 2): the smaller fingerprint first, pairs in ascending order.

    Raises:
        ValueError: the distance or the number of blocks is out of range.

    Cost: sorts all fingerprints for each of the C(blocks, distance) tables; every core works on
    a table of its own. Memory: 8 bytes a fingerprint, 8 more for each core, and 80 bytes a pair.
    The number of pairs, and so time and memory, grows with the square of a cluster's size.
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
    """Find the pairs that one table of `find_all` reports among the fingerprints of a cell."""
    # `ordered` has distinct, sorted fingerprints, permuted by the tables of the path in turn: those
    # of the crowds from which the cell was cut, then its own table. It holds every fingerprint with
    # one of its prefixes in that table. Cost: as for one table of `find_all`.
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
    permuted = table.table.permute(values)
    if table.passed_over:  # otherwise no block moves, and the values are sorted already
        permuted.sort()
    for found in _in_batches(_join_sorted(permuted, table, distance)):
        yield _report(found, table)


def _report(pairs: _Pairs, table: JoinTable) -> _Pairs:
    """Restore permuted pairs, and keep those that this table reports."""
    differing = table.table.restore(pairs.differing)
    reported = table.is_first(differing)
    return _Pairs(table.table.restore(pairs.first[reported]), differing[reported])


def _in_batches(parts: Iterable[_Pairs]) -> Iterator[_Pairs]:
    """Put small parts together: restoring ten pairs takes as long as restoring a thousand."""
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
        yield from _compare(ordered[done:start], table, distance)
        yield from _join_crowd(ordered[start:end], table, distance)
        done = end
    yield from _compare(ordered[done:], table, distance)


def _long_runs(ordered: NDArray[np.uint64], table: JoinTable) -> list[tuple[int, int]]:
    """Find the runs with one prefix that are too long to be compared each with each."""
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
        yield from _compare(crowd, table, distance)
        return
    for inner in make_join_tables(blocks, distance, bits):
        yield from _join_table(crowd, inner, distance)


def _compare(ordered: NDArray[np.uint64], table: JoinTable, distance: int) -> Iterator[_Pairs]:
    """Compare each of the sorted fingerprints with those after it that have its prefix."""
    # Except for those whose pair another table reports: a crowd may have hundreds with one prefix.
    suffix, unreported = table.suffix, table.unreported
    for start in range(0, ordered.size - 1, CHUNK):
        right = ordered[start + 1 : start + 1 + CHUNK]
        left = ordered[start : start + right.size]
        place = np.arange(start + 1, start + 1 + right.size)
        if unreported is not None:
            passed = np.flatnonzero(left ^ right <= unreported)
            if passed.size:
                place[passed] = np.searchsorted(ordered, left[passed] | unreported, "right")
                left, place = _within(left, place, ordered.size)
                right = ordered[place]
        while True:
            differing = left ^ right
            alike = np.flatnonzero(differing <= suffix)
            if not alike.size:
                break
            left, differing, place = left[alike], differing[alike], place[alike] + 1
            near = np.flatnonzero(np.bitwise_count(differing) <= distance)
            if near.size:
                yield _Pairs(left[near], differing[near])
            left, place = _within(left, place, ordered.size)
            right = ordered[place]


def _within(
    left: NDArray[np.uint64], place: NDArray[np.int64], size: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Leave out those whose next place, in ascending order, is beyond the end."""
    if not place.size or place[-1] < size:
        return left, place
    end = np.searchsorted(place, size)
    return left[:end], place[:end]


def merge_pairs(*parts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Merge arrays of pairs, shape (n, 2), into one as `find_all` returns it, for clusters.

    >>> merge_pairs(np.array([[1, 3]]), np.array([[3, 1], [7, 7], [0, 1]])).tolist()
    [[0, 1], [1, 3]]
    """
    pairs: NDArray[np.uint64] = np.sort(np.concatenate(parts), axis=1)
    return sort_rows(pairs[pairs[:, 0] != pairs[:, 1]])


def connected_clusters(pairs: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    """Cluster the fingerprints that pairs connect, directly or through others.

    A cluster may contain fingerprints that do not match each other, at the ends of a chain.

    >>> [each.tolist() for each in connected_clusters(np.array([[1, 3], [3, 7], [8, 9]]))]
    [[1, 3, 7], [8, 9]]

    Args:
        pairs: shape (pairs, 2), as `selfjoin.find_all` returns them.

    Returns:
        Clusters of two or more, each in ascending order, sorted by their first fingerprint.
        Cost: a few passes over the pairs, one more each time the longest chain doubles.
    """
    members = sort_distinct(pairs.ravel())
    first, second = np.searchsorted(members, pairs).T
    labels = np.arange(members.size)
    # Each pass attaches the larger root of a pair to the smaller one, then shortens all paths to a
    # root to one step (Shiloach and Vishkin, 1982).
    while (apart := labels[first] != labels[second]).any():
        first, second = labels[first[apart]], labels[second[apart]]
        np.minimum.at(labels, np.maximum(first, second), np.minimum(first, second))
        while ((higher := labels[labels]) != labels).any():
            labels = higher
    order = np.argsort(labels, kind="stable")
    borders = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(members[order], borders) if members.size else []


def representative_clusters(pairs: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    """Cluster fingerprints around representatives, each within the distance of its own.

    The fingerprint with the most neighbours (the smallest, if several have as many) becomes the
    first representative and takes all its neighbours. The next one is the fingerprint not yet taken
    with the most neighbours, as counted at the beginning, and so on. There are no chains, but two
    neighbours may be in different clusters.

    >>> [each.tolist() for each in representative_clusters(np.array([[1, 3], [3, 7], [7, 15]]))]
    [[3, 1, 7]]

    Args:
        pairs: shape (pairs, 2), as `selfjoin.find_all` returns them.

    Returns:
        Clusters of two or more, in the order in which they were made, each with its representative
        first, then the others in ascending order. Cost: one sort of the pairs, and one step in
        Python for each fingerprint.
    """
    members = sort_distinct(pairs.ravel())
    ends = np.searchsorted(members, pairs)
    source, target = np.concatenate([ends, ends[:, ::-1]]).T
    order = np.lexsort((target, source))
    target = target[order]
    degrees = np.bincount(source, minlength=members.size)
    stops = np.cumsum(degrees)
    free = np.ones(members.size, np.bool_)
    clusters = []
    for place in np.argsort(-degrees, kind="stable").tolist():
        if not free[place]:
            continue
        neighbours = target[stops[place] - degrees[place] : stops[place]]
        taken = neighbours[free[neighbours]]
        free[place] = False
        free[taken] = False
        if taken.size:
            clusters.append(members[np.concatenate([[place], taken])])
    return clusters
