"""The command evaluate: labelled pages, stored pages by other settings, labels for pairs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import plural, printable
from scrapy_simhash.commands.calibrate import calibrate, print_calibration
from scrapy_simhash.commands.frame import (
    Command,
    call,
    format_ratio,
    format_share,
    list_table,
    make_table,
    name_page,
)
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.inspection.evaluation.crawling import crawl_labelled
from scrapy_simhash.inspection.evaluation.evaluation import evaluate_labelled
from scrapy_simhash.inspection.whatif import what_if
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
_WIDTH = 100
_WHAT_IF_LIMITS = (
    "This fetches and changes nothing. It judges the stored pages one after the other, in the "
    "order in which they arrived, starting with only the imported fingerprints. A page that was "
    "fetched several times is judged in its last version. Pages that are not in the store cannot "
    "be judged: unjudged pages, and pages that only dropped pages link to. URL rules are not "
    "asked, neither which requests they spare nor as evidence. Pages whose items were "
    "not delivered are left out, with all pages that were dropped for them, and with --confirm "
    "none also pages whose main text is too short. Pages that a crawl judged by plain simhash have "
    "no fingerprint of their whole text, so they are found by their main text only."
)
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


# The options that suit only one of three ways of judging.
_STORED, _LABELLED, _TO_LABEL = "stored pages", "labelled pages", "pairs to be labelled"
_OPTIONS = {
    _STORED: ("distance", "confirm", "scope", "top"),
    _LABELLED: ("errors", "workers", "crawl"),
    _TO_LABEL: ("seed",),
}


def _evaluate(config: Config, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Judge labelled pages, or stored pages again; or read labels for pairs of stored pages."""
    labelled: Path | None = options.labelled
    way = _STORED if labelled is None else _LABELLED
    if options.label or options.results:
        way = _TO_LABEL
    for other, names in _OPTIONS.items():
        given = [f"--{name}" for name in names if getattr(options, name) is not None]
        if given and other != way:
            raise ValueError(f"{', '.join(given)}: for {other}, and this command is about {way}")
    if way == _TO_LABEL:
        return calibrate(config, labelled, options.seed or 0, results=options.results)
    if labelled is None:
        return call(what_if, config, options)
    return _evaluate_labelled(config, labelled, options)


