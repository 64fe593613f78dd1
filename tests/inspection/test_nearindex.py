"""The index in memory, against a loop, with its pairs joined or not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.batch.joins.selfjoin import find_all
from scrapy_simhash.inspection import whatif
from scrapy_simhash.inspection.whatif import MOST_BITS, NearIndex
from tests.helpers.oracle import distance_between


@given(
    st.integers(0, MOST_BITS),
    st.integers(0, 2**64 - 1),
    st.lists(st.sets(st.integers(0, 63), max_size=MOST_BITS + 2), max_size=20),
    st.data(),
)
def test_it_finds_what_is_near_of_what_was_added(
    distance: int, centre: int, flips: list[set[int]], data: st.DataObject
) -> None:
    known = [centre ^ sum(1 << bit for bit in bits) for bits in flips]
    added = [each for each in known if data.draw(st.booleans())]
    asked = data.draw(st.integers(0, distance))
    distinct = np.unique(np.array([*known, centre], np.uint64))
    for most_pairs in (4_000_000, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(whatif, "_MOST_PAIRS", most_pairs)
            index = NearIndex(distinct, distance)
        for fingerprint in added * 2:
            index.add(fingerprint)
        assert index.find_near(centre, asked) == sorted(
            {(bits, each) for each in added if (bits := distance_between(each, centre)) <= asked}
        )


def test_pairs_of_crowds_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = np.random.default_rng(1).integers(0, 2**64, 2_000, np.uint64)
    crowd = apart[0] ^ np.arange(400, dtype=np.uint64)
    monkeypatch.setattr(whatif, "_MOST_PAIRS", 10_000)
    joined: list[int] = []

    def join(distinct: NDArray[np.uint64], distance: int) -> NDArray[np.uint64]:
        joined.append(distinct.size)
        return find_all(distinct, distance)

    monkeypatch.setattr(whatif, "find_all", join)
    NearIndex(np.concatenate([apart, crowd]), 9)
    assert not joined
    NearIndex(apart, 9)
    NearIndex(np.empty(0, np.uint64), 9)
    assert joined == [2_000, 0]


@pytest.mark.parametrize("distance", [-1, MOST_BITS + 1])
def test_distance_out_of_range(distance: int) -> None:
    with pytest.raises(ValueError, match="0 to 15 bits"):
        NearIndex(np.empty(0, np.uint64), distance)
