"""The crawl's side of its judge: what was asked, marked and written, until that is answered.

The judge runs in a process of its own, or in a thread of this one. If its process dies, another
one is started and gets what has no answer: marks and lines at once, pages one by one, for one of
them may be the cause. The crawl has the lease meanwhile, so that its pages stay pending.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from scrapy_simhash._printable import describe_error
from scrapy_simhash.detector.log import DecisionLog
from scrapy_simhash.detector.messages import (
    Answered,
    Asked,
    Begin,
    Begun,
    Close,
    Closed,
    Decided,
    Failed,
    Forget,
    FromJudge,
    Line,
    Mark,
    Noted,
    Open,
    Opened,
    Question,
    QuestionName,
    Settled,
    ToJudge,
    Told,
    make_error,
    pack,
    unpack_from_judge,
    warn_of_pending,
)
from scrapy_simhash.detector.process import Child
from scrapy_simhash.errors import NotJudgedError, StoreError, StoreUnavailableError
from scrapy_simhash.stores.opening import open_leases

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.stores.leases import Leases

logger = logging.getLogger(__name__)

# Marks and lines wait so long for a page whose message they can share.
_LATER_SECONDS = 0.05
# A page passes that ends so many judges; and all pages pass for a while if so many die in a while,
# or so many in a row do not open the store.
_DEATHS_OF_A_PAGE = 2
_MOST_DEATHS = 3
_MOST_UNOPENED = 2
_WHILE_SECONDS = 60.0
# A judge that is silent for so long while somebody waits is killed. It waits 10 seconds at most for
# other processes that write to the store; to open one that has to be verified may take minutes.
_SILENT_SECONDS = 60.0
_OPENING_SECONDS = 600.0
_ENDED = "the crawl has ended"


@dataclass(eq=False, slots=True)
class _Page:
    """A page without an answer."""

    message: bytes
    future: asyncio.Future[Decision]
    deaths: int = 0  # of judges that had it


class JudgeClient:
    """Tells a judge what to do, and brings its answers; all methods are for the event loop.

    Args:
        given: what the judge opens.
    """

    def __init__(self, given: Open) -> None:
        self._given = given
        self._leases: Leases | None = None  # where the crawl has its lease, if not in the judge
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._judge: JudgeProcess | JudgeThread | None = None
        self._started: list[JudgeProcess | JudgeThread] = []
        self._opened: asyncio.Future[Opened | Begun] | None = None  # while that is waited for
        self._has_begun = self._is_ready = self._is_sending = self._closing = False
        self._pages: dict[int, _Page] = {}
        self._sent: set[int] = set()  # those of them that the judge has
        self._questions: dict[int, tuple[bytes, asyncio.Future[bytes]]] = {}
        self._marks: deque[tuple[int, Mark]] = deque()
        self._lines: deque[tuple[int, bytes]] = deque()
        self._later: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._last_heard = 0.0
        self._deaths: deque[float] = deque(maxlen=_MOST_DEATHS)
        self._unopened = 0  # judges in a row that did not open the store
        self._passing_until, self._trouble = 0.0, ""
        self._closed: asyncio.Future[None] | None = None
        self.seed = self.distance = 0  # of the store
        self.lost = 0  # number of pages that may be lost, as the crawl began
        self.lost_lines = 0  # number of lines that could not be written; known at the end
        self._lost_lines = 0  # those of this judge

    # Opening and closing

    async def open(self) -> None:
        """Start the judge; raises what kept it from opening the store."""
        self._watch()
        self._start()
        opened = await self._wait_for_opening(self._given)
        if isinstance(opened, Opened):
            self.seed, self.distance = opened.seed, opened.distance
        if self._given.leased and not self._given.config.readonly:
            await asyncio.to_thread(self._take_lease)
        begun = await self._wait_for_opening(Begin())
        if isinstance(begun, Begun):
            self.lost = begun.lost
        self._has_begun = self._is_ready = True

    async def _wait_for_opening(self, message: ToJudge) -> Opened | Begun:
        if self._judge is None:
            raise StoreError(self._trouble)
        self._opened = self._loop.create_future()
        try:
            self._give(message)
            return await self._opened
        finally:
            self._opened = None

    def _take_lease(self) -> None:
        self._leases = open_leases(self._given.config.store)
        self._leases.take(self._given.crawl)

    def _start(self) -> None:
        self._judge = JudgeProcess(self) if self._given.leased else JudgeThread(self)
        self._started.append(self._judge)
        self._lost_lines = 0

    def _restart(self) -> None:
        """Start another judge in place of one that died."""
        try:
            self._start()
        except OSError as error:  # no more processes or files
            self.ended(None, describe_error(error))
            return
        self._later.clear()
        again = [pack(replace(self._given, seed=self.seed)), pack(Begin())]
        again += [pack(Noted(*each)) for each in self._marks]
        again += [pack(Line(*each)) for each in self._lines]
        again += [message for message, _ in self._questions.values()]
        self._send(again)

    async def close(self) -> None:
        """Have everything written, and end the judge; harmless if called twice."""
        if self._closing:
            return
        self._closing = True
        try:
            if self._has_begun:
                self._closed = self._loop.create_future()
                if self._judge is None:
                    self._restart()
                elif self._is_ready:
                    self._give(Close())
                await self._closed
        finally:
            await self._end()

    async def _end(self) -> None:
        """Release everything; what the judge did not write is written or told here."""
        for timer in (self._timer, self._watching):
            if timer is not None:
                timer.cancel()
        self._judge, self._is_ready = None, False
        self._fail_all(_ENDED)
        for judge in self._started:
            judge.end()
        warn_of_pending([mark for _, mark in self._marks], self._trouble or _ENDED)
        self._marks.clear()
        await asyncio.to_thread(self._release)

    def _release(self) -> None:
        for judge in self._started:
            judge.join()
        if self._lines and self._given.log:
            with suppress(OSError):
                log = DecisionLog(Path(self._given.log))
                written = log.read_end()
                for _, line in self._lines:
                    if line not in written:
                        log.write(line)
                log.close()
                self.lost_lines += log.lost
        self._lines.clear()
        if self._leases is not None:
            self._leases.close()

    # What the crawl tells

    def submit(self, asked: Asked) -> asyncio.Future[Decision]:
        """Have a page judged; its future may have a NotJudgedError."""
        page = _Page(pack(asked), self._loop.create_future())
        if trouble := self._find_trouble():
            page.future.set_exception(NotJudgedError("store_unavailable", trouble))
            return page.future
        self._pages[asked.number] = page
        page.future.add_done_callback(lambda future: self._forget(asked.number, future))
        self._feed()
        return page.future

    def new_number(self) -> int:
        """Make a number for a page."""
        return next(self._numbers)

    def _forget(self, number: int, future: asyncio.Future[Decision]) -> None:
        """Tell the judge of a page that nobody waits for any more."""
        if future.cancelled() and self._pages.pop(number, None) is not None:
            if number in self._sent:
                self._sent.discard(number)
                self._give(Forget(number))
            self._feed()

    def _feed(self) -> None:
        """Send pages to the judge; one by one while one of them may be its death."""
        if not self._is_ready:
            return
        if any(page.deaths for page in self._pages.values()):
            waiting = [] if self._sent else list(self._pages)[:1]
        else:
            waiting = [number for number in self._pages if number not in self._sent]
        if waiting:
            self._sent.update(waiting)
            self._later += [self._pages[number].message for number in waiting]
            if not self._is_sending:  # all pages of a turn of the event loop go together
                self._is_sending = True
                self._loop.call_soon(self._send, [])

    def mark(self, mark: Mark) -> None:
        """Have a mark written, in the commit of a later group."""
        if self._closing:
            warn_of_pending([mark], _ENDED)
            return
        self._marks.append((next(self._numbers), mark))
        self._give_later(Noted(*self._marks[-1]))

    def write(self, line: bytes) -> None:
        """Have a line of the log written."""
        if not self._closing:
            self._lines.append((next(self._numbers), line))
            self._give_later(Line(*self._lines[-1]))

    def ask(self, name: QuestionName, keys: list[bytes] | None = None) -> asyncio.Future[bytes]:
        """Ask a question after earlier marks; the future may have a StoreError."""
        future: asyncio.Future[bytes] = self._loop.create_future()
        if trouble := self._find_trouble():
            future.set_exception(StoreUnavailableError(trouble))
            return future
        number = next(self._numbers)
        question = Question(number, name, keys or [])
        self._questions[number] = pack(question), future
        self._give(question)
        return future

    def _find_trouble(self) -> str:
        """Return why nothing can be asked now, or "". After a while, another judge is started."""
        if self._closing or not self._has_begun:
            return _ENDED
        if self._judge is None and self._loop.time() < self._passing_until:
            return self._trouble
        if self._judge is None:
            self._restart()
        return "" if self._judge is not None else self._trouble

    # To the judge

    def _give(self, message: ToJudge) -> None:
        self._send([pack(message)])

    def _give_later(self, message: ToJudge) -> None:
        self._later.append(pack(message))
        if self._timer is None:
            self._timer = self._loop.call_later(_LATER_SECONDS, self._send, [])

    def _send(self, messages: list[bytes]) -> None:
        """Send messages behind those that waited for them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_sending:  # a callback may have held the event loop since the last message
            self._last_heard = self._loop.time()
        self._is_sending = False
        messages, self._later = [*self._later, *messages], []
        if self._judge is not None and messages:
            self._judge.send(messages)

    @property
    def _is_awaited(self) -> bool:
        return bool(self._sent or self._questions or self._closing or self._opened)

    def _watch(self) -> None:
        """Kill a judge that stands still."""
        self._watching = self._loop.call_later(_SILENT_SECONDS / 4, self._watch)
        now = self._loop.time()
        if self._judge is None or not self._is_awaited:
            self._last_heard = now
        elif now - self._last_heard > (_SILENT_SECONDS if self._is_ready else _OPENING_SECONDS):
            self._judge.kill()

    # From the judge

    def take(self, judge: JudgeProcess | JudgeThread, messages: list[FromJudge]) -> None:
        """Act on messages of a judge, unless it was replaced."""
        self._last_heard = self._loop.time()
        for message in messages:
            if judge is self._judge:
                self._take(message)
        self._feed()

    def _take(self, message: FromJudge) -> None:
        match message:
            case Decided():
                self._take_verdict(message)
            case Settled():
                _drop_until(self._marks, message.mark)
                _drop_until(self._lines, message.line)
                self.lost_lines += message.lost_lines - self._lost_lines
                self._lost_lines = message.lost_lines
            case Answered():
                self._take_answer(message)
            case Told():
                logging.getLogger(message.logger).log(message.level, "%s", message.text)
            case Closed():
                self._judge = None
                self._finish()
            case Opened() | Begun():
                self._take_opening(message)
            case Failed():
                self._fail_opening(message)

    def _take_opening(self, message: Opened | Begun) -> None:
        if self._opened is not None:
            if not self._opened.done():
                self._opened.set_result(message)
        elif isinstance(message, Opened):
            if message.seed != self.seed:
                self._fail_opening(Failed("StoreError", "another store is at its place"))
        else:
            self._is_ready, self._unopened = True, 0
            self._feed()
            if self._closing:
                self._give(Close())

    def _take_verdict(self, message: Decided) -> None:
        self._sent.discard(message.number)
        page = self._pages.pop(message.number, None)
        if page is None or page.future.done():
            return
        if message.decision is not None:
            page.future.set_result(message.decision)
        else:
            page.future.set_exception(NotJudgedError(message.reason, message.detail))

    def _take_answer(self, message: Answered) -> None:
        _, future = self._questions.pop(message.number, (b"", None))
        if future is not None and not future.done():
            if message.error:
                future.set_exception(StoreUnavailableError(message.error))
            else:
                future.set_result(message.value)

    def _fail_opening(self, failed: Failed) -> None:
        """Pass on what kept a judge from opening; of a later one, as its end."""
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(make_error(failed))
        elif self._judge is not None:
            self._judge.end()
            self.ended(self._judge, failed.text)

    def ended(self, judge: JudgeProcess | JudgeThread | None, why: str) -> None:
        """Replace a judge that ended, unless too many did."""
        if judge is not self._judge:
            return
        self._judge = None
        if not self._has_begun:
            self._trouble = f"the process that judges pages ended while it opened the store: {why}"
            if self._opened is not None and not self._opened.done():
                self._opened.set_exception(StoreError(self._trouble))
            return
        now = self._loop.time()
        self._deaths.append(now)
        self._trouble = f"the process that judges pages ended: {why}"
        if self._is_ready:
            self._blame(why)
        else:
            self._unopened += 1
        self._is_ready = False
        often = len(self._deaths) == _MOST_DEATHS and now - self._deaths[0] < _WHILE_SECONDS
        if often or self._unopened >= _MOST_UNOPENED or (self._closing and self._unopened):
            self._unopened = 0
            self._passing_until = now + _WHILE_SECONDS
            self._fail_all(self._trouble)
            if self._closing:
                self._finish()
        else:
            self._restart()

    def _blame(self, why: str) -> None:
        """Count the death against the pages that the judge had; let one pass that caused two."""
        for number in self._sent:
            page = self._pages[number]
            page.deaths += 1
            if page.deaths >= _DEATHS_OF_A_PAGE:
                del self._pages[number]
                if not page.future.done():
                    page.future.set_exception(NotJudgedError("worker_died", f"{why}, twice"))
        self._sent.clear()

    def _fail_all(self, trouble: str) -> None:
        """Let all pages and questions go."""
        for page in self._pages.values():
            if not page.future.done():
                page.future.set_exception(NotJudgedError("store_unavailable", trouble))
        for _, future in self._questions.values():
            if not future.done():
                future.set_exception(StoreUnavailableError(trouble))
        self._pages.clear()
        self._sent.clear()
        self._questions.clear()

    def _finish(self) -> None:
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)


