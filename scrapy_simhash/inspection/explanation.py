"""The commands explain, query and fingerprint: why pages were dropped, and which ones are near."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from msgspec import structs

from scrapy_simhash._addresses import split_url
from scrapy_simhash._printable import plural
from scrapy_simhash.detector.log import NOT_FETCHED
from scrapy_simhash.errors import InspectionError, PartlyFailedError
from scrapy_simhash.inspection.difference import (
    compare_fingerprints,
    compare_side_by_side,
    compare_texts,
)
from scrapy_simhash.inspection.log import LogFilter, find_log, read_log
from scrapy_simhash.judging import Document, Rule, StoredDocument, compare
from scrapy_simhash.judging.comparison import Deciding, find_nearest
from scrapy_simhash.judging.documents import look_at
from scrapy_simhash.stores import open_as_it_is
from scrapy_simhash.tables import Design, parse_design

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.pages import PageFingerprint, Recipe
    from scrapy_simhash.stores import Store


_MOST_SUGGESTED = 3
_SHOWN_OF_PAGE = [
    "features",
    "words",
    "language",
    "title",
    "extractor",
    "extract_ms",
    "fingerprint_ms",
]


def suggest_urls(url: str, known: Iterable[str]) -> list[str]:
    """List at most three known URLs that differ only in spelling, or else only in their query.

    >>> suggest_urls("http://a.example/x", ["https://www.a.example/X/", "http://a.example/y"])
    ['https://www.a.example/X/']
    >>> suggest_urls("http://a.example/x", ["http://a.example/x?sid=1", "http://a.example/y"])
    ['http://a.example/x?sid=1']
    """
    page, query = _reduce(url)
    same_page = {}
    for each in known:
        other_page, other_query = _reduce(each)
        if other_page == page:
            same_page[each] = other_query == query
    alike = [each for each, same_query in same_page.items() if same_query] or list(same_page)
    return alike[:_MOST_SUGGESTED]


def add_suggestions(problem: str, url: str, known: Iterable[str]) -> str:
    """Add suggestions of similar known URLs to a message about an unknown URL."""
    suggested = suggest_urls(url, known)
    return f"{problem}; did you mean {' or '.join(suggested)} ?" if suggested else problem


def _reduce(url: str) -> tuple[str, list[tuple[str, str]]]:
    """Reduce a URL to the parts that distinguish pages: host with path, and the query."""
    # Ignores spelling: scheme, www., case, port, fragment, index.html, percent-encoding.
    parts = split_url(url if "//" in url else f"//{url}")
    if not parts:
        return url, []
    host = (parts.hostname or "").removeprefix("www.")
    path = unquote(parts.path).lower().removesuffix("index.html").rstrip("/")
    return host + path, sorted(parse_qsl(parts.query, keep_blank_values=True))


_HEX_FINGERPRINT = re.compile(r"(0x)?[0-9a-fA-F]{16}")


def fingerprint_files(
    config: Config, files: Sequence[str], store: str | None
) -> Iterator[dict[str, Any]]:
    """Fingerprint HTML files, with recipe and seed of a store if one is named."""
    if store is None:
        recipe, seed = _make_recipe_of(config), 0
    else:
        with open_as_it_is(config.store) as opened:
            recipe, seed = opened.recipe, opened.seed
    failures = []
    for name in files:
        try:
            page = _fingerprint_file(config, name, recipe, seed)
        except InspectionError as error:
            failures.append(str(error))
            continue
        yield {
            "file": name,
            "fingerprint": f"{page.fingerprint:016x}",
            "seed": "0" if store is None else "of the store",
            **{name: getattr(page, name) for name in _SHOWN_OF_PAGE},
        }
    if failures:
        raise PartlyFailedError("; ".join(failures))


def _make_recipe_of(config: Config) -> Recipe:
    from scrapy_simhash.pages import make_recipe  # noqa: PLC0415 - loads trafilatura

    return make_recipe(config.extractor, config.features)


def _fingerprint_file(config: Config, name: str, recipe: Recipe, seed: int) -> PageFingerprint:
    """Fingerprint an HTML file, or standard input if its name is "-"; other files if they count."""
    from scrapy_simhash.errors import UnjudgedError  # noqa: PLC0415
    from scrapy_simhash.pages import fingerprint_page  # noqa: PLC0415 - loads trafilatura
    from scrapy_simhash.pages.files import fingerprint_file  # noqa: PLC0415

    body = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return fingerprint_page(body, recipe=recipe, seed=seed)
    except UnjudgedError as error:
        if config.files and error.reason == "binary":
            return fingerprint_file(body, seed)
        raise InspectionError(f"{name} has no fingerprint: {error.reason} {error.detail}") from None


def query(
    config: Config, what: str | None, text: str | None, distance: int | None
) -> Iterator[dict[str, Any]]:
    """Find near-duplicates in the store."""
    # `what` is a URL in the store, a file, 16 hexadecimal digits, "-" for standard input, or a text
    # if it has spaces. If the distance is None, that of the settings is used, but no more than the
    # tables are complete for.
    with open_as_it_is(config.store) as store:
        reach_bits = parse_design(store.design).reach_bits
        bits = min(config.distance, reach_bits) if distance is None else distance
        asked = (
            _find_fingerprints(config, store, what)
            if what is not None
            else _fingerprint_text(store, str(text))
        )
        found = [
            (match.distance, match.document, fingerprint, match)
            for fingerprint in asked
            for match in store.query(fingerprint, bits)
        ]
        seen = set()
        for _, number, fingerprint, match in sorted(found, key=itemgetter(0, 1, 2)):
            if number and number in seen:  # also near another fingerprint of the query
                continue
            seen.add(number)
            document = store.get_document(number)
            yield {
                "query": f"{fingerprint:016x}",
                "distance": match.distance,
                "fingerprint": f"{match.fingerprint:016x}",
                "document": number,
                "url": match.url,
                "state": document.state if document else "imported",
                "title": document.title if document else "",
            }


def _find_fingerprints(config: Config, store: Store, what: str) -> tuple[int, ...]:
    if _is_url(what):
        documents = _find_documents(store, what)
        return tuple({bits for document in documents for bits in document.fingerprints})
    if what == "-" or _is_file(what):
        page = _fingerprint_file(config, what, store.recipe, store.seed)
        if page.is_file:
            return (page.fingerprint,)
        return tuple(dict.fromkeys((page.fingerprint, page.whole_fingerprint)))
    if _HEX_FINGERPRINT.fullmatch(what):
        return (int(what, 16),)
    if " " in what.strip():
        return _fingerprint_text(store, what)
    raise InspectionError(
        f"{what!r} is not a URL (http://...), an existing file or a fingerprint (16 "
        "hexadecimal digits); for a text write --text"
    )


def _fingerprint_text(store: Store, text: str) -> tuple[int, ...]:
    from scrapy_simhash.pages.fingerprint import load_features  # noqa: PLC0415 - loads trafilatura
    from scrapy_simhash.simhash import simhash  # noqa: PLC0415

    made = load_features(store.recipe.features).extract(text, store.seed)
    return (simhash(made.hashes, made.weights),)


def _is_url(what: str) -> bool:
    return what.startswith(("http://", "https://"))


def _find_documents(store: Store, url: str) -> list[StoredDocument]:
    """Find the documents of a URL, or raise an error that suggests other spellings in the store."""
    documents = store.find_document(url)
    if not documents:
        known = (document.url for document in store.list_documents())
        raise InspectionError(add_suggestions(f"{url} is not in the store", url, known))
    return documents


def _is_file(what: str) -> bool:
    try:
        return Path(what).is_file()
    except (OSError, ValueError):  # too long for a path, or has a NUL: it must be a text
        return False


_FILES = "a file that is no HTML page is compared by a digest of its bytes, and has no text"
_WALL = '; a wall: perhaps a login, a captcha or "not found", see `scrapy simhash undo --help`'
_NO_TEXT = "texts were not kept: set SIMHASH_KEEP_TEXT = True to see the difference"


class _Side(NamedTuple):
    """One of two pages that are compared."""

    page: dict[str, Any]  # for display
    document: Document | StoredDocument  # for the comparison
    text: str | None  # None if it was not kept


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
        config: the current settings.
        what: a URL, or two URLs or files.
        log_path: path of the decision log; None for that of the settings.
        store: URL of the store; None if it was not named: then two files have seed 0.
        html_path: write the texts side by side to this file; or None.
        overwrite: replace an existing file.

    Raises:
        InspectionError: a page is unknown or has no fingerprint, or there is no text to write.
        OSError: the file cannot be written.
    """
    answers = _explain(config, what, log_path, store)
    if html_path is not None:
        from scrapy_simhash.inspection.report.page import write_differences  # noqa: PLC0415

        answers = iter(write_differences(list(answers), html_path, overwrite=overwrite))
    yield from answers


