"""Table designs: the paper's numbers, permutations that can be undone, completeness."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_simhash.permutation import (
    Design,
    block_widths,
    check_fingerprint,
    choose_design,
    parse_design,
)
from tests.strategies import DESIGN_NAMES, DESIGNS, border_bits, border_pairs, fingerprints, pairs

design_names = st.sampled_from(DESIGN_NAMES)


@pytest.mark.parametrize(
    ("blocks", "widths"),
    [
        (1, (64,)),
        (4, (16, 16, 16, 16)),
        (5, (13, 13, 13, 13, 12)),
        (6, (11, 11, 11, 11, 10, 10)),
        (64, (1,) * 64),
    ],
)
def test_block_widths(blocks: int, widths: tuple[int, ...]) -> None:
    assert block_widths(blocks) == widths


@pytest.mark.parametrize(
    ("name", "prefixes"),
    [
        ("20", {31: 4, 32: 12, 33: 4}),
        ("16", {28: 16}),
        ("10", {26: 6, 25: 4}),
        ("4", {16: 4}),
    ],
)
def test_designs_of_example_3_1(name: str, prefixes: dict[int, int]) -> None:
    """Number of tables by p, the bits in their leading blocks."""
    design = parse_design(name)
    assert Counter(table.prefix_bits for table in design.tables) == prefixes
    assert len(design.tables) == int(name)
    assert design.distance_bits == 3
    assert design.prefix_bits == min(prefixes)
    assert design.key_bytes == {"4": 2}.get(name, 3)
    assert parse_design(int(name)) == design


@pytest.mark.parametrize("name", DESIGN_NAMES)
def test_every_table_covers_every_bit_once(name: str) -> None:
    for table in DESIGNS[name].tables:
        bits = [
            bit for block in table.blocks for bit in range(block.shift, block.shift + block.width)
        ]
        assert sorted(bits) == list(range(64))


@pytest.mark.parametrize("name", DESIGN_NAMES)
def test_no_table_is_there_twice(name: str) -> None:
    tables = DESIGNS[name].tables
    assert len({tuple(leading_bits(name, number)) for number in range(len(tables))}) == len(tables)


def leading_bits(name: str, number: int) -> list[int]:
    """Say which bits of a fingerprint stand in the prefix, by restoring one bit at a time."""
    table = DESIGNS[name].tables[number]
    places = range(63, 63 - table.prefix_bits, -1)
    return sorted(table.restore(1 << place).bit_length() - 1 for place in places)


@given(design_names, fingerprints)
def test_restore_undoes_permute(name: str, fingerprint: int) -> None:
    for table in DESIGNS[name].tables:
        permuted = table.permute(fingerprint)
        assert table.restore(permuted) == fingerprint
        assert table.permute(table.restore(fingerprint)) == fingerprint
        assert permuted.bit_count() == fingerprint.bit_count()


@given(design_names, st.lists(fingerprints, max_size=20))
def test_arrays_and_single_fingerprints_agree(name: str, numbers: list[int]) -> None:
    array = np.array(numbers, np.uint64)
    for table in DESIGNS[name].tables:
        permuted = table.permute_array(array)
        assert permuted.dtype == np.uint64
        assert permuted.tolist() == [table.permute(number) for number in numbers]
        assert table.restore_array(permuted).tolist() == numbers
        assert table.restore_array(array).tolist() == [table.restore(number) for number in numbers]


def test_a_permutation_worked_out_by_hand() -> None:
    """Blocks A to D of 16 bits; the second table leads with B, the others keep their order."""
    assert parse_design("4").tables[1].permute(0xAAAA_BBBB_CCCC_DDDD) == 0xBBBB_AAAA_CCCC_DDDD
    assert parse_design("4").tables[3].permute(0xAAAA_BBBB_CCCC_DDDD) == 0xDDDD_AAAA_BBBB_CCCC


def test_a_nested_permutation_worked_out_by_hand() -> None:
    """Leading block of 16 first, then the second 12 of the other 48 bits, across the gap."""
    table = parse_design("16").tables[5]
    assert table.permute(0xAAAA_1234_5678_9ABC) == 0x1234_A56_AAA_789ABC
    assert table.prefix_bits == 28


def agree_somewhere(design: Design, first: int, second: int) -> bool:
    """Say whether one table at least has both under one prefix, and so under one key."""
    return any(
        (table.permute(first) ^ table.permute(second)) >> (64 - table.prefix_bits) == 0
        for table in design.tables
    )


@given(st.data())
def test_every_pair_within_k_agrees_in_the_prefix_of_some_table(data: st.DataObject) -> None:
    design = DESIGNS[data.draw(design_names)]
    distance = data.draw(st.integers(0, design.distance_bits))
    assert agree_somewhere(design, *data.draw(pairs(distance)))
    assert agree_somewhere(design, *data.draw(border_pairs(design, distance)))


@pytest.mark.parametrize("name", ["4", "10", "16", "20"])
def test_every_triple_of_border_bits(name: str) -> None:
    """All of them, not a sample: three flips at the borders leave some prefix alone."""
    design = DESIGNS[name]
    prefixes = [sum(1 << bit for bit in leading_bits(name, n)) for n in range(len(design.tables))]
    bits = np.array([1 << bit for bit in border_bits(design)], np.uint64)
    flips = bits[:, None, None] | bits[None, :, None] | bits[None, None, :]
    untouched = np.zeros(flips.shape, bool)
    for prefix in prefixes:
        untouched |= flips & np.uint64(prefix) == 0
    assert untouched.all()


@pytest.mark.parametrize("name", DESIGN_NAMES)
def test_no_design_claims_less_than_it_can(name: str) -> None:
    """One flip more than k, one in each of k + 1 blocks, is missed by every table."""
    design = DESIGNS[name]
    blocks = {"4": 4, "10": 5, "20": 6, "16": 4}.get(name) or int(name.split(":", maxsplit=1)[0])
    ends = np.cumsum(block_widths(blocks))[: design.distance_bits + 1]
    flips = sum(1 << (64 - int(end)) for end in ends)
    assert not agree_somewhere(design, 0, flips)


def nearest_prefix(design: Design, first: int, second: int) -> int:
    """Count the differing bits of the prefix in the table where they are fewest."""
    return min(
        ((table.permute(first) ^ table.permute(second)) >> (64 - table.prefix_bits)).bit_count()
        for table in design.tables
    )


# Those of the paper, and several others: few leading blocks and many, wide ones and narrow ones.
REACHES = {
    "4": 7,
    "10": 4,
    "16": 4,
    "20": 4,
    "1:0": 1,
    "2:1": 3,
    "3:1": 2,
    "4:2": 3,
    "5:4": 9,
    "6:2": 3,
    "7:3": 4,
    "7:5": 6,
    "8:5": 6,
    "8:7": 15,
}


@pytest.mark.parametrize("name", REACHES)
def test_reach(name: str) -> None:
    assert parse_design(name).reach_bits == REACHES[name]


@given(st.sampled_from(sorted(REACHES)), st.data())
@settings(max_examples=300)
def test_within_reach_some_prefix_differs_in_one_bit_at_most(
    name: str, data: st.DataObject
) -> None:
    design = parse_design(name)
    # All sizes, mostly the largest.
    distance = design.reach_bits - data.draw(st.integers(0, design.reach_bits)) // 2
    assert nearest_prefix(design, *data.draw(pairs(distance))) <= 1
    borders = border_bits(design)
    if distance <= len(borders):
        assert nearest_prefix(design, *data.draw(pairs(distance, borders))) <= 1


def spread_over_blocks(design: Design, count: int) -> int:
    """Flip so many bits where they do most harm: each where it raises the lowest prefixes most.

    Found by a search that takes the best bit each time, as every set of tables here allows.
    """
    flips = 0
    for _ in range(count):
        flips |= max(
            (1 << bit for bit in range(64) if not flips >> bit & 1),
            key=lambda bit: harm(design, flips | bit),
        )
    return flips


def harm(design: Design, flips: int) -> list[int]:
    """List the differing bits of each prefix, fewest first."""
    return sorted(
        (table.permute(flips) >> (64 - table.prefix_bits)).bit_count() for table in design.tables
    )


@pytest.mark.parametrize("name", REACHES)
def test_no_design_reaches_farther_than_it_says(name: str) -> None:
    design = parse_design(name)
    flips = spread_over_blocks(design, design.reach_bits + 1)
    assert flips.bit_count() == design.reach_bits + 1
    assert nearest_prefix(design, 0, flips) > 1
    # What the search finds worst within the reach is still found.
    assert nearest_prefix(design, 0, spread_over_blocks(design, design.reach_bits)) == 1


def test_any_design_that_is_taken_reaches_beyond_its_distance() -> None:
    for blocks in range(1, 65):
        for distance in range(blocks):
            try:
                design = parse_design(f"{blocks}:{distance}")
            except ValueError:
                continue
            assert design.distance_bits < design.reach_bits <= 2 * design.distance_bits + 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "no table design; take auto, 4, 10, 16, 20"),
        ("5", "'5' is no table design"),
        ("auto", "no table design"),
        ("a:b", "no table design"),
        ("6:3:1", "no table design"),
        ("3:3", "0 <= distance < blocks <= 64"),
        ("6:-1", "0 <= distance < blocks <= 64"),
        ("65:3", "0 <= distance < blocks <= 64"),
        ("16:8", "has 12,870 tables; at most 255"),
        ("9:8", "leads with 7 bits only"),
        (4.5, "4.5 is no table design"),
    ],
)
def test_bad_designs_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_design(name)


@given(st.integers(1, 64), st.integers(0, 63))
def test_any_design_is_complete_or_refused(blocks: int, distance: int) -> None:
    try:
        design = parse_design(f"{blocks}:{distance}")
    except ValueError:
        assert distance >= blocks or math.comb(blocks, distance) > 255 or blocks > 8
    else:
        assert len(design.tables) == math.comb(blocks, distance)
        assert 1 <= design.key_bytes <= 3
        assert 8 * design.key_bytes <= design.prefix_bits


@pytest.mark.parametrize(
    ("documents", "name"),
    [(0, "4"), (1_000, "4"), (1024 << 16, "4"), ((1024 << 16) + 1, "10"), (2**34, "10")],
)
def test_choose_design(documents: int, name: str) -> None:
    assert choose_design(documents) == parse_design(name)
    assert choose_design(documents, 4) == parse_design(name)
    # Ten tables do not reach farther.
    assert choose_design(documents, 5) == choose_design(documents, 7) == parse_design("4")


@pytest.mark.parametrize("value", [-1, 2**64, 1.0, "1", None, np.uint64(1)])
def test_what_is_no_fingerprint(value: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 2"):
        check_fingerprint(value)


@pytest.mark.parametrize("value", [0, 1, 2**64 - 1])
def test_what_is_a_fingerprint(value: int) -> None:
    assert check_fingerprint(value) == value