def _drop_until(entries: deque[tuple[int, Any]], number: int) -> None:
    while entries and entries[0][0] <= number:
        entries.popleft()


class JudgeProcess(Child):
    """A judge in a process of its own."""

    def __init__(self, client: JudgeClient) -> None:
        self._client = client
        module = "scrapy_simhash.detector.judge"
        # The judge hashes words by Python's hash, whose key nobody else may know.
        super().__init__(asyncio.get_running_loop(), module, PYTHONHASHSEED="random")

    def take(self, messages: list[bytes]) -> bool:
        """Pass messages on; return False if one is none."""
        try:
            read = list(map(unpack_from_judge, messages))
        except msgspec.MsgspecError:
            return False
        self._client.take(self, read)
        return True

    def broken(self) -> None:
        """Say that it has ended."""
        self.end()
        self._client.ended(self, f"exit code {self.process.returncode}")

    def kill(self) -> None:
        """Kill the process; its end is seen when its socket is read."""
        self.process.kill()

    def join(self) -> None:
        """Wait until it is gone; blocks."""
        self.process.wait()


class JudgeThread:
    """A judge in a thread of this process."""

    def __init__(self, client: JudgeClient) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._brought: list[bytes] = []
        self._thread = threading.Thread(
            target=self._run, name=f"scrapy_simhash-judge-{id(self):x}", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        from scrapy_simhash.detector.judge import GroupJudge  # noqa: PLC0415 - loads numpy

        try:
            GroupJudge(self._get, self._bring).run()
        finally:
            self._call(lambda: self._client.ended(self, "its thread ended"))

    def _get(self, timeout: float | None) -> bytes:
        message = self._inbox.get(timeout=timeout)
        if message is None:
            raise EOFError
        return message

    def _bring(self, messages: list[bytes]) -> None:
        """Bring messages to the event loop, all of a moment in one call."""
        with self._lock:
            if not self._brought:
                self._call(self._deliver)
            self._brought += messages

    def _call(self, work: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(work)

    def _deliver(self) -> None:
        with self._lock:
            brought, self._brought = self._brought, []
        self._client.take(self, list(map(unpack_from_judge, brought)))

    def send(self, messages: list[bytes]) -> None:
        """Hand messages over."""
        for message in messages:
            self._inbox.put(message)

    def kill(self) -> None:
        """Do nothing: a thread cannot be killed."""

    def end(self) -> None:
        """Have the thread end."""
        self._inbox.put(None)

    def join(self) -> None:
        """Wait until it has ended; blocks."""
        self._thread.join()