def _explain(
    config: Config, what: Sequence[str], log_path: str | None, store: str | None
) -> Iterator[dict[str, Any]]:
    if len(what) == 1 and _is_url(what[0]):
        yield from _explain_url(config, what[0], find_log(config, log_path))
        return
    if len(what) != 2:  # noqa: PLR2004 - a pair
        raise InspectionError(
            f"name a URL (http://...), or two URLs or files; got {' '.join(what)!r}"
        )
    stored = store is not None or any(map(_is_url, what))
    with open_as_it_is(config.store) if stored else nullcontext() as opened:
        recipe, seed = (opened.recipe, opened.seed) if opened else (_make_recipe_of(config), 0)
        tables = 4 if config.tables == "auto" else config.tables
        design = parse_design(opened.design if opened else tables)
        first, second = (
            _find_stored(config, opened, name)
            if opened is not None and _is_url(name)
            else _fingerprint_side(config, name, recipe, seed)
            for name in what
        )
    compared = _compare_pages(config, first, second, design, recipe.features)
    yield {**compared, "seed": "of the store" if stored else "0"}


def _compare_pages(
    config: Config, first: _Side, second: _Side, design: Design, features: str
) -> dict[str, Any]:
    """Say how two pages compare, and how a crawl with the current settings would judge them."""
    config = replace(config, distance=min(config.distance, design.reach_bits))
    compared = _compare_sides(first, second, design, features)
    judged, why = _judge(config.rule, first.document, second.document)
    if compared.get("distance", 0) > config.distance:
        apart = f"{plural(compared['distance'], 'bit')} apart"
        far = f"distance: {apart}, within {config.distance} are near-duplicates; differs"
        why = {**why, "tests": [far, *why.get("tests", ())]}
    verdict = "near-duplicates" if judged else "different pages"
    return {
        "verdict": f"by the current settings: {verdict}",
        "judged": judged,
        "pages": [first.page, second.page],
        **compared,
        "within": config.distance,
        **why,
    }


