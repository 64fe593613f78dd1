"""The crawl's side of its judges: pages without an answer, and processes that hang or die.

A page that hangs its judge is killed with it after ten seconds; so is one that fills its memory.
Another judge is started, and gets all pages that have no answer, the suspect alone: if it ends that
judge, too, it passes. What was young in a judge that died is forgotten, so those pages may be kept
twice. All methods are for the event loop.
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
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import xxhash
from msgspec import structs

from scrapy_simhash._printable import describe_error, quote
from scrapy_simhash.errors import NotJudgedError, StoreError, StoreUnusableError
from scrapy_simhash.judge import messages
from scrapy_simhash.judge.messages import Ask, Closed, Open, Opened, Said, pack
from scrapy_simhash.pages.addresses import find_site, host_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from scrapy_simhash.judge.messages import FromJudge, ToJudge
    from scrapy_simhash.pages.facts import Fetched

    # Asks for the page at an address once more; None if the answer proves nothing.
    Refetcher: TypeAlias = Callable[[str], Awaitable[tuple[Fetched, bytes] | None]]

logger = logging.getLogger(__name__)

# A 10 kB page with huge colspans holds a reader such as trafilatura for 15 s; no page of the
# corpora takes one.
PAGE_SECONDS = 10.0
# Pages that a judge has beside those that wait there, so that it always has one to read.
_MOST_SENT, _MOST_SENT_BYTES = 4, 1 << 19
_WATCHING_SECONDS = 1.0
# A judge that has pages to answer and stands still for so long is killed, whatever its store does;
# to open one that has to be verified may take minutes.
_STILL_SECONDS, _OPENING_SECONDS = 60.0, 600.0
_CLOSING_SECONDS = 60.0
_ENDING_SECONDS = 1.0
# After so many judges in a row that ended without an answer, all pages pass for a while.
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
    site: str
    future: asyncio.Future[Said]
    refetch: Refetcher | None = None  # asks for another page as this one was asked for
    deaths: int = 0  # of judges that were at it
    is_late: bool = False  # a judge was killed for it

    def fail(self, reason: str, detail: str = "") -> None:
        """Let the page pass."""
        if not self.future.done():
            self.future.set_exception(NotJudgedError(reason, detail))


class Judges:
    """All judges of a crawl; a page goes to one by its host.

    Args:
        given: what each opens.
        count: the number of processes; with 0 the judge is in this one, unbounded: for debugging.
    """

    def __init__(self, given: Open, count: int) -> None:
        self._given, self._count = given, count
        self._numbers = itertools.count(1)
        self._judges: list[JudgeProcess | JudgeHere] = []

    async def open(self) -> Opened:
        """Start the judges; raises what kept one from opening the store."""
        first = JudgeProcess(self._given) if self._count else JudgeHere(self._given)
        self._judges.append(first)
        # The first one makes the store, if there is none.
        opened = await first.opened
        given = structs.replace(self._given, seed=opened.seed)
        self._judges += [JudgeProcess(given) for _ in range(1, self._count)]
        for judge in self._judges:
            await judge.opened
        return opened

    def ask(
        self,
        page: Fetched,
        body: bytes,
        action: str = "flag",
        *,
        young: bool = False,
        wanted: str = "verdict",
        refetch: Refetcher | None = None,
    ) -> tuple[int, asyncio.Future[Said]]:
        """Have a page judged; the future may have a NotJudgedError. Also returns its number."""
        number, host = next(self._numbers), host_of(page.url)
        future: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        asked = Ask(number, page, body, action, young, wanted)
        job = Job(asked, find_site(host), future, refetch)
        if self._judges:
            digest = xxhash.xxh3_64_intdigest(host.encode("utf-8", "replace"))
            self._judges[digest % len(self._judges)].ask(job)
        else:
            job.fail("store_unavailable", _ENDED)
        return number, future

    def tell(self, message: ToJudge) -> None:
        """Tell all judges: none minds what it knows nothing of."""
        for judge in self._judges:
            judge.tell(message)

    @property
    def ends(self) -> int:
        """How often a judge ended with what was young there."""
        return sum(judge.ends for judge in self._judges)

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


class _Judge:
    """What a judge in this process and one in another have in common."""

    tell: Callable[[ToJudge], None]

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: dict[int, Job] = {}  # without an answer
        self.ends = 0  # how often a judge ended that had opened the store
        self.opened: asyncio.Future[Opened] = self._loop.create_future()
        self._closed: asyncio.Future[Closed] = self._loop.create_future()
        # Of the documents that were asked for, which may be asked for again, without a job.
        self._refetchers: OrderedDict[int, Refetcher | None] = OrderedDict()

    def _hear(self, message: FromJudge) -> None:
        """Do what follows from what a judge says."""
        match message:
            case Opened() if not self.opened.done():
                self.opened.set_result(message)
            case Said(number=number):
                job = self._jobs.pop(number, None)
                if job is not None and message.reason:
                    job.fail(message.reason, message.detail)
                elif job is not None and not job.future.done():
                    job.future.set_result(message)
            case messages.Refetch():
                self._refetch(message)
            case Closed():
                self._closed.set_result(message)

    def _refetch(self, message: messages.Refetch) -> None:
        """Ask for a kept page as the page in doubt was asked for, and send the judge its answer."""
        document, job = message.document, self._jobs.get(message.number)
        refetch = job.refetch if job is not None else self._refetchers.pop(document, None)
        self._refetchers[document] = refetch
        if len(self._refetchers) > _MOST_REFETCHERS:
            self._refetchers.popitem(last=False)

        async def ask() -> None:
            answer = None
            try:
                await asyncio.sleep(message.pause_seconds)
                if refetch is not None:
                    answer = await refetch(message.url)
            except Exception as error:  # noqa: BLE001 - whatever it is, there is no answer
                logger.debug("Not asked again: %s: %s", quote(message.url), describe_error(error))
            finally:
                self.tell(messages.Again(document, *(answer or ())))

        task = asyncio.ensure_future(ask())
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)


# The event loop itself keeps no task alive.
_TASKS: set[asyncio.Task[None]] = set()


class JudgeHere(_Judge):
    """A judge in this process: for imports and for debugging; nothing bounds a page."""

    def __init__(self, given: Open) -> None:
        from scrapy_simhash.judge.judge import CrawlJudge  # noqa: PLC0415 - loads numpy

        super().__init__()
        self._timer: asyncio.TimerHandle | None = None
        self._judge: CrawlJudge | None = CrawlJudge(given, self._hear)  # until the end

    def ask(self, job: Job) -> None:
        """Have a page judged."""
        self._jobs[job.asked.number] = job
        self.tell(job.asked)

    def tell(self, message: ToJudge) -> None:
        """Tell something."""
        if self._judge is not None:
            self._judge.take(message)
            self._tick()

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._judge is not None:
            self._timer = self._loop.call_later(self._judge.tick(), self._tick)

    async def close(self) -> Closed:
        """Have everything written."""
        self.tell(messages.Close())
        self._judge = None
        self._tick()
        return self._closed.result()


def _describe_end(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


class JudgeProcess(_Judge):
    """A judge in a process of its own, and those in its place if it dies.

    Pages are sent by turns: a page of each site, first come, first served within a site. Else eight
    pages of a site that are slow to read hold up all others.
    """

    def __init__(self, given: Open) -> None:
        super().__init__()
        self._given = given
        self._process: asyncio.subprocess.Process | None = None
        self._turns: OrderedDict[str, deque[Job]] = OrderedDict()  # to be sent, by site
        self._sent: set[int] = set()  # those that the judge is to read
        # Of sites with a time-out, which of the last pages were one; and those that pass for it.
        self._late: dict[str, deque[bool]] = {}
        self._site_passes_until: dict[str, float] = {}
        self._deaths = 0  # in a row, of judges that answered nothing
        self._is_ready = self._is_closing = False
        self._passing_until, self._trouble = 0.0, ""
        self._running = asyncio.ensure_future(self._run())
        self._watching = self._loop.call_later(_WATCHING_SECONDS, self._watch)

    # A process

    async def _run(self) -> None:
        """Start a judge, take what it says, and find out why it ended."""
        code, at = None, 0
        try:
            with messages.make_status() as file:
                self._status = messages.map_status(file.fileno())
                self._status[1] = time.monotonic()
                path = [str(folder) for folder in sys.path]
                self._process = process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-c",
                    f"import sys; sys.path[:] = {path}; from scrapy_simhash.judge.judge import "
                    f"main; main({file.fileno()}, {os.getpid()})",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    pass_fds=(file.fileno(),),
                    # A Ctrl-C in the terminal is for the crawl.
                    start_new_session=True,
                    # The judge hashes words by Python's hash, whose key nobody else may know.
                    env=os.environ | {"PYTHONHASHSEED": "random"},
                )
                if self._is_closing:  # when there was no process to kill yet
                    self._kill()
                try:
                    self._write(pack(self._given))
                    assert process.stdout is not None  # noqa: S101 - a pipe
                    # Until it ends, or says what makes no sense.
                    with suppress(asyncio.IncompleteReadError, msgspec.MsgspecError, OSError):
                        while True:
                            size = int.from_bytes(await process.stdout.readexactly(4))
                            frame = await process.stdout.readexactly(size)
                            self._hear(messages.unpack_from_judge(frame))
                finally:
                    self._process, self._is_ready = None, False
                    # To kill one that has just ended takes its exit code from asyncio.
                    with suppress(TimeoutError):
                        await asyncio.wait_for(process.wait(), _ENDING_SECONDS)
                    with suppress(ProcessLookupError):
                        process.kill()
                    code, at = await process.wait(), int(self._status[0])
        except Exception as error:  # noqa: BLE001 - no more processes or files; pages wait for it
            self._trouble = describe_error(error)
        self._ended(code, at)

    def _write(self, frame: bytes) -> None:
        """Send a frame, without waiting; nothing while there is no judge."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.writelines((len(frame).to_bytes(4), frame))

    def _kill(self) -> None:
        """Kill the process, if it runs."""
        # `Process.kill` would look whether it has ended, and take its exit code from asyncio.
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def _watch(self) -> None:
        """Kill a judge that takes too long for a page, or stands still."""
        # Where all stood still, as in a machine that was stopped, so did the judge.
        was_still = self._loop.time() - self._watching.when() > 5 * _WATCHING_SECONDS
        self._watching = self._loop.call_later(_WATCHING_SECONDS, self._watch)
        if self._process is None or was_still or (self._is_ready and not self._jobs):
            return
        number, since, loading = self._status[:3]
        job, most_seconds = self._jobs.get(int(number)), _STILL_SECONDS
        if not self._is_ready:
            most_seconds = _OPENING_SECONDS
        elif job is not None and not loading:
            most_seconds = PAGE_SECONDS
        if time.monotonic() - since > most_seconds:
            if job is not None:
                job.is_late = True
            self._kill()

    # To the judge

    def ask(self, job: Job) -> None:
        """Have a page judged, or let it pass."""
        now = self._loop.time()
        if now < self._site_passes_until.get(job.site, 0.0):
            job.fail("slow_site", f"pages of {job.site} took too long")
        elif now < self._passing_until:
            job.fail("store_unavailable", self._trouble)
        else:
            if self._running.done():
                self._running = asyncio.ensure_future(self._run())
            self._jobs[job.asked.number] = job
            self._turns.setdefault(job.site, deque()).append(job)
            self._feed()

    def _feed(self) -> None:
        """Send pages; one by one while one of them may be the judge's death."""
        while self._is_ready and self._turns:
            site, jobs = next(iter(self._turns.items()))
            sent = [self._jobs[number] for number in self._sent]
            suspects = any(each.deaths for each in (jobs[0], *sent))
            sent_bytes = sum(len(each.asked.body) for each in sent)
            if sent and (suspects or len(sent) >= _MOST_SENT or sent_bytes > _MOST_SENT_BYTES):
                break
            job = jobs.popleft()
            self._turns.move_to_end(site)
            if not jobs:
                del self._turns[site]
            try:
                packed = pack(job.asked)
                messages.unpack_to_judge(packed)  # a judge that cannot would end
            except Exception as error:  # noqa: BLE001 - an address may be anything
                job.fail("failed", describe_error(error))
            if job.future.done():  # or nobody waits for it any more
                del self._jobs[job.asked.number]
                continue
            self._sent.add(job.asked.number)
            self._write(packed)

    def tell(self, message: ToJudge) -> None:
        """Tell something; the next judge would know nothing of what it is about."""
        self._write(pack(message))

    # From the judge

    def _hear(self, message: FromJudge) -> None:
        match message:
            case Said(number=number):
                self._deaths = -1  # its own one does not count
                self._sent.discard(number)
                if (job := self._jobs.get(number)) and job.site in self._late:
                    self._late[job.site].append(False)
            case messages.Waits(number=number):
                self._sent.discard(number)
            case messages.Told():
                logging.getLogger(message.logger).log(message.level, "%s", message.text)
            case Opened():
                self._is_ready = True
                self._given = structs.replace(self._given, seed=message.seed)
            case messages.Failed():
                self._trouble = message.text
                if not self.opened.done():
                    kind = StoreUnusableError if message.unusable else StoreError
                    self.opened.set_exception(kind(message.text))
        super()._hear(message)
        self._feed()

    def _ended(self, code: int | None, at: int) -> None:
        """Start another judge, unless too many died; the page that it was at may be the cause."""
        if self._is_closing:
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
        self._turns.clear()
        for job in self._jobs.values():
            self._turns.setdefault(job.site, deque()).append(job)
        self._blame(code, at)
        self._sent.clear()
        self._deaths = 0 if at else self._deaths + 1
        if self._deaths >= _MOST_DEATHS:
            logger.warning(
                "Pages are not judged for %d seconds: the process that judges them ended: %s",
                _WHILE_SECONDS,
                why,
            )
            self._passing_until, self._trouble = self._loop.time() + _WHILE_SECONDS, why
            self._fail_all(why)
            self._deaths = 0
        else:
            self._trouble = ""
            self._running = asyncio.ensure_future(self._run())

    def _blame(self, code: int | None, at: int) -> None:
        """Let the page that the judge was at pass, unless it is sent once more."""
        job = self._jobs.get(at)
        if job is None:
            return
        job.deaths += 1
        if job.is_late:
            job.fail("timed_out", f"{PAGE_SECONDS:g} seconds")
            self._note_late(job.site)
        elif code == messages.OUT_OF_MEMORY_EXIT_CODE:
            job.fail("out_of_memory")
        elif job.deaths >= _DEATHS_OF_A_PAGE:
            job.fail("worker_died", f"{_describe_end(code)}, {job.deaths} times")

    def _note_late(self, site: str) -> None:
        """Note a time-out; after three of a hundred pages, all pages of the site pass."""
        late = self._late.setdefault(site, deque(maxlen=_OF_PAGES))
        late.append(True)
        if sum(late) < _MOST_LATE:
            return
        del self._late[site]
        self._site_passes_until[site] = self._loop.time() + _SITE_SECONDS
        logger.warning(
            "Pages of %s are not judged for %d minutes: three of its last %d took longer than %g "
            "seconds to read",
            quote(site),
            _SITE_SECONDS / 60,
            _OF_PAGES,
            PAGE_SECONDS,
        )
        for job in self._turns.pop(site, ()):
            del self._jobs[job.asked.number]
            job.fail("slow_site", f"pages of {site} took too long")

    def _fail_all(self, why: str) -> None:
        """Let all pages pass."""
        for job in self._jobs.values():
            job.fail("store_unavailable", why)
        for each in (self._jobs, self._sent, self._turns):
            each.clear()

    async def close(self) -> Closed:
        """Have everything written, and end the judge."""
        self._watching.cancel()
        self._is_closing, is_open = True, self._is_ready
        try:
            if is_open:
                self.tell(messages.Close())
                await asyncio.wait([self._running], timeout=_CLOSING_SECONDS)
        finally:
            self._fail_all(_ENDED)
            if not self._closed.done():
                self._kill()
            await asyncio.wait([self._running])
        if self._closed.done():
            return self._closed.result()
        if is_open:
            logger.warning("The process that judges pages did not end in order")
        return Closed()
