"""Clusters: connected ones against a plain union-find, and ones around a representative."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.batch.joins import connected_clusters, representative_clusters
from scrapy_simhash.batch.joins.selfjoin import merge_pairs
from tests.helpers.oracle import union_find

edges = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda pair: pair[0] < pair[1]),
    unique=True,
)


def as_array(pairs: list[tuple[int, int]]) -> "np.ndarray[tuple[int, int], np.dtype[np.uint64]]":
    return np.array(sorted(pairs), np.uint64).reshape(-1, 2)


@given(edges)
def test_connected_clusters(pairs: list[tuple[int, int]]) -> None:
    found = [cluster.tolist() for cluster in connected_clusters(as_array(pairs))]
    assert found == union_find(pairs)


@pytest.mark.parametrize("seed", range(3))
def test_a_long_chain_in_any_order_of_names(seed: int) -> None:
    names = np.random.default_rng(seed).permutation(10_000).astype(np.uint64)
    (cluster,) = connected_clusters(np.stack([names[:-1], names[1:]], axis=1))
    assert cluster.tolist() == list(range(10_000))


@given(edges)
def test_representatives_by_their_rule(pairs: list[tuple[int, int]]) -> None:
    neighbours: dict[int, set[int]] = {}
    for first, second in pairs:
        neighbours.setdefault(first, set()).add(second)
        neighbours.setdefault(second, set()).add(first)
    expected, free = [], set(neighbours)
    for each in sorted(neighbours, key=lambda name: (-len(neighbours[name]), name)):
        if each in free:
            taken = sorted(neighbours[each] & free)
            free -= {each, *taken}
            expected += [[each, *taken]] if taken else []
    found = [cluster.tolist() for cluster in representative_clusters(as_array(pairs))]
    assert found == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.integers(0, 20))
def test_pairs_are_merged(pairs: list[tuple[int, int]], cut: int) -> None:
    parts = (np.array(part, np.uint64).reshape(-1, 2) for part in (pairs[:cut], pairs[cut:]))
    expected = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    assert [tuple(pair) for pair in merge_pairs(*parts).tolist()] == expected
