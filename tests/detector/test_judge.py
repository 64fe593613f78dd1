"""The judge: what goes into one transaction, and what a failing store does to it."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scrapy_simhash.config import Config
from scrapy_simhash.detector import judge
from scrapy_simhash.detector.client import JudgeClient
from scrapy_simhash.detector.log import Decision
from scrapy_simhash.detector.messages import (
    Asked,
    Begin,
    Close,
    Failed,
    Line,
    Mark,
    Open,
    pack,
    unpack_from_judge,
)
from scrapy_simhash.detector.worker import Answer, ReadPage, make_answer
from scrapy_simhash.errors import NotJudgedError, StoreUnavailableError
from scrapy_simhash.pages.facts import Facts, Page, PageFingerprint
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores.rows import key_of_lost
from tests.helpers.detecting import new_decision
from tests.helpers.fakestore import FakeStore
from tests.helpers.processes import PATIENCE_SECONDS, wait_until

CRAWL = "crawl-7"
FULL = StoreUnavailableError("the disk is full")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    fake = FakeStore()
    monkeypatch.setattr(judge, "open_store", lambda *_, **__: fake)
    return fake


@pytest.fixture
async def client(store: FakeStore) -> AsyncIterator[JudgeClient]:
    config = Config(store="memory:", confirm=None)
    client = JudgeClient(Open(config, Recipe(), None, CRAWL, "spider", leased=False))
    await client.open()
    yield client
    store.open_gate.set()
    await client.close()  # harmless where a test has done that


def submit(client: JudgeClient, *numbers: int) -> list[asyncio.Future[Decision]]:
    return [client.submit(ask(client, number)) for number in numbers]


def ask(client: JudgeClient, number: int) -> Asked:
    made = PageFingerprint(Facts(b"", number, b"%016d" % number, features=100), b"")
    page = Page(f"http://site.example/{number}", identity=b"page%d" % number, time=1.0)
    return Asked(client.new_number(), page, new_decision(page.url), make_answer(1, made))


async def wait(store: FakeStore) -> None:
    await asyncio.to_thread(wait_until, lambda: store.attempts)


async def hold(store: FakeStore, client: JudgeClient) -> asyncio.Future[Decision]:
    """Let a page's commit take until the gate is opened."""
    store.open_gate.clear()
    (held,) = submit(client, 0)
    await wait(store)
    return held


def sizes(store: FakeStore) -> list[int]:
    return [len(group.documents) for group in store.groups]


async def numbers_of(futures: list[asyncio.Future[Decision]]) -> list[int]:
    return [decision.document for decision in await asyncio.gather(*futures)]


async def test_pages_that_come_during_a_commit_form_one_group(
    store: FakeStore, client: JudgeClient
) -> None:
    held = await hold(store, client)
    pages = submit(client, *range(1, 11))
    finished, _ = await asyncio.wait([held, *pages], timeout=0.1)
    assert not finished  # before the commit
    store.open_gate.set()
    assert await numbers_of([held, *pages]) == list(range(1, 12))
    assert held.result().status == "new"
    assert sizes(store) == [1, 10]
    assert store.groups[0].crawl == CRAWL
    assert store.groups[1].documents == [b"page%d" % number for number in range(1, 11)]


@pytest.mark.parametrize("closing", [False, True])
async def test_a_group_of_slow_pages_is_cut(
    store: FakeStore, client: JudgeClient, monkeypatch: pytest.MonkeyPatch, closing: bool
) -> None:
    """Its other pages come first in the next group, also when the crawl has ended."""
    monkeypatch.setattr(judge, "_SECONDS_PER_GROUP", 0.0)
    held = await hold(store, client)
    slow = submit(client, *(number << 12 for number in range(1, 5)))
    store.open_gate.set()
    if closing:
        await client.close()
    assert await numbers_of([held, *slow]) == [1, 2, 3, 4, 5]
    assert sizes(store) == [1, 4, 2, 2, 1]


async def test_marks_without_pages_are_written_in_one_go_after_about_a_second(
    store: FakeStore, client: JudgeClient
) -> None:
    started = time.monotonic()
    for number in range(1, 21):
        client.mark(Mark(done=number))
    await asyncio.to_thread(wait_until, lambda: store.groups)
    assert time.monotonic() - started > 0.5
    assert store.groups[0].done == list(range(1, 21))
    assert store.attempts == 1


