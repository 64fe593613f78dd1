"""The planner: what designs cost, which is taken, and that no better one was left out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.tables import choose_design, parse_design
from scrapy_simhash.tables.designs import PAPER
from scrapy_simhash.tables.planner import (
    Bounds,
    Estimate,
    choose,
    estimate,
    expected_buckets,
    keys_per_table,
    list_extremes,
    table_bytes,
)
from tests.helpers.needing import examples

documents = st.integers(0, 36).map(lambda bits: 1 << bits)


@pytest.mark.parametrize(
    ("name", "tables", "widths", "candidates"),
    [
        ("20", 20, (31, 33), 8),
        ("16", 16, (28, 28), 64),
        ("10", 10, (25, 26), 512),
        ("4", 4, (16, 16), 2**18),
    ],
)
def test_example_3_1(name: str, tables: int, widths: tuple[int, int], candidates: int) -> None:
    """2**34 documents, k = 3: the paper's candidates of a table, and what our keys read."""
    planned = {one.design: one for one in choose(2**34, 3, Bounds()).estimates}
    one = planned[name]
    assert (one.tables, one.narrowest_bits, one.widest_bits) == (tables, *widths)
    assert (one.flips, one.keys) == (0, tables)
    assert one.prefix_candidates == candidates
    assert one.table_candidates == (2**18 if name == "4" else 2**10)
    assert one.candidates == tables * one.table_candidates


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


def test_bytes_of_keys_that_occur() -> None:
    """Few documents leave most of 2**16 keys unused: counted here, expected there."""
    random = np.random.default_rng(7)
    for count in (1_000, 100_000):
        buckets = len(np.unique(random.integers(0, 2**16, count)))
        assert expected_buckets(count, 2) == pytest.approx(buckets, rel=0.01)
        assert table_bytes(count, 1, 2) == pytest.approx((14 * buckets + 6 * count) / 0.9, rel=0.01)
    # What a packed prototype of four tables took at ten million.
    assert table_bytes(10**7, 4, 2) / 10**7 == pytest.approx(27, abs=0.2)


@given(documents, st.integers(0, 12))
def test_every_estimate_is_complete_with_its_flips(count: int, distance: int) -> None:
    planned = choose(count, distance, Bounds())
    for one in planned.estimates:
        design = parse_design(one.design)
        assert design.name == one.design
        assert design.flips_for(distance) == one.flips
        assert estimate(design, count, distance) == one
    assert planned.choice.microseconds == min(one.microseconds for one in planned.estimates)
    if distance <= 3:
        assert {one.design for one in planned.estimates} >= set(PAPER)


def measures(one: Estimate) -> tuple[float, ...]:
    return one.tables, one.bytes, one.candidates, one.microseconds


@pytest.mark.parametrize("distance", [0, 2, 3, 4, 7])
def test_no_better_design_was_left_out(distance: int) -> None:
    """Each "m:k+r" there is has its equal in the plan, or its better."""
    for count in (10**4, 10**8, 2**34):
        planned = [measures(one) for one in choose(count, distance, Bounds()).estimates]
        for blocks in range(1, 16):
            for without in range(min(blocks, distance + 1)):
                try:
                    design = parse_design(f"{blocks}:{without}+3")
                    mine = measures(estimate(design, count, distance))
                except ValueError:
                    continue
                assert any(
                    all(a <= b for a, b in zip(one, mine, strict=True)) for one in planned
                ), design.name


@given(documents, st.integers(0, 8), st.data())
@examples(50)
def test_the_choice_keeps_to_the_bounds(count: int, distance: int, data: st.DataObject) -> None:
    estimates = choose(count, distance, Bounds()).estimates
    model = data.draw(st.sampled_from(estimates))
    bounds = Bounds(
        bytes=data.draw(st.sampled_from([None, model.bytes])),
        candidates=data.draw(st.sampled_from([None, model.candidates])),
        tables=data.draw(st.sampled_from([None, model.tables])),
    )
    choice = choose(count, distance, bounds).choice
    assert bounds.bytes is None or choice.bytes <= bounds.bytes
    assert bounds.candidates is None or choice.candidates <= bounds.candidates
    assert bounds.tables is None or choice.tables <= bounds.tables
    assert choice.microseconds <= model.microseconds


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (Bounds(tables=0), "at most 0 tables; 1:0\\+3 has the fewest, 1$"),
        (Bounds(bytes=10), "at most 10 bytes; 1:0\\+3 has the fewest, 1.7"),
        (Bounds(candidates=1), "at most 1 candidates a query; 10 has the fewest, 5.96"),
        (
            Bounds(candidates=10, tables=4),
            "and within the other bounds has at most 4 tables; 10",
        ),
    ],
)
def test_bounds_that_nothing_keeps_to(bounds: Bounds, message: str) -> None:
    with pytest.raises(ValueError, match=f"complete within 3 bits.*{message}"):
        choose(10_000_000, 3, bounds)


def test_distances_that_nothing_reaches() -> None:
    assert choose(1_000, 31, Bounds()).choice.design == "8:7+3"
    for distance in (-1, 32, 64, 1_000):
        with pytest.raises(ValueError, match=f"distance {distance}: no design"):
            choose(1_000, distance, Bounds())


def test_extremes() -> None:
    scan, probe, keep = list_extremes(2**34, 3)
    assert (scan.candidates, scan.bytes) == (2**34, 8 * 2**34)
    assert probe.keys == 43_745 == 41_664 + math.comb(64, 2) + 64 + 1
    assert probe.bytes == scan.bytes
    assert (keep.keys, keep.bytes) == (1, 43_745 * scan.bytes)
    assert keep.microseconds < probe.microseconds < scan.microseconds
    assert probe.candidates == keep.candidates == pytest.approx(43_745 / 2**30)


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
        if name == "10":
            assert four.microseconds / ten.microseconds > ten.bytes / four.bytes > 1
    assert chosen == {"4", "10"}
