"""The simhash against golden values, brute force and its own definition."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.pages.features import simhash
from tests.helpers.strategies import fingerprints


def make(weighted: list[tuple[int, int]]) -> int:
    return simhash(
        np.array([hashed for hashed, _ in weighted], np.uint64),
        np.array([weight for _, weight in weighted], np.int64),
    )


def brute_force(weighted: list[tuple[int, int]]) -> int:
    """Spell out section 2 of the paper: 64 components, one after the other."""
    fingerprint = 0
    for bit in range(64):
        component = 0
        for hashed, weight in weighted:
            component += weight if hashed >> bit & 1 else -weight
        if component > 0:
            fingerprint += 2**bit
    return fingerprint


@given(st.lists(st.tuples(fingerprints, st.integers(1, 10_000)), max_size=40))
def test_equals_brute_force(weighted: list[tuple[int, int]]) -> None:
    assert make(weighted) == brute_force(weighted)


@pytest.mark.parametrize("count", [4_095, 4_096, 4_097, 8_192, 9_001])
def test_long_pages_are_summed_over_all_passes(count: int) -> None:
    draw = random.Random(count)  # noqa: S311 - reproducible, no secret
    weighted = [(draw.getrandbits(64), draw.randint(1, 5_000)) for _ in range(count)]
    assert make(weighted) == brute_force(weighted)
