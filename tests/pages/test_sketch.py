"""Sketches: how near the estimate comes to the exact similarity, and what has none."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.pages.features import FeatureSet
from scrapy_simhash.pages.sketch import (
    BINS,
    SKETCH_BYTES,
    SKETCH_WINDOW,
    TEXT_SKETCH_BYTES,
    compare_sketches,
    sketch_text,
)
from tests.helpers.strategies import texts

NO_TEXT = bytes(TEXT_SKETCH_BYTES)
seeds = st.integers(0, 2**32)
sizes = st.one_of(st.integers(1, 20), st.integers(1, 5_000))


def draw_shingles(seed: int, count: int) -> NDArray[np.uint64]:
    """Draw distinct hashes; other seeds share none."""
    made = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64, endpoint=False)
    assert len(np.unique(made)) == count
    return made


def estimate(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> float:
    """Compare two texts, each as the main text of a document without any whole text."""
    alike = compare_sketches(sketch_text(first) + NO_TEXT, [sketch_text(second) + NO_TEXT])
    assert alike.whole.tolist() == [0.0]
    return float(alike.main[0])


def standard_error(jaccard: float, union: int) -> float:
    """Say by how much the estimate errs: chance of the bins, and chance of equal nibbles."""
    filled = BINS * (1 - (1 - 1 / BINS) ** union)
    return math.sqrt((jaccard * (1 - jaccard) + (1 - jaccard) / 14) / filled)


@given(seeds, sizes, st.integers(0, 5_000), st.integers(0, 5_000))
def test_estimate_is_near_the_exact_similarity(
    seed: int, common: int, only_first: int, only_second: int
) -> None:
    union = common + only_first + only_second
    shingles = draw_shingles(seed, union)
    jaccard = common / union
    alike = estimate(
        shingles[: common + only_first], np.delete(shingles, slice(common, common + only_first))
    )
    # Nearly equal sets differ in whole bins, one or two at a time.
    assert abs(alike - jaccard) <= 5 * standard_error(jaccard, union) + 2 / min(BINS, union)


def test_the_error_is_the_one_that_is_claimed() -> None:
    """Of a similarity of .82 between long texts: 0.018, and no bias."""
    errors = []
    for seed in range(300):
        shingles = draw_shingles(seed, 4_000)
        errors.append(estimate(shingles[:3_640], shingles[360:]) - 0.82)
    assert abs(np.mean(errors)) < 0.004
    assert np.std(errors) == pytest.approx(0.018, abs=0.003)


def test_small_sets_are_compared_nearly_exactly() -> None:
    """Twelve shingles seldom share one of 512 bins, and seldom a nibble."""
    errors = []
    for seed in range(300):
        shingles = draw_shingles(seed, 12)
        errors.append(abs(estimate(shingles[:9], shingles[3:]) - 0.5))
    assert np.mean(errors) < 0.04
    assert np.median(errors) < 0.02


def test_texts_without_shingles_are_like_nothing() -> None:
    empty = sketch_text(np.array([], np.uint64))
    assert empty == NO_TEXT
    some = sketch_text(draw_shingles(1, 100))
    alike = compare_sketches(empty + some, [empty + some, some + empty, empty + empty])
    assert alike.main.tolist() == [0.0, 0.0, 0.0]
    assert alike.whole.tolist() == [pytest.approx(1.0), 0.0, 0.0]


def test_nothing_to_compare_with() -> None:
    alike = compare_sketches(bytes(SKETCH_BYTES), [])
    assert alike.main.shape == alike.whole.shape == (0,)


@given(seeds, st.integers(1, 40))
def test_many_at_once_are_compared_as_one_by_one(seed: int, count: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - reproducible, no secret
    pool = draw_shingles(seed, 600)

    def make() -> bytes:
        parts = (pool[: draw.randint(0, 600)], pool[draw.randint(0, 600) :])
        return b"".join(map(sketch_text, parts))

    sketch, others = make(), [make() for _ in range(count)]
    alike = compare_sketches(sketch, others)
    alone = [compare_sketches(sketch, [other]) for other in others]
    turned = [compare_sketches(other, [sketch]) for other in others]
    for part in ("main", "whole"):
        values = getattr(alike, part).tolist()
        assert values == [float(getattr(each, part)[0]) for each in alone]
        assert values == [float(getattr(each, part)[0]) for each in turned]
        assert all(0 <= value <= 1 + 1e-12 for value in values)


@given(texts)
def test_sketches_of_texts(text: str) -> None:
    """A text is like itself unless it has no words, whatever is written in it."""
    shingles = FeatureSet("test").read(text, 7).shingle(SKETCH_WINDOW)
    assert estimate(shingles, shingles) == pytest.approx(1.0 if len(shingles) else 0.0)
