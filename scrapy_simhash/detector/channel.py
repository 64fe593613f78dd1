"""The crawl's end of a worker process: pages go out, answers come in, a deadline is kept.

The event loop does all of it, without threads and without waiting. A channel works for one crawl
at a time; in between it belongs to the crew.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from scrapy_simhash.detector.wire import READY, How, Order, Place, pack_orders, take_answers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from scrapy_simhash.errors import UnjudgedError
    from scrapy_simhash.pages import PageFingerprint

_RECEIVED_BYTES = 1 << 18
_PARTS_PER_WRITE = 64
# A process that is dead or dying is gone within this, as its sockets are closed last.
_DYING_SECONDS = 1.0
# Within this a worker has begun its next page, and has loaded what reads it: a second each on an
# idle machine.
_BEGINNING_SECONDS = 60.0


@dataclass(eq=False, slots=True)
class Job:
    """A page on its way to a fingerprint."""

    body: bytes
    encoding: str | None
    url: str
    how: How
    future: asyncio.Future[PageFingerprint]
    second_opinion: str = ""  # why only the second reader shall read it
    alone: bool = False  # it goes to a worker by itself
    deaths: int = 0  # of workers that were at it
    returns: int = 0  # from workers that ended before they answered it
    number: int = 0  # of its order


class Desk(Protocol):
    """Whom a channel works for."""

    def answered(self, job: Job, found: PageFingerprint | UnjudgedError) -> None:
        """Take what was found on a page."""

    def idle(self, channel: Channel) -> None:
        """Have some more pages for it, or let it go."""

    def ended(
        self,
        channel: Channel,
        jobs: Sequence[Job],
        current: Job | None,
        exit_code: int | None,
        *,
        timed_out: bool,
    ) -> None:
        """Take back the pages it did not answer, with the one it was at; it is of no use now."""
        # A process that is still dying has no exit code, nor has one that was killed because that
        # page took too long.


class Channel:
    """Speaks with one worker process."""

    def __init__(self, process: Any, orders: socket.socket, place: Place) -> None:
        self.process = process
        self.loop: asyncio.AbstractEventLoop | None = None
        self._desk: Desk | None = None
        self._orders = orders
        self._place = place
        self._jobs: deque[Job] = deque()
        self._number = 0
        self._outgoing: deque[memoryview] = deque()
        self._writing = False
        self._received = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._last_heard = 0.0

    def greet(self) -> bool:
        """Wait until the process is ready; False if it never will be. Blocks."""
        try:
            self._orders.settimeout(_BEGINNING_SECONDS)
            ready = self._orders.recv(len(READY), socket.MSG_WAITALL) == READY
            self._orders.settimeout(0.0)
        except OSError:
            return False
        return ready

    @property
    def load(self) -> int:
        """Number of pages that are not answered."""
        return len(self._jobs)

    @property
    def is_alone(self) -> bool:
        """Whether it has a page that no other may be with."""
        return any(job.alone for job in self._jobs)

    def attach(self, loop: asyncio.AbstractEventLoop, desk: Desk) -> None:
        """Work for a desk from now on."""
        self.loop, self._desk = loop, desk
        loop.add_reader(self._orders, self._read)

    def detach(self) -> None:
        """Work for nobody; called in the thread of the loop, or when that is closed."""
        loop, self.loop, self._desk = self.loop, None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._orders)
            if self._writing:
                loop.remove_writer(self._orders)
        self._writing = False

    def send(self, jobs: Sequence[Job]) -> None:
        """Hand pages to the process; returns at once."""
        if not self._jobs:
            self._last_heard = time.monotonic()
        for job in jobs:
            self._number += 1
            job.number = self._number
        orders = [
            Order(job.number, len(job.body), job.encoding, job.url, job.how, job.second_opinion)
            for job in jobs
        ]
        self._jobs.extend(jobs)
        self._outgoing.append(memoryview(pack_orders(orders)))
        self._outgoing.extend(memoryview(job.body) for job in jobs if job.body)
        if not self._writing:
            self._write()
        self._watch(min(job.how.timeout_seconds for job in jobs))

    def _write(self) -> None:
        """Write what the socket takes now."""
        assert self.loop is not None  # noqa: S101 - attached
        parts = [self._outgoing[i] for i in range(min(len(self._outgoing), _PARTS_PER_WRITE))]
        try:
            sent = self._orders.sendmsg(parts) if parts else 0
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # the process is gone; that is seen when its answers are read
            self._outgoing.clear()
            sent = 0
        while sent:
            part = self._outgoing.popleft()
            if sent < len(part):
                self._outgoing.appendleft(part[sent:])
                break
            sent -= len(part)
        if bool(self._outgoing) != self._writing:
            self._writing = not self._writing
            if self._writing:
                self.loop.add_writer(self._orders, self._write)
            else:
                self.loop.remove_writer(self._orders)

    def _read(self) -> None:
        """Read the answers that are there."""
        try:
            received = self._orders.recv(_RECEIVED_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            received = b""
        if not received:
            self._end()
            return
        self._received += received
        self._last_heard = time.monotonic()
        if not self._take_answers():
            self._end()
        elif self._desk is not None:
            self._desk.idle(self)

    def _take_answers(self) -> bool:
        """Hand over the answers that are whole; False if what came is not from a sane process."""
        assert self._desk is not None  # noqa: S101 - attached
        try:
            for number, found in take_answers(self._received):
                if not self._jobs or self._jobs[0].number != number:
                    return False
                self._desk.answered(self._jobs.popleft(), found)
        except (msgspec.DecodeError, ValueError):  # the second one for texts that are not UTF-8
            return False
        return True

    def _watch(self, seconds: float) -> None:
        """Look at the process in so many seconds, or before."""
        assert self.loop is not None  # noqa: S101 - attached
        if self._timer is not None:
            if self._timer.when() <= self.loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Kill the process if its page has taken too long."""
        self._timer = None
        # If the loop was held, answers have come that it has not seen.
        self._read()
        if self.loop is None or not self._jobs:
            return
        number, began, loading = self._place.read()
        current = self._find_job(number)
        if current is None:
            ends = self._last_heard + self._jobs[0].how.timeout_seconds + _BEGINNING_SECONDS
        else:
            ends = began + (_BEGINNING_SECONDS if loading else current.how.timeout_seconds)
        left = ends - time.monotonic()
        if left > 0:
            self._watch(min(left, self._jobs[0].how.timeout_seconds))
        else:
            self._end(timed_out=True)

    def _find_job(self, number: int) -> Job | None:
        return next((job for job in self._jobs if job.number == number), None)

    def _end(self, *, timed_out: bool = False) -> None:
        """End the process, which may have ended, and give the pages back."""
        self.process.kill()
        exit_code = None
        if not timed_out:
            # It is dead or dying; to wait for one that was at work would hold the loop.
            self.process.join(_DYING_SECONDS)
            exit_code = self.process.exitcode
        current = self._find_job(self._place.read()[0])
        jobs, desk = list(self._jobs), self._desk
        self._jobs.clear()
        self.detach()
        self.close()
        if desk is not None:
            desk.ended(self, jobs, current, exit_code, timed_out=timed_out)

    def abandon(self) -> None:
        """Give the pages back, because the crew was dismissed."""
        if self._desk is not None:
            self._end()
        self.close()

    def close(self) -> None:
        """Close what leads to the process; harmless if closed twice."""
        self._orders.close()
        self._place.close()
