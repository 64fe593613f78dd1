"""Documents of one store taken over by another: copied as they are, or judged by who was first.

A copy keeps numbers, states and all that leads from one document to another. A merge goes by time:

* an original is judged against the originals of other stores that were there before it, and may
  become a near-duplicate of one; what came after it is judged against it in its turn;
* two that were both originals in one store stay so: they were judged there;
* a near-duplicate stays one, of what it was dropped for: nobody has its items;
* what is pending stays so, and counts for nothing where its crawl does not run;
* of two records of one page the one that was delivered counts; of two such ones, the later.

Taken over twice, a document is found to be there.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from scrapy_simhash.records import Record, State, Waiting
from scrapy_simhash.store_transfer import Challenge, Row, Taken
from scrapy_simhash.stored import Document
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scrapy_simhash.matching import Matcher
    from scrapy_simhash.records import CrawlRecord
    from scrapy_simhash.store_documents import Documents
    from scrapy_simhash.store_transfer import Challenges
    from scrapy_simhash.stored import Match


def read_rows(
    stored: Documents, numbers: Iterable[int], aliases: Mapping[int, Iterable[bytes]]
) -> list[Row]:
    """Read documents; those that are gone are left out.

    Args:
        stored: the documents.
        numbers: of them.
        aliases: identities that lead to documents, by their numbers.
    """
    rows = []
    for number in numbers:
        record = stored.get(number)
        if record is None:
            continue
        others = tuple(each for each in aliases.get(number, ()) if each != record.identity)
        original = stored.get(record.original) if record.original else None
        rows.append(
            Row(
                number,
                record,
                others,
                stored.get_text(number),
                stored.get_waiting(number) if record.state == State.DUPLICATE else None,
                original.identity if original else b"",
            )
        )
    return rows


def is_original(stored: Documents, identity: bytes) -> bool:
    """Say whether an identity is that of a document which is no near-duplicate."""
    number = stored.find_number(identity)
    record = stored.get(number) if number else None
    return record is not None and record.identity == identity and record.state != State.DUPLICATE


def copy_crawls(stored: Documents, crawls: Mapping[str, CrawlRecord]) -> None:
    """Note crawls; those whose id is known stay as they are."""
    for crawl, record in crawls.items():
        if stored.get_crawl(crawl) is None:
            stored.put_crawl(crawl, record)


def copy_rows(stored: Documents, rows: Sequence[Row]) -> Taken:
    """Copy documents into a store that has nothing but an earlier part of the same copy.

    Args:
        stored: in a write transaction; its next number is not one of theirs.
        rows: with their numbers, which they keep.
    """
    counts: dict[str, int] = {}
    for row in rows:
        number, record = row.number, row.record
        before = stored.get(number)
        if before == record and stored.get_waiting(number) == row.waiting:
            _add_one(counts, "known")
            continue
        if before is not None:
            _require_earlier(before, record)
            _make_room(stored, row, before)
        _put(stored, row, record)
        if row.waiting is not None:
            stored.put_waiting(number, row.waiting)
        _add_one(counts, record.state.name.lower())
    return Taken(counts, ())


def is_earlier(before: Record, record: Record) -> bool:
    """Say whether a copy may take the place of a record that is there: that of the same page.

    One that was fetched, delivered or spared since then is no earlier state of it.
    """
    return (
        before.identity == record.identity
        and before.time <= record.time
        and before.delivered <= record.delivered
        and before.spared <= record.spared
    )


def _require_earlier(before: Record, record: Record) -> None:
    if not is_earlier(before, record):
        raise StoreError(
            "the store that was to be a copy was written to by somebody else meanwhile; end what "
            "uses it and run this again: both are then merged by who was first"
        )


class Merger:
    """Takes over rows in one write transaction.

    Args:
        stored: the documents, in a write transaction.
        matcher: of the same transaction.
        was_original: says whether the document of an identity is an original, in the store of
            that place among the sources.
        challenges: those that were left by the rows before.
    """

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
        self._counts: dict[str, int] = {}

    def take(self, rows: Iterable[Row], *, last: bool) -> Taken:
        """Take over rows, see `TransferStore.merge_rows`."""
        for row in rows:
            if row.record.state != State.DUPLICATE:
                self._settle(row.record.first_time)
            _add_one(self._counts, self._take(row))
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
        record = _copy(row.record)
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
            _make_duplicate(record, match)
        _put(self._stored, row, record)
        if record.state == State.DONE:
            self._challenge(row.source, number, record)
        return record.state.name.lower()

    def _is_news(self, own: Record, taken: Record) -> bool:
        """Say whether a record replaces the one of the same page that is there."""
        if self._matcher.counts(own) and own.state == State.PENDING:
            return False  # a running crawl is at work on it
        if own.delivered != taken.delivered:
            return taken.delivered
        return taken.time > own.time

    def _take_near_duplicate(self, row: Row, record: Record) -> str:
        original = self._stored.find_number(row.original) if row.original else None
        record.original = original or 0
        _put(self._stored, row, record)
        if row.waiting is not None:
            waiting = row.waiting
            self._stored.put_waiting(
                row.number,
                Waiting(record.original, waiting.text_digest, waiting.crawl, waiting.request),
            )
        return record.state.name.lower()

    def _find_earlier(self, source: int, record: Record) -> Match | None:
        if record.spared:
            return None

        def admits(_: int, other: Record) -> bool:
            if other.first_time > record.first_time:
                return False
            return not self._was_original(source, other.identity)

        return self._choose(record, admits)

    def _choose(self, record: Record, admits: Callable[[int, Record], bool]) -> Match | None:
        """Choose the match that is most alike; of equals the nearest, then the first in time."""

        def rank(match: Match) -> tuple[float, int, float, int]:
            other = self._stored.get(match.document)
            time = other.first_time if other else 0.0
            return (-(match.similarity or 0.0), match.distance, time, match.document)

        return min(self._matcher.list_matches(as_document(record), admits), key=rank, default=None)

    def _challenge(self, source: int, number: int, record: Record) -> None:
        """Note who was there, is like a document that was taken over, and came after it."""

        def admits(other_number: int, other: Record) -> bool:
            return (
                other_number != number
                and other.state == State.DONE
                and not other.spared
                and other.first_time > record.first_time
                and not self._was_original(source, other.identity)
            )

        for match in self._matcher.list_matches(as_document(record), admits):
            later = self._stored.get(match.document)
            assert later is not None  # noqa: S101 - found in this transaction
            heapq.heappush(self._challenges, Challenge(later.first_time, match.document, number))

    def _settle(self, time: float) -> None:
        """Judge those again who are challenged and came before a time."""
        while self._challenges and self._challenges[0].time <= time:
            number = self._challenges[0].number
            challengers = set()
            while self._challenges and self._challenges[0].number == number:
                challengers.add(heapq.heappop(self._challenges).challenger)
            record = self._stored.get(number)
            if record is None or record.state != State.DONE:
                continue
            match = self._choose(record, partial(_is_among, challengers))
            if match is not None:
                _take_out(self._stored, number, record)
                _make_duplicate(record, match)
                _put(self._stored, Row(number, record), record)
                _add_one(self._counts, "became_near_duplicates")


def as_document(record: Record) -> Document:
    """Make of a record what can be judged."""
    return Document(
        identity=record.identity,
        fingerprints=record.fingerprints,
        text_digest=record.text_digest,
        url=record.url,
        crawl=record.crawl,
        scope=record.scope,
        title=record.title,
        heading=record.heading,
        canonical=record.canonical,
        language=record.language,
        features=record.features,
        words=record.words,
        whole_words=record.whole_words,
        sketch=record.sketch,
        link_sketch=record.link_sketch,
        stub=record.stub,
        time=record.time,
    )


def _make_duplicate(record: Record, match: Match) -> None:
    record.state, record.delivered = State.DUPLICATE, False
    record.original, record.distance = match.document, match.distance
    record.similarity, record.tests = match.similarity, match.tests


def _put(stored: Documents, row: Row, record: Record) -> None:
    """Write a document and what leads to it."""
    if record.state == State.DUPLICATE:
        stored.link(record.original, row.number)
    else:
        stored.keep_bulk_loaded(record.fingerprints)
        stored.index(row.number, record)
    stored.put(row.number, record, row.text)
    stored.name(row.number, record.identity, overwrite=True)
    for alias in row.aliases:
        stored.name(row.number, alias)


def _is_among(numbers: set[int], number: int, _: Record) -> bool:
    return number in numbers


def _make_room(stored: Documents, row: Row, before: Record) -> None:
    """Take out the record whose place a row takes, with its text: `_put` leaves that as it is."""
    _take_out(stored, row.number, before)
    if row.text is None:
        stored.drop_text(row.number)


def _take_out(stored: Documents, number: int, record: Record) -> None:
    """Undo what leads from other documents and fingerprints to a document."""
    if record.state == State.DUPLICATE:
        stored.unlink(record.original, number)
        stored.drop_waiting(number)
    else:
        stored.unindex(number, record)


def _copy(record: Record) -> Record:
    return msgspec.structs.replace(record)


def _add_one(counts: dict[str, int], key: str) -> None:
    counts[key] = counts.get(key, 0) + 1
