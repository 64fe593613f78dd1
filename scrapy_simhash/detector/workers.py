"""Worker processes for extraction: pages in turn, a deadline for each, killed one by one.

Extraction may hang (a 10 kB page with huge colspans holds trafilatura for 15 s) and may crash
natively, so threads will not do; `concurrent.futures.ProcessPoolExecutor` cannot kill one worker.

`Workers` is what a crawl holds. All crawls of an event loop that want equally many share a `Crew`:
the pages that wait, and a `Channel` to each process. The event loop does all of it, without threads
and without waiting. Pages wait by site in turn (`Turns`), small ones first: else eight pages in
flight of a site that are slow to read hold up all others, of which .1 a second were left of 35.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections import deque
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from scrapy_simhash._printable import describe_error, quote
from scrapy_simhash._shared import SharedByKey
from scrapy_simhash.detector.process import Child
from scrapy_simhash.detector.scopes import find_site
from scrapy_simhash.detector.worker import (
    OUT_OF_MEMORY_EXIT_CODE,
    Order,
    ReadPage,
    Status,
    pack,
    unpack_answer,
    unpack_fingerprint,
    work,
)
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.facts import Page
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, DEFAULT_FEATURES, SECOND_EXTRACTOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.detector.worker import Answer
    from scrapy_simhash.pages.facts import PageFingerprint
    from scrapy_simhash.pages.recipe import Recipe

logger = logging.getLogger(__name__)

# Beyond what a worker has loaded. The hostile pages that meet the time limit take at most 190 MB.
PAGE_MEMORY_BYTES = 512 * 2**20
# A worker that has no more pages than this gets the next ones. This and the next two numbers are
# chosen, not measured.
_PAGES_AHEAD = 2
# A page whose worker dies is read once more, by itself; then by the second reader, if it has one.
_MOST_DEATHS = 2
# How often a page comes back from workers that ended before they read it.
_MOST_RETURNS = 4
# How long no process is started after one that did not come up: twice as long each time, up to a
# minute.
_RESTING_SECONDS = 1.0
_LONGEST_REST_SECONDS = 60.0
# So often it is looked whether pages that rest may go.
_LOOKING_SECONDS = 0.1
# Within this a worker has come up, or has begun its next page, or has loaded what reads it: a
# second each on an idle machine.
_BEGINNING_SECONDS = 60.0
# A worker gets what waits at once, up to these; a larger page goes by itself. These and the
# numbers below are chosen, not measured.
PAGES_PER_BATCH = 8
LARGE_BYTES = 256 * 1_024
# So many small pages go before a large one that waits; they take as long as one of 4 MB that is
# not hostile.
_SMALL_PER_LARGE = 32
# A site whose page took so long or longer rests as long for each other site of which pages came
# within the last seconds; four times at most, because what waits takes up the crawl's requests.
_SLOW_SECONDS = 0.25
_LATELY_SECONDS = 2.0
_MOST_RESTS = 4
# What ends its worker counts as so much longer: another one has to be started.
_RESTART_SECONDS = 1.0
# After so many time-outs within a while a site's large pages pass for as long. For as long, too,
# the pages of a site that had a slow one go one by one.
_MOST_LATE = 3
_WHILE_SECONDS = 600.0


class Workers:
    """Fingerprints pages in processes that crawls share; with 0 in the caller's thread."""

    def __init__(
        self, count: int, page_timeout_seconds: float, page_memory_bytes: int = PAGE_MEMORY_BYTES
    ) -> None:
        self._count = count
        self._bounds = page_memory_bytes, page_timeout_seconds
        self._crew: Crew | None = None

    async def start(self) -> None:
        """Start the processes and wait for the first to be ready.

        Raises:
            RuntimeError: none comes up.
        """
        if self._count:
            key = self._count, asyncio.get_running_loop()
            self._crew = _crews.acquire(key, lambda: Crew(*key))
            try:
                await self._crew.wait()
            except BaseException:
                await self.stop()
                raise

    async def stop(self) -> None:
        """End the processes with their last user; harmless when not started."""
        crew, self._crew = self._crew, None
        if crew is not None:
            _crews.release((crew.count, crew.loop))
            await crew.join()

    def read(
        self, page: Page, recipe: Recipe, seed: int, scope: str = "global"
    ) -> asyncio.Future[ReadPage]:
        """Read a page; `NotJudgedError` if there is no fingerprint, whatever the reason.

        Call it in the event loop in which `start` was called.
        """
        given = next(_numbers), page, recipe.extractor, recipe.features, seed, scope
        return self._submit(Order(*given, *self._bounds))

    async def fingerprint(
        self, body: bytes, encoding: str | None, recipe: Recipe, seed: int, url: str = ""
    ) -> PageFingerprint:
        """Make the fingerprint of a page, without its text; `NotJudgedError` like `read`."""
        read = await self.read(Page(url, body, encoding), recipe, seed)
        return unpack_fingerprint(read.packed)

    async def read_text(self, page: Page, reader: str) -> str:
        """Read the main text of a page that is handed over; `NotJudgedError` like `read`."""
        # With no other reader, there is no second one.
        given = next(_numbers), page, SECOND_EXTRACTOR, DEFAULT_FEATURES, 0, "global"
        read = await self._submit(Order(*given, *self._bounds, text_reader=reader))
        return read.answer.text

    def _submit(self, order: Order) -> asyncio.Future[ReadPage]:
        if self._crew is not None:
            return self._crew.submit(order)
        job = Job(order, "", asyncio.get_running_loop().create_future())
        if self._count:
            job.fail(NotJudgedError("worker_died", "the workers are not running"))
            return job.future
        try:
            job.answer(work(order))
        except MemoryError:
            job.fail(NotJudgedError("out_of_memory", f"{order.memory_bytes} bytes"))
        return job.future