def compare_stored(
    config: Config, store: Store, first: StoredDocument, second: StoredDocument
) -> dict[str, Any]:
    """Say how two documents of a store compare, as `explain` does."""
    ours, theirs = (_make_side(config, document) for document in (first, second))
    return _compare_pages(config, ours, theirs, parse_design(store.design), store.recipe.features)


def _find_stored(config: Config, store: Store, url: str) -> _Side:
    return _make_side(config, _find_documents(store, url)[-1])


def _make_side(config: Config, document: StoredDocument) -> _Side:
    compared = structs.replace(document, fingerprints=look_at(document, config.rule))
    return _Side(_describe(document), compared, document.text)


def _fingerprint_side(config: Config, name: str, recipe: Recipe, seed: int) -> _Side:
    from scrapy_simhash.judging import make_document  # noqa: PLC0415 - loads trafilatura

    page = _fingerprint_file(config, name, recipe, seed)
    made = make_document(page, config.rule, keep_text=config.keep_text)
    described = {
        "url": name,
        "title": page.title,
        "fingerprint": f"{made.fingerprints[0]:016x}",
        "features": page.features,
        "words": page.words,
    }
    return _Side(described, made, page.text)


def _judge(
    rule: Rule, first: Document | StoredDocument, second: Document | StoredDocument
) -> tuple[bool, dict[str, Any]]:
    """Whether a crawl would judge two pages as near-duplicates, and what decides that."""
    if not (isinstance(first, StoredDocument) and isinstance(second, StoredDocument)):
        second = structs.replace(second, scope=first.scope)  # the scope of a file is unknown
    answer = compare(first, second, rule)
    if answer.deciding is Deciding.DISTANCE:
        return answer.duplicate, {}
    if answer.deciding is not Deciding.TEXTS:
        return answer.duplicate, {"tests": list(answer.why)}
    return answer.duplicate, {
        "similarity": answer.similarity,
        "confirmed": answer.confirmed,
        "tests": list(answer.tests),
    }


