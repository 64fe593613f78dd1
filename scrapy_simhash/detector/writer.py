"""Group commit: one thread writes to the store; while one commit syncs, the next group gathers."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from scrapy_simhash._printable import plural
from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.stores.lost import forget, repack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_simhash.judging.documents import Document, Marked, Verdict
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.store import Store

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
# A group holds the write lock of the store; 64 pages hold it for a few milliseconds, and more
# make no page cheaper (benchmarks/bench_store.py).
_PAGES_PER_GROUP = 64
# Where to judge a page takes long, other processes wait no longer than this for one group.
_SECONDS_PER_GROUP = 0.25
# A feed may have all pages done at once, and none should wait for so many marks. Not measured.
_MARKS_PER_GROUP = 1_024
# So long after a commit the next one waits for the pages that are on their way. A commit takes four
# times as long as to judge a page and to write it.
_PAGES_DELAY_SECONDS = 0.02
# How long a mark may wait for a page whose commit it can share; chosen, not measured.
_DONE_DELAY_SECONDS = 1.0


class _Wish(NamedTuple):
    """A document on which somebody waits for a verdict."""

    document: Document
    more: bool  # others are on their way
    answer: Future[Verdict]


class Mark(NamedTuple):
    """What became of a document, or of a request: one of these."""

    done: Marked = 0  # its items came through
    withdrawn: Marked = 0  # they did not
    found: bytes = b""  # key of a lost page that came through, or is gone
    packed: tuple[bytes, bytes] | None = None  # key of a lost page, and how to request it now


class _Question(NamedTuple):
    """What the thread shall find out after earlier marks."""

    ask: Callable[[Store], Any]
    answer: Future[Any]


_Entry: TypeAlias = "_Wish | Mark | _Question"


class _Group(NamedTuple):
    """What one commit writes."""

    wishes: list[_Wish]
    marks: list[Mark]

    def split(self) -> Iterator[_Group]:
        """Make a group of each mark, page and list of requests."""
        yield from (_Group([], [mark]) for mark in self.marks)
        yield from (_Group([wish], []) for wish in self.wishes)

    def fail(self, error: Exception) -> None:
        """Give those who wait for this commit the error that there is none."""
        for wish in self.wishes:
            wish.answer.set_exception(error)

    def settle(self, stored: Documents) -> None:
        """Write what became of lost pages."""
        forget(stored, [mark.found for mark in self.marks if mark.found])
        repack(stored, dict(mark.packed for mark in self.marks if mark.packed))


class GroupWriter:
    """Feeds one crawl's pages to a store, from any thread; nobody else may use the store."""

    def __init__(self, store: Store, crawl: str) -> None:
        self._store = store
        self._crawl = crawl
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._group = _Group([], [])
        self._most = _PAGES_PER_GROUP  # pages of a group, fewer where judging takes long
        self._kept_marks = 0  # of a group that failed
        self._questions: list[_Question] = []
        self._lock = threading.Lock()
        self._is_closed = False  # nothing is put into the queue any more
        self._closing = False  # the end of the queue was reached
        self._hurry = threading.Event()
        self._next_commit = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"scrapy_simhash-writer-{crawl}", daemon=True
        )
        self._thread.start()

    def submit(self, document: Document, *, more: bool = False) -> Future[Verdict]:
        """Judge and add a document; the future gets the verdict, once on disk, or an error."""
        # With `more` it may wait for others, for 20 ms.
        answer: Future[Verdict] = Future()
        self._put(_Wish(document, more, answer))
        return answer

    def mark(self, mark: Mark) -> None:
        """Write down what became of something, in the commit of a later group."""
        self._put(mark)

    def ask(self, question: Callable[[Store], _Result]) -> Future[_Result]:
        """Ask the store something after earlier marks; the future may have a StoreError."""
        answer: Future[_Result] = Future()
        self._put(_Question(question, answer))
        self._hurry.set()
        return answer

    def _put(self, entry: _Entry) -> None:
        """Put something into the queue; what would come after its end is refused."""
        with self._lock:
            if not self._is_closed:
                self._queue.put(entry)
                return
        error = StoreUnavailableError("the crawl has ended")
        if isinstance(entry, Mark):
            _warn_of_pending([entry], error)
        else:
            entry.answer.set_exception(error)

    def settle(self) -> Future[None]:
        """Give a future: done once earlier marks are on disk, or a StoreUnavailableError."""

        def require_settled(_: Store) -> None:
            if marks := self._group.marks:
                raise StoreUnavailableError(f"{len(marks):,} marks could not be written")

        return self.ask(require_settled)

    def close(self) -> None:
        """Write what is left and end the thread; blocks. Harmless if closed twice."""
        with self._lock:
            self._is_closed = True
            self._queue.put(None)
        self._hurry.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing or self._group.wishes:
            self._gather()
            self._commit()
            self._answer()

    def _gather(self) -> None:
        """Wait for pages or requests, an overdue mark or the end; then take what else has come."""
        deadline = None
        while not (self._group.wishes or self._questions or self._closing or self._is_full):
            if deadline is None and self._group.marks:
                deadline = time.monotonic() + _DONE_DELAY_SECONDS
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self._take(self._queue.get(timeout=wait))
            except queue.Empty:
                return
        if self._group.wishes and self._group.wishes[-1].more:
            # Nothing wakes this thread meanwhile: to take the interpreter's lock for each page
            # would cost the event loop more than the page.
            self._hurry.wait(self._next_commit - time.monotonic())
        self._hurry.clear()
        with suppress(queue.Empty):
            while len(self._group.wishes) < _PAGES_PER_GROUP and not self._is_full:
                self._take(self._queue.get_nowait())
        self._next_commit = time.monotonic() + _PAGES_DELAY_SECONDS

    @property
    def _is_full(self) -> bool:
        """Whether marks alone fill a group; those of a failed group wait for their time."""
        return len(self._group.marks) - self._kept_marks >= _MARKS_PER_GROUP

    def _take(self, entry: _Entry | None) -> None:
        if entry is None:
            self._closing = True
        elif isinstance(entry, _Question):
            self._questions.append(entry)
        elif isinstance(entry, Mark):
            self._group.marks.append(entry)
        # A page that nobody waits for any more must not be recorded as seen.
        elif entry.answer.set_running_or_notify_cancel():
            self._group.wishes.append(entry)

    def _answer(self) -> None:
        questions, self._questions = self._questions, []
        for question in questions:
            if question.answer.set_running_or_notify_cancel():
                try:
                    question.answer.set_result(question.ask(self._store))
                except Exception as error:  # noqa: BLE001
                    question.answer.set_exception(error)

    def _commit(self) -> None:
        group, self._group, self._kept_marks = self._group, _Group([], []), 0
        if not group.wishes and (not group.marks or self._store.readonly):
            return
        try:
            self._write(group)
        except StoreUnavailableError as error:
            group.fail(error)
            if self._closing:
                _warn_of_pending(group.marks, error)
            else:
                self._group.marks.extend(group.marks)
                self._kept_marks = len(group.marks)
        except Exception:  # noqa: BLE001 - the thread must outlive whatever happens
            # So that one bad page spoils no other.
            for part in group.split():
                try:
                    self._write(part)
                except Exception as error:  # noqa: BLE001
                    part.fail(error)
                    _warn_of_pending(part.marks, error)

    def _write(self, group: _Group) -> None:
        verdicts = self._store.find_and_add(
            [wish.document for wish in group.wishes[: self._most]],
            crawl=self._crawl,
            done=[mark.done for mark in group.marks if mark.done],
            withdrawn=[mark.withdrawn for mark in group.marks if mark.withdrawn],
            after=group.settle if any(mark.found or mark.packed for mark in group.marks) else None,
            seconds=_SECONDS_PER_GROUP,
        )
        for wish, verdict in zip(group.wishes, verdicts, strict=False):
            wish.answer.set_result(verdict)
        # All that are given are read ahead, which is in vain for those that are not judged.
        cut = len(verdicts) < min(len(group.wishes), self._most)
        self._most = 2 * len(verdicts) if cut else min(_PAGES_PER_GROUP, 2 * self._most)
        # The others come first in the next group.
        self._group.wishes.extend(group.wishes[len(verdicts) :])


