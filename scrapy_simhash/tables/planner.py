"""Estimate what each table design would cost, and choose one (paper, section 3.1).

The costs cover the tables alone and assume evenly spread fingerprints. Real fingerprints cluster
(section 4.2), so a crowded prefix has more candidates than predicted here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from scrapy_simhash.simhash import FINGERPRINT_BITS
from scrapy_simhash.tables.designs import (
    FEWEST_PREFIX_BITS,
    MOST_FLIPS,
    MOST_TABLES,
    PAPER,
    block_widths,
    parse_design,
)
from scrapy_simhash.tables.permutation import FINGERPRINT_BYTES, MOST_KEY_BYTES, Design

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Microseconds on one machine, warm cache: for each probe, for each key that it looks up, for each
# candidate that it reads and compares; and for each fingerprint when all are scanned in memory.
# Chosen between the fit of benchmarks/bench_probe_costs.py for 0.1 to 10 million (38, 1.7, 0.026)
# and the measurements of benchmarks/bench_scale.py from 10 to 100 million (0.006 a candidate):
# most measured probes take 0.6 to 1.7 times the prediction. On other machines all of them are
# faster or slower, but their proportions change less.
PROBE_US = 38.0
KEY_US = 2.4
CANDIDATE_US = 0.0062
SCANNED_US = 0.005
# Bytes of a key besides its fingerprints: table number, key, LMDB's node header (8) and the
# pointer to it (2).
_BUCKET_BYTES = 14
# Share of an LMDB page that is filled after `compact`: four tables of ten million fingerprints took
# 27 bytes a fingerprint, of which keys and values make up 24.4.
_PAGE_FILL = 0.9
# Space before `compact`, as a multiple of that after it: values inserted one by one took 36 bytes,
# loaded in order 27, and more when filled page by page.
_BEFORE_COMPACT = 1.4


def keys_per_table(key_bytes: int, flips: int) -> int:
    """Count the keys within this number of flipped bits of a key, itself included.

    >>> keys_per_table(2, 1)
    17
    """
    return sum(math.comb(8 * key_bytes, flipped) for flipped in range(flips + 1))


def expected_candidates(documents: int, key_bytes: int) -> float:
    """Return how many fingerprints of a table share a key on average."""
    return documents / (1 << 8 * key_bytes)


def expected_buckets(documents: int, key_bytes: int) -> float:
    """Return how many distinct keys a table has on average."""
    keys = 1 << 8 * key_bytes
    return -keys * math.expm1(-documents / keys)


def table_bytes(documents: int, tables: int, key_bytes: int) -> int:
    """Predict the size of all tables of an LMDB store after `compact`, in bytes."""
    buckets = expected_buckets(documents, key_bytes)
    one = buckets * _BUCKET_BYTES + documents * (FINGERPRINT_BYTES - key_bytes)
    return round(tables * one / _PAGE_FILL)


def _predict_us(keys: float, candidates: float) -> float:
    return PROBE_US + KEY_US * keys + CANDIDATE_US * candidates


@dataclass(frozen=True)
class Estimate:
    """What a design is expected to cost."""

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
    bytes: int  # of all tables after `compact`
    bytes_before_compact: int
    microseconds: float  # of a query, warm cache, on the machine of `PROBE_US`


@dataclass(frozen=True)
class Extreme:
    """A way to search without tables, and its costs, in the units of `Estimate`."""

    name: str
    keys: int  # that a query looks up
    candidates: float
    bytes: int
    microseconds: float


@dataclass(frozen=True)
class Bounds:
    """Upper bounds for the costs of a design; None for no bound."""

    bytes: int | None = None  # of all tables after `compact`
    candidates: float | None = None  # that a query reads in all tables, on average
    tables: int | None = None


@dataclass(frozen=True)
class Plan:
    """The designs worth considering for a store, and the one to take."""

    documents: int  # N
    distance: int  # bits within which no pair may be missed, k
    # The designs of Example 3.1 that are complete for k, and all others that no design beats in
    # tables, bytes, candidates and microseconds at once; fewest tables first.
    estimates: tuple[Estimate, ...]
    choice: Estimate  # the fastest design within the bounds


def choose(documents: int, distance: int, bounds: Bounds) -> Plan:
    """Pick the design that answers fastest within the bounds."""
    # A `ValueError` says that no design is complete for the distance, or which one comes nearest
    # to the bounds.
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
    kept.sort(key=lambda one: (one.tables, one.microseconds))
    return Plan(documents, distance, tuple(kept), _pick(kept, distance, bounds))


def estimate(design: Design, documents: int, distance: int) -> Estimate:
    """Estimate what a design costs; `ValueError` unless it is complete for the distance."""
    flips = design.flips_for(distance)
    tables = len(design.tables)
    keys = keys_per_table(design.key_bytes, flips)
    read = expected_candidates(documents, design.key_bytes) * keys
    packed = table_bytes(documents, tables, design.key_bytes)
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
        bytes_before_compact=round(packed * _BEFORE_COMPACT),
        microseconds=_predict_us(keys * tables, read * tables),
    )


def list_extremes(documents: int, distance: int) -> tuple[Extreme, ...]:
    """Estimate scanning all, probing every neighbour and storing every neighbour."""
    neighbours = sum(math.comb(FINGERPRINT_BITS, bits) for bits in range(distance + 1))
    raw_bytes = FINGERPRINT_BYTES * documents
    # Expected number of random fingerprints within the distance.
    near = documents * neighbours / 2**FINGERPRINT_BITS
    return (
        Extreme("scan all", 0, float(documents), raw_bytes, SCANNED_US * documents),
        Extreme(
            "probe every neighbour", neighbours, near, raw_bytes, _predict_us(neighbours, near)
        ),
        Extreme("store every neighbour", 1, near, raw_bytes * neighbours, _predict_us(1, near)),
    )


@lru_cache(maxsize=64)
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
        (each.tables, each.bytes, each.candidates, each.microseconds) for each in (one, other)
    )
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


def _pick(estimates: list[Estimate], distance: int, bounds: Bounds) -> Estimate:
    limits: tuple[tuple[str, float | None, Callable[[Estimate], float]], ...] = (
        ("bytes", bounds.bytes, lambda one: one.bytes),
        ("candidates a query", bounds.candidates, lambda one: one.candidates),
        ("tables", bounds.tables, lambda one: one.tables),
    )
    within = estimates
    for unit, most, measure in limits:
        if most is None:
            continue
        least = min(within, key=measure)
        if measure(least) > most:
            among = "" if within is estimates else " and within the other bounds"
            raise ValueError(
                f"no table design that is complete within {distance} bits{among} has at most "
                f"{most:,} {unit}; {least.design} has the fewest, {measure(least):,.6g}"
            )
        within = [one for one in within if measure(one) <= most]
    return min(within, key=lambda one: one.microseconds)


@lru_cache(maxsize=64)
def choose_design(documents: int, distance: int = 3) -> Design:
    """Pick the table design of a new store if SIMHASH_TABLES is "auto".

    Args:
        documents: fingerprints the store is to hold, 0 or more.
        distance: bits within which it must be complete.

    Returns:
        4 or 10 tables, whichever has the smaller product of predicted microseconds and bytes, so
        ten only if they save more time than they cost in space. Four if ten are not complete for
        the distance. 16 and 20 tables have keys no wider than 10, and only cost more.
    """
    four, ten = parse_design(4), parse_design(10)
    if distance > ten.reach_bits:
        return four
    costs = [estimate(design, max(1, documents), distance) for design in (four, ten)]
    fewer, more = (cost.microseconds * cost.bytes for cost in costs)
    return four if fewer <= more else ten


@cache
def fewest_tables(
    leading_bits: int, distance: int, width_bits: int = FINGERPRINT_BITS
) -> int | None:
    """Count the tables that blocks within blocks need, X(f, k, d); None if no cut suffices."""
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
    """Find the largest narrowest prefix (p_min), in bits, that a number of tables allows."""
    allowed = 0
    for leading_bits in range(1, FINGERPRINT_BITS - distance + 1):
        needed = fewest_tables(leading_bits, distance)
        if needed is not None and needed <= tables:
            allowed = leading_bits
    return allowed
