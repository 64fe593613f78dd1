"""Clusters of fingerprints, made of the pairs within a distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.jointables import sort_distinct, sort_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


def merge_pairs(*parts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Put pairs of several sources together, as clusters are made of.

    >>> merge_pairs(np.array([[1, 3]]), np.array([[3, 1], [7, 7], [0, 1]])).tolist()
    [[0, 1], [1, 3]]

    Args:
        parts: shape (pairs, 2) each, in any order, with repetitions.

    Returns:
        Shape (pairs, 2): the smaller fingerprint first, pairs in ascending order, each once, none
        of a fingerprint with itself.
    """
    pairs: NDArray[np.uint64] = np.sort(np.concatenate(parts), axis=1)
    return sort_rows(pairs[pairs[:, 0] != pairs[:, 1]])


def connected_clusters(pairs: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    """Put together what is connected by pairs, directly or through others.

    A cluster may hold fingerprints that do not match each other, at the ends of a chain.

    >>> [each.tolist() for each in connected_clusters(np.array([[1, 3], [3, 7], [8, 9]]))]
    [[1, 3, 7], [8, 9]]

    Args:
        pairs: shape (pairs, 2), as `selfjoin.find_all` returns them.

    Returns:
        Clusters of two or more, each in ascending order; clusters by their first fingerprint.
        Cost: a few passes over the pairs, one more each time the longest chain doubles.
    """
    members = sort_distinct(pairs.ravel())
    first, second = np.searchsorted(members, pairs).T
    labels = np.arange(members.size)
    # Each pass hooks the root of one end below the root of the other, the smaller one, then
    # shortens all ways to a root to one step (Shiloach and Vishkin, 1982).
    while (apart := labels[first] != labels[second]).any():
        first, second = labels[first[apart]], labels[second[apart]]
        np.minimum.at(labels, np.maximum(first, second), np.minimum(first, second))
        while ((higher := labels[labels]) != labels).any():
            labels = higher
    return _split(members, labels)


def representative_clusters(pairs: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    """Put fingerprints around representatives: each is within the distance of its own.

    The fingerprint with the most neighbours, the smallest of several, is a representative and
    takes all its neighbours; then the one with the most neighbours among all, as counted at the
    beginning, that nobody took; and so on. Without chains, but two neighbours may stand in
    different clusters.

    >>> [each.tolist() for each in representative_clusters(np.array([[1, 3], [3, 7], [7, 15]]))]
    [[3, 1, 7]]

    Args:
        pairs: shape (pairs, 2), as `selfjoin.find_all` returns them.

    Returns:
        Clusters of two or more, in the order in which they were made: the representative, then
        the others in ascending order. Cost: one sort of the pairs, one step in Python for each
        fingerprint.
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


def _split(members: NDArray[np.uint64], labels: NDArray[np.intp]) -> list[NDArray[np.uint64]]:
    if not members.size:
        return []
    order = np.argsort(labels, kind="stable")
    borders = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(members[order], borders)
