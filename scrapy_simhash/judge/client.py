"""The crawl's side of its judges: pages without an answer, and processes that hang or die.

A page that hangs its judge is killed with it after ten seconds; so is one that fills its memory.
Another judge is started, and gets all pages that have no answer, the suspect one alone: if it ends
that judge, too, it passes. What was young in a judge that died is forgotten, so those pages may be
kept twice. All methods are for the event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict, deque
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import xxhash
from msgspec import structs

from scrapy_simhash._printable import describe_error, quote
from scrapy_simhash.errors import NotJudgedError, StoreError
from scrapy_simhash.judge.messages import (
    OUT_OF_MEMORY_EXIT_CODE,
    Again,
    Ask,
    Close,
    Closed,
    EndWaits,
    Failed,
    FromJudge,
    Gone,
    Open,
    Opened,
    Refetch,
    Said,
    Settled,
    Status,
    ToJudge,
    Told,
    Waits,
    make_error,
    pack,
    unpack_from_judge,
    unpack_to_judge,
)
from scrapy_simhash.judge.scopes import find_site
from scrapy_simhash.pages.addresses import host_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import TypeAlias

    from scrapy_simhash.config import Config
    from scrapy_simhash.judge.messages import Outcome, Wanted
    from scrapy_simhash.pages.facts import Page, PageFingerprint
    from scrapy_simhash.pages.recipe import Recipe

    # Asks for the page at an address once more; None if the answer proves nothing.
    Refetcher: TypeAlias = Callable[[str], Awaitable[tuple[Page, bytes] | None]]

logger = logging.getLogger(__name__)

# A 10 kB page with huge colspans holds a reader such as trafilatura for 15 s; no page of the
# corpora takes one.
PAGE_SECONDS = 10.0
# Pages that a judge has beside those that wait there, so that it always has one to read.
_MOST_SENT, _MOST_SENT_BYTES = 4, 1 << 19
_WATCHING_SECONDS = 1.0
# A judge that has pages to answer and is silent for so long is killed; to load a reader takes a
# second on an idle machine, and to open a store that has to be verified may take minutes.
_SILENT_SECONDS, _LOADING_SECONDS, _OPENING_SECONDS = 30.0, 60.0, 600.0
# A page that waits is answered after half of it.
_WAITING_SECONDS = 60.0
_CLOSING_SECONDS = 60.0
_ENDING_SECONDS = 1.0
# After so many judges within a while that ended without an answer, all pages pass for a while.
_MOST_DEATHS, _WHILE_SECONDS = 3, 60.0
_DEATHS_OF_A_PAGE = 2
_MOST_REFETCHERS = 1_000
# A site that timed out so often in its last pages is not judged for so long.
_MOST_LATE, _OF_PAGES, _SITE_SECONDS = 3, 100, 600.0
_ENDED = "the crawl has ended"


@dataclass(eq=False, slots=True)
class Job:
    """A page without an answer."""

    asked: Ask
    body: bytes
    site: str
    future: asyncio.Future[Said]
    refetch: Refetcher | None = None  # asks for another page as this one was asked for
    deaths: int = 0  # of judges that were at it
    packed: bytes = b""

    def fail(self, reason: str, detail: str = "") -> None:
        """Let the page pass."""
        if not self.future.done():
            self.future.set_exception(NotJudgedError(reason, detail))


class Turns:
    """Pages that wait: a page of each site in turn, first come, first served within a site.

    Else eight pages of a site that are slow to read hold up all others.
    """

    def __init__(self) -> None:
        self._sites: OrderedDict[str, deque[Job]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._sites)

    def __iter__(self) -> Iterator[Job]:
        return itertools.chain.from_iterable(self._sites.values())

    def add(self, job: Job) -> None:
        """Let a page wait."""
        self._sites.setdefault(job.site, deque()).append(job)

    def take(self) -> Job:
        """Take the next page; there is one."""
        site, jobs = self._sites.popitem(last=False)
        job = jobs.popleft()
        if jobs:
            self._sites[site] = jobs
        return job

    def take_site(self, site: str) -> deque[Job]:
        """Take all pages of a site."""
        return self._sites.pop(site, deque())


class LateSites:
    """The sites whose pages time out; three in a hundred, and all of a site's pages pass."""

    def __init__(self) -> None:
        # Of sites with a time-out, which of the last pages were one.
        self._late: dict[str, deque[bool]] = {}
        self._passing_until: dict[str, float] = {}

    def passes(self, site: str, now: float) -> bool:
        """Return whether the pages of a site pass now."""
        return now < self._passing_until.get(site, 0.0)

    def note(self, site: str, now: float, *, timed_out: bool) -> bool:
        """Note that a page was judged or timed out; return whether the site's pages pass now."""
        if not timed_out and site not in self._late:
            return False
        late = self._late.setdefault(site, deque(maxlen=_OF_PAGES))
        late.append(timed_out)
        if often := sum(late) >= _MOST_LATE:
            self._passing_until[site] = now + _SITE_SECONDS
        if often or not any(late):
            del self._late[site]
        return often


