"""Which table design suits a store: so far, the one that `auto` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.designs import parse_design

if TYPE_CHECKING:
    from scrapy_simhash.permutation import Design

# `auto` adds tables once a look-up would read more than this many fingerprints of one table, with
# four tables in a store of 67 million. Ten tables answer faster from about 200 on (13 million), but
# take six times the room and twice the time to write, so they wait until speed needs them.
_CANDIDATES_PER_TABLE = 1_024


def choose_design(documents: int, distance: int = 3) -> Design:
    """Pick the design with the fewest tables for a store of this size.

    Args:
        documents: fingerprints the store is to hold.
        distance: bits within which it must be complete.

    Returns:
        The first of 4 and 10 tables whose keys leave at most 1,024 fingerprints each on average;
        16 and 20 tables have keys of the same width here, so `auto` never prefers them.
    """
    four, ten = parse_design(4), parse_design(10)
    few = documents <= _CANDIDATES_PER_TABLE << 8 * four.key_bytes
    return four if few or distance > ten.reach_bits else ten
