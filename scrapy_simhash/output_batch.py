"""Prints table designs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.output import short

if TYPE_CHECKING:
    from collections.abc import Iterable

_OPTIMA_A_LINE = 8


def print_plan(answer: dict[str, Any]) -> Iterable[str]:
    """Print the designs that `plan` compares."""
    yield (
        f"{answer['documents']:,} documents (d = {answer['log2_documents']}), "
        f"within {answer['distance']} bits"
    )
    yield ""
    yield (
        f"{'design':<9}{'tables':>7}{'p':>7}{'flips':>6}{'keys':>8}{'2^(d-p)':>10}"
        f"{'candidates':>11}{'bytes':>10}{'us':>11}"
    )
    for row in answer["designs"]:
        narrow, wide = row["narrowest_bits"], row["widest_bits"]
        yield (
            f"{row['design']:<9}{row['tables']:>7}"
            f"{narrow if narrow == wide else f'{narrow}-{wide}':>7}{row['flips']:>6}"
            f"{short(row['keys']):>8}{short(row['prefix_candidates']):>10}"
            f"{short(row['candidates']):>11}{short(row['bytes']):>10}"
            f"{short(row['microseconds']):>11}"
        )
    for row in answer["extremes"]:
        yield (
            f"{row['name']:<29}{short(row['keys']):>8}{'':>10}{short(row['candidates']):>11}"
            f"{short(row['bytes']):>10}{short(row['microseconds']):>11}"
        )
    yield "2^(d-p): fingerprints of a table with the narrowest prefix; keys, candidates"
    yield "and microseconds: of a query, in all tables; bytes: after compact"
    yield ""
    yield f"fewest tables for a prefix of at least p bits, X(64, {answer['distance']}, d):"
    for start in range(0, len(answer["optimum"]), _OPTIMA_A_LINE):
        part = answer["optimum"][start : start + _OPTIMA_A_LINE]
        for title, key in (
            ("tables", "tables"),
            ("p", "narrowest_bits"),
            ("2^(d-p)", "prefix_candidates"),
        ):
            yield f"{title:<8}" + "".join(f"{short(each[key]):>9}" for each in part)
    yield ""
    choice = answer["choice"]
    yield (
        f"fastest within the bounds: {choice['tables']} tables, {short(choice['bytes'])} bytes, "
        f"{short(choice['microseconds'])} us"
    )
    yield answer["setting"]