class Judges:
    """All judges of a crawl; a page goes to one by its host.

    Args:
        given: what each opens.
        count: the number of processes; with 0 the judge is in this one, unbounded: for debugging.
        page_seconds: that a page may take.
    """

    def __init__(self, given: Open, count: int, page_seconds: float = PAGE_SECONDS) -> None:
        self._given, self._count, self._page_seconds = given, count, page_seconds
        self._numbers = itertools.count(1)
        self._judges: list[JudgeProcess | JudgeHere] = []

    async def open(self) -> Opened:
        """Start the judges; raises what kept one from opening the store."""
        late = LateSites()
        if self._count:
            self._judges.append(JudgeProcess(self._given, self._page_seconds, late))
        else:
            self._judges.append(JudgeHere(self._given))
        # The first one makes the store, if there is none.
        opened = await self._judges[0].opened
        given = structs.replace(self._given, seed=opened.seed)
        others = [JudgeProcess(given, self._page_seconds, late) for _ in range(1, self._count)]
        self._judges += others
        for judge in others:
            await judge.opened
        return opened

    def ask(
        self,
        page: Page,
        body: bytes,
        action: str = "flag",
        *,
        young: bool = False,
        wanted: Wanted = "verdict",
        refetch: Refetcher | None = None,
    ) -> tuple[int, asyncio.Future[Said]]:
        """Have a page judged; the future may have a NotJudgedError. Also returns its number."""
        number, host = next(self._numbers), host_of(page.url)
        future: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        asked = Ask(number, page, action, young, wanted)
        job = Job(asked, body, find_site(host), future, refetch)
        if not self._judges:
            job.fail("store_unavailable", _ENDED)
            return number, future
        digest = xxhash.xxh3_64_intdigest(host.encode("utf-8", "replace"))
        self._judges[digest % len(self._judges)].ask(job)
        return number, future

    async def read(self, page: Page, body: bytes) -> PageFingerprint:
        """Only read a page; `NotJudgedError` if that fails."""
        said = await self.ask(page, body, wanted="fingerprint")[1]
        assert said.fingerprint is not None  # noqa: S101 - it was wanted
        return said.fingerprint

    def settle(self, number: int, outcome: Outcome) -> None:
        """Tell what became of a young page; see `Settled`."""
        self._tell(Settled(number, outcome))

    def forget(self, identity: bytes) -> None:
        """Tell that the page of an identity is gone."""
        self._tell(Gone(identity))

    def _tell(self, message: ToJudge) -> None:
        """Tell all judges: none minds what it knows nothing of."""
        for judge in self._judges:
            judge.tell(message)

    @property
    def waiting(self) -> int:
        """The number of pages that wait for young ones."""
        return sum(len(judge.waiting) for judge in self._judges)

    @property
    def ends(self) -> int:
        """How often a judge ended with what was young there."""
        return sum(judge.ends for judge in self._judges)

    def end_waits(self) -> None:
        """Have all pages answered that wait for young ones."""
        self._tell(EndWaits())

    async def close(self) -> Closed:
        """Have everything written, and end the judges; harmless if called twice."""
        judges, self._judges = self._judges, []
        closed = [await judge.close() for judge in judges]
        return Closed(
            [link for each in closed for link in each.left],
            sum(each.beyond for each in closed),
            any(each.has_kept_links for each in closed),
            sum(each.unwritten for each in closed),
        )


