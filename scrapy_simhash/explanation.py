"""The command explain: why a page was dropped or kept, and how two pages compare."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from scrapy_simhash.designs import parse_design
from scrapy_simhash.inspection import (
    InspectionError,
    fingerprint_file,
    make_recipe_of,
    open_as_it_is,
)
from scrapy_simhash.logreader import LogFilter, find_log, read_log
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.fingerprint import PageFingerprint
    from scrapy_simhash.permutation import Design
    from scrapy_simhash.stored import StoredDocument
    from scrapy_simhash.stores import Store

_FEATURES_SHOWN = 10
_DIFF_LINES_SHOWN = 60
_DIFF_WIDTH = 76


def explain(config: Config, what: Sequence[str], log_path: str | None) -> Iterator[dict[str, Any]]:
    """Explain why a URL was dropped or kept, or how two files compare."""
    if len(what) == 1:
        yield from _explain_url(config, what[0], find_log(config, log_path))
        return
    if len(what) != 2:  # noqa: PLR2004 - a pair
        raise InspectionError(f"name a URL, or two files; got {len(what)} arguments")
    pages = [fingerprint_file(name, make_recipe_of(config), seed=0) for name in what]
    design = parse_design(4 if config.tables == "auto" else config.tables)
    yield {
        "pages": [
            {
                "url": name,
                "title": page.title,
                "fingerprint": f"{page.fingerprint:016x}",
                "features": page.features,
                "words": page.words,
            }
            for name, page in zip(what, pages, strict=True)
        ],
        **compare_fingerprints(pages[0].fingerprint, pages[1].fingerprint, design),
        "within": config.distance,
        **_confirm(config, *pages),
        **compare_texts(config.features, pages[0].text, pages[1].text),
    }


def _confirm(config: Config, first: PageFingerprint, second: PageFingerprint) -> dict[str, Any]:
    """Say what the confirmation makes of two pages, whatever their distance."""
    if config.confirm is None:
        return {}
    from scrapy_simhash.confirm import confirm  # noqa: PLC0415 - loads numpy
    from scrapy_simhash.documents import make_document  # noqa: PLC0415

    documents = [make_document(page, config) for page in (first, second)]
    (answer,) = confirm(documents[1], documents[:1], config.confirm)
    return {
        "similarity": answer.similarity,
        "confirmed": answer.confirmed,
        "tests": list(answer.tests),
    }


def _explain_url(config: Config, url: str, log: Path) -> Iterator[dict[str, Any]]:
    last = None
    if log.is_file():
        for decision in read_log(log, LogFilter(url=url)):
            if decision.get("url") == url:
                last = decision
    with open_as_it_is(config) as store:
        documents = store.find_document(url)
        if not documents and last is None:
            raise InspectionError(f"{url} is neither in the store nor in the log {log}")
        if not documents:
            yield {"url": url, "decision": last, "verdict": "not in the store: not judged"}
        for document in documents:
            yield {"url": url, "decision": last, **_explain_document(store, document)}


def _explain_document(store: Store, document: StoredDocument) -> dict[str, Any]:
    original = store.get_document(document.original) if document.original else None
    page = _describe(document)
    if document.state == "duplicate" and original is None:
        verdict = f"near-duplicate of a bulk-loaded fingerprint, {document.distance} bits away"
        return {"verdict": verdict, "pages": [page]}
    if original is None:
        return {"verdict": f"kept ({document.state})", "pages": [page]}
    design = parse_design(store.design)
    pairs = [(a, b) for a in document.fingerprints for b in original.fingerprints]
    nearest = min(pairs, key=lambda pair: hamming_distance(*pair))
    answer = {
        "verdict": f"near-duplicate of {original.url}, {document.distance} bits away when judged",
        "pages": [page, _describe(original)],
        **compare_fingerprints(*nearest, design),
        "similarity": document.similarity,
        "tests": list(document.tests),
    }
    if document.text is None or original.text is None:
        answer["note"] = "texts were not kept: set SIMHASH_KEEP_TEXT = True to see the difference"
        return answer
    return answer | compare_texts(store.recipe.features, document.text, original.text)


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


def compare_fingerprints(first: int, second: int, design: Design) -> dict[str, Any]:
    """Say in which bits two fingerprints differ, and which tables find the pair.

    Args:
        first: a fingerprint.
        second: another.
        design: of the tables.

    Returns:
        `distance` in bits; `differing_bits`, 0 the lowest; `design`, its name; `found_by_tables`:
        numbers of the tables in which a probe for the one meets the other.
    """
    differing = [bit for bit in range(64) if (first ^ second) >> bit & 1]
    flipped_bits = design.flips_for(min(len(differing), design.reach_bits))
    found_by = [
        number
        for number, table in enumerate(design.tables)
        if ((table.permute(first) ^ table.permute(second)) >> (64 - table.prefix_bits)).bit_count()
        <= flipped_bits
    ]
    return {
        "distance": len(differing),
        "differing_bits": differing,
        "design": design.name,
        "found_by_tables": found_by,
    }


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
