"""The command evaluate: labelled pages, stored pages by other settings, labels for pairs."""

from __future__ import annotations

import argparse
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import plural, printable
from scrapy_simhash.batch.joins import find_all
from scrapy_simhash.commands.frame import (
    Command,
    call,
    name_page,
    print_fields,
    read_count,
)
from scrapy_simhash.commands.look import print_explanation
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.inspection.evaluation.crawling import crawl_labelled
from scrapy_simhash.inspection.evaluation.evaluation import evaluate_labelled, judge_labels
from scrapy_simhash.inspection.evaluation.labels import (
    LABELS_FILE,
    LabelledPair,
    LabelWriter,
    open_labels,
    read_labels,
)
from scrapy_simhash.inspection.evaluation.quality import advise
from scrapy_simhash.inspection.evaluation.sampling import survey
from scrapy_simhash.inspection.explanation import compare_pages
from scrapy_simhash.inspection.log import find_log
from scrapy_simhash.inspection.whatif import what_if
from scrapy_simhash.judging.rule import CONFIRM
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from scrapy_simhash.commands.frame import Part
    from scrapy_simhash.config import Config
    from scrapy_simhash.inspection.evaluation.labels import Label
    from scrapy_simhash.stores.store import Store


_ORDERS = 3
_WHAT_IF_LIMITS = (
    "This fetches and changes nothing. It judges the stored pages one after the other, in the "
    "order in which they arrived, starting with only the imported fingerprints. A page that was "
    "fetched several times is judged in its last version. Pages that are not in the store cannot "
    "be judged: unjudged pages, and pages that only dropped pages link to. Pages whose items were "
    "not delivered are left out, with all pages that were dropped for them, and with --confirm "
    "none also pages whose main text is too short. Pages that a crawl judged by plain simhash have "
    "no fingerprint of their whole text, so they are found by their main text only."
)
KEYS = {"s": "same", "d": "different", "u": "unknown", "n": "skip", "b": "undo", "q": "quit"}
PROMPT = "s same, d different, u unknown, n skip (next), b undo (back), q quit?"
_LABELS: dict[str, Label] = {"same": "dup", "different": "distinct", "unknown": "unknown"}


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
            raise ValueError(f"{', '.join(given)}: only for {other}, not for {way}")
    if way == _TO_LABEL:
        return _calibrate(config, labelled, options.seed or 0, results=options.results)
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
    return _print_what_if(answer) if "changes" in answer else _print_calibration(answer)


def _calibrate(
    config: Config, labels_path: Path | None, seed: int, *, results: bool
) -> Iterator[dict[str, Any]]:
    """Show pairs and read labels (not with `results`), then compute the figures of all labels."""
    # Yields pairs, each to be answered, and notes; at the end the figures. Yields nothing if the
    # store has no pairs.
    path = labels_path or find_log(config, None).with_name(LABELS_FILE)
    with open_as_it_is(config.store) as store:
        reach_bits = parse_design(store.design).reach_bits
        config = replace(config, distance=min(config.distance, reach_bits))
        # Labelled pairs are judged with confirmation, which compares all fingerprints.
        confirmed = replace(config, confirm=CONFIRM if config.confirm is None else config.confirm)
        known = survey(store, find_all, seed, config.expire_days)
        if not known.pairs:
            return
        if not results:
            with open_labels(path) as writer:
                judged, _ = judge_labels(store, writer.labels, confirmed)
                labelled = [pair.distance for pair in judged]
                queue = known.order(labelled, writer.labels.rows, reach_bits)
                yield from _ask_for_labels(store, config, writer, queue)
        judged, problems = judge_labels(store, read_labels(path), confirmed)
        yield {**advise(known, judged, config.rule, reach_bits), "problems": problems}
    if problems:
        raise PartlyFailedError(f"{plural(len(problems), 'label')} left out: {'; '.join(problems)}")


def _ask_for_labels(
    store: Store, config: Config, writer: LabelWriter, queue: Sequence[tuple[int, int]]
) -> Iterator[dict[str, Any]]:
    """Show pairs and write the answers, until there are no more pairs or answers."""
    labelled: list[int] = []  # indexes in the queue
    place = 0
    while place < len(queue):
        first, second = map(store.get_document, queue[place])
        if first is None or second is None:  # deleted meanwhile
            place += 1
            continue
        shown = compare_pages(config, store, first, second)
        yield {"pair": {"labelled": len(writer.labels.rows) + len(labelled), **shown}}
        answer = yield from _read_answer(can_undo=bool(labelled))
        if answer == "quit":
            return
        if answer == "undo":
            place = labelled.pop()
            writer.take_back()
            yield {"note": "undone"}
            continue
        if answer in _LABELS:
            alike = shown.get("similarity", 0.0)
            why = f"calibrate; {plural(shown['distance'], 'bit')}, {alike:.2f} alike"
            numbers = str(first.document), str(second.document)
            pair = LabelledPair(*numbers, _LABELS[answer], host_of(first.url), why)
            writer.write(pair, (first.url, second.url))
            labelled.append(place)
        yield {"note": answer}
        place += 1


