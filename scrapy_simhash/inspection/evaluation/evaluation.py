"""`scrapy simhash evaluate`: measure how often the plugin is right on pages labelled by people.

Both pages of a pair go through the workers, and the rule of a crawl compares them, in two states:
`site known`, with the other pages of the folder as a sample of their hosts, and `site unknown`,
with no other page.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from msgspec import structs

from scrapy_simhash._progress import show_steps
from scrapy_simhash.detector.workers import Workers
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.inspection.contexts import FolderContexts
from scrapy_simhash.inspection.evaluation.labels import locate, read_corpus
from scrapy_simhash.inspection.evaluation.quality import (
    NO_DISTANCE,
    Judged,
    summarise,
)
from scrapy_simhash.judging.comparison import (
    Context,
    compare,
)
from scrapy_simhash.judging.documents import Document, make_document
from scrapy_simhash.judging.evidence import Deciding
from scrapy_simhash.judging.rule import MIN_FEATURES
from scrapy_simhash.pages.fingerprint import PageFingerprint, fingerprint_file, make_recipe
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from scrapy_simhash.config import Config
    from scrapy_simhash.inspection.evaluation.labels import (
        Corpus,
        LabelledPage,
        LabelledPair,
    )
    from scrapy_simhash.judging.comparison import Answer
    from scrapy_simhash.judging.documents import Verdict


_CRAWL = "evaluation"
# Documents of these kinds are equal, or count as unrelated.
_EXACT = {Deciding.DIGEST, Deciding.FILE, Deciding.KINDS}


def evaluate_labelled(config: Config, folder: Path) -> tuple[dict[str, Any], list[Judged]]:
    """Judge the labelled pairs of a folder; return the figures and the answers.

    Args:
        config: the settings.
        folder: see `labels`.

    Raises:
        CorpusError: the folder has no labelled pages. Rows and pages that cannot be read are left
            out, and named by `problems` of the figures.
    """
    corpus = read_corpus(folder)
    with show_steps("pages", len(corpus.pages)) as advance:
        return evaluate(corpus, config, advance)


def evaluate(
    corpus: Corpus, config: Config, advance: Callable[[], object] = lambda: None, seed: int = 0
) -> tuple[dict[str, Any], list[Judged]]:
    """Judge the pairs of a corpus; `advance` is called after each page."""
    problems = list(corpus.problems)
    pages = fingerprint_all(corpus, config, advance, problems, seed)
    documents = make_documents(corpus, pages, config)
    judged, judging_ms = _judge_pairs(corpus, documents, config, seed)
    made = [page for page in pages.values() if not isinstance(page, str) and not page.is_file]
    return {
        "recipe": asdict(make_recipe(config.extractor, config.features)),
        "distance": config.distance,
        "confirm": config.confirm,
        "pages": len(pages),
        "pairs": len(judged),
        "unjudged": Counter(page for page in pages.values() if isinstance(page, str)),
        "problems": problems,
        **summarise(judged, config.distance),
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


def _judge_pairs(
    corpus: Corpus, documents: Mapping[str, Document | None], config: Config, seed: int
) -> tuple[list[Judged], float]:
    """Judge the pairs whose pages could be read; also measure milliseconds a page."""
    contexts = FolderContexts(corpus, documents, seed)
    pairs = [pair for pair in corpus.pairs if pair.first in documents and pair.second in documents]
    judged, seconds = [], 0.0
    for pair in pairs:
        first, second = documents[pair.first], documents[pair.second]
        if first is None or second is None:
            missing = pair.first if first is None else pair.second
            judged.append(Judged(pair, duplicate=False, tests=(f"{missing} passes unjudged",)))
            continue
        started = time.perf_counter()
        context = contexts.find(pair.first, pair.second)
        answer = compare(first, second, config.rule, context=context)
        seconds += time.perf_counter() - started
        judged.append(_judge(pair, first, second, config, context, answer))
    return judged, round(1000 * seconds / max(1, 2 * len(pairs)), 3)


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
    """Describe how a pair was judged, with its site known and unknown, and by plain simhash."""
    bits = answer.distance
    if answer.deciding in _EXACT:
        bits = 0 if answer.duplicate else NO_DISTANCE
    plain_bits = NO_DISTANCE
    if not any(page.stub or page.features < MIN_FEATURES for page in (first, second)):
        plain_bits = hamming_distance(first.fingerprints[0], second.fingerprints[0])
    return Judged(
        pair,
        answer.duplicate,
        known=context.known,
        duplicate_if_unknown=compare(first, second, config.rule).duplicate,
        distance=bits,
        named=bool(context.name),
        plain_distance=plain_bits,
        similarity=answer.similarity or 0.0,
        confirmed=answer.confirmed,
        tests=answer.why,
    )
