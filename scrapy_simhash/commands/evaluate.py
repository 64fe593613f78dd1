"""The command evaluate: labelled pages, stored pages by other settings, labels for pairs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import plural, printable
from scrapy_simhash.commands.calibrate import calibrate, print_calibration
from scrapy_simhash.commands.frame import (
    Command,
    call,
    name_page,
    print_fields,
)
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.inspection.evaluation.crawling import crawl_labelled
from scrapy_simhash.inspection.evaluation.evaluation import evaluate_labelled
from scrapy_simhash.inspection.whatif import what_if

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.commands.frame import Part
    from scrapy_simhash.config import Config


_ORDERS = 3
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
        # The drops and pages that an order names stand below the table of all orders.
        orders, mean = answer["orders"], {"seed": "mean", **answer["mean"]}
        table = [
            {name: value for name, value in row.items() if not isinstance(value, list)}
            for row in (*orders, mean)
        ]
        wrong = [{"order": row["seed"], **drop} for row in orders for drop in row["wrong_drops"]]
        return print_fields({**answer, "mean": {}, "orders": table, "wrong_drop": wrong})
    if "by_source" in answer:
        names = ("site_known", "site_unknown", "plain")
        states = {name.replace("_", " "): answer[name] for name in names}
        return print_fields(answer | dict.fromkeys((*names, "problems"), ()) | {"rule": states})
    return _print_what_if(answer) if "changes" in answer else print_calibration(answer)


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
    yield from print_fields({**answer, "changes": ()})
    for row in answer["changes"]:
        alike = "" if row["similarity"] is None else f", {row['similarity']:.2f} alike"
        yield f"{row['change']}  {printable(row['url'])}"
        yield f"    {plural(row['distance'], 'bit')}{alike}, of {name_page(row['match_url'])}"
    more = answer["kept_to_dropped"] + answer["dropped_to_kept"] - len(answer["changes"])
    if more:
        yield f"and {more:,} more; --top N lists more of them, --json all"


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