def _read_answer(*, can_undo: bool) -> Generator[dict[str, Any], None, str]:
    """Wait for one of the values of `KEYS`; yields a note about any other input."""
    while True:
        given = sys.stdin.readline() or None
        word = "quit" if given is None else given.strip().lower()
        word = KEYS.get(word, word)
        if word not in KEYS.values():
            yield {"note": f"{(given or '').strip()[:20]!r} is not an answer: {PROMPT}"}
        elif word == "undo" and not can_undo:
            yield {"note": "nothing was labelled in this session; delete older lines by hand"}
        else:
            return word


_WIDTH = 80


def _print_calibration(answer: dict[str, Any]) -> Iterable[Part]:
    """Print a pair, a note, or the results."""
    if "pair" in answer:
        yield from _print_pair(answer["pair"])
    elif "by_distance" in answer:
        advised = "keep them" if answer["recommended"] == answer["in_force"] else ""
        settings = {"in force": answer["in_force"]}
        if answer["recommended"] and not advised:
            settings["recommended"] = answer["recommended"]
        shown = {**answer, "in_force": (), "problems": (), "recommended": advised}
        yield from print_fields({**shown, "settings": settings})
    else:
        yield from _wrap(printable(answer["note"]))


def _print_pair(pair: dict[str, Any]) -> Iterable[Part]:
    yield ""
    yield f" {pair['labelled']:,} labelled ".center(_WIDTH, "-")
    yield from print_explanation(pair)
    yield PROMPT


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="   ")


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


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "labelled",
        nargs="?",
        type=Path,
        metavar="DIR|CSV",
        help="folder of labelled pages, or a file of labels for the store, such as --label writes; "
        "without, stored pages are judged again",
    )
    add = parser.add_argument_group("labelled pages").add_argument
    add("--errors", action="store_true", default=None, help="list the wrong pairs, and why")
    add(
        "--workers",
        type=read_count,
        metavar="N",
        help="number of processes (default: SIMHASH_WORKERS)",
    )
    add(
        "--crawl",
        nargs="?",
        const=_ORDERS,
        type=_read_count,
        metavar="N",
        help="crawl all pages of the folder in N random orders instead, and name the wrong drops "
        f"(default: {_ORDERS})",
    )
    add = parser.add_argument_group("stored pages, by other settings").add_argument
    add(
        "--distance",
        type=int,
        metavar="BITS",
        help="bits, 0 to 15 (default: SIMHASH_DISTANCE; if --confirm switches the confirmation on "
        "or off, 7 or 3)",
    )
    add(
        "--confirm",
        type=_read_similarity,
        metavar="S",
        help="how similar two pages must be, 0 to 1, or none for plain simhash (default: "
        "SIMHASH_CONFIRM)",
    )
    add(
        "--scope",
        choices=("global", "site", "host"),
        metavar="SCOPE",
        help="global, site or host: in which to compare pages (default: the one in which each page "
        "was judged)",
    )
    add(
        "--top",
        type=read_count,
        metavar="N",
        help="list at most N changes (default: 20; with --json all)",
    )
    add = parser.add_argument_group("pairs of the store, to be labelled").add_argument
    add(
        "--label",
        action="store_true",
        help="show pairs within 10 bits, but none that only a name proposes, append their labels "
        "to CSV (default: calibration.csv beside the store's log), then report as --results does",
    )
    add(
        "--results",
        action="store_true",
        help="show no pairs; weight the labelled ones by how many the store has at their distance, "
        "and recommend settings",
    )
    add(
        "--seed",
        type=int,
        metavar="N",
        help="another seed shows the pairs in another order (default: 0)",
    )


COMMANDS = {
    "evaluate": Command(
        _evaluate,
        _add_arguments,
        _print_evaluation,
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
        "With --label, pairs of the store: an answer is a line: s same, d "
        "different, u unknown, n skip, b undo, q quit. Each label is on disk before the next pair "
        "is shown, and the next call continues from there.",
    ),
}
