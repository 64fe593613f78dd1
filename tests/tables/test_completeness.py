"""How many bits a set of tables is sure to find: the closed form, by brute force."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.tables.designs import _reach, parse_design
from tests.helpers.strategies import masks

# Few enough that all sets of differing bits can be tried.
BITS = 12


def found_within(prefixes: list[int], radius: int) -> int:
    """Try every set of differing bits: the smallest one that no table finds ends it."""
    missed = [
        flips.bit_count()
        for flips in range(1 << BITS)
        if all((flips & prefix).bit_count() > radius for prefix in prefixes)
    ]
    return min(missed) - 1


@pytest.mark.parametrize("radius", [0, 1, 2, 3])
@pytest.mark.parametrize(("blocks", "distance"), [(1, 0), (2, 1), (3, 1), (3, 2), (4, 1), (4, 2)])
def test_all_choices_of_blocks_against_every_set_of_bits(
    blocks: int, distance: int, radius: int
) -> None:
    width = BITS // blocks
    cut = [(1 << width) - 1 << width * number for number in range(blocks)]
    prefixes = [sum(chosen) for chosen in combinations(cut, blocks - distance)]
    assert _reach(blocks, distance, radius) == found_within(prefixes, radius)


@pytest.mark.parametrize("flips", range(4))
@given(data=st.data())
def test_the_nested_tables_miss_nothing(flips: int, data: st.DataObject) -> None:
    """Many differing bits are in few of their blocks, or one in each."""
    design = parse_design(f"16+{flips}")
    places = data.draw(st.sampled_from([range(64), range(16), range(24), range(0, 64, 4)]))
    differing = data.draw(masks(min(design.reach_bits, len(places)), places))
    prefixes = [each.permute(differing) >> 64 - each.prefix_bits for each in design.tables]
    assert min(prefix.bit_count() for prefix in prefixes) <= flips
