"""Group commit: one thread writes to the store; while one commit syncs, the next group gathers."""

from __future__ import annotations

import logging
import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scrapy_simhash.stores import StoreUnavailableError

if TYPE_CHECKING:
    from scrapy_simhash.stored import Document, LostPage, Verdict
    from scrapy_simhash.stores import Store

logger = logging.getLogger(__name__)

# A group holds the write lock of the store; 64 pages hold it for a few milliseconds, and more
# make no page cheaper (benchmarks/bench_store.py).
_PAGES_PER_GROUP = 64
# With a feed all pages may be done at once, and nobody is to wait for all of them.
_MARKS_PER_GROUP = 1_024
# How long "done" may wait for a page to share its commit with.
_DONE_DELAY_SECONDS = 1.0


class _Page(NamedTuple):
    document: Document
    verdict: Future[Verdict]


class _Mark(NamedTuple):
    """The items of a document came through, or did not."""

    number: int
    done: bool


class _Kept(NamedTuple):
    """How a dropped document can be fetched again; None where it was not dropped."""

    number: int
    request: bytes | None


class _Lost(NamedTuple):
    """Somebody asks for a spider's lost pages."""

    spider: str
    ending: bool
    pages: Future[list[LostPage]]


class _Settled(NamedTuple):
    """Somebody waits until what was marked is on disk."""

    done: Future[None]


_Entry: TypeAlias = "_Page | _Mark | _Kept | _Lost | _Settled | None"


class GroupWriter:
    """Feeds one crawl's pages to a store, from any thread.

    Args:
        store: only this thread uses it while the writer runs.
        crawl: id of the crawl.
    """

    def __init__(self, store: Store, crawl: str) -> None:
        self._store = store
        self._crawl = crawl
        self._queue: queue.SimpleQueue[_Entry] = queue.SimpleQueue()
        self._pages: list[_Page] = []
        self._marks: list[_Mark | _Kept] = []
        self._kept_marks = 0
        self._asked: list[_Lost | _Settled] = []
        self._closing = False
        self._thread = threading.Thread(
            target=self._run, name=f"scrapy_simhash-writer-{crawl}", daemon=True
        )
        self._thread.start()

    def submit(self, document: Document) -> Future[Verdict]:
        """Judge and add a document; the future has its verdict once that is on disk.

        The future raises StoreError when the store could not do it.
        """
        page = _Page(document, Future())
        self._queue.put(page)
        return page.verdict

    def mark(self, number: int, *, done: bool) -> None:
        """Mark a document done or withdraw it, with a later group at no sync of its own."""
        self._queue.put(_Mark(number, done))

    def keep_request(self, number: int, request: bytes | None) -> None:
        """Keep how a dropped document can be fetched again, with a later group."""
        self._queue.put(_Kept(number, request))

    def take_lost(self, spider: str, *, ending: bool = False) -> Future[list[LostPage]]:
        """Take over a spider's lost pages, after all that was marked before, see `Store.take_lost`.

        The future raises StoreError when the store could not do it.
        """
        lost = _Lost(spider, ending, Future())
        self._queue.put(lost)
        return lost.pages

    def settle(self) -> Future[None]:
        """Let a future know when all that was marked before is on disk.

        The future raises StoreUnavailableError when it could not be written; it is tried again.
        """
        settled = _Settled(Future())
        self._queue.put(settled)
        return settled.done

    def close(self) -> None:
        """Write what is left and end the thread; blocks."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while not self._closing:
            self._gather()
            self._commit()
            self._answer()

    def _gather(self) -> None:
        """Wait for a page, an overdue mark or the end; then take what else has come."""
        deadline = None if not self._marks else time.monotonic() + _DONE_DELAY_SECONDS
        while not (self._pages or self._asked or self._closing or self._is_full()):
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self._take(self._queue.get(timeout=wait))
            except queue.Empty:
                return
            if deadline is None and self._marks:
                deadline = time.monotonic() + _DONE_DELAY_SECONDS
        while len(self._pages) < _PAGES_PER_GROUP and not self._is_full():
            try:
                self._take(self._queue.get_nowait())
            except queue.Empty:
                return

    def _is_full(self) -> bool:
        """Say whether marks alone fill a group; those of one that failed wait for their time."""
        return len(self._marks) - self._kept_marks >= _MARKS_PER_GROUP

    def _take(self, entry: _Entry) -> None:
        if entry is None:
            self._closing = True
        elif isinstance(entry, _Page):
            # A page nobody waits for any more is not recorded as seen.
            if entry.verdict.set_running_or_notify_cancel():
                self._pages.append(entry)
        elif isinstance(entry, (_Lost, _Settled)):
            self._asked.append(entry)
        else:
            self._marks.append(entry)

    def _answer(self) -> None:
        asked, self._asked = self._asked, []
        for each in asked:
            if isinstance(each, _Settled):
                self._answer_settled(each)
                continue
            try:
                lost = self._store.take_lost(self._crawl, each.spider, ending=each.ending)
                each.pages.set_result(lost)
            except Exception as error:  # noqa: BLE001
                each.pages.set_exception(error)

    def _answer_settled(self, asked: _Settled) -> None:
        if not asked.done.set_running_or_notify_cancel():
            return
        if self._marks:
            problem = f"{len(self._marks):,} marks could not be written"
            asked.done.set_exception(StoreUnavailableError(problem))
        else:
            asked.done.set_result(None)

    def _commit(self) -> None:
        pages, marks = self._pages, self._marks
        self._pages, self._marks, self._kept_marks = [], [], 0
        if not pages and (not marks or self._store.readonly):
            return
        try:
            self._write(pages, marks)
        except StoreUnavailableError as error:
            for page in pages:
                page.verdict.set_exception(error)
            if self._closing:
                _warn_of_pending(marks, error)
            else:
                self._marks, self._kept_marks = marks, len(marks)
        except Exception:  # noqa: BLE001 - the thread must outlive whatever happens
            self._write_singly(pages, marks)

    def _write(self, pages: list[_Page], marks: list[_Mark | _Kept]) -> None:
        done = [mark for mark in marks if isinstance(mark, _Mark)]
        verdicts = self._store.find_and_add(
            [page.document for page in pages],
            crawl=self._crawl,
            done=[mark.number for mark in done if mark.done],
            withdrawn=[mark.number for mark in done if not mark.done],
            requests=dict(mark for mark in marks if isinstance(mark, _Kept)),
        )
        for page, verdict in zip(pages, verdicts, strict=True):
            page.verdict.set_result(verdict)

    def _write_singly(self, pages: list[_Page], marks: list[_Mark | _Kept]) -> None:
        """Write a group that failed as a whole, so that one bad page spoils no other."""
        for mark in marks:
            try:
                self._write([], [mark])
            except Exception as error:  # noqa: BLE001
                _warn_of_pending([mark], error)
        for page in pages:
            try:
                self._write([page], [])
            except Exception as error:  # noqa: BLE001
                page.verdict.set_exception(error)


def _warn_of_pending(marks: list[_Mark | _Kept], error: Exception) -> None:
    if marks:
        logger.warning(
            "%d documents stay pending, their pages may be fetched and judged again: %s",
            len(marks),
            error,
        )
