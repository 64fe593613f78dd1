"""Prints precision and recall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.config import PLAIN_DISTANCE_BITS
from scrapy_simhash.output import make_table
from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from scrapy_simhash.output import Part

_TALLY_COLUMNS = {
    "precision": "precision",
    "recall": "recall",
    "false_positives": "wrong",
    "false_negatives": "missed",
}
_DISTANCE_COLUMNS = {
    "precision": "precision",
    "recall": "recall",
    "false_positives": "wrong",
    "plain_precision": "plain precision",
    "plain_recall": "plain recall",
}


def print_evaluation(answer: dict[str, Any]) -> Iterable[Part]:
    """Print what `evaluate` measured."""
    yield from _print_rule(answer)
    if left_out := answer["leave_one_source_out"]:
        yield (
            "each source judged with what is best on the others: "
            f"precision {_share(left_out, 'precision')}, recall {_share(left_out, 'recall')}"
        )
    if (hard := answer["hard"])["pairs"]:
        yield (
            f"hard distinct pairs: {hard['false_positives']} of {hard['pairs']} wrong "
            f"({hard['false_positive_rate']:.1%})"
        )
    links = answer["duplicates_with_new_links"]
    yield f"duplicates with mostly new links: {links['mostly_new']} of {links['with_links']}"
    for reason, count in answer["unjudged"].items():
        yield f"not judged: {count} pages ({printable(reason)})"
    costs = answer["milliseconds_per_page"]
    if costs:
        yield "milliseconds a page: " + ", ".join(f"{name} {costs[name]}" for name in costs)
    if "note" in answer:
        yield answer["note"]
    yield ""
    yield _make_table(
        "bits",
        [{"name": row["distance"], **row} for row in answer["by_distance"]],
        _DISTANCE_COLUMNS,
    )
    for group in ("source", "language", "tag"):
        rows = [{"name": name, **tally} for name, tally in answer[f"by_{group}"].items()]
        yield ""
        yield _make_table(group, rows, _TALLY_COLUMNS)
    for error in answer.get("errors", ()):
        yield ""
        yield f"{error['label']}, judged {error['judged']} ({error['distance']} bits)"
        yield from (f"  {printable(error[key])}" for key in ("first", "second", "why"))
        yield from (f"  {printable(test)}" for test in error["tests"])


def _print_rule(answer: dict[str, Any]) -> Iterable[Part]:
    """Print how often the rule in force is right, and plain simhash beside it."""
    confirm = answer["confirm"]
    rule = "without confirmation" if confirm is None else f"confirmed at {confirm:g}"
    yield f"{answer['pages']:,} pages, {answer['pairs']:,} pairs, {answer['unknown']:,} unknown"
    yield f"within {answer['distance']} bits, {rule}:"
    yield f"  precision {_share(answer, 'precision')}, {answer['false_positives']} wrong"
    yield f"  recall    {_share(answer, 'recall')}, {answer['false_negatives']} missed"
    mean = answer["mean_over_sources"]
    yield (
        f"  mean over sources: precision {_ratio(mean['precision'])}, "
        f"recall {_ratio(mean['recall'])}"
    )
    plain = answer["plain"]
    yield (
        f"plain simhash within {PLAIN_DISTANCE_BITS} bits: precision {_share(plain, 'precision')}, "
        f"recall {_share(plain, 'recall')}"
    )


def _share(figures: dict[str, Any], name: str) -> str:
    if figures[name] is None:
        return "-"
    low, high = figures[f"{name}_interval"]
    return f"{figures[name]:.3f} ({low:.3f} to {high:.3f})"


def _ratio(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def _make_table(name: str, rows: list[dict[str, Any]], columns: dict[str, str]) -> Table:
    titles = {name: "left", **dict.fromkeys(columns.values(), "right")}
    return make_table(
        titles, ([row["name"], *(_cell(row[key]) for key in columns)] for row in rows)
    )


def _cell(value: float | None) -> str:
    return str(value) if isinstance(value, int) else _ratio(value)
