"""Labels of pairs of a store, judged from what the store keeps of the pages."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scrapy_simhash.evaluation import JudgeablePage, judge_pairs
from scrapy_simhash.quality import summarise
from scrapy_simhash.stored import Document
from scrapy_simhash.untrusted import printable

if TYPE_CHECKING:
    from scrapy_simhash.config import Config
    from scrapy_simhash.labels import LabelledRow, Labels
    from scrapy_simhash.quality import Judged
    from scrapy_simhash.stored import StoredDocument
    from scrapy_simhash.stores import Store


def judge_labels(store: Store, labels: Labels, config: Config) -> tuple[list[Judged], list[str]]:
    """Judge labelled pairs by the settings in force.

    Args:
        store: whose documents they are.
        labels: as they were read.
        config: the settings.

    Returns:
        The answers, and the rows that could not be used, one text each: a document is gone, or its
        number is now another page's.
    """
    pages: dict[str, JudgeablePage] = {}
    pairs, problems = [], list(labels.problems)
    for row in labels.rows.values():
        found = [store.get_document(number) for number in row.documents]
        if problem := _find_problem(row, found):
            problems.append(problem)
            continue
        pairs.append(row.pair)
        for name, document in zip((row.pair.first, row.pair.second), found, strict=True):
            assert document is not None  # noqa: S101 - a problem otherwise
            pages[name] = _make_judgeable(document, config)
    judged, _ = judge_pairs(pairs, pages, config)
    return judged, problems


def _find_problem(row: LabelledRow, found: list[StoredDocument | None]) -> str:
    for number, url, document in zip(row.documents, row.urls, found, strict=True):
        if document is None:
            return f"line {row.line}: document {number} ({url}) is not in the store (any more)"
        if printable(document.url) != url:
            return (
                f"line {row.line}: document {number} is {printable(document.url)} and not {url}; "
                "the label is of another store"
            )
    return ""


def _make_judgeable(stored: StoredDocument, config: Config) -> JudgeablePage:
    plain = stored.fingerprints[0] if stored.features >= config.min_features else None
    fingerprints = stored.fingerprints
    if config.confirm is None and not stored.stub:
        # As in a crawl, where plain simhash goes by main texts.
        fingerprints = () if plain is None else (plain,)
    if not fingerprints:
        return JudgeablePage(None, plain, stored.language)
    document = Document(
        identity=b"-",
        fingerprints=fingerprints,
        text_digest=stored.text_digest,
        url=stored.url,
        title=stored.title,
        heading=stored.heading,
        canonical=stored.canonical,
        language=stored.language,
        features=stored.features,
        words=stored.words,
        whole_words=stored.whole_words,
        sketch=stored.sketch,
        stub=stored.stub,
    )
    return JudgeablePage(document, None if stored.stub else plain, stored.language)


def evaluate_labels(
    store: Store, labels: Labels, config: Config
) -> tuple[dict[str, Any], list[Judged]]:
    """Count right and wrong answers to labelled pairs, each pair once.

    Args:
        store: whose documents they are.
        labels: as they were read.
        config: the settings in force.

    Returns:
        The figures of `evaluation.evaluate`, as far as a store can tell, and every pair.
    """
    judged, problems = judge_labels(store, labels, config)
    documents = {name for each in judged for name in (each.pair.first, each.pair.second)}
    figures = {
        "recipe": asdict(store.recipe),
        "distance": config.distance,
        "confirm": config.confirm,
        "pages": len(documents),
        "pairs": len(judged),
        "unjudged": {},
        "problems": problems,
        **summarise(judged, config.distance),
        "milliseconds_per_page": {},
        "note": "pairs were mostly chosen because they are hard, and each counts once; "
        "calibrate --results weighs them by what they stand for",
    }
    return figures, judged
