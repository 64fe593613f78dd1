"""What the commands answer: plain dicts, for `output` to print."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash.designs import parse_design
from scrapy_simhash.progress import show_busy
from scrapy_simhash.spelling import add_suggestions
from scrapy_simhash.store_stats import list_documents
from scrapy_simhash.stores import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.fingerprint import PageFingerprint
    from scrapy_simhash.quality import Judged
    from scrapy_simhash.recipe import Recipe
    from scrapy_simhash.stored import StoredDocument

_HEX_FINGERPRINT = re.compile(r"(0x)?[0-9a-fA-F]{16}")


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
        with show_busy("counting"):
            counted = store.stats()
        yield counted


def fingerprint_files(
    config: Config, files: Sequence[str], store: str | None
) -> Iterator[dict[str, Any]]:
    """Fingerprint HTML files.

    Args:
        config: the settings in force.
        files: "-" for standard input.
        store: whose recipe and seed to take; None for the recipe of the settings and seed 0.

    Raises:
        PartlyFailedError: some of the files have no fingerprint.
    """
    recipe, seed = choose_recipe(config, stored=store is not None)
    failures = []
    for name in files:
        try:
            page = fingerprint_file(name, recipe, seed)
        except InspectionError as error:
            failures.append(str(error))
            continue
        yield {
            "file": name,
            "fingerprint": f"{page.fingerprint:016x}",
            "seed": name_seed(stored=store is not None),
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


def choose_recipe(config: Config, *, stored: bool) -> tuple[Recipe, int]:
    """Get recipe and seed: those of the store, or the recipe of the settings and seed 0."""
    if not stored:
        return make_recipe_of(config), 0
    with open_as_it_is(config) as store:
        return store.recipe, store.seed


def name_seed(*, stored: bool) -> str:
    """Say which seed was taken; a store's own is a secret."""
    return "of the store" if stored else "0"


def make_recipe_of(config: Config) -> Recipe:
    """Make the recipe of the settings."""
    from scrapy_simhash.fingerprint import make_recipe  # noqa: PLC0415 - loads trafilatura

    return make_recipe(config.extractor, config.features)


def fingerprint_file(name: str, recipe: Recipe, seed: int) -> PageFingerprint:
    """Fingerprint an HTML file.

    Args:
        name: its path; "-" for standard input.
        recipe: extractor and features.
        seed: of the token hash.

    Raises:
        InspectionError: the page has no fingerprint; the message says why.
        OSError: the file cannot be read.
    """
    from scrapy_simhash.fingerprint import fingerprint_page  # noqa: PLC0415 - loads trafilatura
    from scrapy_simhash.text import UnjudgedError  # noqa: PLC0415

    body = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return fingerprint_page(body, recipe=recipe, seed=seed)
    except UnjudgedError as error:
        raise InspectionError(f"{name} has no fingerprint: {error.reason} {error.detail}") from None


def query(
    config: Config, what: str | None, text: str | None, distance: int | None
) -> Iterator[dict[str, Any]]:
    """Find near-duplicates in the store.

    Args:
        config: the settings in force.
        what: a URL of the store, a file, 16 hexadecimal digits, or "-" for standard input; what
            has spaces in it is a text.
        text: words of a page, where `what` is None.
        distance: bits; None for that of the settings, or what the tables are complete for.

    Raises:
        InspectionError: the URL is not in the store, or `what` is nothing of this.
    """
    with open_as_it_is(config) as store:
        reach_bits = parse_design(store.design).reach_bits
        bits = min(config.distance, reach_bits) if distance is None else distance
        asked = (
            _find_fingerprints(store, what)
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
                "state": document.state if document else "imported",
                "title": document.title if document else "",
            }


def _find_fingerprints(store: Store, what: str) -> tuple[int, ...]:
    if is_url(what):
        documents = find_documents(store, what)
        return tuple({bits for document in documents for bits in document.fingerprints})
    if what == "-" or _is_file(what):
        page = fingerprint_file(what, store.recipe, store.seed)
        return tuple(dict.fromkeys((page.fingerprint, page.whole_fingerprint)))
    if _HEX_FINGERPRINT.fullmatch(what):
        return (int(what, 16),)
    if " " in what.strip():
        return _fingerprint_text(store, what)
    raise InspectionError(
        f"{what!r} is no URL (http://...), no file that is there and no fingerprint (16 "
        "hexadecimal digits); for a text write --text"
    )