def _explain_url(config: Config, url: str, log: Path) -> Iterator[dict[str, Any]]:
    last = compared = None
    for decision, line in _read_if_there(log, LogFilter(url=url)):
        if decision.url == url:
            last = line
            # A revisit is compared with nothing.
            compared = line if decision.status in {"new", "near_duplicate"} else compared
    found = {"url": url, "decision": last, "judgement": None if compared is last else compared}
    with open_as_it_is(config.store) as store:
        documents = store.find_document(url)
        if not documents and last is None:
            known = {each.url: None for each in store.list_documents()}
            logged = _read_if_there(log, LogFilter(), quiet=True)
            known |= {decision.url: None for decision, _ in logged}
            problem = (
                f"{url} is neither in the store nor in the log {log}; name it as it was fetched"
            )
            raise InspectionError(add_suggestions(problem, url, known))
        if not documents:
            yield {**found, "verdict": f"not in the store: {_describe_absent(last)}"}
        walls = {wall.document for wall in store.list_walls()}
        for document in documents:
            explained = _explain_document(store, document)
            if {document.document, document.original} & walls:
                explained["verdict"] += _WALL
            yield {**found, **explained}


def _describe_absent(line: dict[str, Any] | None) -> str:
    """Say why a page is not in the store, by the last line of the log on it."""
    if line is None or line["status"] != NOT_FETCHED:
        return "not judged"
    return f"not fetched, as the URL rule {line.get('rule')} leads to {line.get('match_url')}"


def _read_if_there(
    log: Path, wanted: LogFilter, *, quiet: bool = False
) -> Iterator[tuple[Decision, dict[str, Any]]]:
    return read_log(log, wanted, quiet=quiet) if log.is_file() else iter(())


def _explain_document(store: Store, document: StoredDocument) -> dict[str, Any]:
    original = store.get_document(document.original) if document.original else None
    page = _describe(document)
    undone = "; undone: it passes when it is fetched again"
    taken_back = undone if document.spared else ""
    apart = f"{plural(document.distance or 0, 'bit')} away"
    if document.state == "duplicate" and original is None:
        verdict = f"near-duplicate of an imported fingerprint, {apart}"
        return {"verdict": verdict + taken_back, "pages": [page], "tests": list(document.tests)}
    if original is None:
        return {"verdict": f"kept ({document.state})", "pages": [page]}
    first = _Side(page, document, document.text)
    second = _Side(_describe(original), original, original.text)
    verdict = f"near-duplicate of {original.url}, {apart} when judged"
    return {
        "verdict": verdict + taken_back,
        "pages": [first.page, second.page],
        **_compare_sides(first, second, parse_design(store.design), store.recipe.features),
        "similarity": document.similarity,
        "tests": list(document.tests),
    }


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
    """Compare the nearest fingerprints of two pages, their sketches, and any kept texts."""
    if first.document.file or second.document.file:
        return {"note": _FILES}  # bits of a digest say nothing
    nearest = find_nearest(first.document.fingerprints, second.document.fingerprints)
    answer = compare_fingerprints(*nearest, design)
    if first.document.sketch and second.document.sketch:
        from scrapy_simhash.pages.sketch import compare_sketches  # noqa: PLC0415 - loads numpy

        alike = compare_sketches(first.document.sketch, [second.document.sketch])
        answer["main_similarity"] = round(float(alike.main[0]), 4)
        answer["whole_similarity"] = round(float(alike.whole[0]), 4)
    if first.text is None or second.text is None:
        return {**answer, "note": _NO_TEXT}
    return {
        **answer,
        **compare_texts(features, first.text, second.text),
        "side_by_side": compare_side_by_side(first.text, second.text),
    }
