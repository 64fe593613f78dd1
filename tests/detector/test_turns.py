"""Pages wait by site in turn, small ones first; what is chosen is what the whole history says."""

import asyncio
import logging
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.detector.worker import Order
from scrapy_simhash.detector.workers import LARGE_BYTES, Job, Turns
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.facts import Page

SMALL = b"x" * (LARGE_BYTES // 4)
BODIES = [b""] * 12 + [SMALL] * 6 + [SMALL * 4, SMALL * 4 + b"x"]
TIMEOUT_SECONDS = 5.0


class Model:
    """The same by brute force: nothing is forgotten, all of it is looked through each time."""

    def __init__(self) -> None:
        self.clock = 0  # counts what happens
        self.again: list[Job] = []
        self.waiting: list[Job] = []  # the oldest first
        self.turns: dict[tuple[bool, str], int] = {}  # when a site got its place in a lane
        self.small = 0
        self.seen: list[tuple[float, str]] = []
        self.read: list[tuple[str, float, float]] = []
        self.late: list[tuple[str, float]] = []
        self.passing: list[tuple[str, float]] = []

    def go_last(self, job: Job) -> None:
        self.clock += 1
        self.turns[job.is_large, job.site] = self.clock

    def add(self, job: Job, now: float) -> None:
        self.seen.append((now, job.site))
        if job.is_large and (job.site, True) in [(site, now < end) for site, end in self.passing]:
            return
        if (job.is_large, job.site) not in [(each.is_large, each.site) for each in self.waiting]:
            self.go_last(job)
        self.waiting.append(job)

    def slow(self, site: str, now: float) -> tuple[float, float] | None:
        """Since when a site rests, and how long for each other, by the last page of it."""
        last = [(since, seconds) for name, since, seconds in self.read if name == site][-1:]
        return next(((at, rest) for at, rest in last if rest >= 0.25 and now < at + 600), None)

    def rests(self, site: str, now: float) -> bool:
        others = {other for at, other in self.seen if at >= now - 2.0} - {site}
        slow = self.slow(site, now)
        return slow is not None and now < slow[0] + slow[1] * min(4, len(others))

    def find(self, now: float, *, large: bool) -> Job | None:
        """Find the oldest page of the site that has waited longest for its turn."""
        free = [each for each in self.waiting if each.is_large == large]
        free = [each for each in free if not self.rests(each.site, now)]
        return min(free, key=lambda each: self.turns[large, each.site], default=None)

    def take_lane(self, most: int, octets: float, now: float, *, large: bool) -> list[Job]:
        taken: list[Job] = []
        while len(taken) < most and (job := self.find(now, large=large)):
            if not job.future.done():
                octets -= len(job.order.page.body)
                if taken and octets < 0:
                    break
                taken.append(job)
                self.go_last(job)
                self.seen.append((now, job.site))
                if self.slow(job.site, now):
                    self.read.append((job.site, now, TIMEOUT_SECONDS))
            self.waiting.remove(job)
        return taken

    def take(self, most: int, now: float, *, idle: bool) -> list[Job]:
        self.again = [job for job in self.again if not job.future.done()]
        if self.again:
            return [self.again.pop(0)] if idle else []
        taken: list[Job] = []
        if self.small < 32 or self.find(now, large=True) is None:
            taken = self.take_lane(min(most, 8), LARGE_BYTES, now, large=False)
            self.small += len(taken)
        if not taken and idle:
            taken = self.take_lane(1, math.inf, now, large=True)
            self.small = 0 if taken else self.small
        return taken

    def note_end(self, site: str, now: float, *, timed_out: bool) -> None:
        self.read.append((site, now, 1.0 + TIMEOUT_SECONDS * timed_out))
        self.late += [(site, now)] * timed_out
        if sum(name == site and at > now - 600 for name, at in self.late) == 3:
            self.late = [each for each in self.late if each[0] != site]
            self.passing.append((site, now + 600))
            self.waiting = [job for job in self.waiting if job.site != site or not job.is_large]


def make_order(body: bytes) -> Order:
    return Order(1, Page("", body), "turbohtml", "words-1", 0, "global", 0, TIMEOUT_SECONDS)


class Driver:
    """Does to both what happens to pages, in any order."""

    def __init__(self, draw: random.Random, loop: asyncio.AbstractEventLoop) -> None:
        self.draw, self.loop = draw, loop
        self.turns, self.model, self.now = Turns(), Model(), 0.0
        self.with_workers: list[Job] = []

    def add(self) -> None:
        order = make_order(self.draw.choice(BODIES))
        job = Job(order, self.draw.choice("abcdefg"), self.loop.create_future())
        self.turns.add(job, self.now)
        self.model.add(job, self.now)

    def take(self) -> None:
        most, idle = self.draw.randint(1, 9), self.draw.random() < 0.3
        taken = self.turns.take(most, self.now, idle=idle)
        assert taken == self.model.take(most, self.now, idle=idle)
        self.with_workers += taken
        assert len(self.turns) == len(self.model.waiting) + len(self.model.again)

    def answer(self) -> None:
        if self.with_workers:
            job = self.with_workers.pop(self.draw.randrange(len(self.with_workers)))
            seconds = self.draw.choice([0.0, 0.0, 0.0, 0.25, 1.0])
            self.turns.note(job, seconds, self.now)
            self.model.read.append((job.site, self.now, seconds))

    def give_back(self) -> None:
        if self.with_workers:
            job = self.with_workers.pop()
            self.turns.give_back(job)
            self.model.again.insert(0, job)

    def end(self) -> None:
        if self.with_workers:
            job, timed_out = self.with_workers.pop(), self.draw.random() < 0.5
            self.turns.note_end(job, self.now, timed_out=timed_out)
            self.model.note_end(job.site, self.now, timed_out=timed_out)

    def cancel(self) -> None:
        if self.model.waiting:
            self.draw.choice(self.model.waiting).future.cancel()

    def wait(self) -> None:
        self.now += self.draw.choice([0.25] * 30 + [1.0] * 9 + [600.0])


@given(st.integers(0))
def test_who_is_next_is_what_the_whole_history_says(seed: int) -> None:
    draw, loop = random.Random(seed), asyncio.new_event_loop()  # noqa: S311 - reproducible
    driver = Driver(draw, loop)
    happens = [driver.add] * 20 + [driver.take] * 6 + [driver.answer] * 12 + [driver.wait] * 3
    happens += [driver.give_back, driver.end, driver.end, driver.cancel]
    for _ in range(400):
        draw.choice(happens)()
    loop.close()


@pytest.fixture
def turns() -> Turns:
    return Turns()


async def make(site: str, size: int = 1) -> Job:
    return Job(make_order(b"x" * size), site, asyncio.get_running_loop().create_future())


async def test_what_is_known_of_sites_ends(turns: Turns) -> None:
    """Hosts without number cost nothing for long."""
    for number in range(1_000):
        job = await make(f"{number}.example")
        turns.add(job, number)
        assert turns.take(1, number, idle=True) == [job]
        turns.note_end(job, number, timed_out=True)
    kept = turns._small, turns._large, turns._lately, turns._slow, turns._late, turns._passing
    assert max(len(each) for each in kept) == 600


async def test_large_pages_pass_after_three_time_outs(
    turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    large = [await make("slow.example", LARGE_BYTES + 1) for _ in range(6)]
    small = await make("slow.example")
    for job in (*large[:4], small):
        turns.add(job, 0.0)
    assert turns.take(1, 0.0, idle=True) == [small]
    for job in large[:3]:
        assert turns.take(1, 1.0, idle=True) == [job]
        turns.note_end(job, 1.0, timed_out=True)
    turns.add(large[4], 2.0)
    for job in large[3:5]:
        with pytest.raises(NotJudgedError) as raised:
            await job.future
        assert raised.value.reason == "slow_site"
    assert len(turns) == 0
    (told,) = caplog.messages
    assert told == (
        "Pages of 'slow.example' over 256 kB are not judged for 10 minutes: to read three of its "
        "pages took longer than 5.0 seconds (SIMHASH_PAGE_TIMEOUT)"
    )
    turns.add(large[5], 601.0)
    assert turns.take(1, 601.0, idle=True) == [large[5]]
