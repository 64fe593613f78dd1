"""Sketches: how near the estimates come to the exact similarities, and what has none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.pages.recipe import SKETCH_BYTES
from scrapy_simhash.pages.sketch import sketch_text
from tests.helpers.sketches import compare_sketches
from tests.helpers.slowly import sketch_slowly

# Hashes with few bins and values, so that texts share bins, and shingles, and have them twice.
hashes = st.builds(
    lambda number, value, rest: number << 56 | value << 40 | rest,
    st.sampled_from([0, 1, 255]),
    st.sampled_from([0, 1, 0xFFFE, 0xFFFF]) | st.integers(0, 0xFFFF),
    st.integers(0, 3),
)
shingled = st.lists(hashes, max_size=40)


@st.composite
def documents(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Draw the shingles of a whole text and of a main one: mostly a stretch of it."""
    whole = draw(shingled)
    start, end = sorted(draw(st.tuples(*2 * (st.integers(0, len(whole)),))))
    return whole, draw(st.just(whole[start:end]) | shingled)


def sketch(document: tuple[list[int], list[int]]) -> bytes:
    """Sketch a document by its shingles."""
    return sketch_text(*(np.array(each, np.uint64) for each in document))


def draw_shingles(seed: int, count: int) -> NDArray[np.uint64]:
    """Draw distinct hashes; other seeds share none."""
    made = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64, endpoint=False)
    assert len(np.unique(made)) == count
    return made


@given(documents())
def test_a_sketch_is_that_of_the_model(document: tuple[list[int], list[int]]) -> None:
    made = sketch(document)
    assert made == sketch_slowly(*document)
    assert len(made) == SKETCH_BYTES == 1_024


def compare_drawn(
    seed: int, shingles: tuple[int, int, int], of_main: tuple[int, int, int]
) -> tuple[float, float]:
    """Compare two texts by the shingles of both, the first, the second; so many in main."""
    common, first, second = np.split(
        draw_shingles(seed, sum(shingles)), np.cumsum(shingles[:2]).tolist()
    )
    made = [
        sketch_text(
            np.concatenate([common, alone]), np.concatenate([common[: of_main[0]], alone[:in_main]])
        )
        for alone, in_main in ((first, of_main[1]), (second, of_main[2]))
    ]
    return compare_sketches(*made)


@pytest.mark.parametrize(("part", "claimed"), [(1.0, 0.024), (0.1, 0.076)])
def test_the_error_is_the_one_that_is_claimed(part: float, claimed: float) -> None:
    """Of a similarity of .82 between long texts, of which the main texts are a part; no bias."""
    shingles = (3_280, 360, 360)
    in_main = (round(part * 3_280), round(part * 360), round(part * 360))
    errors = np.array(
        [[each - 0.82 for each in compare_drawn(seed, shingles, in_main)] for seed in range(300)]
    )
    assert np.abs(errors.mean(axis=0)) == pytest.approx([0, 0], abs=0.012 if part < 1 else 0.004)
    assert errors.std(axis=0) == pytest.approx([claimed, 0.024], rel=0.15)
