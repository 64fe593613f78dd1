"""`scrapy simhash plan`: table designs for the user's numbers."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from scrapy_simhash.designs import MOST_TABLES
from scrapy_simhash.optimum import fewest_tables, widest_prefix
from scrapy_simhash.planner import Bounds, choose, list_extremes
from scrapy_simhash.simhash import FINGERPRINT_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.config import Config

# Short, so that nobody's 1e999999999 is worked out.
_NUMBER = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][0-9]{1,2})?)([kMGT]?)")
_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_MOST = 2**FINGERPRINT_BITS


def plan(
    config: Config,
    documents: str,
    distance: int | None,
    max_bytes: str | None,
    max_candidates: str | None,
    max_tables: str | None,
) -> Iterator[dict[str, Any]]:
    """Lay out the designs for so many documents, and name the fastest within the bounds.

    Args:
        config: for the distance, where none is given.
        documents: N, as `read_number` takes it.
        distance: k in bits; None for SIMHASH_DISTANCE.
        max_bytes: of all tables after `compact`.
        max_candidates: that a query reads in all tables, on average.
        max_tables: how many.

    Raises:
        ValueError: a number is none, or nothing keeps to the bounds.
    """
    count = read_number("--documents", documents)
    bits = config.distance if distance is None else distance
    if bits < 0:
        raise ValueError(f"--distance {bits}: must be 0 or more bits")
    bounds = Bounds(
        *(
            None if given is None else read_number(name, given)
            for name, given in (
                ("--max-bytes", max_bytes),
                ("--max-candidates", max_candidates),
                ("--max-tables", max_tables),
            )
        )
    )
    planned = choose(count, bits, bounds)
    yield {
        "documents": count,
        "log2_documents": round(math.log2(count), 2),
        "distance": bits,
        "bounds": asdict(bounds),
        "designs": [asdict(one) for one in planned.estimates],
        "optimum": [
            {"tables": tables, "narrowest_bits": p, "prefix_candidates": count / (1 << p)}
            for tables, p in _list_optimum(bits)
        ],
        "extremes": [asdict(extreme) for extreme in list_extremes(count, bits)],
        "choice": asdict(planned.choice),
        "setting": f"SIMHASH_TABLES = {json.dumps(planned.choice.design)}",
    }


def _list_optimum(distance: int) -> list[tuple[int, int]]:
    """List each worthwhile number of tables with the largest p_min that it allows."""
    optimum = []
    widest = 0
    while (tables := fewest_tables(widest + 1, distance)) is not None and tables <= MOST_TABLES:
        widest = widest_prefix(tables, distance)
        optimum.append((tables, widest))
    return optimum


def read_number(name: str, text: str) -> int:
    """Read a whole number as people write it: 8000000, 8_000_000, 8,000,000, 8e6, 8M, 0.008G.

    Raises:
        ValueError: none, or not from 1 to 2**64; names the argument.
    """
    matched = _NUMBER.fullmatch(text.replace(",", "").replace("_", ""))
    number = Fraction(matched[1]) * _SCALES[matched[2]] if matched else Fraction(0)
    if not 1 <= number <= _MOST or number.denominator != 1:
        raise ValueError(
            f"{name} {text}: must be a whole number from 1 to 2**64, such as 8000000, 8e6 or 8M "
            "(k, M, G, T)"
        )
    return int(number)
