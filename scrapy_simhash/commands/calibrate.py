"""`evaluate --label`: show pairs of a store, read labels, and find the settings that suit them."""

from __future__ import annotations

import os
import sys
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import plural, printable
from scrapy_simhash.batch.joins import find_all
from scrapy_simhash.commands.frame import print_fields
from scrapy_simhash.commands.look import print_explanation
from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.inspection.evaluation.evaluation import judge_labels
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
from scrapy_simhash.judging.rule import CONFIRM
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.tables.designs import parse_design

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.commands.frame import Part
    from scrapy_simhash.config import Config
    from scrapy_simhash.inspection.evaluation.labels import Label
    from scrapy_simhash.stores.store import Store


KEYS = {"s": "same", "d": "different", "u": "unknown", "n": "skip", "b": "undo", "q": "quit"}
PROMPT = "s same, d different, u unknown, n skip (next), b undo (back), q quit?"
_LABELS: dict[str, Label] = {"same": "dup", "different": "distinct", "unknown": "unknown"}
# An arrow key is an escape sequence that ends in a letter: all of it must be read at once.
_LONGEST_KEY_BYTES = 32
_END_OF_INPUT = b"\x04"


def calibrate(
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
                labelled = [each.distance for each in judged]
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
        given = _read_key_or_line()
        word = "quit" if given is None else given.strip().lower()
        word = KEYS.get(word, word)
        if word not in KEYS.values():
            yield {"note": f"{(given or '').strip()[:20]!r} is not an answer: {PROMPT}"}
        elif word == "undo" and not can_undo:
            yield {"note": "nothing was labelled in this session; delete older lines by hand"}
        else:
            return word


def _read_key_or_line() -> str | None:
    """Read a key from a terminal, without echo, or else a line; None at the end of the input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline() or None
    import termios  # noqa: PLC0415 - not on every system
    import tty  # noqa: PLC0415

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        octets = os.read(terminal, _LONGEST_KEY_BYTES)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    # Several keys at once were typed before the pair was shown.
    return None if octets in {b"", _END_OF_INPUT} else octets.decode(errors="replace")


_WIDTH = 80


def print_calibration(answer: dict[str, Any]) -> Iterable[Part]:
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