_numbers = itertools.count(1)


class Crew:
    """The worker processes of an event loop, and the pages that wait for them."""

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self.count = count
        self.loop = loop
        self._turns = Turns()
        self._channels: set[Channel] = set()
        self._is_handing_out = self._is_looking = False
        self._rest_seconds = 0.0
        self._rests_until = 0.0
        self._is_stopped = False
        self._ending: set[asyncio.Future[int]] = set()
        self._news = asyncio.Event()  # a process came up, or ended
        self._start_missing()

    async def wait(self) -> None:
        """Wait until a process is ready; a RuntimeError if none comes up."""
        self._start_missing()  # the last ones died: not everything has to be as it was then
        while self._channels and not any(channel.is_ready for channel in self._channels):
            self._news.clear()
            await self._news.wait()
        if not self._channels:
            raise RuntimeError(
                "no worker process came up; its own message stands above. SIMHASH_WORKERS = 0 "
                "does without, for debugging"
            )

    def submit(self, order: Order) -> asyncio.Future[ReadPage]:
        """Queue a page; its future may have a NotJudgedError."""
        job = Job(order, find_site(host_of(order.page.url)), self.loop.create_future())
        self._turns.add(job, self.loop.time())
        self._hand_out_soon()
        return job.future

    def _hand_out_soon(self) -> None:
        """Hand out pages in the next turn of the event loop, all that came by then."""
        if not self._is_handing_out:
            self._is_handing_out = True
            self.loop.call_soon(self._hand_out)

    def _hand_out(self) -> None:
        """Hand pages to the workers that are idle."""
        self._is_handing_out = False
        self._start_missing()
        for channel in self._channels:
            if not channel.load:
                self.feed(channel)
        if not self._channels:
            self._turns.fail_all(NotJudgedError("worker_died", "no worker process comes up"))

    def feed(self, channel: Channel) -> None:
        """Hand more pages to a worker that has little to do."""
        if not channel.is_ready or channel.load > _PAGES_AHEAD or channel.is_alone:
            return
        waiting, is_idle = len(self._turns), not channel.load
        share = -(-waiting // self.count)
        if jobs := self._turns.take(share, self.loop.time(), idle=is_idle):
            channel.hand(jobs)
        elif waiting and is_idle and not self._is_looking:  # they rest
            self._is_looking = True
            self.loop.call_later(_LOOKING_SECONDS, self._look)

    def _look(self) -> None:
        self._is_looking = False
        self._hand_out_soon()

    def read(self, channel: Channel, job: Job, found: ReadPage) -> None:
        """Take what a worker made of a page, and hand it more."""
        self._turns.note(job, found.answer.seconds, self.loop.time())
        job.answer(found)
        self.feed(channel)

    def _start_missing(self) -> None:
        """Start the processes that are missing, unless one did not come up a moment ago."""
        if self._is_stopped or self.loop.time() < self._rests_until:
            return
        try:
            while len(self._channels) < self.count:
                self._channels.add(Channel(self))
        except Exception as error:  # noqa: BLE001 - pages wait for the answer
            self._rest(describe_error(error))

    def _rest(self, problem: str) -> None:
        """Start no process for a while."""
        if self.loop.time() < self._rests_until:  # another one that was started with the first
            return
        if not self._rest_seconds:
            logger.warning("Worker processes do not come up: %s", problem)
        self._rest_seconds = min(_LONGEST_REST_SECONDS, 2 * self._rest_seconds or _RESTING_SECONDS)
        self._rests_until = self.loop.time() + self._rest_seconds

    def came_up(self, channel: Channel) -> None:
        """Use a process that is ready."""
        self._news.set()
        self._rest_seconds = 0.0
        self.feed(channel)

    def ended(
        self, channel: Channel, jobs: Sequence[Job], current: Job | None, *, timed_out: bool
    ) -> None:
        """Replace a process, and queue its pages again, but for the one that ended it."""
        # One that was killed or is still dying may have no exit code. Not waited for here: to end
        # with much memory takes long.
        exit_code = channel.process.returncode
        ending = self.loop.run_in_executor(None, channel.process.wait)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        self._channels.discard(channel)
        self._news.set()
        if not channel.is_ready and not self._is_stopped:
            self._rest("it took too long" if timed_out else f"exit code {exit_code}")
        for job in reversed(jobs):
            fault = None
            if job is current:
                fault = _find_fault(job, exit_code, timed_out=timed_out)
                self._turns.note_end(job, self.loop.time(), timed_out=timed_out)
            job.returns += 1
            if fault is not None:
                job.fail(fault)
            elif job.returns > _MOST_RETURNS:
                detail = f"{job.returns} workers ended before they were at it"
                job.fail(NotJudgedError("worker_died", detail))
            else:
                self._turns.give_back(job)
        self._hand_out_soon()

    def stop(self) -> None:
        """End all processes, and with them the pages on their way."""
        self._is_stopped = True
        for channel in list(self._channels):
            channel.stop()

    async def join(self) -> None:
        """Wait until the processes are gone that were ended."""
        if self._ending:
            await asyncio.wait(self._ending)


# By number of processes and event loop.
_crews: SharedByKey[tuple[int, asyncio.AbstractEventLoop], Crew] = SharedByKey(Crew.stop)


def _find_fault(job: Job, exit_code: int | None, *, timed_out: bool) -> NotJudgedError | None:
    """Return why a page is not judged that ended its worker, or None to read it again."""
    order = job.order
    if timed_out:
        return NotJudgedError("timed_out", f"{order.timeout_seconds} seconds")
    if exit_code == OUT_OF_MEMORY_EXIT_CODE:
        return NotJudgedError("out_of_memory", f"{order.memory_bytes} bytes")
    job.deaths += 1
    if job.deaths < _MOST_DEATHS:
        return None
    if order.extractor == DEFAULT_EXTRACTOR and not order.second_opinion:
        job.order = order._replace(second_opinion="worker_died")
        return None
    return NotJudgedError("worker_died", f"exit code {exit_code}, {job.deaths} times")


class Channel(Child):
    """A worker process: pages go out, answers come in, a deadline is kept."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        with ExitStack() as undone:
            self._status = undone.enter_context(closing(Status()))
            super().__init__(crew.loop, "scrapy_simhash.detector.worker", self._status.file)
            undone.pop_all()
        self._jobs: deque[Job] = deque()
        self._answer: Answer | None = None  # whose fingerprint comes next
        self._timer: asyncio.TimerHandle | None = None
        self._last_heard = time.monotonic()
        self._watch(_BEGINNING_SECONDS)
        self.is_ready = False

    @property
    def load(self) -> int:
        """Number of pages without an answer."""
        return len(self._jobs)

    @property
    def is_alone(self) -> bool:
        """True if the worker has a page that must be alone."""
        return any(job.returns or job.is_large for job in self._jobs)

    def hand(self, jobs: Sequence[Job]) -> None:
        """Hand pages to the process, without waiting."""
        if not self._jobs:
            self._last_heard = time.monotonic()
        frames = []
        for job in jobs:
            order, page = job.order, job.order.page
            try:
                head = pack(order._replace(page=structs.replace(page, body=b"")))
            except UnicodeEncodeError as error:  # an address that cannot be sent
                job.fail(NotJudgedError("failed", describe_error(error)))
                continue
            frames += [head, page.body]
            self._jobs.append(job)
        self.send(frames)
        self._watch(min(job.order.timeout_seconds for job in jobs))

    def take(self, messages: list[bytes]) -> bool:
        """Hand over answers; return False if the process sent garbage."""
        self._last_heard = time.monotonic()
        if not self.is_ready and not messages[0]:
            self.is_ready = True
            self._crew.came_up(self)
            del messages[0]
        for message in messages:
            answer, self._answer = self._answer, None
            if answer is not None:
                self._crew.read(self, self._jobs.popleft(), ReadPage(answer, message))
                continue
            try:
                self._answer = answer = unpack_answer(message)
            except ValueError:
                return False
            if not self._jobs or self._jobs[0].order.number != answer.number:
                return False
        return True

    def _watch(self, seconds: float) -> None:
        """Check the process in so many seconds, or before."""
        if self._timer is not None:
            if self._timer.when() <= self._loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Kill the process if its page has taken too long."""
        self._timer = None
        # If the loop was held, answers have come that it has not seen.
        self._receive()
        if self.has_ended or (self.is_ready and not self._jobs):
            return
        number, began, loading = self._status.read()
        current = self._find_job(number)
        if current is None:
            ends = self._last_heard + _BEGINNING_SECONDS
        else:
            ends = began + (_BEGINNING_SECONDS if loading else current.order.timeout_seconds)
        left = ends - time.monotonic()
        if left > 0:
            self._watch(min([left, *(job.order.timeout_seconds for job in self._jobs)]))
        else:
            self.stop(timed_out=True)

    def _find_job(self, number: int) -> Job | None:
        return next((job for job in self._jobs if job.order.number == number), None)

    def broken(self) -> None:
        """Replace the process: it exited, or sent garbage."""
        self.stop()

    def stop(self, *, timed_out: bool = False) -> None:
        """End the process, if it runs, and give its pages back to the crew."""
        self.end()
        current = self._find_job(self._status.read()[0])
        if self._timer is not None:
            self._timer.cancel()
        self._status.close()
        self._crew.ended(self, self._jobs, current, timed_out=timed_out)


@dataclass(eq=False, slots=True)
class Job:
    """A page on its way to a fingerprint or text."""

    order: Order
    site: str
    future: asyncio.Future[ReadPage]
    deaths: int = 0  # of workers that were at it
    returns: int = 0  # from workers that ended before they answered it; it goes alone then

    @property
    def is_large(self) -> bool:
        """Whether it is read by itself for its size."""
        return len(self.order.page.body) > LARGE_BYTES

    def answer(self, found: ReadPage) -> None:
        """Set the result of the page's future, unless that was cancelled."""
        if found.answer.reason:
            self.fail(NotJudgedError(found.answer.reason, found.answer.detail))
        elif not self.future.done():
            self.future.set_result(found)

    def fail(self, error: NotJudgedError) -> None:
        """Give the page's future the reason why it was not read."""
        if not self.future.done():
            self.future.set_exception(error)


_Lane: TypeAlias = dict[str, deque[Job]]  # by site, the next one first


class Turns:
    """Chooses who is next. Times are those of the event loop, in seconds.

    What it knows of a site ends with what waits, or with its time.
    """

    def __init__(self) -> None:
        self._again: deque[Job] = deque()  # that came back from a worker
        self._small: _Lane = {}
        self._large: _Lane = {}
        self._small_in_a_row = 0  # since a large one went
        self._lately: dict[str, float] = {}  # by site, when a page came or went; in this order
        self._slow: dict[str, tuple[float, float]] = {}  # it rests since, seconds for each
        self._late: dict[str, list[float]] = {}  # time-outs
        self._passing: dict[str, float] = {}  # until when large pages pass

    def __len__(self) -> int:
        """Count the pages that wait, with those that nobody waits for any more."""
        lanes = (*self._small.values(), *self._large.values())
        return len(self._again) + sum(map(len, lanes))

    def add(self, job: Job, now: float) -> None:
        """Let a page wait, or pass."""
        self._see(job.site, now)
        if job.is_large and now < self._passing.get(job.site, 0.0):
            job.fail(_make_fault(job))
            return
        lane = self._large if job.is_large else self._small
        lane.setdefault(job.site, deque()).append(job)

    def give_back(self, job: Job) -> None:
        """Let a page wait again that its worker did not answer; it goes next, and alone."""
        self._again.appendleft(job)

    def take(self, most: int, now: float, *, idle: bool) -> list[Job]:
        """Take pages that go to a worker together, `most` of them; idle if it has no other.

        An empty list if nothing waits, if what waits rests, or if it goes to an idle worker only.
        """
        while self._again and self._again[0].future.done():
            self._again.popleft()
        if self._again:
            return [self._again.popleft()] if idle else []
        overdue = self._small_in_a_row >= _SMALL_PER_LARGE
        if overdue and self._find(self._large, now) is not None:
            most = 0
        taken = self._take(self._small, min(most, PAGES_PER_BATCH), LARGE_BYTES, now)
        self._small_in_a_row += len(taken)
        if not taken and idle and (taken := self._take(self._large, 1, math.inf, now)):
            self._small_in_a_row = 0
        return taken

    def _take(self, lane: _Lane, most: int, octets: float, now: float) -> list[Job]:
        """Take a page of each site in turn, up to so many pages and bytes, one at least."""
        taken: list[Job] = []
        while len(taken) < most and (site := self._find(lane, now)) is not None:
            jobs = lane[site]
            job = jobs[0]
            if not job.future.done():
                octets -= len(job.order.page.body)
                if taken and octets < 0:
                    break
                taken.append(job)
                lane[site] = lane.pop(site)  # behind the others
                self._see(site, now)
                if self._is_slow(site, now):  # one page at a time
                    self._slow[site] = now, job.order.timeout_seconds
            jobs.popleft()
            if not jobs:
                del lane[site]
        return taken

    def _find(self, lane: _Lane, now: float) -> str | None:
        """Find the site whose turn it is."""
        return next((site for site in lane if not self._rests(site, now)), None)

    def _is_slow(self, site: str, now: float) -> bool:
        return site in self._slow and now < self._slow[site][0] + _WHILE_SECONDS

    def _rests(self, site: str, now: float) -> bool:
        if not self._is_slow(site, now):
            return False
        since, seconds = self._slow[site]
        self._forget(now)
        others = len(self._lately) - (site in self._lately)
        return now < since + seconds * min(others, _MOST_RESTS)

    def _see(self, site: str, now: float) -> None:
        self._lately.pop(site, None)
        self._lately[site] = now
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Forget the sites of which nothing came lately."""
        while self._lately:
            site, seen = next(iter(self._lately.items()))
            if seen >= now - _LATELY_SECONDS:
                return
            del self._lately[site]

    def note(self, job: Job, seconds: float, now: float) -> None:
        """Let a site rest if a page of it took long."""
        self._slow.pop(job.site, None)
        if seconds >= _SLOW_SECONDS:
            self._slow = {
                site: kept for site, kept in self._slow.items() if self._is_slow(site, now)
            }
            self._slow[job.site] = now, seconds

    def note_end(self, job: Job, now: float, *, timed_out: bool) -> None:
        """Let a site rest whose page ended its worker; its large pages pass after time-outs."""
        self.note(job, _RESTART_SECONDS + timed_out * job.order.timeout_seconds, now)
        if not timed_out:
            return
        ended = now - _WHILE_SECONDS
        late = ((site, [at for at in times if at > ended]) for site, times in self._late.items())
        self._late = {site: times for site, times in late if times}
        times = self._late.setdefault(job.site, [])
        times.append(now)
        if len(times) < _MOST_LATE:
            return
        del self._late[job.site]
        self._passing = {site: until for site, until in self._passing.items() if now < until}
        self._passing[job.site] = now + _WHILE_SECONDS
        logger.warning("%s", _describe(job))
        for waiting in self._large.pop(job.site, ()):
            waiting.fail(_make_fault(waiting))

    def fail_all(self, error: NotJudgedError) -> None:
        """Let nothing wait any more."""
        for jobs in (self._again, *self._small.values(), *self._large.values()):
            for job in jobs:
                job.fail(error)
            jobs.clear()
        self._small.clear()
        self._large.clear()


def _make_fault(job: Job) -> NotJudgedError:
    return NotJudgedError("slow_site", _describe(job))


def _describe(job: Job) -> str:
    return (
        f"Pages of {quote(job.site)} over {LARGE_BYTES // 1_024} kB are not judged for "
        f"{_WHILE_SECONDS / 60:.0f} minutes: to read three of its pages took longer than "
        f"{job.order.timeout_seconds} seconds (SIMHASH_PAGE_TIMEOUT)"
    )