def _evaluate_labelled(
    config: Config, labelled: Path, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Judge labelled pairs of a folder or of a store, or crawl the pages of a folder."""
    if options.workers is not None:
        config = replace(config, workers=options.workers)
    if options.crawl is None:
        figures, judged = evaluate_labelled(config, labelled)
        if options.errors:
            figures["errors"] = [pair.describe() for pair in judged if pair.is_wrong]
    elif options.errors:
        raise InspectionError(
            "--crawl judges no pairs: leave --errors out; wrong drops are always named"
        )
    else:
        figures = crawl_labelled(config, labelled, options.crawl)
    yield figures
    if problems := figures["problems"]:
        raise PartlyFailedError(f"rows or pages left out, {len(problems)}: {'; '.join(problems)}")


def _print_evaluation(answer: dict[str, Any]) -> Iterable[Part]:
    """Print what came of any of the ways to judge."""
    if "orders" in answer:
        return _print_crawl(answer)
    if "by_source" in answer:
        return _print_pairs(answer)
    return _print_what_if(answer) if "changes" in answer else print_calibration(answer)


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
        yield from list_table(
            {title: "left", **dict.fromkeys(columns.values(), "right")},
            ([key, *(_cell(row[name]) for name in columns)] for key, row in rows.items()),
        )
    for error in answer.get("errors", ()):
        yield ""
        yield f"{error['label']}, judged {error['judged']} ({plural(error['distance'], 'bit')})"
        yield from (f"  {printable(error[key])}" for key in ("first", "second", "why"))
        yield from _list_tests(error["tests"])


def _print_rule(answer: dict[str, Any]) -> Iterable[Part]:
    """Print how often the current rule is right; for comparison plain simhash and other seeds."""
    yield f"{answer['pages']:,} pages, {answer['pairs']:,} pairs, {answer['unknown']:,} unknown"
    yield _name_rule(answer)
    states = {
        "site known": answer["site_known"],
        "site unknown": answer["site_unknown"],
        f"plain simhash, {PLAIN_DISTANCE_BITS} bits": answer["plain"],
    }
    yield make_table(
        {"": "whole", "precision": "left", "recall": "left", "wrong": "right", "missed": "right"},
        (
            (
                state,
                *(format_share(row, name) for name in ("precision", "recall")),
                row["false_positives"],
                row["false_negatives"],
            )
            for state, row in states.items()
        ),
    )
    yield f"known is the site of {answer['site_known']['known']:,} pairs, by the pages beside them"


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
            yield from _list_tests(drop["tests"])


def _list_tests(tests: Iterable[str]) -> Iterable[str]:
    for test in tests:
        yield from wrap(printable(test), _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _crawl_cell(row: dict[str, Any], name: str) -> str:
    """Write a share, a count or a mean of counts; "" for what a row does not have."""
    if name not in row:
        return ""
    share = row[name] is None or name.endswith("_share")
    return format_ratio(row[name]) if share else f"{row[name]:,.5g}"


def _cell(value: float | None) -> str:
    return str(value) if isinstance(value, int) else format_ratio(value)


def _read_similarity(text: str) -> float | str:
    if text.lower() == "none":
        return "none"
    try:
        similarity = float(text)
    except ValueError:
        similarity = -1.0
    if not 0 <= similarity <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 0 to 1 nor none")
    return similarity


def _print_what_if(answer: dict[str, Any]) -> Iterable[Part]:
    confirm = "none (plain simhash)" if answer["confirm"] is None else f"{answer['confirm']:g}"
    scope = f", scope {answer['scope']}" if answer["scope"] else ""
    yield f"with distance {answer['distance']}, confirm {confirm}{scope}:"
    yield f"pages judged again: {answer['documents']:,}"
    if answer["left_out"]:
        yield f"left out, see --help: {answer['left_out']:,}"
    yield f"dropped: {answer['dropped_before']:,} before, {answer['dropped_then']:,} then"
    yield f"kept -> dropped: {answer['kept_to_dropped']:,}"
    yield f"dropped -> kept: {answer['dropped_to_kept']:,}"
    yield f"dropped both times, for another page: {answer['other_original']:,}"
    yield from list_table(
        {"change": "left", "bits": "right", "alike": "right", "page, and of which": "whole"},
        (cells for row in answer["changes"] for cells in _describe_change(row)),
    )
    more = answer["kept_to_dropped"] + answer["dropped_to_kept"] - len(answer["changes"])
    if more:
        yield f"and {more:,} more; --top N lists more of them, --json all"


def _describe_change(row: dict[str, Any]) -> Iterable[tuple[object, ...]]:
    alike = "" if row["similarity"] is None else f"{row['similarity']:.2f}"
    yield row["change"], row["distance"], alike, row["url"]
    yield "", "", "", f"of {name_page(row['match_url'])}"


def _read_count(given: str) -> int:
    if not (given.isascii() and given.isdigit() and int(given)):
        raise argparse.ArgumentTypeError(f"{given!r} must be a whole number, 1 or more")
    return int(given)


_EVALUATE = f"""
[DIR|CSV]: folder of labelled pages, or a file of labels for the store, such as --label writes;
    without, stored pages are judged again
labelled pages
--errors: list the wrong pairs, and why
--workers N: number of processes (default: SIMHASH_WORKERS)
--crawl [N]: crawl all pages of the folder in N random orders instead, and name the wrong drops
    (default: {_ORDERS})
stored pages, by other settings
--distance BITS: bits, 0 to 15 (default: SIMHASH_DISTANCE; if --confirm switches the confirmation on
    or off, 7 or 3)
--confirm S: how similar two pages must be, 0 to 1, or none for plain simhash (default:
    SIMHASH_CONFIRM)
--scope SCOPE: global, site or host: in which to compare pages (default: the one in which each page
    was judged)
--top N: list at most N changes (default: 20; with --json all)
pairs of the store, to be labelled
--label: show pairs, append their labels to CSV (default: calibration.csv beside the store's log),
    then report as --results does
--results: ask for nothing; weight the labelled pairs by how many the store has at their distance,
    and recommend settings
--seed N: another seed shows the pairs in another order (default: 0)
"""


COMMANDS = {
    "evaluate": Command(
        _evaluate,
        _EVALUATE,
        _print_evaluation,
        more={
            "dir|csv": {"dest": "labelled", "type": Path},
            "errors": {"default": None},
            "crawl": {"const": _ORDERS, "type": _read_count},
            "confirm": {"type": _read_similarity},
            "scope": {"choices": ("global", "site", "host")},
            "seed": {"type": int},
        },
        examples=(
            "evaluate labelled",
            "evaluate labelled --errors --workers 2",
            "evaluate labelled --crawl",
            "evaluate --distance 5",
            "evaluate --confirm 0.9",
            "evaluate --distance 3 --confirm none   # as in the paper",
            "evaluate --scope host --json",
            "evaluate --label",
            "evaluate monday.csv --label --seed 1",
            "evaluate --results --json",
        ),
        details=f"Labelled pages: precision and recall of the settings in force.\n"
        f"Stored pages: what other settings would have decided. {_WHAT_IF_LIMITS}\n"
        "Pairs of the store: answers are single keys on a terminal, otherwise lines: s same, d "
        "different, u unknown, n skip, b undo, q quit. Each label is on disk before the next pair "
        "is shown, and the next call continues from there.",
    ),
}