def _fingerprint_text(store: Store, text: str) -> tuple[int, ...]:
    from scrapy_simhash.fingerprint import load_features  # noqa: PLC0415 - loads trafilatura
    from scrapy_simhash.simhash import simhash  # noqa: PLC0415

    made = load_features(store.recipe.features).extract(text, store.seed)
    return (simhash(made.hashes, made.weights),)


def is_url(what: str) -> bool:
    """Say whether an argument is meant as a URL."""
    return what.startswith(("http://", "https://"))


def find_documents(store: Store, url: str) -> list[StoredDocument]:
    """Find the documents of a URL.

    Raises:
        InspectionError: there are none; suggests other spellings.
    """
    documents = store.find_document(url)
    if not documents:
        known = (document.url for document in list_documents(store))
        raise InspectionError(add_suggestions(f"{url} is not in the store", url, known))
    return documents


def _is_file(what: str) -> bool:
    try:
        return Path(what).is_file()
    except (OSError, ValueError):  # too long for a path, or with a NUL: a text
        return False


def evaluate_pairs(
    config: Config, labelled: Path, *, errors: bool, plot: Path | None, workers: int | None
) -> Iterator[dict[str, Any]]:
    """Judge labelled pairs of a folder, see `evaluation`, or of a store, see `stored_pairs`.

    Args:
        config: the settings in force.
        labelled: a folder with `pages.csv`, `pairs.csv` and the pages; or a file of `calibrate`.
        errors: add the pairs that were judged wrongly.
        plot: draw precision and recall by distance into this file.
        workers: processes; None for those of the settings.

    Raises:
        InspectionError: the folder is no corpus, or nothing can draw.
        ValueError: the file holds no labels.
        PartlyFailedError: pages or rows had to be left out; the rest was judged.
    """
    if workers is not None:
        config = replace(config, workers=workers)
    draw = _load_plot() if plot is not None else None
    figures, judged = evaluate_labelled(config, labelled)
    if errors:
        figures["errors"] = [pair.describe() for pair in judged if pair.is_wrong]
    if draw is not None and plot is not None:
        draw(figures["by_distance"], plot)
    yield figures
    if problems := figures["problems"]:
        raise PartlyFailedError(f"{len(problems)} rows or pages left out: {'; '.join(problems)}")


def evaluate_labelled(config: Config, labelled: Path) -> tuple[dict[str, Any], list[Judged]]:
    """Judge labelled pairs; see `evaluate_pairs` for arguments and errors.

    Returns:
        The figures, with the `problems` of what was left out, and every pair with its answer.
    """
    if not labelled.exists():
        raise InspectionError(
            f"there is no {labelled}; name a folder with pages.csv and pairs.csv, or a file of "
            "`scrapy simhash calibrate`"
        )
    evaluate = _evaluate_file if labelled.is_file() else _evaluate_folder
    return evaluate(config, labelled)


def _evaluate_folder(config: Config, folder: Path) -> tuple[dict[str, Any], list[Judged]]:
    from tqdm import tqdm  # noqa: PLC0415 - only for this

    from scrapy_simhash.corpus import CorpusError, read_corpus  # noqa: PLC0415
    from scrapy_simhash.evaluation import evaluate  # noqa: PLC0415 - loads trafilatura

    try:
        corpus = read_corpus(folder)
    except CorpusError as error:
        raise InspectionError(str(error)) from error
    # `disable=None` shows the bar on a terminal only.
    with tqdm(total=len(corpus.pages), unit=" pages", disable=None) as bar:
        return evaluate(corpus, config, bar.update)


def _evaluate_file(config: Config, path: Path) -> tuple[dict[str, Any], list[Judged]]:
    from scrapy_simhash.labels import read_labels  # noqa: PLC0415 - only for this
    from scrapy_simhash.stored_pairs import evaluate_labels  # noqa: PLC0415 - loads trafilatura

    labels = read_labels(path)
    with open_as_it_is(config) as store:
        return evaluate_labels(store, labels, config)


def _load_plot() -> Callable[[list[dict[str, Any]], Path], None]:
    try:
        from scrapy_simhash.plots import plot_by_distance  # noqa: PLC0415 - optional library
    except ImportError as error:
        raise InspectionError(
            f"--plot needs pip install 'scrapy-simhash[plot]': {error}"
        ) from error
    return plot_by_distance
