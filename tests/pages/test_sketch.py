"""Sketches: which shingles represent a text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.pages.recipe import SKETCH_BYTES
from scrapy_simhash.pages.sketch import read_shingles, sketch_text

# Hashes with few bins and values, so that texts share bins, and shingles, and have them twice.
hashes = st.builds(
    lambda number, value, rest: number << 56 | value << 32 | rest,
    st.sampled_from([0, 1, 255]),
    st.sampled_from([0, 1, 0xFFFFFE, 0xFFFFFF]) | st.integers(0, 0xFFFFFF),
    st.integers(0, 3),
)


@given(st.lists(hashes, max_size=40))
def test_the_smallest_shingle_of_each_bin_represents_a_text(shingles: list[int]) -> None:
    made = sketch_text(np.array(shingles, np.uint64))
    assert len(made) == SKETCH_BYTES
    smallest: dict[int, int] = {}
    for each in sorted(shingles, reverse=True):
        smallest[each >> 56] = each
    expected = [
        number << 24 | min(smallest[number] >> 32 & 0xFFFFFF, 0xFFFFFE)
        for number in sorted(smallest)
    ]
    assert read_shingles(made).tolist() == expected
