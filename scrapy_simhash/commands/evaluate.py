"""The command evaluate: judge labelled pages, or stored pages by other settings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import printable
from scrapy_simhash.commands.frame import (
    Command,
    call,
    describe_match,
    name_page,
    print_fields,
    read_count,
)
from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.inspection.evaluation import evaluate_labelled
from scrapy_simhash.inspection.whatif import what_if

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.config import Config

_WHAT_IF_LIMITS = (
    "This fetches and changes nothing. It judges the stored pages in the order in which they "
    "arrived, those that were fetched several times in their last version. Pages not judged, and "
    "those that only dropped pages link to, are not in the store. Pages whose items were not "
    "delivered are left out, with those that were dropped for them, and with --confirm none also "
    "pages whose main text is too short."
)


def _evaluate(config: Config, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Judge labelled pages, or stored pages again."""
    labelled, stored = ("errors",), ("distance", "confirm", "scope", "top")
    unfit = labelled if options.folder is None else stored
    if given := [f"--{name}" for name in unfit if getattr(options, name) is not None]:
        pages = "labelled pages; name their FOLDER" if unfit is labelled else "stored pages"
        raise ValueError(f"{', '.join(given)}: only for {pages}")
    if options.folder is None:
        return call(what_if, config, options)
    return _evaluate_labelled(config, options.folder, errors=options.errors)


def _evaluate_labelled(config: Config, folder: Path, *, errors: bool) -> Iterator[dict[str, Any]]:
    figures, judged = evaluate_labelled(config, folder)
    if errors:
        figures["errors"] = [pair.describe() for pair in judged if pair.is_wrong]
    yield figures
    if problems := figures["problems"]:
        raise PartlyFailedError(f"rows or pages left out, {len(problems)}: {'; '.join(problems)}")


def _print_evaluation(answer: dict[str, Any]) -> Iterable[str]:
    if "changes" in answer:
        return _print_what_if(answer)
    names = ("site_known", "site_unknown", "plain")
    states = {name.replace("_", " "): answer[name] for name in names}
    return print_fields(answer | dict.fromkeys((*names, "problems"), ()) | {"rule": states})


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


def _print_what_if(answer: dict[str, Any]) -> Iterable[str]:
    yield from print_fields({**answer, "changes": ()})
    for row in answer["changes"]:
        yield f"{row['change']}  {printable(row['url'])}"
        yield f"    {describe_match(row)}, of {name_page(row['match_url'])}"
    more = answer["kept_to_dropped"] + answer["dropped_to_kept"] - len(answer["changes"])
    if more:
        yield f"and {more:,} more; --top N lists more of them, --json all"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "folder of labelled pages; without, stored pages are judged again"
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help=about)
    add = parser.add_argument_group("labelled pages").add_argument
    add("--errors", action="store_true", default=None, help="list the wrong pairs, and why")
    add = parser.add_argument_group("stored pages, by other settings").add_argument
    about = (
        "0 to 15 (default: SIMHASH_DISTANCE; if --confirm switches the confirmation on or off, 7 "
        "or 3)"
    )
    add("--distance", type=int, metavar="BITS", help=about)
    about = (
        "how similar two pages must be, 0 to 1, or none for plain simhash (default: "
        "SIMHASH_CONFIRM)"
    )
    add("--confirm", type=_read_similarity, metavar="S", help=about)
    about = "in which to compare pages (default: the one in which each page was judged)"
    add("--scope", choices=("global", "site", "host"), help=about)
    about = "list at most N changes (default: 20; with --json all)"
    add("--top", type=read_count, metavar="N", help=about)


COMMANDS = {
    "evaluate": Command(
        _evaluate,
        _add_arguments,
        _print_evaluation,
        examples=(
            "evaluate labelled",
            "evaluate labelled --errors",
            "evaluate --distance 5",
            "evaluate --confirm 0.9",
            "evaluate --distance 3 --confirm none   # as in the paper",
            "evaluate --scope host --json",
        ),
        details=f"Labelled pages: precision and recall of the settings in force.\n"
        f"Stored pages: what other settings would have decided. {_WHAT_IF_LIMITS}",
    )
}
