"""`scrapy simhash evaluate`: measure how often the plugin is right on pages labelled by people.

Both pages of a pair go through the workers, and the rule of a crawl compares them, in two states:
`site known`, with the other pages of the folder (or of the store) as a sample of their hosts, and
`site unknown`, with no other page.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs

from scrapy_simhash._printable import printable
from scrapy_simhash._progress import show_steps
from scrapy_simhash.detector.workers import Workers
from scrapy_simhash.errors import InspectionError, UnjudgedError
from scrapy_simhash.inspection.contexts import FolderContexts, StoredContexts
from scrapy_simhash.inspection.evaluation.labels import locate, read_corpus, read_labels
from scrapy_simhash.inspection.evaluation.quality import (
    NO_DISTANCE,
    SIMILARITIES,
    Judged,
    summarise,
)
from scrapy_simhash.judging.comparison import (
    NO_CONTEXT,
    Context,
    compare,
    find_deciding,
)
from scrapy_simhash.judging.content import compare_contents
from scrapy_simhash.judging.documents import Document, facts_of, look_at, make_document
from scrapy_simhash.judging.evidence import Deciding
from scrapy_simhash.judging.rule import MIN_FEATURES
from scrapy_simhash.pages.fingerprint import PageFingerprint, fingerprint_file, make_recipe
from scrapy_simhash.pages.links import measure_new_links
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stores.opening import open_as_it_is, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.inspection.evaluation.labels import (
        Corpus,
        LabelledPage,
        LabelledPair,
        LabelledRow,
        Labels,
    )
    from scrapy_simhash.judging.comparison import Answer
    from scrapy_simhash.judging.documents import StoredDocument, Verdict
    from scrapy_simhash.pages.recipe import Recipe
    from scrapy_simhash.stores.store import Store

    # By the ids of a corpus or the numbers of a store; None if the plugin lets the page pass
    # unjudged.
    _Documents: TypeAlias = Mapping[str, Document | None]


_CRAWL = "evaluation"
# Documents of these kinds are equal, or count as unrelated.
_EXACT = {Deciding.DIGEST, Deciding.FILE, Deciding.KINDS}


def evaluate_labelled(config: Config, labelled: Path) -> tuple[dict[str, Any], list[Judged]]:
    """Judge labelled pairs of a folder, see `read_corpus`, or of a file of `evaluate --label`."""
    # Returns the figures, including the `problems` of rows left out, and the answers.
    if not labelled.exists():
        raise InspectionError(
            f"there is no {labelled}; name a folder with pages.csv and pairs.csv, or a file from "
            "`scrapy simhash evaluate --label`"
        )
    if labelled.is_file():
        labels = read_labels(labelled)
        with open_as_it_is(config.store) as store:
            judged, problems = judge_labels(store, labels, config)
            figures = _describe(store.recipe, config, judged, problems)
        figures["note"] = (
            "each pair counts once, however many it stands for; --results weights the pairs by how "
            "many the store has at their distance"
        )
        return figures, judged
    corpus = read_corpus(labelled)
    with show_steps("pages", len(corpus.pages)) as advance:
        return evaluate(corpus, config, advance)


def evaluate(
    corpus: Corpus, config: Config, advance: Callable[[], object] = lambda: None, seed: int = 0
) -> tuple[dict[str, Any], list[Judged]]:
    """Judge the pairs of a corpus; `advance` is called after each page."""
    problems = list(corpus.problems)
    pages = fingerprint_all(corpus, config, advance, problems, seed)
    documents = make_documents(corpus, pages, config)
    contexts = FolderContexts(corpus, documents, seed)
    judged, judging_ms = judge_pairs(
        corpus.pairs, documents, config, lambda pair: contexts.find(pair.first, pair.second)
    )
    made = [page for page in pages.values() if not isinstance(page, str) and not page.is_file]
    recipe = make_recipe(config.extractor, config.features)
    return _describe(recipe, config, judged, problems) | {
        "pages": len(pages),
        "unjudged": Counter(page for page in pages.values() if isinstance(page, str)),
        "milliseconds_per_page": {
            "extract": _mean([page.extract_ms for page in made]),
            "fingerprint": _mean([page.fingerprint_ms for page in made]),
            "judge": judging_ms,
        },
    }, judged


def make_documents(
    corpus: Corpus, pages: Mapping[str, PageFingerprint | str], config: Config
) -> dict[str, Document | None]:
    """Make the documents of pages; None for those that pass unjudged."""
    return {
        name: None
        if isinstance(page, str)
        else make_document(page, config.rule, url=locate(corpus.pages[name]))
        for name, page in pages.items()
    }


def fingerprint_all(
    corpus: Corpus,
    config: Config,
    advance: Callable[[], object],
    problems: list[str],
    seed: int,
) -> dict[str, PageFingerprint | str]:
    """Fingerprint the pages; a `str` is the reason why a page is unjudged."""
    made: dict[str, PageFingerprint | str] = {}
    recipe = make_recipe(config.extractor, config.features)

    async def fingerprint(page: LabelledPage, workers: Workers, room: asyncio.Semaphore) -> None:
        async with room:
            try:
                body = page.read()
                made[page.id] = await workers.fingerprint(
                    body, None, recipe, seed, page.url, keep_text=False
                )
            except OSError as error:
                problems.append(f"page {page.id!r} cannot be read: {error}")
            except UnjudgedError as error:
                # In a crawl the response says what is no page; here only the bytes do.
                is_file = config.files and error.reason == "binary"
                made[page.id] = fingerprint_file(body, seed) if is_file else error.reason
            advance()

    async def fingerprint_pages() -> None:
        workers = Workers(config.workers, config.page_timeout)
        # Keeps only as many bodies in memory as the workers need.
        room = asyncio.Semaphore(2 * max(1, config.workers))
        await workers.start()
        try:
            await asyncio.gather(
                *(fingerprint(page, workers, room) for page in corpus.pages.values())
            )
        finally:
            await workers.stop()

    asyncio.run(fingerprint_pages())
    return made


def _mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 3) if values else None


def _describe(
    recipe: Recipe, config: Config, judged: Sequence[Judged], problems: Sequence[str]
) -> dict[str, Any]:
    return {
        "recipe": asdict(recipe),
        "distance": config.distance,
        "confirm": config.confirm,
        "pages": len({name for case in judged for name in (case.pair.first, case.pair.second)}),
        "pairs": len(judged),
        "unjudged": {},
        "problems": problems,
        **summarise(judged, config.distance),
        "milliseconds_per_page": {},
    }


def judge_pairs(
    pairs: Sequence[LabelledPair],
    documents: _Documents,
    config: Config,
    find_context: Callable[[LabelledPair], Context] = lambda _: NO_CONTEXT,
) -> tuple[list[Judged], float]:
    """Judge pairs whose pages exist; also measures milliseconds a page, for one answer."""
    listed = [pair for pair in pairs if pair.first in documents and pair.second in documents]
    judged, seconds = [], 0.0
    for pair in listed:
        first, second = documents[pair.first], documents[pair.second]
        if first is None or second is None:
            missing = pair.first if first is None else pair.second
            judged.append(Judged(pair, duplicate=False, tests=(f"{missing} passes unjudged",)))
            continue
        started = time.perf_counter()
        context = find_context(pair)
        answer = compare(first, second, config.rule, context=context)
        seconds += time.perf_counter() - started
        judged.append(_judge(pair, first, second, config, context, answer))
    return judged, round(1000 * seconds / max(1, 2 * len(listed)), 3)


def judge_in_order(documents: Iterable[Document], config: Config, seed: int) -> list[Verdict]:
    """Judge documents by an empty store in memory, as a crawl with these settings does."""
    arriving = [
        structs.replace(document, identity=b"%d" % number, crawl=_CRAWL)
        for number, document in enumerate(documents)
    ]
    with open_store(
        "memory:", config.distance, config.tables, None, confirm=config.confirm, seed=seed
    ) as store:
        store.start_crawl(_CRAWL, "evaluate")
        return store.find_and_add(arriving)


def _judge(
    pair: LabelledPair,
    first: Document,
    second: Document,
    config: Config,
    context: Context,
    answer: Answer,
) -> Judged:
    """Say how a pair was judged, and how it would be judged by other settings."""
    content, named = None, bool(context.name)
    confirmed = config.rule._replace(confirm=1.0)
    if find_deciding(first, second, confirmed, named=named) is Deciding.TEXTS:
        (content,) = compare_contents([(first, second)], [context.sites])
    bits = answer.distance
    if answer.deciding in _EXACT:
        bits = 0 if answer.duplicate else NO_DISTANCE
    plain_bits = NO_DISTANCE
    if not any(page.stub or page.features < MIN_FEATURES for page in (first, second)):
        plain_bits = hamming_distance(first.fingerprints[0], second.fingerprints[0])
    new_links = None
    if answer.deciding in {Deciding.DISTANCE, Deciding.TEXTS} and first.sketch:
        new_links = measure_new_links(
            second.link_sketch, second.links, second.url, first.link_sketch, first.url
        )
    return Judged(
        pair,
        answer.duplicate,
        known=context.known,
        duplicate_if_unknown=compare(first, second, config.rule).duplicate,
        distance=bits,
        named=named,
        plain_distance=plain_bits,
        similarity=answer.similarity or 0.0,
        confirmed=answer.confirmed,
        confirmed_at={
            least: compare(
                first,
                second,
                config.rule._replace(confirm=least),
                context=context,
                content=content if least is not None else None,
            ).confirmed
            for least in {*SIMILARITIES, config.confirm}
        },
        tests=answer.why,
        new_links=new_links,
    )


def judge_labels(store: Store, labels: Labels, config: Config) -> tuple[list[Judged], list[str]]:
    """Judge labelled pairs of a store; returns the answers, and why rows could not be used."""
    by_name: dict[str, StoredDocument] = {}
    pairs, problems = [], list(labels.problems)
    for row in labels.rows.values():
        found = [store.get_document(number) for number in row.documents]
        if problem := _find_problem(row, found):
            problems.append(problem)
            continue
        pairs.append(row.pair)
        for name, stored in zip((row.pair.first, row.pair.second), found, strict=True):
            assert stored is not None  # noqa: S101 - `_find_problem` says so
            by_name[name] = stored
    documents = {name: _as_document(stored, config) for name, stored in by_name.items()}
    contexts = StoredContexts(store)
    judged, _ = judge_pairs(
        pairs,
        documents,
        config,
        lambda pair: contexts.find(by_name[pair.first], by_name[pair.second]),
    )
    return judged, problems


def _find_problem(row: LabelledRow, found: list[StoredDocument | None]) -> str:
    for number, url, document in zip(row.documents, row.urls, found, strict=True):
        if document is None:
            return (
                f"line {row.line}: document {number} ({url}) is not in the store; was it deleted?"
            )
        if printable(document.url) != url:
            return (
                f"line {row.line}: document {number} is {printable(document.url)}, not {url}; "
                "the label is from another store"
            )
    return ""


def _as_document(stored: StoredDocument, config: Config) -> Document | None:
    """Make a stored document ready to be judged; None if it is too short for plain simhash."""
    if config.confirm is None and not stored.stub and stored.features < MIN_FEATURES:
        return None
    looked_at = look_at(stored, config.rule)
    return Document(**facts_of(stored) | {"fingerprints": looked_at, "scope": ""})
