"""Worker processes for extraction: killed singly at a page's deadline, shared by all crawls here.

Extraction may hang (a 10 kB page with huge colspans holds trafilatura for 15 s) and may crash
natively, so threads will not do; `concurrent.futures.ProcessPoolExecutor` cannot kill one worker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from scrapy_simhash.config import PAGE_MEMORY_BYTES
from scrapy_simhash.detector.channel import Channel, Job
from scrapy_simhash.detector.crew import Crew, crews
from scrapy_simhash.detector.wire import How
from scrapy_simhash.detector.worker import OUT_OF_MEMORY_EXIT_CODE, work
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.pages import PageFingerprint, Recipe

# A worker gets what waits in one message, up to these; a larger page goes by itself.
_PAGES_PER_BATCH = 8
_BYTES_PER_BATCH = 256 * 1_024
# A worker that has no more pages than this gets the next ones before it asks.
_PAGES_AHEAD = 2
# A page whose worker dies is read once more, by itself; then by the second reader, if it has one.
_MOST_DEATHS = 2
# How often a page comes back from a worker that ended before it was at it.
_MOST_RETURNS = 4


class Workers:
    """Fingerprints pages in processes shared by the crawls here; with 0 in the caller's thread."""

    def __init__(
        self,
        count: int,
        page_timeout_seconds: float,
        page_memory_bytes: int = PAGE_MEMORY_BYTES,
        min_features: int | None = None,
    ) -> None:
        # `min_features` as for `fingerprint_page`.
        self._count = count
        self._page_timeout_seconds = page_timeout_seconds
        self._page_memory_bytes = page_memory_bytes
        self._min_features = min_features
        self._crew: Crew | None = None
        self._desk: _Desk | None = None

    def start(self) -> None:
        """Start the processes and wait for the first to be ready; blocks."""
        if self._count:
            self._crew = crews.acquire(self._count, lambda: Crew(self._count))
            try:
                self._crew.wait()
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """End the processes with their last user; blocks. Harmless when not started."""
        if self._crew is not None:
            self._crew = self._desk = None
            crews.release(self._count)

    async def fingerprint(
        self,
        body: bytes,
        encoding: str | None,
        recipe: Recipe,
        seed: int,
        url: str = "",
        *,
        keep_text: bool,
    ) -> PageFingerprint:
        """Make the fingerprint of a page; UnjudgedError if there is none, whatever the reason."""
        bounds = self._page_memory_bytes, self._page_timeout_seconds
        how = How(recipe, seed, keep_text, self._min_features, *bounds)
        if self._crew is None:
            return _work_here(body, encoding, url, how)
        loop = asyncio.get_running_loop()
        if self._desk is None or self._desk.loop is not loop:
            self._desk = _Desk(self._crew, loop)
        job = Job(body, encoding, url, how, loop.create_future())
        self._desk.add(job)
        return await job.future


def _work_here(body: bytes, encoding: str | None, url: str, how: How) -> PageFingerprint:
    """Read a page in this process."""
    try:
        return work(body, encoding, url, how)
    except MemoryError:
        raise UnjudgedError("out_of_memory", f"{how.memory_bytes} bytes") from None


class _Desk:
    """The pages of one crawl that wait for a worker, or for its answer; of one event loop."""

    def __init__(self, crew: Crew, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._crew = crew
        self._waiting: deque[Job] = deque()
        self._is_handing_out = False

    def add(self, job: Job) -> None:
        """Have a page read."""
        self._waiting.append(job)
        self._hand_out_soon()

    def wake(self) -> None:
        """Ask for a worker again; from any thread."""
        self.loop.call_soon_threadsafe(self._hand_out)

    def _hand_out_soon(self) -> None:
        """Hand pages out once all have come that come at this moment."""
        if not self._is_handing_out:
            self._is_handing_out = True
            self.loop.call_soon(self._hand_out)

    def _hand_out(self) -> None:
        """Hand pages to the workers that are idle."""
        self._is_handing_out = False
        while self._prune():
            channel = self._crew.hire(self)
            if channel is None:
                break
            channel.send(self._take_batch())
        if self._waiting and self._crew.is_hopeless:
            for job in self._waiting:
                _fail(job, "worker_died", "no worker process comes up")
            self._waiting.clear()

    def _prune(self) -> bool:
        """Forget pages that nobody waits for any more; whether any page is left."""
        while self._waiting and self._waiting[0].future.done():
            self._waiting.popleft()
        return bool(self._waiting)

    def _take_batch(self) -> list[Job]:
        """Take the pages for one worker; its share, if there are few."""
        most = min(_PAGES_PER_BATCH, -(-len(self._waiting) // self._crew.count))
        batch = [self._waiting.popleft()]
        octets = len(batch[0].body)
        while not batch[0].alone and len(batch) < most and self._prune():
            octets += len(self._waiting[0].body)
            if self._waiting[0].alone or octets > _BYTES_PER_BATCH:
                break
            batch.append(self._waiting.popleft())
        return batch

    def answered(self, job: Job, found: PageFingerprint | UnjudgedError) -> None:
        """Hand what was found on a page to who waits for it."""
        if job.future.done():  # nobody does
            return
        if isinstance(found, UnjudgedError):
            job.future.set_exception(found)
        else:
            job.future.set_result(found)

    def idle(self, channel: Channel) -> None:
        """Give a worker that has little to do more of it, or give it back."""
        if channel.load > _PAGES_AHEAD or channel.is_alone:
            return
        shared = self._crew.is_wanted_by_others(self)
        if not shared and self._prune() and not (channel.load and self._waiting[0].alone):
            channel.send(self._take_batch())
        elif not channel.load:
            channel.detach()
            self._crew.give_back(channel, self)
            if self._waiting:
                self._hand_out_soon()

    def ended(
        self,
        channel: Channel,
        jobs: Sequence[Job],
        current: Job | None,
        exit_code: int | None,
        *,
        timed_out: bool,
    ) -> None:
        """Read again what a worker left behind, but for the page that ended it."""
        self._crew.replace(channel)
        for job in reversed(jobs):
            if job is current:
                if timed_out:
                    _fail(job, "timed_out", f"{job.how.timeout_seconds} seconds")
                    continue
                if self._judge_death(job, exit_code):
                    continue
            job.returns += 1
            job.alone = True
            if job.returns > _MOST_RETURNS:
                _fail(job, "worker_died", f"{job.returns} workers ended before they were at it")
            else:
                self._waiting.appendleft(job)
        self._hand_out_soon()

    def _judge_death(self, job: Job, exit_code: int | None) -> bool:
        """Fail the page that a worker was at when it died, unless it is to be read again."""
        if exit_code == OUT_OF_MEMORY_EXIT_CODE:
            _fail(job, "out_of_memory", f"{job.how.memory_bytes} bytes")
            return True
        job.deaths += 1
        if job.deaths < _MOST_DEATHS:
            return False
        if job.how.recipe.extractor == DEFAULT_EXTRACTOR and not job.second_opinion:
            job.second_opinion = "worker_died"
            return False
        _fail(job, "worker_died", f"exit code {exit_code}, {job.deaths} times")
        return True


def _fail(job: Job, reason: str, detail: str) -> None:
    if not job.future.done():
        job.future.set_exception(UnjudgedError(reason, detail))
