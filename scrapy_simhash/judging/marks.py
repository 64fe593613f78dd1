"""What became of documents: their items came through, or will not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.judging.documents import State, Version
from scrapy_simhash.judging.rows import LOST, Lost, key_of_lost, read_rows
from scrapy_simhash.pages.facts import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.judging.documents import Marked, Record
    from scrapy_simhash.judging.interface import Documents
    from scrapy_simhash.pages.facts import Reader

# No crawl can have this id, so its lease is never alive.
_WITHDRAWN = "(withdrawn)"


def mark_done(documents: Documents, marked: Iterable[Marked], crawl: str) -> None:
    """Note whose items came through: of pages of this crawl, with the text that was marked."""
    for mark in marked:
        number, record = number_of(mark), documents.get(number_of(mark))
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
        record = documents.get(number_of(mark))
        if record is not None and _has_text(mark, record) and _is_in_flight(mark, record, crawl):
            record.crawl = _WITHDRAWN
            documents.put(number_of(mark), record)


def number_of(marked: Marked) -> int:
    """Get the number of a document that is marked."""
    return marked.document if isinstance(marked, Version) else marked


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
    keys = map(key_of_lost, stored.list_duplicates(number))
    for key, lost in list(read_rows(Lost, ((key, stored.get_row(LOST, key)) for key in keys))):
        if (lost.text_digest, lost.reader) == (record.facts.text_digest, reader):
            stored.drop_row(LOST, key)
