"""`scrapy simhash evaluate`: how often the plugin would be right on pages that people labelled.

Every pair is judged by the code that judges pages in a crawl: both pages go through the workers,
the first one into a store, the second one is judged against it, in a scope of their own.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.config import PLAIN_DISTANCE_BITS
from scrapy_simhash.confirm import Confirmation, confirm
from scrapy_simhash.documents import make_document
from scrapy_simhash.fingerprint import make_recipe
from scrapy_simhash.links import share_of_new_links
from scrapy_simhash.quality import NO_DISTANCE, SIMILARITIES, Judged, summarise
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stores import open_store
from scrapy_simhash.text import UnjudgedError
from scrapy_simhash.workers import ExtractionError, WorkerDiedError, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.corpus import Corpus, LabelledPage, LabelledPair
    from scrapy_simhash.fingerprint import PageFingerprint
    from scrapy_simhash.stored import Document

_CRAWL = "evaluation"
_PAIRS_PER_TRANSACTION = 64
_UNJUDGED = (UnjudgedError, TimeoutError, MemoryError, WorkerDiedError, ExtractionError)


class Fingerprinted(NamedTuple):
    """What was made of the pages of a corpus.

    Attributes:
        pages: by id; None where the plugin lets the page pass unjudged.
        problems: files that could not be read, one line each.
        unjudged: how many pages pass, by reason.
    """

    pages: dict[str, PageFingerprint | None]
    problems: list[str]
    unjudged: Counter[str]


def fingerprint_corpus(
    corpus: Corpus, config: Config, advance: Callable[[], object] = lambda: None
) -> Fingerprinted:
    """Fingerprint the pages in worker processes, each within the page's deadline.

    Args:
        corpus: as it was read.
        config: the settings in force.
        advance: called after each page.
    """
    return asyncio.run(_fingerprint_all(corpus, config, advance))


async def _fingerprint_all(
    corpus: Corpus, config: Config, advance: Callable[[], object]
) -> Fingerprinted:
    made = Fingerprinted({}, [], Counter())
    workers = Workers(config.workers, config.page_timeout, config.page_memory)
    recipe = make_recipe(config.extractor, config.features)
    # As many bodies in memory as keep the workers busy.
    room = asyncio.Semaphore(2 * max(1, config.workers))

    async def fingerprint(page: LabelledPage) -> None:
        async with room:
            try:
                made.pages[page.id] = await workers.fingerprint(
                    page.read(), None, recipe, 0, page.url, keep_text=False
                )
            except _UNJUDGED as error:
                made.pages[page.id] = None
                made.unjudged[_name_reason(error)] += 1
            except OSError as error:
                made.problems.append(f"page {page.id!r} cannot be read: {error}")
            advance()

    workers.start()
    try:
        await asyncio.gather(*map(fingerprint, corpus.pages.values()))
    finally:
        workers.stop()
    return made


def _name_reason(error: Exception) -> str:
    if isinstance(error, UnjudgedError):
        return error.reason
    reasons = {
        TimeoutError: "timed_out",
        MemoryError: "out_of_memory",
        WorkerDiedError: "worker_died",
        ExtractionError: "failed",
    }
    return reasons[type(error)]


def evaluate(
    corpus: Corpus, config: Config, advance: Callable[[], object] = lambda: None
) -> tuple[dict[str, Any], list[Judged]]:
    """Judge a corpus with the settings in force.

    Args:
        corpus: as it was read.
        config: the settings.
        advance: called after each page.

    Returns:
        The figures, and every pair with its answer.
    """
    made = fingerprint_corpus(corpus, config, advance)
    judged, judging_ms = judge_pairs(corpus.pairs, make_judgeable(corpus, made, config), config)
    pages = [page for page in made.pages.values() if page is not None]
    figures = {
        "recipe": asdict(make_recipe(config.extractor, config.features)),
        "distance": config.distance,
        "confirm": config.confirm,
        "pages": len(made.pages),
        "pairs": len(judged),
        "unjudged": dict(made.unjudged),
        "problems": [*corpus.problems, *made.problems],
        **summarise(judged, config.distance),
        "milliseconds_per_page": {
            "extract": _mean(page.extract_ms for page in pages),
            "fingerprint": _mean(page.fingerprint_ms for page in pages),
            "judge": judging_ms,
        },
    }
    return figures, judged


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return round(statistics.fmean(listed), 3) if listed else None


class JudgeablePage(NamedTuple):
    """A page of a pair, as a store would take it.

    Attributes:
        document: None where the plugin lets the page pass unjudged.
        plain: fingerprint of its main text; None where that has too few features.
        language: for people.
    """

    document: Document | None
    plain: int | None
    language: str


def make_judgeable(corpus: Corpus, made: Fingerprinted, config: Config) -> dict[str, JudgeablePage]:
    """Make the documents of a corpus.

    Args:
        corpus: as it was read.
        made: the fingerprints of its pages.
        config: the settings in force.

    Returns:
        By the ids of the pages; those that could not be read are left out.
    """
    pages = {}
    for name, page in made.pages.items():
        labelled = corpus.pages[name]
        document, plain = None, None
        if page is not None:
            document = replace(make_document(page, config), url=labelled.url)
            plain = page.fingerprint if page.features >= config.min_features else None
        pages[name] = JudgeablePage(document, plain, labelled.language)
    return pages


def judge_pairs(
    pairs: Iterable[LabelledPair], pages: Mapping[str, JudgeablePage], config: Config
) -> tuple[list[Judged], float]:
    """Judge every pair whose pages are there, as if the first page were in the store.

    Args:
        pairs: as they were labelled.
        pages: by the ids of the pairs.
        config: the settings in force.

    Returns:
        The answers, and the milliseconds that the store took for a page.
    """
    listed = [pair for pair in pairs if pair.first in pages and pair.second in pages]
    started = time.perf_counter()
    dropped = _judge_in_store(listed, pages, config)
    milliseconds = 1000 * (time.perf_counter() - started) / max(1, 2 * len(listed))
    judged = [
        _judge(pair, pages[pair.first], pages[pair.second], config, duplicate=duplicate)
        for pair, duplicate in zip(listed, dropped, strict=True)
    ]
    return judged, round(milliseconds, 3)


def _judge_in_store(
    pairs: Sequence[LabelledPair], pages: Mapping[str, JudgeablePage], config: Config
) -> list[bool]:
    documents = {name: page.document for name, page in pages.items() if page.document is not None}
    answers = dict.fromkeys(range(len(pairs)), False)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(folder, config.distance, config.tables, None, confirm=config.confirm) as store,
    ):
        store.start_crawl(_CRAWL, "evaluate")
        asked = [
            (number, pair)
            for number, pair in enumerate(pairs)
            if pair.first in documents and pair.second in documents
        ]
        for start in range(0, len(asked), _PAIRS_PER_TRANSACTION):
            group = asked[start : start + _PAIRS_PER_TRANSACTION]
            verdicts = store.find_and_add(
                [
                    replace(
                        documents[name],
                        identity=b"%d%c" % (number, side),
                        scope=str(number),
                        crawl=_CRAWL,
                        text=None,
                    )
                    for number, pair in group
                    for side, name in ((ord("a"), pair.first), (ord("b"), pair.second))
                ]
            )
            for (number, _), verdict in zip(group, verdicts[1::2], strict=True):
                answers[number] = verdict.status == "near_duplicate"
    return list(answers.values())


def _judge(
    pair: LabelledPair,
    one: JudgeablePage,
    other: JudgeablePage,
    config: Config,
    *,
    duplicate: bool,
) -> Judged:
    first, second = one.document, other.document
    judged = Judged(
        pair=pair,
        language=one.language,
        duplicate=duplicate,
        distance=NO_DISTANCE,
        plain_distance=NO_DISTANCE
        if one.plain is None or other.plain is None
        else hamming_distance(one.plain, other.plain),
        similarity=0.0,
        confirmed=False,
        confirmed_at={},
        tests=(),
    )
    if first is None or second is None:
        missing = pair.first if first is None else pair.second
        return judged._replace(tests=(f"{missing} passes unjudged",))
    tried = (*SIMILARITIES, *(() if config.confirm is None else (config.confirm,)))
    if first.stub or second.stub:
        why = "too little text for a simhash: compared exactly"
        return _unconfirmed(judged, 0 if duplicate else NO_DISTANCE, tried, why, answer=duplicate)
    distance = min(
        hamming_distance(near, far) for near in first.fingerprints for far in second.fingerprints
    )
    if not first.sketch or not second.sketch:
        # As a store does: what nothing can confirm counts within the paper's k.
        why, near_enough = "no sketch: the distance alone decides", distance <= PLAIN_DISTANCE_BITS
        return _unconfirmed(judged, distance, tried, why, answer=near_enough)
    if config.confirm is None:
        answer = Confirmation(confirmed=True, similarity=0.0, tests=("plain simhash",))
    else:
        answer = confirm(second, [first], config.confirm)[0]
    return judged._replace(
        distance=distance,
        similarity=answer.similarity,
        confirmed=answer.confirmed,
        confirmed_at={least: confirm(second, [first], least)[0].confirmed for least in tried},
        tests=answer.tests,
        new_links=share_of_new_links(second.link_sketch, [first.link_sketch]),
    )


def _unconfirmed(
    judged: Judged, distance: int, tried: Sequence[float], why: str, *, answer: bool
) -> Judged:
    """Answer for a pair whose sketches decide nothing."""
    return judged._replace(
        distance=distance,
        confirmed=answer,
        confirmed_at=dict.fromkeys(tried, answer),
        tests=(why,),
    )
