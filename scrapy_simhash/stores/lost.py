"""What became of documents, and lost pages: those dropped for items that may never come through.

A row of the table `lost` is written with each such drop, and deleted once the items came through.
If they never will, a crawl of the same spider requests the lost page again. It writes its id into
the row first, so that no other crawl does so while it runs, and deletes the row once the page came
through. A drop for a page that came through in an earlier crawl has a row only if this crawl then
finds that the page has changed.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from scrapy_simhash.judging.documents import State, Version, number_of_mark
from scrapy_simhash.judging.judge import counts
from scrapy_simhash.pages.facts import NOBODY
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.rows import LOST, Lost, key_of_lost, pack_row, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.judging.documents import Marked, Record
    from scrapy_simhash.pages.facts import Reader
    from scrapy_simhash.stores.documents import Documents

# A transaction that reads or writes so many rows takes some milliseconds.
ROWS_PER_CALL = 512
# No crawl can have this id, so its lease is never alive.
_WITHDRAWN = "(withdrawn)"


class LostPage(NamedTuple):
    """A row with its key; whether its page has to be requested again, and its original's URL."""

    key: bytes
    lost: Lost
    due: bool
    original: str = ""


def mark_done(documents: Documents, marked: Iterable[Marked], crawl: str) -> None:
    """Note whose items came through: of pages of this crawl, with the text that was marked."""
    for mark in marked:
        number, record = number_of_mark(mark), documents.get(number_of_mark(mark))
        if record is None or record.state == State.DUPLICATE or not _has_text(mark, record):
            continue
        if _is_in_flight(mark, record, crawl):
            record.state, reader = State.DONE, record.facts.reader
        # The page was fetched for another reader meanwhile, which is at work on it.
        elif isinstance(mark, Version) and _is_another(mark.reader, record):
            record.earlier_readers, reader = (*record.earlier_readers, mark.reader), mark.reader
        else:
            continue
        record.delivered = True
        record.without_items = isinstance(mark, Version) and mark.without_items
        documents.put(number, record)
        _settle_drops(documents, number, record, reader)


def withdraw(documents: Documents, marked: Iterable[Marked], crawl: str) -> None:
    """Make orphans of those documents that are pending in this crawl, with the text marked."""
    for mark in marked:
        record = documents.get(number_of_mark(mark))
        if record is not None and _has_text(mark, record) and _is_in_flight(mark, record, crawl):
            record.crawl = _WITHDRAWN
            documents.put(number_of_mark(mark), record)


def _has_text(mark: Marked, record: Record) -> bool:
    """Whether a document has the text that was marked; another one's items are on their way."""
    return not isinstance(mark, Version) or mark.text_digest == record.facts.text_digest


def _is_in_flight(mark: Marked, record: Record, crawl: str) -> bool:
    """Whether a document is on its way, in a crawl, to the reader that was marked."""
    if record.state != State.PENDING or record.crawl != crawl:
        return False
    return not isinstance(mark, Version) or mark.reader == record.facts.reader


def _is_another(reader: Reader, record: Record) -> bool:
    """Whether a reader of a name is not among those that a record knows of."""
    return reader not in (NOBODY, record.facts.reader, *record.earlier_readers)


def _settle_drops(stored: Documents, number: int, record: Record, reader: Reader) -> None:
    """Delete the rows of pages dropped for a document with its text, whose items a reader has."""
    keys = list(map(key_of_lost, stored.list_duplicates(number)))
    rows = zip(keys, stored.values.get_all(LOST, keys), strict=True)
    for key, lost in list(read_rows(Lost, rows)):
        if (lost.text_digest, lost.reader) == (record.facts.text_digest, reader):
            stored.values.delete(LOST, key)


def forget(stored: Documents, keys: Collection[bytes]) -> None:
    """Delete rows, because their pages came through or nobody can get them."""
    for key in keys:
        stored.values.delete(LOST, key)


def lose(stored: Documents, numbers: Iterable[int]) -> None:
    """Note that dropped pages may be lost, because their originals have changed since.

    They are, unless an original shows the same as its copy by now, and that comes through.
    """
    records = stored.glance(numbers)
    dropped = {
        number: record for number, record in records.items() if record.state == State.DUPLICATE
    }
    originals = stored.glance({record.original for record in dropped.values()})
    for number, record in dropped.items():
        original = originals.get(record.original)
        if original is not None and _shown_by(original) != _shown_by(record):
            original = None
        if original is None or original.state != State.DONE:
            stored.add_lost(number, record, original, record.facts.reader.spider)


