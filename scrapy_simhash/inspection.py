"""What the commands answer: plain dicts, for `output` to print."""

from __future__ import annotations

import difflib
import re
import sys
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash.designs import parse_design
from scrapy_simhash.logreader import LogFilter, find_log, read_log
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stores import Store, open_store

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.fingerprint import PageFingerprint
    from scrapy_simhash.permutation import Design
    from scrapy_simhash.recipe import Recipe
    from scrapy_simhash.stored import StoredDocument

_HEX_FINGERPRINT = re.compile(r"(0x)?[0-9a-fA-F]{16}")
_FEATURES_SHOWN = 10
_DIFF_LINES_SHOWN = 60
_DIFF_WIDTH = 76


class InspectionError(Exception):
    """The question has no answer; the message says why."""


class PartlyFailedError(Exception):
    """Some of several questions had no answer; the message says which and why."""


def open_as_it_is(config: Config) -> Store:
    """Open the store as it is: a look at it needs no matching recipe or design."""
    return open_store(config.store, distance=0, readonly=True)


def stats(config: Config) -> Iterator[dict[str, Any]]:
    """Describe the store."""
    with open_as_it_is(config) as store:
        yield store.stats()


def fingerprint_files(config: Config, files: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Fingerprint HTML files with the recipe of the settings and seed 0."""
    failures = []
    for name in files:
        try:
            page = _fingerprint(name, make_recipe_of(config), seed=0)
        except InspectionError as error:
            failures.append(str(error))
            continue
        yield {
            "file": name,
            "fingerprint": f"{page.fingerprint:016x}",
            "features": page.features,
            "words": page.words,
            "language": page.language,
            "title": page.title,
            "extractor": page.extractor,
            "extract_ms": page.extract_ms,
            "fingerprint_ms": page.fingerprint_ms,
        }
    if failures:
        raise PartlyFailedError("; ".join(failures))


def make_recipe_of(config: Config) -> Recipe:
    """Make the recipe of the settings."""
    from scrapy_simhash.fingerprint import make_recipe  # noqa: PLC0415 - loads trafilatura

    return make_recipe(config.extractor, config.features)


def _fingerprint(name: str, recipe: Recipe, seed: int) -> PageFingerprint:
    from scrapy_simhash.fingerprint import fingerprint_page  # noqa: PLC0415 - loads trafilatura
    from scrapy_simhash.text import UnjudgedError  # noqa: PLC0415

    body = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return fingerprint_page(body, recipe=recipe, seed=seed)
    except UnjudgedError as error:
        raise InspectionError(f"{name} has no fingerprint: {error.reason} {error.detail}") from None


def query(config: Config, what: str, distance: int | None) -> Iterator[dict[str, Any]]:
    """Find the near-duplicates of a fingerprint, URL, file or text in the store."""
    with open_as_it_is(config) as store:
        reach_bits = parse_design(store.design).reach_bits
        bits = min(config.distance, reach_bits) if distance is None else distance
        found = [
            (match.distance, match.document, fingerprint, match)
            for fingerprint in _find_fingerprints(store, what)
            for match in store.query(fingerprint, bits)
        ]
        seen = set()
        for _, number, fingerprint, match in sorted(found, key=itemgetter(0, 1, 2)):
            if number and number in seen:  # near to another fingerprint of the query as well
                continue
            seen.add(number)
            document = store.get_document(number)
            yield {
                "query": f"{fingerprint:016x}",
                "distance": match.distance,
                "fingerprint": f"{match.fingerprint:016x}",
                "document": number,
                "url": match.url,
                "state": document.state if document else "bulk-loaded",
                "title": document.title if document else "",
            }


def _find_fingerprints(store: Store, what: str) -> tuple[int, ...]:
    if _HEX_FINGERPRINT.fullmatch(what):
        return (int(what, 16),)
    if "://" in what:
        documents = store.find_document(what)
        if not documents:
            raise InspectionError(f"{what} is not in the store")
        return tuple({bits for document in documents for bits in document.fingerprints})
    if what == "-" or _is_file(what):
        page = _fingerprint(what, store.recipe, store.seed)
        return tuple(dict.fromkeys((page.fingerprint, page.whole_fingerprint)))
    from scrapy_simhash.fingerprint import load_features  # noqa: PLC0415 - loads trafilatura
    from scrapy_simhash.simhash import simhash  # noqa: PLC0415

    made = load_features(store.recipe.features).extract(what, store.seed)
    return (simhash(made.hashes, made.weights),)


def _is_file(what: str) -> bool:
    try:
        return Path(what).is_file()
    except (OSError, ValueError):  # too long for a path, or with a NUL: a text
        return False


def explain(config: Config, what: Sequence[str], log_path: str | None) -> Iterator[dict[str, Any]]:
    """Explain why a URL was dropped or kept, or how two files compare."""
    if len(what) == 1:
        yield from _explain_url(config, what[0], find_log(config, log_path))
        return
    if len(what) != 2:  # noqa: PLR2004 - a pair
        raise InspectionError(f"name a URL, or two files; got {len(what)} arguments")
    pages = [_fingerprint(name, make_recipe_of(config), seed=0) for name in what]
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
        **_compare_fingerprints(pages[0].fingerprint, pages[1].fingerprint, design),
        "within": config.distance,
        **_confirm(config, *pages),
        **_compare_texts(config.features, pages[0].text, pages[1].text),
    }


def evaluate_folder(
    config: Config, folder: Path, *, errors: bool, plot: Path | None, workers: int | None
) -> Iterator[dict[str, Any]]:
    """Judge the labelled pairs of a folder; see `evaluation`.

    Args:
        config: the settings in force.
        folder: with `pages.csv`, `pairs.csv` and the pages.
        errors: add the pairs that were judged wrongly.
        plot: draw precision and recall by distance into this file.
        workers: processes; None for those of the settings.

    Raises:
        InspectionError: the folder is no corpus, or nothing can draw.
        PartlyFailedError: pages or rows had to be left out; the rest was judged.
    """
    from tqdm import tqdm  # noqa: PLC0415 - only for this

    from scrapy_simhash.corpus import CorpusError, read_corpus  # noqa: PLC0415
    from scrapy_simhash.evaluation import evaluate  # noqa: PLC0415 - loads trafilatura

    if workers is not None:
        config = replace(config, workers=workers)
    draw = _load_plot() if plot is not None else None
    try:
        corpus = read_corpus(folder)
    except CorpusError as error:
        raise InspectionError(str(error)) from error
    # `disable=None` shows the bar on a terminal only.
    with tqdm(total=len(corpus.pages), unit=" pages", disable=None) as bar:
        figures, judged = evaluate(corpus, config, bar.update)
    if errors:
        figures["errors"] = [pair.describe() for pair in judged if pair.is_wrong]
    if draw is not None and plot is not None:
        draw(figures["by_distance"], plot)
    yield figures
    if problems := figures["problems"]:
        raise PartlyFailedError(f"{len(problems)} rows or pages left out: {'; '.join(problems)}")


def _load_plot() -> Callable[[list[dict[str, Any]], Path], None]:
    try:
        from scrapy_simhash.plots import plot_by_distance  # noqa: PLC0415 - optional library
    except ImportError as error:
        raise InspectionError(
            f"--plot needs pip install 'scrapy-simhash[plot]': {error}"
        ) from error
    return plot_by_distance


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
        **_compare_fingerprints(*nearest, design),
        "similarity": document.similarity,
        "tests": list(document.tests),
    }
    if document.text is None or original.text is None:
        answer["note"] = "texts were not kept: set SIMHASH_KEEP_TEXT = True to see the difference"
        return answer
    return answer | _compare_texts(store.recipe.features, document.text, original.text)


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


def _compare_fingerprints(first: int, second: int, design: Design) -> dict[str, Any]:
    """Say in which bits two fingerprints differ, and which tables find the pair."""
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


def _compare_texts(features: str, first: str, second: str) -> dict[str, Any]:
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
