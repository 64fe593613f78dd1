"""Pages that a worker got together, one of which is bad; the second reader."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.detector import workers as workers_module
from scrapy_simhash.detector.workers import Channel, Job, Workers
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.facts import PageFingerprint
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.recipe import Recipe
from tests.helpers.crawling import crawl
from tests.helpers.detecting import check_read, working
from tests.helpers.needing import slow_but
from tests.helpers.pages import page
from tests.helpers.processes import PATIENCE_SECONDS
from tests.helpers.server import Answer, serve

DEADLINE_SECONDS = 2.0
PAGE_MEMORY_BYTES = 64 * 2**20
HOSTILE = "tests.helpers.hostilereaders"


@pytest.fixture(scope="module")
async def worker() -> AsyncIterator[Workers]:
    """One process, so that all pages of a moment go to it together."""
    async with working(1, DEADLINE_SECONDS) as one:
        yield one


async def read(workers: Workers, html: str, features: str = "WORDS") -> PageFingerprint:
    recipe = Recipe(features=f"{HOSTILE}.{features}")
    return await workers.fingerprint(html.encode(), "utf-8", recipe, 7)


async def read_all(workers: Workers, pages: Sequence[str]) -> list[Any]:
    reading = asyncio.gather(*(read(workers, html) for html in pages), return_exceptions=True)
    return await asyncio.wait_for(reading, PATIENCE_SECONDS)


def says(*ways: str, seed: int = 99) -> str:
    """Make a page on which readers misbehave in these ways."""
    return page(seed, menu=" ".join(ways))


def check_others(found: list[Any], bad: int) -> None:
    """Check that the pages beside a bad one were read."""
    for seed, each in enumerate(found):
        if seed != bad:
            check_read(seed, each)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Sizes of the pages of each message to a worker."""
    messages: list[list[int]] = []
    hand = Channel.hand

    def note_and_hand(to: Channel, jobs: Sequence[Job]) -> None:
        messages.append([len(job.order.page.body) for job in jobs])
        hand(to, jobs)

    monkeypatch.setattr(Channel, "hand", note_and_hand)
    return messages


async def test_what_waits_goes_in_one_message(worker: Workers, sent: list[list[int]]) -> None:
    found = await read_all(worker, [page(seed) for seed in range(20)])
    check_others(found, bad=-1)
    assert max(map(len, sent)) == 8
    assert sum(map(len, sent)) == 20
    del sent[:]
    large = "<p>" + "word " * 50_000
    await read_all(worker, [large] * 4)
    assert [len(message) for message in sent] == [1] * 4


BOUNDED = pytest.mark.skipif(sys.platform != "linux", reason="memory has no bound elsewhere")
PLACES = slow_but([3], [0, 3, 6])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "way", slow_but(["crashes", "babbles"], ["crashes", "aborts", "babbles", "mumbles"])
)
async def test_page_that_kills_its_worker_is_read_by_the_second_reader(
    worker: Workers, way: str, place: int, sent: list[list[int]]
) -> None:
    pages = [page(seed) for seed in range(7)]
    pages[place] = says(f"turbohtml {way}")
    found = await read_all(worker, pages)
    assert len(sent[0]) == 7
    bad = found[place]
    assert isinstance(bad, PageFingerprint), bad
    assert (bad.extractor, bad.second_opinion) == ("trafilatura-fast", "worker_died")
    recipe = Recipe("trafilatura-fast")
    expected = fingerprint_page(pages[place], recipe=recipe, seed=7)
    assert (bad.facts.fingerprint, bad.facts.text_digest) == (
        expected.facts.fingerprint,
        expected.facts.text_digest,
    )
    check_others(found, place)
    # Once with the others, once by itself, once for the second reader; the others once more at
    # most, each by itself. On a busy machine a worker that babbles may be at the next page when
    # that is heard: then this page is one of the others.
    assert len(sent) <= 1 + 2 + 6 + (way in {"babbles", "mumbles"})
    assert all(len(message) == 1 for message in sent[1:])


