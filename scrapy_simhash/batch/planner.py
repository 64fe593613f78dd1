"""Compare table designs by their costs, and with no tables at all (paper, section 3.1).

The costs cover the tables alone and assume evenly spread fingerprints. Real fingerprints cluster
(section 4.2), so a crowded prefix has more candidates than predicted here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from scrapy_simhash.pages.facts import FINGERPRINT_BITS
from scrapy_simhash.tables import (
    FEWEST_PREFIX_BITS,
    FINGERPRINT_BYTES,
    MOST_FLIPS,
    MOST_KEY_BYTES,
    MOST_TABLES,
    PAPER,
    Design,
    block_widths,
    parse_design,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


# Microseconds on one machine, warm cache: for each probe, for each key that it looks up, for each
# candidate that it reads and compares; and for each fingerprint when all are scanned in memory.
# Chosen between a fit of probes of several designs at 0.1 to 10 million (38, 1.7, 0.026)
# and the measurements of benchmarks/bench_store.py from 10 to 100 million (0.006 a candidate):
# most measured probes take 0.6 to 1.7 times the prediction. On other machines all of them are
# faster or slower, but their proportions change less.
_PROBE_US = 38.0
_KEY_US = 2.4
_CANDIDATE_US = 0.0062
_SCANNED_US = 0.005
# Bytes of a key besides its fingerprints: table number, key, LMDB's node header (8) and the
# pointer to it (2).
_BUCKET_BYTES = 14
# Share of an LMDB page that is filled in order: four tables took 36 bytes a fingerprint, of
# which keys and values make up 27.7 at a million fingerprints, 24.4 at ten million. Rows inserted
# one by one took 46.
_PAGE_FILL = 0.75


@dataclass(frozen=True)
class Estimate:
    """The expected costs of a design."""

    design: str  # its name, the value of SIMHASH_TABLES
    tables: int
    narrowest_bits: int  # width of the narrowest prefix, the paper's p
    widest_bits: int
    flips: int  # bits of each key that a probe flips to be complete
    keys: int  # that a query looks up, in all tables
    # Fingerprints that share the narrowest prefix, 2**(d - p): a probe without flips would read
    # these if keys could have any width.
    prefix_candidates: float
    table_candidates: float  # that a query reads in a table; keys are whole bytes, three at most
    candidates: float  # that a query reads in all tables
    bytes: int  # of all tables, filled in order
    microseconds: float  # of a query, warm cache, on the machine of `_PROBE_US`


def estimate(design: Design, documents: int, distance: int) -> Estimate:
    """Estimate what a design costs; `ValueError` unless it is complete for the distance."""
    flips, tables = design.flips_for(distance), len(design.tables)
    possible = 1 << 8 * design.key_bytes
    keys = sum(math.comb(8 * design.key_bytes, flipped) for flipped in range(flips + 1))
    read = documents / possible * keys
    distinct = -possible * math.expm1(-documents / possible)
    octets = distinct * _BUCKET_BYTES + documents * (FINGERPRINT_BYTES - design.key_bytes)
    packed = round(tables * octets / _PAGE_FILL)
    return Estimate(
        design=design.name,
        tables=tables,
        narrowest_bits=design.prefix_bits,
        widest_bits=max(table.prefix_bits for table in design.tables),
        flips=flips,
        keys=keys * tables,
        prefix_candidates=documents / (1 << design.prefix_bits),
        table_candidates=read,
        candidates=read * tables,
        bytes=packed,
        microseconds=_predict_us(keys * tables, read * tables),
    )


def _predict_us(keys: float, candidates: float) -> float:
    return _PROBE_US + _KEY_US * keys + _CANDIDATE_US * candidates


def compare_designs(documents: int, distance: int) -> list[Estimate]:
    """List the designs that are worth considering for a store, fewest tables first.

    These are the designs of Example 3.1 that are complete for the distance, and all others that no
    design beats in tables, bytes, candidates and microseconds at once.

    Raises:
        ValueError: no design is complete for the distance.
    """
    all_estimates = [
        estimate(parse_design(name), documents, distance) for name in _list_designs(distance)
    ]
    if not all_estimates:
        raise ValueError(
            f"distance {distance}: no design of up to {MOST_TABLES} tables and {MOST_FLIPS} "
            "flipped bits is complete for it; take a smaller one"
        )
    kept = [
        one
        for one in all_estimates
        if one.design.partition("+")[0] in PAPER
        or not any(_beats(other, one) for other in all_estimates)
    ]
    return sorted(kept, key=lambda one: (one.tables, one.microseconds))


def list_extremes(documents: int, distance: int) -> list[dict[str, str | float]]:
    """Estimate scanning all, probing every neighbour and storing every neighbour."""
    neighbours = sum(math.comb(FINGERPRINT_BITS, bits) for bits in range(distance + 1))
    raw_bytes = FINGERPRINT_BYTES * documents
    # Expected number of random fingerprints within the distance.
    near = documents * neighbours / 2**FINGERPRINT_BITS
    probed, looked_up = _predict_us(neighbours, near), _predict_us(1, near)
    columns = ("name", "keys", "candidates", "bytes", "microseconds")
    rows: tuple[tuple[str | float, ...], ...] = (
        ("scan all", 0, float(documents), raw_bytes, _SCANNED_US * documents),
        ("probe every neighbour", neighbours, near, raw_bytes, probed),
        ("store every neighbour", 1, near, raw_bytes * neighbours, looked_up),
    )
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _list_designs(distance: int) -> tuple[str, ...]:
    """Name the designs that are complete for a distance, with the flips they need."""
    names = []
    for base in (*PAPER, *(f"{m}:{k}" for m, k in _list_blocks(distance))):
        widest = parse_design(f"{base}+{MOST_FLIPS}")
        if 0 <= distance <= widest.reach_bits:
            flips = widest.flips_for(distance)
            names.append(parse_design(f"{base}+{max(1, flips)}").name)
    return tuple(names)


def _list_blocks(distance: int) -> Iterator[tuple[int, int]]:
    """List blocks and distance of the designs worth considering."""
    # More blocks make wider prefixes and more tables; beyond the widest key, tables only cost more.
    for without_flips in range(min(distance, FINGERPRINT_BITS - 1) + 1):
        for blocks in range(without_flips + 1, FINGERPRINT_BITS + 1):
            if math.comb(blocks, without_flips) > MOST_TABLES:
                break
            prefix_bits = sum(block_widths(blocks)[without_flips:])
            named = (blocks, without_flips) in PAPER.values()
            if prefix_bits >= FEWEST_PREFIX_BITS and not named:
                yield blocks, without_flips
            if prefix_bits >= 8 * MOST_KEY_BYTES:
                break


def _beats(one: Estimate, other: Estimate) -> bool:
    mine, theirs = (
        (plan.tables, plan.bytes, plan.candidates, plan.microseconds) for plan in (one, other)
    )
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


@cache
def fewest_tables(
    leading_bits: int, distance: int, width_bits: int = FINGERPRINT_BITS
) -> int | None:
    """Return how many tables blocks within blocks need, X(f, k, d), or None if no cut suffices."""
    # X(f, k, d) = 1 if d <= tau, else the least, over r > k, of
    # C(r, k) * X(f * k / r, k, d - (r - k) * f / r), where tau = d - p_min for the d asked for.
    # Each step cuts the rest of the fingerprint (f, `width_bits`) into r blocks and leads with
    # r - k of them; only d - tau matters, the `leading_bits` still needed. Here blocks have whole
    # bits, as equal as possible, so after a choice of wider blocks fewer bits are needed than the
    # formula says, and after a choice of narrower ones more.
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
    """Add up the tables of all choices of leading blocks, by how many of them are wider ones."""
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
    """Find how long, in bits, the shortest prefix (p_min) of so many tables can be."""
    allowed = 0
    for leading_bits in range(1, FINGERPRINT_BITS - distance + 1):
        needed = fewest_tables(leading_bits, distance)
        if needed is not None and needed <= tables:
            allowed = leading_bits
    return allowed
