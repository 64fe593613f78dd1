"""The command evaluate: labelled pairs, or a crawl of labelled pages."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import plural, printable
from scrapy_simhash.commands.frame import Command, make_table
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.inspection.evaluation.crawling import crawl_labelled
from scrapy_simhash.inspection.evaluation.evaluation import evaluate_labelled, plot_by_distance
from scrapy_simhash.judging.rule import PLAIN_DISTANCE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.commands.frame import Part
    from scrapy_simhash.config import Config


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
_ORDERS = 3
_CRAWL_COLUMNS = {
    "dropped": "dropped",
    "right": "right",
    "wrong": "wrong",
    "cannot_tell": "unclear",
    "wrong_share": "share",
    "redundant": "redundant",
    "found_share": "found",
    "lost": "lost",
    "perhaps_lost": "perhaps",
}


def _evaluate(config: Config, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Judge labelled pairs of a folder or of a store, or crawl the pages of a folder."""
    if options.workers is not None:
        config = replace(config, workers=options.workers)
    if options.crawl is None:
        figures = _evaluate_pairs(config, options)
    elif options.errors or options.plot is not None or options.seeds > 1:
        raise InspectionError(
            "--crawl judges no pairs: leave --errors, --plot and --seeds out; wrong drops are "
            "always named, and each order of the pages has a seed of its own"
        )
    else:
        figures = crawl_labelled(config, options.labelled, options.crawl)
    yield figures
    if problems := figures["problems"]:
        raise PartlyFailedError(f"rows or pages left out, {len(problems)}: {'; '.join(problems)}")


def _evaluate_pairs(config: Config, options: argparse.Namespace) -> dict[str, Any]:
    """Judge labelled pairs; see `evaluate_labelled`."""
    if options.plot is not None:  # before the pages are judged
        try:
            import matplotlib.figure  # noqa: F401, PLC0415 - optional library
        except ImportError as error:
            raise InspectionError(
                f"--plot needs pip install 'scrapy-simhash[plot]': {error}"
            ) from error
    figures, judged = evaluate_labelled(config, options.labelled, options.seeds)
    if options.errors:
        figures["errors"] = [pair.describe() for pair in judged if pair.is_wrong]
    if options.plot is not None:
        plot_by_distance(figures["by_distance"], options.plot)
    return figures


def _print_evaluation(answer: dict[str, Any]) -> Iterable[Part]:
    """Print what came of pairs, or of a crawl."""
    return _print_crawl(answer) if "orders" in answer else _print_pairs(answer)


def _print_pairs(answer: dict[str, Any]) -> Iterable[Part]:
    """Print precision and recall, the errors and the costs."""
    yield from _print_rule(answer)
    links = answer["duplicates_with_new_links"]
    yield f"duplicates with mostly new links: {links['mostly_new']} of {links['with_links']}"
    yield from _print_unjudged(answer)
    if costs := answer["milliseconds_per_page"]:
        yield "milliseconds a page: " + ", ".join(f"{name} {costs[name]}" for name in costs)
    if "note" in answer:
        yield answer["note"]
    for title, columns, rows in (
        ("bits", _DISTANCE_COLUMNS, {row["distance"]: row for row in answer["by_distance"]}),
        ("source", _TALLY_COLUMNS, answer["by_source"]),
    ):
        yield ""
        yield make_table(
            {title: "left", **dict.fromkeys(columns.values(), "right")},
            ([key, *(_cell(row[name]) for name in columns)] for key, row in rows.items()),
        )
    for error in answer.get("errors", ()):
        yield ""
        yield f"{error['label']}, judged {error['judged']} ({plural(error['distance'], 'bit')})"
        yield from (f"  {printable(error[key])}" for key in ("first", "second", "why"))
        yield from (f"  {printable(test)}" for test in error["tests"])


def _print_rule(answer: dict[str, Any]) -> Iterable[Part]:
    """Print how often the current rule is right; for comparison plain simhash and other seeds."""
    yield f"{answer['pages']:,} pages, {answer['pairs']:,} pairs, {answer['unknown']:,} unknown"
    yield _name_rule(answer)
    yield f"  precision {format_share(answer, 'precision')}, {answer['false_positives']} wrong"
    yield f"  recall    {format_share(answer, 'recall')}, {answer['false_negatives']} missed"
    plain = answer["plain"]
    yield (
        f"plain simhash within {PLAIN_DISTANCE_BITS} bits: "
        f"precision {format_share(plain, 'precision')}, recall {format_share(plain, 'recall')}"
    )
    if seeds := answer.get("seeds"):
        yield f"mean of {len(seeds['each'])} seeds: {_format_tally(seeds)}"
        yield f"worst, seed {seeds['worst']['seed']}: {_format_tally(seeds['worst'])}"


