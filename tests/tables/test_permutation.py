"""Permutations: each bit in its place, and back again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.tables.designs import parse_design
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


def test_a_permutation_worked_out_by_hand() -> None:
    """Blocks A to D of 16 bits; the second table leads with B, the others keep their order."""
    assert parse_design("4").tables[1].permute(0xAAAA_BBBB_CCCC_DDDD) == 0xBBBB_AAAA_CCCC_DDDD
    assert parse_design("4").tables[3].permute(0xAAAA_BBBB_CCCC_DDDD) == 0xDDDD_AAAA_BBBB_CCCC
