"""Which table design suits a store: what each would cost, and the choice (paper, section 3.1).

Costs are expectations for evenly spread fingerprints (`costs`), of the tables alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy_simhash.config import PLAIN_DISTANCE_BITS
from scrapy_simhash.costs import (
    PROBE_COSTS,
    ROOM_COSTS,
    expected_candidates,
    keys_per_table,
    table_bytes,
)
from scrapy_simhash.designs import (
    FEWEST_PREFIX_BITS,
    MOST_FLIPS,
    MOST_TABLES,
    PAPER,
    block_widths,
    parse_design,
)
from scrapy_simhash.permutation import FINGERPRINT_BYTES, MOST_KEY_BYTES
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_simhash.permutation import Design


@dataclass(frozen=True)
class Estimate:
    """What a design is expected to cost.

    Attributes:
        design: its name, the value of SIMHASH_TABLES.
        tables: how many.
        narrowest_bits: width of the narrowest prefix, the paper's p.
        widest_bits: of the widest.
        flips: bits of each key that are flipped to be complete.
        keys: that a query looks up, in all tables.
        prefix_candidates: fingerprints that share the narrowest prefix, 2**(d - p): what a table
            with keys of any width would read, none flipped.
        table_candidates: that a query reads in a table; keys are whole bytes, three at most.
        candidates: that a query reads in all tables.
        bytes: of all tables after `compact`.
        bytes_before_compact: until then.
        microseconds: of a query, warm cache, on the machine of `costs.ProbeCosts`.
    """

    design: str
    tables: int
    narrowest_bits: int
    widest_bits: int
    flips: int
    keys: int
    prefix_candidates: float
    table_candidates: float
    candidates: float
    bytes: int
    bytes_before_compact: int
    microseconds: float


@dataclass(frozen=True)
class Extreme:
    """A way without a choice of tables; candidates, bytes and microseconds as of `Estimate`.

    Attributes:
        name: what is done.
        keys: that a query looks up.
    """

    name: str
    keys: int
    candidates: float
    bytes: int
    microseconds: float


@dataclass(frozen=True)
class Bounds:
    """What a design may cost at most; None for no bound.

    Attributes:
        bytes: of all tables after `compact`.
        candidates: that a query reads in all tables, on average.
        tables: how many.
    """

    bytes: int | None = None
    candidates: float | None = None
    tables: int | None = None


@dataclass(frozen=True)
class Plan:
    """The designs there are for a store, and the one to take.

    Attributes:
        documents: fingerprints of the store, N.
        distance: bits within which nothing is to be missed, k.
        estimates: those of Example 3.1 that are complete for k, and all others that no other one
            beats in tables, bytes, candidates and microseconds at once; fewest tables first.
        choice: the fastest within the bounds.
    """

    documents: int
    distance: int
    estimates: tuple[Estimate, ...]
    choice: Estimate


def choose(documents: int, distance: int, bounds: Bounds) -> Plan:
    """Pick the design that answers fastest within the bounds.

    Args:
        documents: 1 or more.
        distance: bits, 0 or more.
        bounds: on what it may cost.

    Raises:
        ValueError: no design is complete for the distance, or none keeps to the bounds; names the
            one that comes nearest.
    """
    all_estimates = [
        estimate(parse_design(name), documents, distance) for name in _list_designs(distance)
    ]
    if not all_estimates:
        raise ValueError(
            f"distance {distance}: no design of up to {MOST_TABLES} tables and {MOST_FLIPS} "
            "flipped bits is complete for so many bits; take a smaller one"
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
    """Say what a design is expected to cost.

    Raises:
        ValueError: the design is not complete for the distance.
    """
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
        bytes_before_compact=round(packed * ROOM_COSTS.before_compact),
        microseconds=PROBE_COSTS.predict(keys * tables, read * tables),
    )


def list_extremes(documents: int, distance: int) -> tuple[Extreme, ...]:
    """Say what it costs to scan all, to probe every neighbour, and to store every neighbour."""
    neighbours = sum(math.comb(FINGERPRINT_BITS, bits) for bits in range(distance + 1))
    raw_bytes = FINGERPRINT_BYTES * documents
    # Two random fingerprints are that near.
    near = documents * neighbours / 2**FINGERPRINT_BITS
    return (
        Extreme("scan all", 0, float(documents), raw_bytes, PROBE_COSTS.scanned_us * documents),
        Extreme(
            "probe every neighbour",
            neighbours,
            near,
            raw_bytes,
            PROBE_COSTS.predict(neighbours, near),
        ),
        Extreme(
            "store every neighbour",
            1,
            near,
            raw_bytes * neighbours,
            PROBE_COSTS.predict(1, near),
        ),
    )


@lru_cache(maxsize=64)
def _list_designs(distance: int) -> tuple[str, ...]:
    """Name the designs that are complete for a distance, with the flips that it takes."""
    names = []
    for base in (*PAPER, *(f"{m}:{k}" for m, k in _list_blocks(distance))):
        widest = parse_design(f"{base}+{MOST_FLIPS}")
        if 0 <= distance <= widest.reach_bits:
            flips = widest.flips_for(distance)
            names.append(parse_design(f"{base}+{max(1, flips)}").name)
    return tuple(names)


def _list_blocks(distance: int) -> Iterator[tuple[int, int]]:
    """List blocks and distance of designs worth a thought.

    More blocks make wider prefixes and more tables; beyond the widest key they only cost more.
    """
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
            among = "" if within is estimates else " that keeps to the other bounds"
            raise ValueError(
                f"no table design that is complete within {distance} bits{among} has at most "
                f"{most:,} {unit}; {least.design} has the fewest, {measure(least):,.6g}"
            )
        within = [one for one in within if measure(one) <= most]
    return min(within, key=lambda one: one.microseconds)


@lru_cache(maxsize=64)
def choose_design(documents: int, distance: int = PLAIN_DISTANCE_BITS) -> Design:
    """Pick the design of a new store, for SIMHASH_TABLES = auto.

    Args:
        documents: fingerprints the store is to hold, 0 or more.
        distance: bits within which it must be complete.

    Returns:
        That one of 4 and 10 tables whose predicted microseconds times bytes are fewer, so that
        ten are taken once they gain more in time than they cost in room; four where ten do not
        reach. 16 and 20 tables have keys as wide as 10 and only cost more.
    """
    four, ten = parse_design(4), parse_design(10)
    if distance > ten.reach_bits:
        return four
    costs = [estimate(design, max(1, documents), distance) for design in (four, ten)]
    fewer, more = (cost.microseconds * cost.bytes for cost in costs)
    return four if fewer <= more else ten
