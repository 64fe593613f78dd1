"""Seeds a store with documents that were fingerprinted elsewhere: judged in order, and done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_simhash.seeding import SPIDER, add_one, saying_how_far
from scrapy_simhash.sources import SourceError
from scrapy_simhash.stored import Document

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_simhash.journal import Journal, Progress
    from scrapy_simhash.source_parquet import ParquetSource
    from scrapy_simhash.stores import Store

    Place: TypeAlias = Callable[[str], tuple[bytes, str] | None]

# As a crawl writes them: the store is held for some milliseconds.
_DOCUMENTS_PER_GROUP = 64
_FINGERPRINTS = 2**64


def seed_documents(
    store: Store,
    crawl: str,
    source: ParquetSource,
    journal: Journal,
    place: Place,
    show: Callable[[int, int], object],
) -> None:
    """Import what was not yet read of a source; the journal says what came of it.

    Args:
        store: of the source's recipe and seed.
        crawl: id for the import, one nobody used before.
        source: of documents.
        journal: of how far it was read.
        place: makes identity and scope of a URL, or None where it is none.
        show: is told how many of how many are done.

    Raises:
        SourceError: it cannot be read further; everything before is in the store.
        StoreUnavailableError: the store cannot be written; says how far it was.
    """
    progress = journal.find(source)
    group: list[Document] = []
    record = progress.position.record

    def write() -> None:
        verdicts = store.find_and_add(group, crawl=crawl)
        store.mark_done([verdict.document for verdict in verdicts], crawl)
        for verdict in verdicts:
            reason = f"/{verdict.reason}" if verdict.reason else ""
            add_one(progress.verdicts, f"{verdict.status}{reason}")
        progress.pages += len(group)
        progress.position = source.mark(record)
        journal.note(source, progress)
        group.clear()
        show(record, source.total)

    with saying_how_far(source, journal):
        store.start_crawl(crawl, SPIDER)
        try:
            for fields, number in source.read(progress.position):
                record = number
                _take(fields, crawl, place, progress, group)
                if len(group) == _DOCUMENTS_PER_GROUP:
                    write()
            write()
        except SourceError:
            write()
            raise
        finally:
            store.end_crawl(crawl)


def _take(
    fields: dict[str, Any] | str,
    crawl: str,
    place: Place,
    progress: Progress,
    group: list[Document],
) -> None:
    """Add the document of a row to the group, or count why there is none."""
    if isinstance(fields, str):
        add_one(progress.verdicts, f"unjudged/{fields}")
        progress.pages += 1
    elif (placed := place(fields["url"] or "")) is None:
        add_one(progress.skipped, "bad_url")
    else:
        group.append(_make_document(fields, crawl, *placed))


def _make_document(fields: dict[str, Any], crawl: str, identity: bytes, scope: str) -> Document:
    return Document(
        identity=identity,
        # Spark has no unsigned numbers.
        fingerprints=tuple(number % _FINGERPRINTS for number in fields["fingerprints"]),
        text_digest=fields["text_digest"],
        url=fields["url"],
        crawl=crawl,
        scope=scope,
        title=fields["title"] or "",
        heading=fields["heading"] or "",
        canonical=fields["canonical"] or "",
        language=fields["language"] or "",
        features=fields["features"] or 0,
        words=fields["words"] or 0,
        whole_words=fields["whole_words"] or 0,
        sketch=fields["sketch"] or b"",
        link_sketch=fields["link_sketch"] or b"",
        stub=bool(fields["stub"]),
        time=time.time() if fields.get("time") is None else fields["time"],
    )
