"""Pages that wait for a worker: by site in turn, small ones first, so that no site takes it all.

Without that, eight pages in flight of a site that are slow to read hold up all others: .1 pages a
second were left of 35.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from scrapy_simhash._printable import quote
from scrapy_simhash.errors import NotJudgedError

if TYPE_CHECKING:
    import asyncio

    from scrapy_simhash.detector.orders import Order, ReadPage

logger = logging.getLogger(__name__)

# A worker gets what waits in one message, up to these; a larger page goes by itself. These and the
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
        return len(self.order.body) > LARGE_BYTES

    def answer(self, found: ReadPage) -> None:
        """Set the result of the page's future, unless that was cancelled."""
        try:
            read = require_read(found)
        except NotJudgedError as error:
            self.fail(error)
            return
        if not self.future.done():
            self.future.set_result(read)

    def fail(self, error: NotJudgedError) -> None:
        """Give the page's future the reason why it was not read."""
        if not self.future.done():
            self.future.set_exception(error)


def require_read(page: ReadPage) -> ReadPage:
    """Return a page that was read; raise the NotJudgedError of any other."""
    if page.answer.reason:
        raise NotJudgedError(page.answer.reason, page.answer.detail)
    return page


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
                octets -= len(job.order.body)
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
