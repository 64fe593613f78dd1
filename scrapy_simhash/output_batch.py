"""Prints table designs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.output import make_table, short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.output import Part

_OPTIMA_A_LINE = 8
_COLUMNS = ("tables", "p", "flips", "keys", "2^(d-p)", "candidates", "bytes", "us")
_COSTS = ("keys", "prefix_candidates", "candidates", "bytes", "microseconds")


def print_plan(answer: dict[str, Any]) -> Iterable[Part]:
    """Print the designs that `plan` compares."""
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
                _span(row["narrowest_bits"], row["widest_bits"]),
                str(row["flips"]),
                *(short(row[key]) for key in _COSTS),
            ]
            for row in answer["designs"]
        ),
    )
    yield ""
    yield make_table(
        {"without tables": "left", **dict.fromkeys(("keys", *_COLUMNS[-3:]), "right")},
        (
            [row["name"], *(short(row[key]) for key in _COSTS if key != "prefix_candidates")]
            for row in answer["extremes"]
        ),
    )
    yield ""
    yield "2^(d-p): fingerprints of a table with the narrowest prefix; keys, candidates"
    yield "and microseconds: of a query, in all tables; bytes: after compact"
    yield ""
    yield f"fewest tables for a prefix of at least p bits, X(64, {answer['distance']}, d):"
    for start in range(0, len(answer["optimum"]), _OPTIMA_A_LINE):
        part = answer["optimum"][start : start + _OPTIMA_A_LINE]
        yield make_table(
            {"tables": "left", **{short(each["tables"]): "right" for each in part}},
            (
                [name, *(short(each[key]) for each in part)]
                for name, key in (("p", "narrowest_bits"), ("2^(d-p)", "prefix_candidates"))
            ),
        )
    yield ""
    choice = answer["choice"]
    yield (
        f"fastest within the bounds: {choice['tables']} tables, {short(choice['bytes'])} bytes, "
        f"{short(choice['microseconds'])} us"
    )
    yield answer["setting"]


def _span(narrowest: int, widest: int) -> str:
    return str(narrowest) if narrowest == widest else f"{narrowest}-{widest}"
