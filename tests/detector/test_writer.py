"""Group commit: what goes into one transaction, and what a failing store does to it."""

import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from typing import Any

import pytest

from scrapy_simhash.detector.writer import GroupWriter, Mark
from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.judging.documents import Document, Verdict
from tests.helpers.documents import document
from tests.helpers.fakestore import FakeStore
from tests.helpers.processes import PATIENCE_SECONDS, wait_until

CRAWL = "crawl-7"
FULL = StoreUnavailableError("the disk is full")


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def writer(store: FakeStore) -> Iterator[GroupWriter]:
    writer = GroupWriter(store, CRAWL)
    yield writer
    store.open_gate.set()
    writer.close()  # harmless where a test has done that


def page(number: int) -> Document:
    return document(f"page{number}", number)


def submit(writer: GroupWriter, *numbers: int) -> list[Future[Verdict]]:
    return [writer.submit(page(number)) for number in numbers]


def hold(store: FakeStore, writer: GroupWriter) -> Future[Verdict]:
    """Let a page's commit take until the gate is opened."""
    store.open_gate.clear()
    (held,) = submit(writer, 0)
    wait_until(lambda: store.attempts)
    return held


def sizes(store: FakeStore) -> list[int]:
    return [len(group.documents) for group in store.groups]


def numbers_of(futures: list[Future[Verdict]]) -> list[int]:
    return [future.result(PATIENCE_SECONDS).document for future in futures]


def test_pages_that_come_during_a_commit_form_one_group(
    store: FakeStore, writer: GroupWriter
) -> None:
    held = hold(store, writer)
    pages = submit(writer, *range(1, 11))
    finished, _ = wait_for_futures([held, *pages], timeout=0.1)
    assert not finished  # before the commit
    store.open_gate.set()
    assert numbers_of([held, *pages]) == list(range(1, 12))
    assert held.result() == Verdict("new", "", 1)
    assert sizes(store) == [1, 10]
    assert store.groups[0].crawl == CRAWL
    assert store.groups[1].documents == [b"page%d" % number for number in range(1, 11)]


@pytest.mark.parametrize("closing", [False, True])
def test_a_group_of_slow_pages_is_cut(
    store: FakeStore, writer: GroupWriter, monkeypatch: pytest.MonkeyPatch, closing: bool
) -> None:
    """Its other pages come first in the next group, also when the crawl has ended."""
    monkeypatch.setattr("scrapy_simhash.detector.writer._SECONDS_PER_GROUP", 0.0)
    held = hold(store, writer)
    slow = submit(writer, *(number << 12 for number in range(1, 5)))
    store.open_gate.set()
    if closing:
        writer.close()
    assert numbers_of([held, *slow]) == [1, 2, 3, 4, 5]
    assert sizes(store) == [1, 4, 2, 2, 1]


def test_marks_without_pages_are_written_in_one_go_after_about_a_second(
    store: FakeStore, writer: GroupWriter
) -> None:
    started = time.monotonic()
    for number in range(1, 21):
        writer.mark(Mark(done=number))
    wait_until(lambda: store.groups)
    assert time.monotonic() - started > 0.5
    assert store.groups[0].done == list(range(1, 21))
    assert store.attempts == 1


def test_marks_that_cannot_be_written_are_told(
    store: FakeStore, writer: GroupWriter, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures += [FULL, FULL]
    writer.mark(Mark(done=3))
    writer.mark(Mark(done=4))
    writer.close()
    assert store.groups == []
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("2 documents stay pending")
    assert "the disk is full" in record.getMessage()


@pytest.mark.parametrize(
    "bad", [ValueError("bad document"), MemoryError(), RuntimeError(), OSError(5, "I/O")]
)
def test_bad_page_spoils_no_other(store: FakeStore, writer: GroupWriter, bad: Exception) -> None:
    held = hold(store, writer)
    store.failures += [None, bad, None, bad, None]  # held, the group, then page by page
    first, second, third = submit(writer, 1, 2, 3)
    store.open_gate.set()
    assert held.result(PATIENCE_SECONDS)
    assert second.exception(PATIENCE_SECONDS) is bad
    assert numbers_of([first, third, *submit(writer, 4)]) == [2, 3, 4]


def test_whoever_asks_after_the_end_is_told(store: FakeStore, writer: GroupWriter) -> None:
    writer.close()
    answers: list[Future[Any]] = [writer.ask(lambda _: 1), *submit(writer, 1)]
    for answer in answers:
        with pytest.raises(StoreUnavailableError, match="the crawl has ended"):
            answer.result(1)
    assert store.attempts == 0