class Relay:
    """Brings results of futures to an event loop, all of a moment in one call."""

    # `asyncio.wrap_future` wakes the loop for each.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: list[tuple[asyncio.Future[Any], Future[Any]]] = []

    def wait(self, future: Future[_Result]) -> asyncio.Future[_Result]:
        """Wait for a result; to cancel this cancels the future, unless that is at work."""
        waiting: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        waiting.add_done_callback(lambda _: future.cancel())  # harmless when done
        future.add_done_callback(lambda done: self._bring(waiting, done))
        return waiting

    def _bring(self, waiting: asyncio.Future[Any], done: Future[Any]) -> None:
        """Keep a result, in the thread that made it."""
        with self._lock:
            self._done.append((waiting, done))
            if len(self._done) == 1:
                try:
                    waiting.get_loop().call_soon_threadsafe(self._deliver)
                except RuntimeError:  # the loop is closed
                    self._done.clear()

    def _deliver(self) -> None:
        """Hand out all results that are there, in the event loop."""
        with self._lock:
            brought, self._done = self._done, []
        for waiting, done in brought:
            if waiting.done() or done.cancelled():
                continue
            error = done.exception()
            if error is None:
                waiting.set_result(done.result())
            else:
                waiting.set_exception(error)


def _warn_of_pending(marks: list[Mark], error: Exception) -> None:
    if marks:
        logger.warning(
            "%s pending, to be fetched and judged again: %s",
            f"{plural(len(marks), 'document')} stay{'s' * (len(marks) == 1)}",
            error,
        )
