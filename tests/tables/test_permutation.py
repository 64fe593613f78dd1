"""Permutations: each bit in its place, and back again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.tables.designs import parse_design
from scrapy_simhash.tables.permutation import check_fingerprint
from tests.helpers.strategies import DESIGN_NAMES, DESIGNS, fingerprints

design_names = st.sampled_from(DESIGN_NAMES)


@pytest.mark.parametrize("name", DESIGN_NAMES)
def test_each_table_covers_all_bits_and_leads_with_others(name: str) -> None:
    """What stands in a prefix is found by restoring one bit at a time."""
    for table in DESIGNS[name].tables:
        bits = [block.shift + place for block in table.blocks for place in range(block.width)]
        assert sorted(bits) == list(range(64))
        places = range(63, 63 - table.prefix_bits, -1)
        assert table.prefix == sum(table.restore(1 << place) for place in places)
    tables = DESIGNS[name].tables
    assert len({table.prefix for table in tables}) == len(tables)


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


@pytest.mark.parametrize("value", [-1, 2**64, 1.0, "1", None, np.uint64(1)])
def test_what_is_no_fingerprint(value: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 2"):
        check_fingerprint(value)