def _shown_by(record: Record) -> tuple[object, ...]:
    facts = record.facts
    return facts.text_digest, facts.sketch, facts.title, facts.heading, facts.reader


def repack(stored: Documents, packed: Mapping[bytes, bytes]) -> None:
    """Change how pages are requested, by their keys, as far as they have rows."""
    for key, lost, _ in list(_read(stored, packed)):
        stored.values.put(LOST, key, pack_row(key, structs.replace(lost, request=packed[key])))


def count_lost(stored: Documents) -> int:
    """Count the lost pages whose original's items will not come."""
    alive = cache(stored.alive)
    return sum(
        _is_due(lost, original, alive) for _, lost, original in _read(stored, list_keys(stored))
    )


def _read(stored: Documents, keys: Iterable[bytes]) -> Iterator[tuple[bytes, Lost, Record | None]]:
    """Read the undamaged rows with these keys, with the records of their originals."""
    for some in cut(keys, ROWS_PER_CALL):
        packed = stored.values.get_all(LOST, some)
        rows = list(read_rows(Lost, zip(some, packed, strict=True)))
        originals = stored.glance({lost.page for _, lost in rows})
        yield from ((key, lost, originals.get(lost.page)) for key, lost in rows)


def list_keys(stored: Documents, spider: str = "") -> list[bytes]:
    """List the keys of the rows of a spider, or all, and perhaps some others; 60 bytes each."""
    name = spider.encode()
    return [key for key, row in stored.values.scan(LOST) if name in row]


def _is_due(lost: Lost, original: Record | None, alive: Callable[[str], bool]) -> bool:
    """Return whether the original of a page will not be delivered any more, with the same text."""
    return (
        original is None
        or original.facts.text_digest != lost.text_digest
        or not counts(original, alive, lost.reader)
    )


def _list_due(
    stored: Documents, keys: Iterable[bytes], crawl: str, spider: str
) -> Iterator[tuple[bytes, Lost]]:
    """List what a crawl may request, and no other running crawl will."""
    alive = cache(stored.alive)
    for key, lost, original in _read(stored, keys):
        owner = lost.taken or lost.crawl
        free = owner == crawl or not alive(owner)
        if lost.spider == spider and free and _is_due(lost, original, alive):
            yield key, lost


def find_due(stored: Documents, crawl: str, spider: str) -> list[tuple[bytes, int]]:
    """Return the keys of the pages that a crawl of a spider has to request, with originals.

    They were lost by this crawl or by crawls that ended, and this one did not take them. Reads all
    rows of the spider.
    """
    due = _list_due(stored, list_keys(stored, spider), crawl, spider)
    return [(key, lost.awaited) for key, lost in due if lost.taken != crawl]


def take(
    stored: Documents, crawl: str, spider: str, keys: Iterable[bytes]
) -> list[tuple[bytes, Lost]]:
    """Hand pages over to a crawl that requests them again, and return their rows as they were.

    They are due still. A crawl that asks again, because it got no answer, gets them again; a later
    one, unless their rows were deleted.
    """
    taken = list(_list_due(stored, keys, crawl, spider))
    for key, lost in taken:
        stored.values.put(LOST, key, pack_row(key, structs.replace(lost, taken=crawl)))
    return taken


def count_left(stored: Documents, crawl: str, spider: str) -> tuple[Counter[str], str]:
    """Count what a crawl leaves that is about to end: `lost` pages of its spider.

    Those `waiting` for a page that another running crawl is at work on are counted apart. The text
    is the address of a page that one of the lost was dropped for, "" if none is known.
    """
    alive = cache(lambda each: each != crawl and stored.alive(each))
    left, failed = Counter[str](), ""
    for _, lost, original in _read(stored, list_keys(stored, spider)):
        if lost.spider != spider or alive(lost.taken or lost.crawl):
            continue
        due = _is_due(lost, original, alive)
        left["lost" if due else "waiting"] += 1
        if due and not failed and original is not None:
            failed = original.facts.url
    return left, failed


def describe_lost(stored: Documents, keys: Sequence[bytes]) -> list[LostPage]:
    """Read lost pages by the keys of their rows; leaves out those that are missing or damaged."""
    pages = []
    for key, lost, original in _read(stored, keys):
        due = not stored.alive(lost.taken or lost.crawl) and _is_due(lost, original, stored.alive)
        pages.append(LostPage(key, lost, due, original.facts.url if original is not None else ""))
    return pages
