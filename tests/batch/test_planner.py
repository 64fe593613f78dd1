"""The planner: costs, the fastest design, that none is left out; fewest tables for a prefix."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.batch.planner import Bounds, Estimate, choose, estimate
from scrapy_simhash.tables.designs import PAPER, parse_design
from tests.helpers.needing import examples, slow_but

documents = st.integers(0, 36).map(lambda bits: 1 << bits)


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


@pytest.mark.parametrize("distance", slow_but([0], [0, 2, 3, 4, 7]))
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