def read_only(config: Config, recipe: Recipe, seed: int = 0, count: int = 1) -> Judges:
    """Make judges that only read pages, in so many processes; see `Judges.read`."""
    given = Open(replace(config, scope="global"), recipe, seed=seed, reads_only=True)
    return Judges(given, count)


class JudgeHere:
    """A judge in this process: for imports and for debugging; nothing bounds a page."""

    def __init__(self, given: Open) -> None:
        from scrapy_simhash.judge.judge import CrawlJudge  # noqa: PLC0415 - loads numpy

        self._loop = asyncio.get_running_loop()
        self._jobs: dict[int, Job] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._refetchers = Refetchers(self._take)
        self._closed = Closed()
        self.waiting: set[int] = set()
        self.ends = 0
        self.opened: asyncio.Future[Opened] = self._loop.create_future()
        try:
            self._judge: CrawlJudge | None = CrawlJudge(given, self._hear)
        except Exception as error:  # noqa: BLE001 - who waits for it gets it
            self._judge = None
            self.opened.set_exception(error)

    def _hear(self, message: FromJudge) -> None:
        match message:
            case Opened():
                self.opened.set_result(message)
            case Said():
                self.waiting.discard(message.number)
                _answer(self._jobs.pop(message.number, None), message)
            case Waits():
                self.waiting.add(message.number)
            case Refetch():
                self._refetchers.ask(self._jobs.get(message.number), message)
            case Closed():
                self._closed = message

    def ask(self, job: Job) -> None:
        """Have a page judged."""
        self._jobs[job.asked.number] = job
        self._take(job.asked, job.body)

    def tell(self, message: ToJudge) -> None:
        """Tell something."""
        self._take(message)

    def _take(self, message: ToJudge, body: bytes = b"") -> None:
        if self._judge is not None:
            self._judge.take(message, body)
            self._tick()

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._judge is not None:
            self._judge.tick()
            seconds = self._judge.find_timeout()
            if seconds is not None:
                self._timer = self._loop.call_later(seconds, self._tick)

    async def close(self) -> Closed:
        """Have everything written."""
        self._take(Close())
        self._judge = None
        if self._timer is not None:
            self._timer.cancel()
        return self._closed


def _answer(job: Job | None, said: Said) -> None:
    """Give a page its answer, if it waits for one."""
    if job is None or job.future.done():
        return
    if said.reason:
        job.fail(said.reason, said.detail)
    else:
        job.future.set_result(said)


class Refetchers:
    """Asks for kept pages once more, as the pages in doubt were asked for."""

    def __init__(self, send: Callable[[ToJudge, bytes], object]) -> None:
        self._send = send
        self._by_document: OrderedDict[int, Refetcher] = OrderedDict()

    def ask(self, job: Job | None, message: Refetch) -> None:
        """Ask for a page in a task of its own, and send the judge its answer."""
        document = message.document
        refetch = job.refetch if job is not None else self._by_document.pop(document, None)
        if refetch is not None:  # it may be asked once more, without a job
            self._by_document[document] = refetch
            if len(self._by_document) > _MOST_REFETCHERS:
                self._by_document.popitem(last=False)

        async def ask() -> None:
            answer = None
            try:
                await asyncio.sleep(message.pause_seconds)
                if refetch is not None:
                    answer = await refetch(message.url)
            except Exception as error:  # noqa: BLE001 - whatever it is, there is no answer
                logger.debug("Not asked again: %s: %s", quote(message.url), describe_error(error))
            finally:
                page, body = answer or (None, b"")
                self._send(Again(document, page), body)

        task = asyncio.ensure_future(ask())
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)


# The event loop itself keeps no task alive.
_TASKS: set[asyncio.Task[None]] = set()


