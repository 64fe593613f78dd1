"""The command `plan`: compare table designs for a number of documents."""

from __future__ import annotations

import argparse
import json
import math
import re
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING

from scrapy_simhash.batch.planner import (
    Bounds,
    choose,
    fewest_tables,
    list_extremes,
    widest_prefix,
)
from scrapy_simhash.commands.frame import Command, make_table
from scrapy_simhash.simhash import FINGERPRINT_BITS
from scrapy_simhash.tables.designs import MOST_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.commands.frame import Answer, Part
    from scrapy_simhash.config import Config


# Limits the digits, so that 1e999999999 is never computed.
_NUMBER = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][0-9]{1,2})?)([kMGT]?)")
_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_MOST = 2**FINGERPRINT_BITS
_OPTIMA_A_LINE = 8
_COLUMNS = ("tables", "p", "flips", "keys", "2^(d-p)", "candidates", "bytes", "us")
_COSTS = ("keys", "prefix_candidates", "candidates", "bytes", "microseconds")


def _read_number(text: str) -> int:
    """Read a whole number in any usual form: 8000000, 8_000_000, 8,000,000, 8e6, 8M, 0.008G."""
    matched = _NUMBER.fullmatch(text.replace(",", "").replace("_", ""))
    number = Fraction(matched[1]) * _SCALES[matched[2]] if matched else Fraction(0)
    if not 1 <= number <= _MOST or number.denominator != 1:
        raise argparse.ArgumentTypeError(
            f"{text}: must be a whole number from 1 to 2**64, such as 8000000, 8e6 or 8M "
            "(k, M, G, T)"
        )
    return int(number)


def _plan(
    config: Config,
    documents: int,
    distance: int | None,
    max_bytes: int | None,
    max_candidates: int | None,
    max_tables: int | None,
) -> Iterator[Answer]:
    """Compare the designs for a number of documents, and choose the fastest within the bounds."""
    bits = config.distance if distance is None else distance
    if bits < 0:
        raise ValueError(f"--distance {bits}: must be 0 or more bits")
    bounds = Bounds(max_bytes, max_candidates, max_tables)
    planned = choose(documents, bits, bounds)
    yield {
        "documents": documents,
        "log2_documents": round(math.log2(documents), 2),
        "distance": bits,
        "bounds": asdict(bounds),
        "designs": [asdict(one) for one in planned.estimates],
        "optimum": [
            {"tables": tables, "narrowest_bits": p, "prefix_candidates": documents / (1 << p)}
            for tables, p in _list_optimum(bits)
        ],
        "extremes": [asdict(extreme) for extreme in list_extremes(documents, bits)],
        "choice": asdict(planned.choice),
        "setting": f"SIMHASH_TABLES = {json.dumps(planned.choice.design)}",
    }


def _list_optimum(distance: int) -> list[tuple[int, int]]:
    """List each number of tables that makes the narrowest prefix wider, with its width."""
    optimum = []
    widest = 0
    while (tables := fewest_tables(widest + 1, distance)) is not None and tables <= MOST_TABLES:
        widest = widest_prefix(tables, distance)
        optimum.append((tables, widest))
    return optimum


def _print_plan(answer: Answer) -> Iterable[Part]:
    yield (
        f"{answer['documents']:,} documents (d = {answer['log2_documents']}), "
        f"within {answer['distance']} bits"
    )
    yield ""
    yield make_table(
        {"design": "left", **dict.fromkeys(_COLUMNS, "right")},
        (
            [
                row["design"],
                str(row["tables"]),
                "-".join(map(str, dict.fromkeys((row["narrowest_bits"], row["widest_bits"])))),
                str(row["flips"]),
                *(_short(row[key]) for key in _COSTS),
            ]
            for row in answer["designs"]
        ),
    )
    yield ""
    yield make_table(
        {"without tables": "left", **dict.fromkeys(("keys", *_COLUMNS[-3:]), "right")},
        (
            [row["name"], *(_short(row[key]) for key in _COSTS if key != "prefix_candidates")]
            for row in answer["extremes"]
        ),
    )
    yield ""
    yield "2^(d-p): fingerprints of a table with the same prefix; keys, candidates and"
    yield "microseconds: of a query, in all tables; bytes: after packing"
    yield ""
    yield f"fewest tables for a prefix of at least p bits, X(64, {answer['distance']}, d):"
    for start in range(0, len(answer["optimum"]), _OPTIMA_A_LINE):
        part = answer["optimum"][start : start + _OPTIMA_A_LINE]
        yield make_table(
            {"tables": "left", **{_short(each["tables"]): "right" for each in part}},
            (
                [name, *(_short(each[key]) for each in part)]
                for name, key in (("p", "narrowest_bits"), ("2^(d-p)", "prefix_candidates"))
            ),
        )
    yield ""
    choice = answer["choice"]
    yield (
        f"fastest within the bounds: {choice['tables']} tables, {_short(choice['bytes'])} bytes, "
        f"{_short(choice['microseconds'])} us"
    )
    yield answer["setting"]


def _short(number: float) -> str:
    """Format a number with three digits: 0.298, 512, 17.2G."""
    rounded = float(f"{number:.3g}")
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if scale <= rounded < 1e3 * scale:
            return f"{rounded / scale:.3g}{unit}"
    return f"{rounded:.3g}"


_OPTIONS = """
--documents COUNT: how many documents, such as 8e9 or 10M
--max-bytes COUNT: at most so many bytes in all tables, after `check --compact`
--max-candidates COUNT: at most so many candidates for a query, on average
--max-tables COUNT: at most so many tables
--distance BITS: how many bits may differ (default: SIMHASH_DISTANCE)
"""
_COUNTS = ("documents", "max-bytes", "max-candidates", "max-tables")


COMMANDS = {
    "plan": Command(
        _plan,
        _OPTIONS,
        _print_plan,
        more={name: {"type": _read_number, "required": name == "documents"} for name in _COUNTS},
        stored=False,
        examples=("plan --documents 10M", "plan --documents 8e9 --distance 3 --max-tables 20"),
    ),
}
