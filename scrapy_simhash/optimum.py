"""The fewest tables for a bound on the prefix, and the other way round (paper, section 3.1.2)."""

from __future__ import annotations

import math
from functools import cache

from scrapy_simhash.simhash import FINGERPRINT_BITS


@cache
def fewest_tables(
    leading_bits: int, distance: int, width_bits: int = FINGERPRINT_BITS
) -> int | None:
    """Count the tables that blocks within blocks need, X(f, k, d).

    X(f, k, d) = 1 if d <= tau, else the least, over r > k, of C(r, k) * X(f * k / r, k,
    d - (r - k) * f / r), where tau = d - p_min for the d asked for. Each step cuts what is left
    of the fingerprint into r blocks and leads with r - k of them; only d - tau matters, the bits
    that must yet lead. Here blocks have whole bits, as equal as possible, so a choice of wider
    ones leaves less to do than the formula says, a choice of narrower ones more.

    Args:
        leading_bits: p_min; at least so many bits lead every table.
        distance: k.
        width_bits: f.

    Returns:
        The tables, or None where no cut leads with so many bits and leaves k out.
    """
    if leading_bits <= 0:
        return 1
    if leading_bits > width_bits - distance:
        return None
    fewest = None
    for blocks in range(distance + 1, width_bits + 1):
        # Every choice of blocks needs a table at least.
        if fewest is not None and math.comb(blocks, distance) >= fewest:
            break
        tables = _count_tables(leading_bits, distance, width_bits, blocks)
        if tables is not None and (fewest is None or tables < fewest):
            fewest = tables
    return fewest


def _count_tables(leading_bits: int, distance: int, width_bits: int, blocks: int) -> int | None:
    """Add up the tables of all choices of leading blocks, alike where as many are wider."""
    width, wider = divmod(width_bits, blocks)
    leading = blocks - distance
    tables = 0
    for chosen in range(max(0, leading - (blocks - wider)), min(wider, leading) + 1):
        lead = leading * width + chosen
        inner = fewest_tables(leading_bits - lead, distance, width_bits - lead)
        if inner is None:
            return None
        tables += math.comb(wider, chosen) * math.comb(blocks - wider, leading - chosen) * inner
    return tables


def widest_prefix(tables: int, distance: int) -> int:
    """Find the largest p_min, in bits, that at most so many tables allow."""
    allowed = 0
    for leading_bits in range(1, FINGERPRINT_BITS - distance + 1):
        needed = fewest_tables(leading_bits, distance)
        if needed is not None and needed <= tables:
            allowed = leading_bits
    return allowed
