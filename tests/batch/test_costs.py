"""What designs cost, and which one `auto` takes."""

import numpy as np
import pytest

from scrapy_simhash.batch.costs import (
    estimate,
    keys_per_table,
)
from scrapy_simhash.tables.designs import choose_design, parse_design


@pytest.mark.parametrize(
    ("key_bytes", "flips", "keys"), [(1, 0, 1), (2, 1, 17), (2, 2, 137), (3, 1, 25), (3, 3, 2_325)]
)
def test_flipped_keys(key_bytes: int, flips: int, keys: int) -> None:
    assert keys_per_table(key_bytes, flips) == keys
    all_keys = np.arange(1 << 8 * key_bytes, dtype=np.uint32)
    assert (np.bitwise_count(all_keys) <= flips).sum() == keys


def test_flips_multiply_what_is_read() -> None:
    plain, flipped = (estimate(parse_design("4"), 10**6, distance) for distance in (3, 7))
    assert (plain.flips, flipped.flips, flipped.keys) == (0, 1, 4 * 17)
    assert flipped.candidates == pytest.approx(17 * plain.candidates)
    assert flipped.bytes == plain.bytes
    assert flipped.microseconds > plain.microseconds


@pytest.mark.parametrize(
    ("count", "distance", "name"),
    [
        *((count, distance, "4") for count in (0, 1_000, 30_000_000) for distance in (0, 3, 4, 7)),
        (2**34, 3, "10"),
        (10**9, 3, "10"),
        (10**9, 0, "10"),
        # Ten tables do not reach farther than 4, and nothing is asked beyond 7.
        *((2**34, distance, "4") for distance in (5, 6, 7, 8)),
    ],
)
def test_choose_design(count: int, distance: int, name: str) -> None:
    assert choose_design(count, distance) == parse_design(name)


@pytest.mark.parametrize("distance", range(5))
def test_ten_tables_are_chosen_where_they_are_worth_their_room(distance: int) -> None:
    chosen = set()
    for count in (1 << bits for bits in range(37)):
        four, ten = (estimate(parse_design(name), count, distance) for name in (4, 10))
        name = choose_design(count, distance).name
        chosen.add(name)
        worth = four.microseconds * four.bytes / (ten.microseconds * ten.bytes)
        assert worth > 1 if name == "10" else worth < 1.3
    assert chosen == {"4", "10"}
