"""How many bits a set of tables is sure to find: by brute force."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_simhash.tables.designs import parse_design
from scrapy_simhash.tables.permutation import covered_bits

# Few enough that all sets of differing bits can be tried.
BITS = 9


def found_within(prefixes: tuple[int, ...], radii: tuple[int, ...]) -> int:
    """Try every set of differing bits: the smallest one that no table finds ends it."""
    missed = [
        flips.bit_count()
        for flips in range(1 << BITS)
        if all(
            (flips & prefix).bit_count() > radius
            for prefix, radius in zip(prefixes, radii, strict=True)
            if radius >= 0
        )
    ]
    return min(missed) - 1 if missed else 64


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    prefixes = draw(st.lists(st.integers(1, 2**BITS - 1), min_size=1, max_size=7))
    radii = draw(st.lists(st.integers(-1, 3), min_size=len(prefixes), max_size=len(prefixes)))
    return tuple(prefixes), tuple(radii)


@given(tables())
@example(((0b111, 0b111, 0b111), (0, 2, -1)))
@example(((0b011, 0b011, 0b110), (1, 1, 1)))
@example(((0b1,), (1,)))
def test_any_tables_against_every_set_of_bits(
    drawn: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    assert covered_bits(*drawn) == found_within(*drawn)


def test_a_radius_for_each_table() -> None:
    with pytest.raises(ValueError, match="shorter"):
        parse_design("4").covered_bits((0, 0, 0))
