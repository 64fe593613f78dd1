"""All pairs within a distance: complete, once, in order, not undone by a crowd; clusters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.batch.joins import (
    connected_clusters,
    find_all,
    representative_clusters,
    selfjoin,
)
from tests.helpers.needing import examples
from tests.helpers.oracle import all_pairs, union_find
from tests.helpers.strategies import crowds


def find(values: list[int], distance: int, blocks: int | None = None) -> list[list[int]]:
    found = find_all(np.array(values, np.uint64), distance, blocks)
    assert found.dtype == np.uint64
    assert found.shape == (len(found), 2)
    return found.tolist()  # type: ignore[no-any-return]


@given(crowds(), st.integers(0, 10), st.data())
@examples(200)
def test_finds_all_pairs_once_and_in_order(
    values: list[int], distance: int, data: st.DataObject
) -> None:
    most = 14 if distance < 5 else distance + 3
    blocks = data.draw(st.one_of(st.none(), st.integers(distance + 1, most)))
    assert find(values, distance, blocks) == all_pairs(values, distance)


@given(crowds(), st.integers(0, 4), st.integers(2, 8), st.data())
def test_crowds_are_joined_by_tables_of_their_own(
    values: list[int], distance: int, longest: int, data: st.DataObject
) -> None:
    """With runs so short that even a handful is a crowd, and no crowd too small for tables."""
    blocks = data.draw(st.integers(distance + 1, distance + 2))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selfjoin, "_LONGEST_RUN", longest)
        patched.setattr(selfjoin, "choose_join_blocks", lambda _, k, bits: (bits > k) * (k + 1))
        assert find(values, distance, blocks) == all_pairs(values, distance)


@pytest.mark.parametrize(
    ("distance", "blocks", "message"),
    [
        (3, 3, "3 blocks: finding all pairs within 3 bits takes 4 to 64 blocks"),
        (64, None, "distance 64: must be 0 to 63 bits"),
        (
            10,
            40,
            "40 blocks for 10 bits need 847,660,528 tables; take a number of blocks that needs",
        ),
    ],
)
def test_what_is_refused(distance: int, blocks: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find([1, 2], distance, blocks)


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