async def test_page_that_makes_the_fast_reader_raise_is_read_by_the_second_one(
    worker: Workers, sent: list[list[int]]
) -> None:
    pages = [page(0), says("turbohtml raises"), page(2)]
    found = await read_all(worker, pages)
    assert [len(message) for message in sent] == [3]
    assert isinstance(found[1], PageFingerprint), found[1]
    assert (found[1].extractor, found[1].second_opinion) == ("trafilatura-fast", "raised")
    check_others(found, bad=1)


SECOND_FAILS = [
    (("turbohtml raises", "trafilatura-fast raises"), "failed"),
    (("turbohtml raises", "trafilatura-fast crashes"), "worker_died"),
    (("turbohtml crashes", "trafilatura-fast crashes"), "worker_died"),
    (("turbohtml raises", "trafilatura-fast hangs"), "timed_out"),
]


@pytest.mark.parametrize(("ways", "reason"), slow_but(SECOND_FAILS[:2], SECOND_FAILS))
async def test_page_that_the_second_reader_cannot_read_either_is_not_judged(
    worker: Workers, ways: Sequence[str], reason: str
) -> None:
    found = await read_all(worker, [page(0), says(*ways), page(2)])
    assert isinstance(found[1], NotJudgedError), found[1]
    assert found[1].reason == reason
    check_others(found, bad=1)


async def test_second_opinions_are_counted_and_named_in_the_log(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"SIMHASH_WORKERS": 1, "SIMHASH_FEATURES": f"{HOSTILE}.WORDS"}
    answers = {
        "/good": Answer(page(1).encode()),
        "/raises": Answer(says("turbohtml raises", seed=2).encode()),
        "/crashes": Answer(says("turbohtml crashes", seed=3).encode()),
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, site.urls(), **settings)
    assert set(done.verdicts.values()) == {"new"}
    assert done.counted["second_opinion/raised"] == done.counted["second_opinion/worker_died"] == 1
    readers = {line["url"].rpartition("/")[2]: line["extractor"] for line in done.decisions}
    assert readers == {
        "good": "turbohtml",
        "raises": "trafilatura-fast",
        "crashes": "trafilatura-fast",
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("way", "reason", "bound"),
    [
        ("hangs", "timed_out", f"{DEADLINE_SECONDS} seconds"),
        pytest.param("eats", "out_of_memory", f"{PAGE_MEMORY_BYTES} bytes", marks=BOUNDED),
    ],
)
async def test_page_that_hangs_or_takes_memory_gets_no_second_reader(
    way: str, reason: str, bound: str, place: int
) -> None:
    pages = [page(seed) for seed in range(7)]
    pages[place] = says(f"turbohtml {way}")
    async with working(1, DEADLINE_SECONDS, PAGE_MEMORY_BYTES) as bounded:
        found = await read_all(bounded, pages)
    assert isinstance(found[place], NotJudgedError), found[place]
    assert found[place].args == (reason, bound)
    check_others(found, place)


async def test_deadline_counts_for_each_page_of_a_batch(
    worker: Workers, sent: list[list[int]]
) -> None:
    pages = [says("turbohtml takes time", seed=seed) for seed in range(8)]
    started = time.monotonic()
    found = await read_all(worker, pages)
    assert all(isinstance(each, PageFingerprint) for each in found)
    assert time.monotonic() - started > DEADLINE_SECONDS
    assert len(sent[0]) == 8


async def test_loading_a_reader_is_not_a_pages_time() -> None:
    async with working(1) as one:
        assert (await read(one, page(1), "WORDS_SLOW_TO_LOAD")).facts.words


async def test_loading_a_reader_has_a_bound_of_its_own(
    worker: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "_BEGINNING_SECONDS", 1.0)
    with pytest.raises(NotJudgedError, match="timed_out"):
        await asyncio.wait_for(read(worker, page(1), "WORDS_NEVER_LOADED"), PATIENCE_SECONDS)
    monkeypatch.undo()
    check_read(1, await read(worker, page(1)))