async def test_marks_that_cannot_be_written_are_told(
    store: FakeStore, client: JudgeClient, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures += [FULL, FULL]
    client.mark(Mark(done=3))
    client.mark(Mark(done=4))
    await client.close()
    assert store.groups == []
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("2 documents stay pending")
    assert "the disk is full" in record.getMessage()


@pytest.mark.parametrize(
    "bad", [ValueError("bad document"), MemoryError(), KeyError("x"), OSError(5, "I/O")]
)
async def test_bad_page_spoils_no_other(
    store: FakeStore, client: JudgeClient, bad: Exception
) -> None:
    held = await hold(store, client)
    store.failures += [None, bad, None, bad, None]  # held, the group, then page by page
    first, second, third = submit(client, 1, 2, 3)
    store.open_gate.set()
    assert await held
    with pytest.raises(NotJudgedError) as refused:
        await second
    assert refused.value.reason == "store_unavailable"
    assert f"{type(bad).__name__}{f': {bad}' * bool(str(bad))}" in refused.value.detail
    assert await numbers_of([first, third, *submit(client, 4)]) == [2, 3, 4]


@pytest.mark.parametrize(
    "odd",
    [
        {"page": Page("http://site.example/", identity=b"x" * 65, time=1.0)},
        {"read": ReadPage(Answer(1), b"?")},
        {
            "read": make_answer(
                1, PageFingerprint(Facts(b"", 1, b"x" * 16, features=100), b"", links=-1)
            )
        },
        {
            "read": make_answer(
                1, PageFingerprint(Facts(b"", 1, b"x" * 16, features=2**53 + 1), b"")
            )
        },
    ],
)
async def test_what_a_reader_made_of_garbage_costs_its_page_only(
    store: FakeStore, client: JudgeClient, odd: dict[str, Any]
) -> None:
    """It is told at once, though no other page comes."""
    bad = client.submit(replace(ask(client, 1), **odd))
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(NotJudgedError, match="failed"):
            await bad
    assert (await submit(client, 3)[0]).status == "new"
    assert sizes(store) == [1]


async def test_a_mark_is_kept_where_the_store_fails_it_alone(
    store: FakeStore, client: JudgeClient, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures += [ValueError("bad document"), FULL, None]  # the group, its mark, its page
    client.mark(Mark(done=3))
    assert await submit(client, 1)[0]
    await client.ask("settle")
    assert [group.done for group in store.groups] == [[], [3]]
    assert caplog.records == []


async def test_of_a_group_that_failed_each_page_is_answered_at_once(
    store: FakeStore, client: JudgeClient
) -> None:
    held = await hold(store, client)
    store.failures += [None, ValueError("bad document"), None, None]
    first, second = submit(client, 1, 2)
    store.stops_at = 4  # the second page, alone
    store.open_gate.set()
    await asyncio.wait_for(asyncio.gather(held, first), PATIENCE_SECONDS)
    assert not second.done()
    store.open_gate.set()
    assert await second


async def test_a_page_that_came_through_and_is_dropped_anew_is_lost_anew(
    store: FakeStore, client: JudgeClient
) -> None:
    await submit(client, 1)[0]
    asked = ask(client, 1)
    again = replace(asked, page=replace(asked.page, identity=b"copy"))
    for _ in range(2):
        copy = await client.submit(again)
        assert copy.status == "near_duplicate"
        assert [page.lost.url for page in store.list_lost()] == [again.page.url]
        client.mark(Mark(found=key_of_lost(copy.document)))


async def test_a_page_that_nobody_waits_for_is_not_recorded(
    store: FakeStore, client: JudgeClient
) -> None:
    held = await hold(store, client)
    gone, there = submit(client, 1, 2)
    gone.cancel()
    await asyncio.sleep(0)
    store.open_gate.set()
    await asyncio.gather(held, there)
    assert [name for group in store.groups for name in group.documents] == [b"page0", b"page2"]


async def test_whoever_asks_after_the_end_is_told(store: FakeStore, client: JudgeClient) -> None:
    await client.close()
    with pytest.raises(StoreUnavailableError, match="the crawl has ended"):
        await client.ask("find_due")
    with pytest.raises(NotJudgedError, match="the crawl has ended"):
        await submit(client, 1)[0]
    assert store.attempts == 0


@pytest.mark.usefixtures("store")
def test_lines_told_again_are_written_once_however_many_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a judge that died wrote is known until the first page comes."""
    monkeypatch.setattr(judge, "_MARKS_PER_GROUP", 2)
    lines = [b'{"line":%d}' % number for number in range(5)]
    (log := tmp_path / "log.jsonl").write_bytes(b"\n".join([*lines, b""]))
    monkeypatch.setattr(judge, "open_as_it_is", lambda _: FakeStore())
    config = Config(store="memory:", confirm=None)
    given = Open(config, Recipe(), str(log), CRAWL, "s", leased=True, seed=7)
    told = [given, Begin(), *map(Line, range(5), lines), Close()]
    messages = iter([pack(message) for message in told])
    judge.GroupJudge(lambda _: next(messages), lambda _: None).run()
    assert log.read_bytes().splitlines() == lines


def test_what_ends_a_judge_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def get(_: float | None) -> bytes:
        raise KeyError("x")

    sent: list[bytes] = []
    judge.GroupJudge(get, sent.extend).run()
    told = unpack_from_judge(sent[0])
    assert isinstance(told, Failed)
    assert "KeyError: 'x'" in told.text
    (record,) = caplog.records
    assert record.exc_info
