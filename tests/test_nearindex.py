"""The index in memory, against a loop, whichever kind it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash import nearindex
from scrapy_simhash.nearindex import MOST_BITS, PairIndex, TableIndex, make_index
from tests.oracle import distance_between


@given(
    st.integers(0, MOST_BITS),
    st.integers(0, 2**64 - 1),
    st.lists(st.sets(st.integers(0, 63), max_size=MOST_BITS + 2), max_size=20),
    st.data(),
)
def test_both_find_what_is_near_of_what_was_added(
    distance: int, centre: int, flips: list[set[int]], data: st.DataObject
) -> None:
    known = [centre ^ sum(1 << bit for bit in bits) for bits in flips]
    added = [each for each in known if data.draw(st.booleans())]
    asked = data.draw(st.integers(0, distance))
    distinct = np.unique(np.array([*known, centre], np.uint64))
    for index in (PairIndex(distinct, distance), TableIndex(distance)):
        for fingerprint in added * 2:
            index.add(fingerprint)
        assert index.find_near(centre, asked) == sorted(
            {(bits, each) for each in added if (bits := distance_between(each, centre)) <= asked}
        )


def test_crowds_are_looked_up_in_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = np.random.default_rng(1).integers(0, 2**64, 2_000, np.uint64)
    crowd = apart[0] ^ np.arange(400, dtype=np.uint64)
    monkeypatch.setattr(nearindex, "MOST_PAIRS", 10_000)
    assert isinstance(make_index(apart, 9), PairIndex)
    assert isinstance(make_index(np.concatenate([apart, crowd]), 9), TableIndex)
    assert isinstance(make_index(np.empty(0, np.uint64), 9), PairIndex)


@pytest.mark.parametrize("distance", [-1, MOST_BITS + 1])
def test_distance_out_of_range(distance: int) -> None:
    with pytest.raises(ValueError, match="0 to 15 bits"):
        make_index(np.empty(0, np.uint64), distance)
