"""The command explain: why a page was dropped or kept, and how two pages compare."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.comparison import compare_fingerprints, compare_texts
from scrapy_simhash.config import PLAIN_DISTANCE_BITS
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
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.spelling import add_suggestions
from scrapy_simhash.store_stats import list_documents
from scrapy_simhash.stored import StoredDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.permutation import Design
    from scrapy_simhash.stored import Document
    from scrapy_simhash.stores import Store

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
    config = replace(config, distance=min(config.distance, design.reach_bits))
    compared = _compare_sides(first, second, design, features)
    judged, why = _judge(config, first.document, second.document, compared["distance"])
    verdict = "near-duplicates" if judged else "different pages"
    yield {
        "verdict": f"by the settings in force: {verdict}",
        "judged": judged,
        "pages": [first.page, second.page],
        "seed": name_seed(stored=stored),
        **compared,
        "within": config.distance,
        **why,
    }


def _find_side(config: Config, name: str, *, stored: bool) -> _Side:
    if is_url(name):
        with open_as_it_is(config) as store:
            document = find_documents(store, name)[-1]
        described = _describe(document)
        if config.confirm is None:  # plain simhash goes by main texts
            document = replace(document, fingerprints=document.fingerprints[:1])
        return _Side(described, document, document.text)
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


def _judge(
    config: Config,
    first: Document | StoredDocument,
    second: Document | StoredDocument,
    distance: int,
) -> tuple[bool, dict[str, Any]]:
    """Say whether a crawl would find two pages to be near-duplicates, and what decides that.

    The rules are those of `matching.Matcher`; the confirmation is asked whatever the distance.
    """
    stored = isinstance(first, StoredDocument) and isinstance(second, StoredDocument)
    if stored and first.scope != second.scope:
        return False, {"tests": ["in different scopes: never compared"]}
    if first.stub or second.stub:
        same = first.stub and second.stub and first.text_digest == second.text_digest
        return same, {"tests": ["too little text for a simhash: compared exactly"]}
    near = distance <= config.distance
    if config.confirm is None:
        return near, {}
    if not (first.sketch and second.sketch):
        return near and distance <= PLAIN_DISTANCE_BITS, {"tests": ["no sketch of one of them"]}
    from scrapy_simhash.confirm import confirm  # noqa: PLC0415 - loads numpy

    (answer,) = confirm(second, [first], config.confirm)
    return near and answer.confirmed, {
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
            logged = _read_if_there(log, LogFilter(), quiet=True)
            known |= {each["url"]: None for each in logged}
            problem = f"{url} is neither in the store nor in the log {log}"
            raise InspectionError(add_suggestions(problem, url, known))
        if not documents:
            yield {"url": url, "decision": last, "verdict": "not in the store: not judged"}
        for document in documents:
            yield {"url": url, "decision": last, **_explain_document(store, document)}


def _read_if_there(
    log: Path, wanted: LogFilter, *, quiet: bool = False
) -> Iterator[dict[str, Any]]:
    return read_log(log, wanted, quiet=quiet) if log.is_file() else iter(())


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