def _name_rule(answer: dict[str, Any]) -> str:
    """Name the settings in force, before what they give."""
    confirm = answer["confirm"]
    rule = "without confirmation" if confirm is None else f"confirmed at {confirm:g}"
    return f"within {answer['distance']} bits, {rule}:"


def _print_unjudged(answer: dict[str, Any]) -> Iterable[str]:
    for reason, count in answer["unjudged"].items():
        yield f"not judged: {plural(count, 'page')} ({printable(reason)})"


def _print_crawl(answer: dict[str, Any]) -> Iterable[Part]:
    """Print what crawls of the pages dropped, a row an order, and name the wrong drops."""
    yield f"{answer['pages']:,} pages of {plural(answer['documents'], 'document')}, in one store"
    yield from _print_unjudged(answer)
    yield _name_rule(answer)
    yield make_table(
        {"order": "whole", **dict.fromkeys(_CRAWL_COLUMNS.values(), "right")},
        (
            [row.get("seed", "mean"), *(_crawl_cell(row, name) for name in _CRAWL_COLUMNS)]
            for row in (*answer["orders"], answer["mean"])
        ),
    )
    yield "Share: wrong ones of the drops that labels can tell of. Found: of the redundant pages."
    yield "Lost: documents of which no page was kept; perhaps, if nobody can tell of their drops."
    for order in answer["orders"]:
        for drop in order["wrong_drops"]:
            yield ""
            yield f"order {order['seed']}, wrong drop ({plural(drop['distance'], 'bit')})"
            for role in ("dropped", "kept"):
                yield f"  {role}: {printable(drop[role])} {printable(drop[f'{role}_url'])}"
            yield from (f"  {printable(test)}" for test in drop["tests"])


def _crawl_cell(row: dict[str, Any], name: str) -> str:
    """Write a share, a count or a mean of counts; "" for what a row does not have."""
    if name not in row:
        return ""
    share = row[name] is None or name.endswith("_share")
    return format_ratio(row[name]) if share else f"{row[name]:,.5g}"


def _format_tally(figures: dict[str, Any]) -> str:
    """Write how often a seed, or several on average, is right."""
    return (
        f"precision {format_ratio(figures['precision'])}, "
        f"recall {format_ratio(figures['recall'])}, "
        f"{figures['false_positives']:g} wrong, {figures['false_negatives']:g} missed"
    )


def format_share(figures: dict[str, Any], name: str) -> str:
    """Write a share with its interval: .987 (0.950-0.998)."""
    if figures[name] is None:
        return "-"
    low, high = figures[f"{name}_interval"]
    return f"{figures[name]:.3f} ({low:.3f}-{high:.3f})"


def format_ratio(share: float | None) -> str:
    """Write a share without interval."""
    return "-" if share is None else f"{share:.3f}"


def _cell(value: float | None) -> str:
    return str(value) if isinstance(value, int) else format_ratio(value)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "labelled",
        type=Path,
        metavar="DIR|CSV",
        help="folder of labelled pages, or the file of labels that calibrate wrote for the store",
    )
    parser.add_argument("--errors", action="store_true", help="list the wrong pairs, and why")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="plot the paper's Figure 1 (PNG, SVG or PDF)"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="number of processes (default: SIMHASH_WORKERS)"
    )
    parser.add_argument(
        "--seeds",
        type=_read_count,
        default=1,
        metavar="N",
        help="also judge with the seeds 1 to N - 1; print means, and the worst seed (default: 1)",
    )
    parser.add_argument(
        "--crawl",
        type=_read_count,
        nargs="?",
        const=_ORDERS,
        metavar="N",
        help="crawl all pages of the folder in N random orders instead, and name the wrong drops "
        f"(default: {_ORDERS})",
    )


def _read_count(given: str) -> int:
    if not (given.isascii() and given.isdigit() and int(given)):
        raise argparse.ArgumentTypeError(f"{given!r} must be a whole number, 1 or more")
    return int(given)


COMMANDS = {
    "evaluate": Command(
        _evaluate,
        _add_evaluate,
        _print_evaluation,
        examples=(
            "evaluate labelled",
            "evaluate labelled --errors --workers 2",
            "evaluate labelled --seeds 5",
            "evaluate labelled --crawl",
            "evaluate calibration.csv --store my-store",
        ),
    ),
}
