"""The planner: costs, and that no design is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.batch.planner import Estimate, compare_designs, estimate
from scrapy_simhash.tables.designs import PAPER, parse_design
from tests.helpers.needing import slow_but

documents = st.integers(0, 36).map(lambda bits: 1 << bits)


@given(documents, st.integers(0, 12))
def test_every_estimate_is_complete_with_its_flips(count: int, distance: int) -> None:
    planned = compare_designs(count, distance)
    for one in planned:
        design = parse_design(one.design)
        assert (design.name, design.flips_for(distance)) == (one.design, one.flips)
        assert estimate(design, count, distance) == one
    if distance <= 3:
        assert {one.design for one in planned} >= set(PAPER)


def measures(one: Estimate) -> tuple[float, ...]:
    return one.tables, one.bytes, one.candidates, one.microseconds


@pytest.mark.parametrize("distance", slow_but([0], [0, 2, 3, 4, 7]))
def test_no_better_design_was_left_out(distance: int) -> None:
    """Each "m:k+r" there is has its equal in the plan, or its better."""
    for count in (10**4, 10**8, 2**34):
        planned = [measures(one) for one in compare_designs(count, distance)]
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
