"""One store takes over the documents of another: copied as they are, or judged by who was first.

A copy keeps numbers, states and all that leads from one document to another. A merge goes by time:

* an original is judged against the originals of other stores that were there before it, and may
  become a near-duplicate of one; what came after it is judged against it in its turn;
* two that were both originals in one store stay so: they were judged there;
* a near-duplicate stays one, of what it was dropped for: nobody has its items;
* what is pending stays so, and counts for nothing where its crawl does not run;
* of two records of one page the one that was delivered counts; of two such ones, the later.

Merging is idempotent.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from scrapy_simhash.errors import StoreError
from scrapy_simhash.judging.documents import CrawlRecord, Match, Record, State, Waiting
from scrapy_simhash.judging.judge import Matcher, make_duplicate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_simhash.judging.interface import Documents


class Row(NamedTuple):
    """A document with all that is known of it."""

    number: int  # in the store it is from
    record: Record
    aliases: tuple[bytes, ...] = ()  # other identities that lead to it
    text: str | None = None
    waiting: Waiting | None = None  # what is noted of its drop
    original: bytes = b""  # identity of what it is a near-duplicate of
    source: int = 0  # which of several stores it is from


class Challenge(NamedTuple):
    """A document that was there, and one like it that was taken over and came first."""

    time: float
    number: int
    challenger: int


Challenges: TypeAlias = tuple[Challenge, ...]


class Taken(NamedTuple):
    """What became of some rows: how many there are of each kind, and who is still challenged."""

    counts: Counter[str]
    challenges: Challenges


def read_rows(stored: Documents, numbers: Iterable[int]) -> list[Row]:
    """Read the documents that are there."""
    rows = []
    for number in numbers:
        record = stored.get(number)
        if record is None:
            continue
        original = stored.get(record.original) if record.original else None
        rows.append(
            Row(
                number,
                record,
                stored.list_aliases(number),
                stored.get_text(number),
                stored.get_waiting(number) if record.state == State.DUPLICATE else None,
                original.identity if original else b"",
            )
        )
    return rows


def is_original(stored: Documents, identity: bytes) -> bool:
    """Whether an identity is that of a document which is no near-duplicate."""
    number = stored.find_number(identity)
    record = stored.get(number) if number else None
    return record is not None and record.identity == identity and record.state != State.DUPLICATE


def copy_crawls(stored: Documents, crawls: Mapping[str, CrawlRecord]) -> None:
    """Note the crawls whose ids are not known yet."""
    for crawl, record in crawls.items():
        if stored.get_crawl(crawl) is None:
            stored.put_crawl(crawl, record)


def copy_rows(stored: Documents, rows: Sequence[Row]) -> Taken:
    """Copy documents into a store that has nothing but an earlier part of the same copy."""
    # They keep their numbers, of which none may be the store's next one.
    counts: Counter[str] = Counter()
    for row in rows:
        number, record = row.number, row.record
        before = stored.get(number)
        if before == record and stored.get_waiting(number) == row.waiting:
            counts["known"] += 1
            continue
        if before is not None:
            if not is_earlier(before, record):
                raise StoreError(
                    "the store that was to be a copy was written to by somebody else meanwhile; "
                    "end what uses it and run this again: both are then merged by who was first"
                )
            _make_room(stored, row, before)
        _add(stored, row, record, row.waiting)
        counts[record.state.name.lower()] += 1
    return Taken(counts, ())


def is_earlier(before: Record, record: Record) -> bool:
    """Whether a record is an earlier state of the same page, so that a copy may take its place."""
    # It is not if the page was fetched, delivered or spared since the copy was made.
    return (
        before.identity == record.identity
        and before.time <= record.time
        and before.delivered <= record.delivered
        and before.spared <= record.spared
    )


class Merger:
    """Takes over rows in one write transaction, in which the matcher reads, too."""

    # `was_original` tells whether an identity is that of an original in the source of that number;
    # `challenges` are those that the rows before left.

    def __init__(
        self,
        stored: Documents,
        matcher: Matcher,
        was_original: Callable[[int, bytes], bool],
        challenges: Challenges,
    ) -> None:
        self._stored = stored
        self._matcher = matcher
        self._was_original = was_original
        self._challenges = list(challenges)
        heapq.heapify(self._challenges)
        self._counts: Counter[str] = Counter()

    def take(self, rows: Iterable[Row], *, last: bool) -> Taken:
        """Take over rows, see `stores.Store.merge_rows`."""
        for row in rows:
            if row.record.state != State.DUPLICATE:
                self._settle(row.record.first_time)
            self._counts[self._take(row)] += 1
        if last:
            self._settle(float("inf"))
        return Taken(self._counts, tuple(self._challenges))

    def _take(self, row: Row) -> str:
        number = self._stored.find_number(row.record.identity) or 0
        own = self._stored.get(number) if number else None
        if own is not None and own.identity != row.record.identity:
            number, own = 0, None  # an alias of another document, until now
        if own is not None and not self._is_news(own, row.record):
            if row.record.first_time < own.first_time:
                own.first_time = row.record.first_time
                self._stored.put(number, own)
            if own.state == State.DONE:
                self._challenge(row.source, number, own)
            return "known"
        record = msgspec.structs.replace(row.record)
        row = row._replace(number=number if own is not None else self._stored.next_number())
        number = row.number
        if own is not None:
            record.first_time = min(own.first_time, record.first_time)
            _make_room(self._stored, row, own)
        if record.state == State.DUPLICATE:
            return self._take_near_duplicate(row, record)
        seen = own is not None and own.delivered
        match = None
        if not seen and record.state == State.DONE:
            match = self._find_earlier(row.source, record)
        if match is not None:
            make_duplicate(record, match)
        _add(self._stored, row, record)
        if record.state == State.DONE:
            self._challenge(row.source, number, record)
        return record.state.name.lower()

    def _is_news(self, own: Record, taken: Record) -> bool:
        """Whether a record replaces the one of the same page that is there."""
        if self._matcher.counts(own) and own.state == State.PENDING:
            return False  # a running crawl is at work on it
        if own.delivered != taken.delivered:
            return taken.delivered
        return taken.time > own.time

    def _take_near_duplicate(self, row: Row, record: Record) -> str:
        original = self._stored.find_number(row.original) if row.original else None
        record.original = original or 0
        waiting = None
        if row.waiting is not None:
            waiting = msgspec.structs.replace(row.waiting, original=record.original)
        _add(self._stored, row, record, waiting)
        return record.state.name.lower()

    def _find_earlier(self, source: int, record: Record) -> Match | None:
        if record.spared:
            return None

        def admits(_: int, other: Record) -> bool:
            return other.first_time <= record.first_time and not self._was_original(
                source, other.identity
            )

        return self._choose(record, admits)

    def _choose(self, record: Record, admits: Callable[[int, Record], bool]) -> Match | None:
        """Choose the match that is most alike; of equals the nearest, then the first in time."""

        def rank(match: Match) -> tuple[float, int, float, int]:
            other = self._stored.get(match.document)
            time = other.first_time if other else 0.0
            return (-(match.similarity or 0.0), match.distance, time, match.document)

        return min(self._matcher.list_matches(record, admits), key=rank, default=None)

    def _challenge(self, source: int, number: int, record: Record) -> None:
        """Note the documents that are like one that was taken over, and came after it."""

        def admits(other_number: int, other: Record) -> bool:
            return (
                other_number != number
                and other.state == State.DONE
                and not other.spared
                and other.first_time > record.first_time
                and not self._was_original(source, other.identity)
            )

        for match in self._matcher.list_matches(record, admits):
            later = self._stored.get(match.document)
            assert later is not None  # noqa: S101 - found in this transaction
            heapq.heappush(self._challenges, Challenge(later.first_time, match.document, number))

    def _settle(self, time: float) -> None:
        """Judge again the challenged documents that came before a time."""
        while self._challenges and self._challenges[0].time <= time:
            number = self._challenges[0].number
            challengers = set()
            while self._challenges and self._challenges[0].number == number:
                challengers.add(heapq.heappop(self._challenges).challenger)
            self._judge_again(number, challengers)

    def _judge_again(self, number: int, challengers: set[int]) -> None:
        record = self._stored.get(number)
        if record is None or record.state != State.DONE:
            return
        match = self._choose(record, lambda other, _: other in challengers)
        if match is not None:
            self._stored.take_out(number, record)
            make_duplicate(record, match)
            self._stored.add(number, record)
            self._counts["became_near_duplicates"] += 1


def _add(stored: Documents, row: Row, record: Record, waiting: Waiting | None = None) -> None:
    stored.add(row.number, record, row.text, aliases=row.aliases, waiting=waiting)


def _make_room(stored: Documents, row: Row, before: Record) -> None:
    """Take out the record whose place a row takes, with its text: `add` leaves that as it is."""
    stored.take_out(row.number, before)
    if row.text is None:
        stored.drop_text(row.number)
