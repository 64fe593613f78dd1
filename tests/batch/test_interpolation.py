"""Interpolation search: the place that bisection finds, in few reads where keys are even."""

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.batch.archive.reader import MOST_GUESSES, find_first

keys = st.one_of(
    st.lists(st.integers(0, 255), max_size=50),
    st.lists(st.sampled_from([0, 1, 128, 254, 255]), max_size=50),
    st.integers(0, 60).map(lambda n: [min(2**i, 255) for i in range(n)]),
)


class Counted:
    def __init__(self, sorted_keys: list[int]) -> None:
        self.keys, self.reads = sorted_keys, 0

    def read(self, place: int) -> int:
        assert 0 <= place < len(self.keys)
        self.reads += 1
        return self.keys[place]


@given(keys, st.integers(0, 256))
def test_the_same_as_bisection(drawn: list[int], wanted: int) -> None:
    counted = Counted(sorted(drawn))
    found = find_first(counted.read, len(drawn), wanted, 8)
    assert found == bisect_left(counted.keys, wanted)
    assert counted.reads <= MOST_GUESSES + len(drawn).bit_length()


@given(st.lists(st.integers(0, 255), min_size=1, max_size=50), st.integers(0, 256))
def test_unsorted_keys_end_at_a_step_upwards(drawn: list[int], wanted: int) -> None:
    """What an archive checks of the keys at the end of a search is enough."""
    found = find_first(drawn.__getitem__, len(drawn), wanted, 8)
    assert found == 0 or drawn[found - 1] < wanted
    assert found == len(drawn) or drawn[found] >= wanted


@pytest.mark.parametrize("count", [1_000, 1_000_000])
def test_few_reads_of_even_keys(count: int) -> None:
    random = np.random.default_rng(7)
    sorted_keys = np.sort(random.integers(0, 2**32, count)).tolist()
    counted = Counted(sorted_keys)
    for wanted in random.integers(0, 2**32, 500).tolist():
        assert find_first(counted.read, count, wanted, 32) == bisect_left(sorted_keys, wanted)
    # Halving would take 10 and 20.
    assert counted.reads / 500 < 7


def test_bounded_reads_of_keys_that_mislead() -> None:
    counted = Counted([*range(100_000), 2**32 - 1])
    assert find_first(counted.read, 100_001, 99_999, 32) == 99_999
    assert MOST_GUESSES < counted.reads <= MOST_GUESSES + 17