def _describe_end(code: int | None) -> str:
    """Describe an exit code."""
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


async def _end(process: asyncio.subprocess.Process) -> int:
    """Wait for the end of a process that says no more, or kill it, and return its exit code."""
    # To kill one that has just ended takes its exit code, which asyncio then does not find.
    with suppress(TimeoutError):
        return await asyncio.wait_for(process.wait(), _ENDING_SECONDS)
    with suppress(ProcessLookupError):
        process.kill()
    return await process.wait()


class JudgeProcess:
    """A judge in a process of its own, and those in its place if it dies."""

    def __init__(self, given: Open, page_seconds: float, late: LateSites) -> None:
        self._given, self._page_seconds, self._late = given, page_seconds, late
        self._loop = asyncio.get_running_loop()
        self._process: asyncio.subprocess.Process | None = None
        self._jobs: dict[int, Job] = {}  # without an answer
        self._sent: set[int] = set()  # those of them that the judge is to read
        self.waiting: set[int] = set()  # those that wait there for young ones
        self._turns = Turns()
        self._again: deque[Job] = deque()  # that a judge had when it died
        self._untold: list[bytes] = []
        self._refetchers = Refetchers(self._tell)
        self._deaths: deque[float] = deque(maxlen=_MOST_DEATHS)
        self._killed = 0  # the page for which the judge was killed
        self._is_ready = self._has_answered = self._is_feeding = self._is_closing = False
        self._last_heard = self._loop.time()
        self._passing_until, self._trouble = 0.0, ""
        self.ends = 0  # how often a judge ended that had opened the store
        self.opened: asyncio.Future[Opened] = self._loop.create_future()
        self._closed: asyncio.Future[Closed] = self._loop.create_future()
        self._running = asyncio.ensure_future(self._run())
        self._watching = self._loop.call_later(_WATCHING_SECONDS, self._watch)

    # A process

    async def _run(self) -> None:
        """Start a judge, take what it says, and find out why it ended."""
        code, at = None, 0
        self._last_heard, self._has_answered = self._loop.time(), False
        try:
            with closing(Status()) as self._status:
                path = [str(folder) for folder in sys.path]
                self._process = process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-c",
                    f"import sys; sys.path[:] = {path}; from scrapy_simhash.judge.process import "
                    f"main; main({self._status.file}, {os.getpid()})",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    pass_fds=(self._status.file,),
                    # A Ctrl-C in the terminal is for the crawl.
                    start_new_session=True,
                    # The judge hashes words by Python's hash, whose key nobody else may know.
                    env=os.environ | {"PYTHONHASHSEED": "random"},
                )
                if self._is_closing:  # when there was no process to kill yet
                    self._kill()
                try:
                    self._write([pack(self._given)])
                    await self._listen(process)
                finally:
                    self._process, self._is_ready = None, False
                    code = await _end(process)
                    at = self._status.read()[0]
        except Exception as error:  # noqa: BLE001 - no more processes or files; pages wait for it
            self._trouble = describe_error(error)
        self._ended(code, at)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Take what a judge says, until it ends or says what makes no sense."""
        stdout = process.stdout
        assert stdout is not None  # noqa: S101 - a pipe
        with suppress(asyncio.IncompleteReadError, msgspec.MsgspecError, ConnectionError):
            while True:
                size = int.from_bytes(await stdout.readexactly(4), "little")
                self._hear(unpack_from_judge(await stdout.readexactly(size)))

    def _write(self, messages: list[bytes]) -> None:
        """Send messages, without waiting."""
        if self._process is not None and self._process.stdin is not None:
            parts = [part for each in messages for part in (len(each).to_bytes(4, "little"), each)]
            self._process.stdin.writelines(parts)

    def _kill(self) -> None:
        """Kill the process, if it runs."""
        # `Process.kill` would look whether it has ended, and take its exit code from asyncio.
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def _watch(self) -> None:
        """Kill a judge that takes too long for a page, or stands still."""
        now = self._loop.time()
        if now - self._watching.when() > 5 * _WATCHING_SECONDS:
            # The event loop stood still, and what the judge said meanwhile was not heard yet.
            self._last_heard = now
        self._watching = self._loop.call_later(_WATCHING_SECONDS, self._watch)
        if self._process is None:
            return
        silent_seconds = now - self._last_heard
        if not self._is_ready:
            if silent_seconds > _OPENING_SECONDS:
                self._kill()
            return
        number, began, loading = self._status.read()
        if number in self._jobs:
            most = _LOADING_SECONDS if loading else self._page_seconds
            if time.monotonic() - began > most:
                self._killed = number
                self._kill()
        elif (self._sent and silent_seconds > _SILENT_SECONDS) or (
            self.waiting and silent_seconds > _WAITING_SECONDS
        ):
            self._kill()

    # To the judge

    def ask(self, job: Job) -> None:
        """Have a page judged, or let it pass."""
        now = self._loop.time()
        if self._is_closing:
            job.fail("store_unavailable", _ENDED)
        elif self._late.passes(job.site, now):
            job.fail("slow_site", f"pages of {job.site} took too long")
        elif now < self._passing_until:
            job.fail("store_unavailable", self._trouble)
        else:
            try:
                job.packed = pack(job.asked)
                unpack_to_judge(job.packed)  # a judge that cannot would end
            except Exception as error:  # noqa: BLE001 - an address may be anything
                job.fail("failed", describe_error(error))
                return
            if self._running.done():
                self._running = asyncio.ensure_future(self._run())
            self._jobs[job.asked.number] = job
            self._turns.add(job)
            self._feed_soon()

    def _feed_soon(self) -> None:
        """Send pages in the next turn of the event loop, all that came by then."""
        if not self._is_feeding:
            self._is_feeding = True
            self._loop.call_soon(self._feed)

    def _feed(self) -> None:
        """Send pages; one by one while one of them may be the judge's death."""
        self._is_feeding = False
        messages: list[bytes] = []
        sent_bytes = sum(len(self._jobs[number].body) for number in self._sent)
        while self._is_ready and (self._again or self._turns):
            suspects = any(self._jobs[number].deaths for number in self._sent)
            suspects |= bool(self._again and self._again[0].deaths)
            full = len(self._sent) >= _MOST_SENT or sent_bytes > _MOST_SENT_BYTES
            if self._sent and (suspects or full):
                break
            job = self._again.popleft() if self._again else self._turns.take()
            number = job.asked.number
            if job.future.done():  # nobody waits for it any more
                self._jobs.pop(number, None)
                continue
            messages += [job.packed, job.body]
            self._expect({number})
            sent_bytes += len(job.body)
        if messages:
            self._write(messages)

    def _expect(self, numbers: set[int]) -> None:
        """Expect answers from now on."""
        if not self._sent:  # it had nothing to say
            self._last_heard = self._loop.time()
        self._sent |= numbers

    def tell(self, message: ToJudge) -> None:
        """Tell something; while there is no judge, the next one is told."""
        if isinstance(message, EndWaits):
            self._expect(self.waiting)
        self._tell(message)

    def _tell(self, message: ToJudge, *body: bytes) -> None:
        messages = [pack(message), *body]
        if self._is_ready:
            self._write(messages)
        else:
            self._untold += messages

    # From the judge

    def _hear(self, message: FromJudge) -> None:
        self._last_heard = self._loop.time()
        match message:
            case Said(number=number):
                self._has_answered = True
                self._sent.discard(number)
                self.waiting.discard(number)
                if job := self._jobs.pop(number, None):
                    self._late.note(job.site, self._last_heard, timed_out=False)
                    _answer(job, message)
            case Waits(number=number):
                if number in self._jobs:
                    self._sent.discard(number)
                    self.waiting.add(number)
            case Refetch():
                self._refetchers.ask(self._jobs.get(message.number), message)
            case Told():
                logging.getLogger(message.logger).log(message.level, "%s", message.text)
            case Opened() | Failed():
                self._hear_of_opening(message)
            case Closed():
                self._closed.set_result(message)
        self._feed_soon()

    def _hear_of_opening(self, message: Opened | Failed) -> None:
        if isinstance(message, Failed):
            self._trouble = message.text
            if not self.opened.done():
                self.opened.set_exception(make_error(message))
            return
        self._is_ready = True
        self._write(self._untold)
        self._untold.clear()
        self._given = structs.replace(self._given, seed=message.seed)
        if not self.opened.done():
            self.opened.set_result(message)

    def _ended(self, code: int | None, at: int) -> None:
        """Start another judge, unless too many died; the page that it was at may be the cause."""
        if self._closed.done() or self._is_closing:
            return
        why = self._trouble or _describe_end(code)
        if not self.opened.done():
            text = f"the process that judges pages ended while it opened the store: {why}"
            self.opened.set_exception(StoreError(text))
        if self.opened.exception() is not None:
            return
        self.ends += 1
        if self.ends & (self.ends - 1) == 0:  # the 1st, 2nd, 4th, 8th, ..., that a log stays short
            logger.warning(
                "The process that judges pages ended (%s; time %d), and is replaced: pages whose "
                "items were not written yet may be kept twice",
                why,
                self.ends,
            )
        suspect = self._blame(code, at)
        # The suspect goes last, and then alone.
        waiting = set(self._turns)
        again = [job for job in self._jobs.values() if job not in waiting and job is not suspect]
        self._again = deque(again if suspect is None else [*again, suspect])
        self._sent.clear()
        self.waiting.clear()
        now = self._loop.time()
        if not (at or self._has_answered):
            self._deaths.append(now)
        if len(self._deaths) == _MOST_DEATHS and now - self._deaths[0] < _WHILE_SECONDS:
            logger.warning(
                "Pages are not judged for %d seconds: the process that judges them ended: %s",
                _WHILE_SECONDS,
                why,
            )
            self._passing_until, self._trouble = now + _WHILE_SECONDS, why
            self._fail_all(why)
            self._deaths.clear()
        else:
            self._trouble = ""
            self._running = asyncio.ensure_future(self._run())

    def _blame(self, code: int | None, at: int) -> Job | None:
        """Return the page that the judge was at, unless it passes because of that."""
        job, killed, self._killed = self._jobs.get(at), self._killed, 0
        if job is None:
            return None
        job.deaths += 1
        if killed == at:
            reason, detail = "timed_out", f"{self._page_seconds:g} seconds"
        elif code == OUT_OF_MEMORY_EXIT_CODE:
            reason, detail = "out_of_memory", ""
        elif job.deaths >= _DEATHS_OF_A_PAGE:
            reason, detail = "worker_died", f"{_describe_end(code)}, {job.deaths} times"
        else:
            return job
        del self._jobs[at]
        job.fail(reason, detail)
        now = self._loop.time()
        if killed == at and self._late.note(job.site, now, timed_out=True):
            logger.warning(
                "Pages of %s are not judged for %d minutes: three of its last %d took longer than "
                "%g seconds to read",
                quote(job.site),
                _SITE_SECONDS / 60,
                _OF_PAGES,
                self._page_seconds,
            )
            for other in self._turns.take_site(job.site):
                del self._jobs[other.asked.number]
                other.fail("slow_site", f"pages of {job.site} took too long")
        return None

    def _fail_all(self, why: str) -> None:
        """Let all pages pass."""
        for job in self._jobs.values():
            job.fail("store_unavailable", why)
        self._jobs.clear()
        self._sent.clear()
        self.waiting.clear()
        self._again.clear()
        self._turns = Turns()

    async def close(self) -> Closed:
        """Have everything written, and end the judge."""
        self._watching.cancel()
        is_open = self._is_ready and not self._closed.done()
        if is_open:
            self._tell(Close())
        self._is_closing = True
        try:
            if is_open:
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(self._running), _CLOSING_SECONDS)
        finally:
            self._fail_all(_ENDED)
            if self._process is not None and not self._closed.done():
                self._kill()
            await asyncio.wait([self._running])
        if self._closed.done():
            return self._closed.result()
        if is_open:
            logger.warning("The process that judges pages did not end in order")
        return Closed()
