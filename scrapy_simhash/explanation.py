"""The command explain: why a page was dropped or kept, and how two pages compare."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.designs import parse_design
from scrapy_simhash.difference import compare_side_by_side
from scrapy_simhash.inspection import (
    InspectionError,
    choose_recipe,
    find_documents,
    fingerprint_file,
    is_url,
    name_seed,
    open_as_it_is,
)
from scrapy_simhash.logreader import LogFilter, find_log, read_log
from scrapy_simhash.simhash import FINGERPRINT_BITS, hamming_distance
from scrapy_simhash.spelling import add_suggestions
from scrapy_simhash.store_stats import list_documents

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.permutation import Design
    from scrapy_simhash.stored import Document, StoredDocument
    from scrapy_simhash.stores import Store

_FEATURES_SHOWN = 10
_DIFF_LINES_SHOWN = 60
_DIFF_WIDTH = 76
_NO_TEXT = "texts were not kept: set SIMHASH_KEEP_TEXT = True to see the difference"


class _Side(NamedTuple):
    """One of two pages that are compared.

    Attributes:
        page: for people.
        document: what is compared of it.
        text: its main text, or None where that was not kept.
    """

    page: dict[str, Any]
    document: Document | StoredDocument
    text: str | None


def explain(
    config: Config,
    what: Sequence[str],
    log_path: str | None,
    store: str | None,
    html_path: Path | None,
    *,
    overwrite: bool,
) -> Iterator[dict[str, Any]]:
    """Explain why a URL was dropped or kept, or how two pages compare.

    Args:
        config: the settings in force.
        what: a URL, or two URLs or files.
        log_path: of the decision log; None for that of the settings.
        store: None where none was named: then two files are fingerprinted with seed 0.
        html_path: write the difference of the texts there, side by side; or None.
        overwrite: replace a file that is there.

    Raises:
        InspectionError: a page is not known, or has no fingerprint, or there is nothing to be
            written.
        OSError: the file cannot be written.
    """
    answers = _explain(config, what, log_path, store)
    if html_path is not None:
        from scrapy_simhash.explanation_page import write_difference  # noqa: PLC0415

        answers = iter(write_difference(list(answers), html_path, overwrite=overwrite))
    yield from answers


def _explain(
    config: Config, what: Sequence[str], log_path: str | None, store: str | None
) -> Iterator[dict[str, Any]]:
    if len(what) == 1 and is_url(what[0]):
        yield from _explain_url(config, what[0], find_log(config, log_path))
        return
    if len(what) != 2:  # noqa: PLR2004 - a pair
        raise InspectionError(
            f"name a URL (http://...), or two URLs or files; got {' '.join(what)!r}"
        )
    stored = store is not None or any(map(is_url, what))
    first, second = (_find_side(config, name, stored=stored) for name in what)
    design = parse_design(4 if config.tables == "auto" else config.tables)
    features = config.features
    if stored:
        with open_as_it_is(config) as opened:
            design, features = parse_design(opened.design), opened.recipe.features
    yield {
        "pages": [first.page, second.page],
        "seed": name_seed(stored=stored),
        **_compare_sides(first, second, design, features),
        "within": config.distance,
        **_confirm(config, first, second),
    }


def _find_side(config: Config, name: str, *, stored: bool) -> _Side:
    if is_url(name):
        with open_as_it_is(config) as store:
            document = find_documents(store, name)[-1]
        return _Side(_describe(document), document, document.text)
    from scrapy_simhash.documents import make_document  # noqa: PLC0415 - loads trafilatura

    page = fingerprint_file(name, *choose_recipe(config, stored=stored))
    made = make_document(page, config)
    described = {
        "url": name,
        "title": page.title,
        "fingerprint": f"{made.fingerprints[0]:016x}",
        "features": page.features,
        "words": page.words,
    }
    return _Side(described, made, page.text)


def _confirm(config: Config, first: _Side, second: _Side) -> dict[str, Any]:
    """Say what the confirmation makes of two pages, whatever their distance."""
    documents = [first.document, second.document]
    if config.confirm is None or not all(each.sketch for each in documents):
        return {}
    from scrapy_simhash.confirm import confirm  # noqa: PLC0415 - loads numpy

    (answer,) = confirm(documents[1], documents[:1], config.confirm)
    return {
        "similarity": answer.similarity,
        "confirmed": answer.confirmed,
        "tests": list(answer.tests),
    }


def _explain_url(config: Config, url: str, log: Path) -> Iterator[dict[str, Any]]:
    last = None
    for decision in _read_if_there(log, LogFilter(url=url)):
        if decision.get("url") == url:
            last = decision
    with open_as_it_is(config) as store:
        documents = store.find_document(url)
        if not documents and last is None:
            known = {each.url: None for each in list_documents(store)}
            known |= {each["url"]: None for each in _read_if_there(log, LogFilter())}
            problem = f"{url} is neither in the store nor in the log {log}"
            raise InspectionError(add_suggestions(problem, url, known))
        if not documents:
            yield {"url": url, "decision": last, "verdict": "not in the store: not judged"}
        for document in documents:
            yield {"url": url, "decision": last, **_explain_document(store, document)}


def _read_if_there(log: Path, wanted: LogFilter) -> Iterator[dict[str, Any]]:
    return read_log(log, wanted) if log.is_file() else iter(())


def _explain_document(store: Store, document: StoredDocument) -> dict[str, Any]:
    original = store.get_document(document.original) if document.original else None
    page = _describe(document)
    if document.state == "duplicate" and original is None:
        verdict = f"near-duplicate of an imported fingerprint, {document.distance} bits away"
        verdict += _taken_back(document)
        return {"verdict": verdict, "pages": [page], "tests": list(document.tests)}
    if original is None:
        return {"verdict": f"kept ({document.state})", "pages": [page]}
    first = _Side(page, document, document.text)
    second = _Side(_describe(original), original, original.text)
    verdict = f"near-duplicate of {original.url}, {document.distance} bits away when judged"
    return {
        "verdict": verdict + _taken_back(document),
        "pages": [first.page, second.page],
        **_compare_sides(first, second, parse_design(store.design), store.recipe.features),
        "similarity": document.similarity,
        "tests": list(document.tests),
    }


def _taken_back(document: StoredDocument) -> str:
    return "; taken back by undo: it passes when it is fetched again" if document.spared else ""


def _describe(document: StoredDocument) -> dict[str, Any]:
    return {
        "url": document.url,
        "title": document.title,
        "state": document.state,
        "fingerprint": f"{document.fingerprints[0]:016x}",
        "features": document.features,
        "words": document.words,
        "crawl": document.crawl,
        "time": document.time,
    }


def _compare_sides(first: _Side, second: _Side, design: Design, features: str) -> dict[str, Any]:
    """Compare the nearest fingerprints of two pages, their sketches, and their texts if kept."""
    pairs = [(a, b) for a in first.document.fingerprints for b in second.document.fingerprints]
    nearest = min(pairs, key=lambda pair: hamming_distance(*pair))
    answer = {
        **compare_fingerprints(*nearest, design),
        **_compare_sketches(first.document.sketch, second.document.sketch),
    }
    if first.text is None or second.text is None:
        return {**answer, "note": _NO_TEXT}
    return {
        **answer,
        **compare_texts(features, first.text, second.text),
        "side_by_side": compare_side_by_side(first.text, second.text),
    }


def _compare_sketches(first: bytes, second: bytes) -> dict[str, float]:
    if not first or not second:
        return {}
    from scrapy_simhash.sketch import compare_sketches  # noqa: PLC0415 - loads numpy

    alike = compare_sketches(first, [second])
    return {
        "main_similarity": round(float(alike.main[0]), 4),
        "whole_similarity": round(float(alike.whole[0]), 4),
    }


def compare_fingerprints(first: int, second: int, design: Design) -> dict[str, Any]:
    """Say in which bits two fingerprints differ, and which tables find the pair.

    Args:
        first: a fingerprint.
        second: another.
        design: of the tables.

    Returns:
        `compared`, both in hexadecimal; `distance` in bits; `differing_bits`, 0 the lowest;
        `blocks` of the design, the leading one first, each with its `bits` and those `differing`;
        `design`, its name; `found_by_tables`: numbers of the tables in which a probe for the one
        meets the other.
    """
    differing = [bit for bit in range(FINGERPRINT_BITS) if (first ^ second) >> bit & 1]
    flipped_bits = design.flips_for(min(len(differing), design.reach_bits))
    found_by = [
        number
        for number, table in enumerate(design.tables)
        if ((table.permute(first) ^ table.permute(second)) >> (64 - table.prefix_bits)).bit_count()
        <= flipped_bits
    ]
    return {
        "compared": [f"{first:016x}", f"{second:016x}"],
        "distance": len(differing),
        "differing_bits": differing,
        "blocks": [
            {
                "bits": f"{end - 1} to {start}",
                "differing": [bit for bit in reversed(differing) if start <= bit < end],
            }
            for start, end in reversed(_list_blocks(design))
        ],
        "design": design.name,
        "found_by_tables": found_by,
    }


def _list_blocks(design: Design) -> list[tuple[int, int]]:
    """List where the blocks of a design begin and end; tables may cut them differently."""
    borders = {block.shift for table in design.tables for block in table.blocks}
    starts = sorted(borders)
    return list(zip(starts, [*starts[1:], FINGERPRINT_BITS], strict=True))


def compare_texts(features: str, first: str, second: str) -> dict[str, Any]:
    """Say in which features two texts differ, and show their difference.

    Args:
        features: name or import path of the feature set.
        first: main text of a page.
        second: that of another.

    Returns:
        `jaccard` of the distinct features, 0 to 1; `shared_features`, how many; `only_in_first`
        and `only_in_second`, the most frequent ones; `text_difference`: lines of a unified diff.
    """
    from scrapy_simhash.fingerprint import load_features  # noqa: PLC0415 - loads trafilatura

    counts = [load_features(features).count(text) for text in (first, second)]
    shared = counts[0].keys() & counts[1].keys()
    total = len(counts[0].keys() | counts[1].keys())
    diff = difflib.unified_diff(_wrap(first), _wrap(second), "first", "second", lineterm="", n=1)
    return {
        "jaccard": round(len(shared) / max(1, total), 4),
        "shared_features": len(shared),
        "only_in_first": _heaviest(counts[0] - counts[1]),
        "only_in_second": _heaviest(counts[1] - counts[0]),
        "text_difference": list(diff)[:_DIFF_LINES_SHOWN],
    }


def _heaviest(counts: Counter[str]) -> list[str]:
    return [shingle for shingle, _ in counts.most_common(_FEATURES_SHOWN)]


def _wrap(text: str) -> list[str]:
    """Break a text into lines that begin anew at each of its own, so that an insertion is local."""
    import textwrap  # noqa: PLC0415 - only explain needs it

    return [part for line in text.splitlines() for part in textwrap.wrap(line, _DIFF_WIDTH)]
