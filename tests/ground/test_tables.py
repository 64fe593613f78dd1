"""Table designs: the paper's numbers, what each is complete for, bad names; and buckets."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.tables import _reach, parse_design
from tests.helpers.strategies import masks


@pytest.mark.parametrize(
    ("name", "prefixes"),
    [("20", {31: 4, 32: 12, 33: 4}), ("16", {28: 16}), ("10", {26: 6, 25: 4}), ("4", {16: 4})],
)
def test_designs_of_example_3_1(name: str, prefixes: dict[int, int]) -> None:
    """Number of tables by p, the bits in their leading blocks."""
    design = parse_design(name)
    assert Counter(table.prefix_bits for table in design.tables) == prefixes
    assert (len(design.tables), design.reaches[0]) == (int(name), 3)
    assert (design.prefix_bits, design.key_bytes) == (min(prefixes), {"4": 2}.get(name, 3))
    assert parse_design(int(name)) == design


# k with 0, 1, 2 and 3 flipped bits. Those of the paper, and others: few leading blocks and many,
# wide ones and narrow ones, alike and not.
REACHES = {
    "4": (3, 7, 11, 15),
    "10": (3, 4, 8, 9),
    "16": (3, 4, 7, 9),
    "20": (3, 4, 5, 9),
    "1:0": (0, 1, 2, 3),
    "2:1": (1, 3, 5, 7),
    "3:1": (1, 2, 4, 5),
    "4:2": (2, 3, 6, 7),
    "5:4": (4, 9, 14, 19),
    "6:2": (2, 3, 4, 5),
    "7:3": (3, 4, 5, 6),
    "7:5": (5, 6, 12, 13),
    "8:5": (5, 6, 7, 13),
    "8:7": (7, 15, 23, 31),
}


@pytest.mark.parametrize("name", REACHES)
def test_each_distance_takes_no_more_flips_than_needed(name: str) -> None:
    design = parse_design(f"{name}+3")
    assert design.reaches == REACHES[name]
    for distance in range(design.reach_bits + 1):
        flips = design.flips_for(distance)
        assert distance <= REACHES[name][flips]
        assert flips == 0 or distance > REACHES[name][flips - 1]
    for distance in (-1, design.reach_bits + 1):
        with pytest.raises(ValueError, match=f"distance {distance}: table design {name}"):
            design.flips_for(distance)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "not a table design; take auto, 4, 10, 16, 20, or blocks and distance as 'm:k'"),
        *(("5", "'5' is not a table design"), ("auto", "not a table design")),
        *(("a:b", "not a table design"), ("6:3:1", "not a table design")),
        *(("3:3", "0 <= distance < blocks <= 64"), ("6:-1", "not a table design")),
        *(("65:3", "0 <= distance < blocks <= 64"), ("16:8", "has 12,870 tables; at most 255")),
        (4.5, "4.5 is not a table design"),
        ("10:5+9", "'10:5\\+9' flips 9 bits; at most 3"),
        *(("4+4", "'4\\+4' flips 4 bits; at most 3"), ("4+", "not a table design")),
        *(("auto+2", "not a table design"), ("9" * 5_000 + ":1", "not a table design")),
        ("٤", "not a table design"),
        ("9:8", "leads with 7 bits only; at least 8 are needed: take fewer blocks"),
        ("32,32:1", "not a table design"),
    ],
)
def test_bad_designs_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_design(name)


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
