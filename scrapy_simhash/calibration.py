"""The command calibrate: people label pairs of their own store, and the labels say what is best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy_simhash.advice import advise
from scrapy_simhash.asking import PROMPT, read_answer, understand
from scrapy_simhash.comparison import compare_fingerprints, compare_texts
from scrapy_simhash.config import CONFIRM, PLAIN_DISTANCE_BITS
from scrapy_simhash.confirm import confirm
from scrapy_simhash.corpus import LabelledPair
from scrapy_simhash.designs import parse_design
from scrapy_simhash.inspection import PartlyFailedError, open_as_it_is
from scrapy_simhash.labels import LABELS_FILE, LabelWriter, read_labels
from scrapy_simhash.logreader import find_log
from scrapy_simhash.sampling import cell_of
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stored_pairs import judge_labels
from scrapy_simhash.survey import Survey, survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.corpus import Label
    from scrapy_simhash.labels import Labels
    from scrapy_simhash.quality import Judged
    from scrapy_simhash.stored import StoredDocument
    from scrapy_simhash.stores import Store

_LABELS: dict[str, Label] = {"same": "dup", "different": "distinct", "unknown": "unknown"}


def calibrate(
    config: Config, labels_path: Path | None, seed: int, *, by_distance: bool, results: bool
) -> Iterator[dict[str, Any]]:
    """Show pairs, take labels, and say what these say.

    Args:
        config: the settings in force.
        labels_path: where the labels are and go; None for `calibration.csv` beside the store's log.
        seed: of the order in which pairs are shown.
        by_distance: as many pairs at each distance, instead of the most telling ones first.
        results: show no pairs, only what the labels say.

    Yields:
        Pairs, each to be answered, notes, and in the end what the labels say. Nothing if the store
        has no pairs.

    Raises:
        ValueError: the file holds no labels, or another process is writing to it.
        OSError: a label could not be written.
        PartlyFailedError: labels had to be left out; the others were used.
    """
    path = labels_path or find_log(config, None).with_name(LABELS_FILE)
    with open_as_it_is(config) as store:
        reach_bits = parse_design(store.design).reach_bits
        config = replace(config, distance=min(config.distance, reach_bits))
        known = survey(store, seed)
        if not known.pairs:
            return
        if not results:
            with LabelWriter(path) as writer:
                judged, _ = _judge(store, writer.labels, config)
                queue = _choose(known, writer.labels, judged, config, by_distance=by_distance)
                yield from _Session(store, config, writer, queue).run()
        labels = read_labels(path)
        judged, problems = _judge(store, labels, config)
        yield advise(store, known, judged, config, problems)
    if problems:
        raise PartlyFailedError(f"{len(problems)} labels left out: {'; '.join(problems)}")


def _judge(store: Store, labels: Labels, config: Config) -> tuple[list[Judged], list[str]]:
    """Judge the labelled pairs as with confirmation, which leaves nothing out; see `Setting`."""
    if config.confirm is None:
        config = replace(config, confirm=CONFIRM)
    return judge_labels(store, labels, config)


def _choose(
    known: Survey, labels: Labels, judged: Sequence[Judged], config: Config, *, by_distance: bool
) -> list[tuple[int, int]]:
    cells = [cell_of(each.distance, each.similarity) for each in judged]
    if by_distance:
        return known.order_by_distance(cells, labels.rows)
    return known.order(cells, labels.rows, config)


@dataclass
class _Session:
    """Asks for the labels of pairs, one after the other.

    Attributes:
        queue: the pairs, by the numbers of their documents.
        labelled: places in the queue of those that were labelled here.
    """

    store: Store
    config: Config
    writer: LabelWriter
    queue: Sequence[tuple[int, int]]

    def run(self) -> Iterator[dict[str, Any]]:
        """Show pairs and write what is answered, until there are no more or nobody answers."""
        labelled: list[int] = []
        place = 0
        while place < len(self.queue):
            first, second = map(self.store.get_document, self.queue[place])
            if first is None or second is None:  # deleted meanwhile
                place += 1
                continue
            shown = describe_pair(self.store, first, second, self.config)
            yield {"pair": {"labelled": len(self.writer.labels.rows) + len(labelled), **shown}}
            answer = None
            while answer is None or (answer == "undo" and not labelled):
                given = read_answer()
                answer = "quit" if given is None else understand(given)
                if answer is None:
                    yield {"note": f"{(given or '').strip()[:20]!r} is none of: {PROMPT}"}
                elif answer == "undo" and not labelled:
                    yield {
                        "note": "nothing was labelled in this session; delete older lines by hand"
                    }
            if answer == "quit":
                return
            if answer == "undo":
                place = labelled.pop()
                self.writer.take_back()
                yield {"note": "taken back"}
                continue
            if answer in _LABELS:
                pair = _make_pair(first, second, _LABELS[answer], shown)
                self.writer.write(pair, (first.url, second.url))
                labelled.append(place)
            yield {"note": answer}
            place += 1


def _make_pair(
    first: StoredDocument, second: StoredDocument, label: Label, shown: dict[str, Any]
) -> LabelledPair:
    why = f"calibrate; {shown['distance']} bits, {shown['similarity']:.2f} alike"
    try:
        host = urlsplit(first.url).hostname or ""
    except ValueError:  # such as an invalid IPv6 address
        host = ""
    return LabelledPair(str(first.document), str(second.document), label, host, why)


def describe_pair(
    store: Store, first: StoredDocument, second: StoredDocument, config: Config
) -> dict[str, Any]:
    """Say what a person should know to label a pair.

    Args:
        store: that has them.
        first: the older page.
        second: the other one.
        config: the settings in force.
    """
    pairs = product(first.fingerprints, second.fingerprints)
    nearest = min(pairs, key=lambda pair: hamming_distance(*pair))
    compared = compare_fingerprints(*nearest, parse_design(store.design))
    similarity, tests, confirmed = (
        0.0,
        ["no sketch of one of them"],
        compared["distance"] <= PLAIN_DISTANCE_BITS,
    )
    if first.sketch and second.sketch:
        least = CONFIRM if config.confirm is None else config.confirm
        (answer,) = confirm(second, [first], least)
        similarity, tests, confirmed = answer.similarity, list(answer.tests), answer.confirmed
    near = compared["distance"] <= config.distance
    shown = {
        "pages": [_describe_page(each) for each in (first, second)],
        **compared,
        "similarity": similarity,
        "tests": tests,
        "judged": near and (confirmed or config.confirm is None),
    }
    if first.text is None or second.text is None:
        return {**shown, "note": "texts were not kept (SIMHASH_KEEP_TEXT): open both URLs"}
    return shown | compare_texts(store.recipe.features, first.text, second.text)


def _describe_page(document: StoredDocument) -> dict[str, Any]:
    return {
        "document": document.document,
        "url": document.url,
        "title": document.title,
        "heading": document.heading,
        "words": document.words,
        "language": document.language,
        "state": document.state,
    }
