"""The fewest tables for a prefix: Example 3.1, and the recursion spelt out choice by choice."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.batch.planner import fewest_tables, widest_prefix
from scrapy_simhash.tables.designs import block_widths


@pytest.mark.parametrize(("leading_bits", "tables"), [(31, 20), (28, 16), (25, 10), (16, 4)])
def test_example_3_1(leading_bits: int, tables: int) -> None:
    """k = 3; with a strict < in the formula 28 and 16 bits would take more."""
    assert fewest_tables(leading_bits, 3) == tables
    assert widest_prefix(tables, 3) == leading_bits
    more = fewest_tables(leading_bits + 1, 3)
    assert more is not None
    assert more > tables


def cut(width_bits: int, blocks: int) -> list[int]:
    return [width_bits // blocks + (i < width_bits % blocks) for i in range(blocks)]


def count_by_hand(leading_bits: int, distance: int, width_bits: int) -> float:
    """Add up one table, or one cut of what is left, for every single choice of blocks."""
    if leading_bits <= 0:
        return 1
    return min(
        (
            sum(
                count_by_hand(leading_bits - lead, distance, width_bits - lead)
                for chosen in combinations(cut(width_bits, blocks), blocks - distance)
                if (lead := sum(chosen))
            )
            for blocks in range(distance + 1, width_bits + 1)
        ),
        default=float("inf"),
    )


@given(st.data())
def test_against_every_choice_of_blocks(data: st.DataObject) -> None:
    width_bits = data.draw(st.integers(1, 8))
    distance = data.draw(st.integers(0, 4))
    leading_bits = data.draw(st.integers(0, width_bits + 1))
    by_hand = count_by_hand(leading_bits, distance, width_bits)
    found = fewest_tables(leading_bits, distance, width_bits)
    assert found == (None if by_hand == float("inf") else by_hand)


def test_the_cut_of_the_oracle_is_the_cut_of_the_designs() -> None:
    assert all(cut(64, blocks) == list(block_widths(blocks)) for blocks in range(1, 65))


@given(st.integers(1, 64), st.integers(0, 12))
def test_both_ways_round(leading_bits: int, distance: int) -> None:
    tables = fewest_tables(leading_bits, distance)
    if tables is None:
        assert leading_bits > 64 - distance
    else:
        assert widest_prefix(tables, distance) >= leading_bits
        assert widest_prefix(tables - 1, distance) < leading_bits
