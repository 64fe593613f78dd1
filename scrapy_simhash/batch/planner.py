"""Compare table designs by their costs, and with no tables at all (paper, section 3.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash._fingerprints import FINGERPRINT_BITS
from scrapy_simhash.batch.costs import SCANNED_US, Estimate, estimate, predict_us
from scrapy_simhash.tables.designs import (
    FEWEST_PREFIX_BITS,
    MOST_FLIPS,
    MOST_TABLES,
    PAPER,
    block_widths,
    parse_design,
)
from scrapy_simhash.tables.permutation import FINGERPRINT_BYTES, MOST_KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


class Plan(NamedTuple):
    """The designs worth considering for a store, and the one to take."""

    # The designs of Example 3.1 that are complete for k, and all others that no design beats in
    # tables, bytes, candidates and microseconds at once; fewest tables first.
    estimates: tuple[Estimate, ...]
    choice: Estimate  # the fastest design within the bounds


def choose(documents: int, distance: int, bounds: Bounds) -> Plan:
    """Pick the design that answers fastest within the bounds."""
    # A `ValueError` names the distance that no design is complete for, or the design that comes
    # nearest to the bounds.
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
    return Plan(tuple(kept), _pick(kept, distance, bounds))


def list_extremes(documents: int, distance: int) -> tuple[Extreme, ...]:
    """Estimate scanning all, probing every neighbour and storing every neighbour."""
    neighbours = sum(math.comb(FINGERPRINT_BITS, bits) for bits in range(distance + 1))
    raw_bytes = FINGERPRINT_BYTES * documents
    # Expected number of random fingerprints within the distance.
    near = documents * neighbours / 2**FINGERPRINT_BITS
    return (
        Extreme("scan all", 0, float(documents), raw_bytes, SCANNED_US * documents),
        Extreme("probe every neighbour", neighbours, near, raw_bytes, predict_us(neighbours, near)),
        Extreme("store every neighbour", 1, near, raw_bytes * neighbours, predict_us(1, near)),
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
        (plan.tables, plan.bytes, plan.candidates, plan.microseconds) for plan in (one, other)
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
