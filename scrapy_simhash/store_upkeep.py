"""Documents leave a store: which of them, and with whom."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.lost import list_lost
from scrapy_simhash.records import State
from scrapy_simhash.store_stats import describe_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.records import Record
    from scrapy_simhash.store_documents import Documents
    from scrapy_simhash.stored import StoredDocument

# A write transaction of a deletion holds the store for less than a second.
DOCUMENTS_PER_DELETION = 1_000


def select_documents(
    stored: Documents,
    wanted: Callable[[StoredDocument], bool],
    alive: Callable[[str], bool],
) -> list[int]:
    """List the documents that are wanted, and the near-duplicates of those; reads every record."""
    found = [
        number
        for number, record in stored
        if not _in_use(record, alive) and wanted(describe_document(number, record, None))
    ]
    return with_near_duplicates(stored, found, alive)


def list_dropped(
    stored: Documents,
    alive: Callable[[str], bool],
    wanted: Callable[[StoredDocument], bool],
    *,
    lost: bool,
) -> list[StoredDocument]:
    """List the near-duplicates that are wanted; reads every record, but of the lost ones only."""
    records = (
        ((number, record) for number, _, record in list_lost(stored, alive)) if lost else stored
    )
    described = (
        describe_document(number, record, None)
        for number, record in records
        if record.state == State.DUPLICATE
    )
    return [document for document in described if wanted(document)]


def spare_documents(stored: Documents, numbers: Iterable[int]) -> None:
    """Let near-duplicates pass when they are judged again; those that are gone are passed over."""
    for number in numbers:
        record = stored.get(number)
        if record is not None and record.state == State.DUPLICATE:
            record.spared = True
            stored.put(number, record)


def with_near_duplicates(
    stored: Documents, numbers: Iterable[int], alive: Callable[[str], bool]
) -> list[int]:
    """List documents and their near-duplicates, and the near-duplicates of those.

    Without its original nobody could say why a near-duplicate was dropped. A document of which
    others are near-duplicates becomes one itself when its crawl dies and it is fetched again.
    Documents that a running crawl is at work on are left out, and those that are gone.
    """
    chosen: set[int] = set()
    waiting = list(numbers)
    while waiting:
        number = waiting.pop()
        record = stored.get(number)
        if number not in chosen and record is not None and not _in_use(record, alive):
            chosen.add(number)
            waiting += stored.list_duplicates(number)
    return sorted(chosen)


def list_identities(
    numbers: Iterable[int], stored: Documents, _: object = None
) -> dict[int, list[bytes]]:
    """List all identities that lead to these documents; reads every identity.

    Raises:
        StoreError: one is damaged; names the cure.
    """
    return stored.list_identities(set(numbers))


def delete_documents(
    numbers: Sequence[int],
    identities: Mapping[int, Sequence[bytes]],
    alive: Callable[[str], bool],
    stored: Documents,
    _: object = None,
) -> int:
    """Delete documents and their near-duplicates.

    Fingerprints that no other document has leave the tables.

    Args:
        numbers: of the documents; those that are gone or in use are passed over.
        identities: all that lead to each of them.
        alive: says whether the lease of a crawl is alive.
        stored: in a write transaction.

    Returns:
        How many were deleted.
    """
    chosen = with_near_duplicates(stored, numbers, alive)
    for number in chosen:
        record = stored.get(number)
        assert record is not None  # noqa: S101 - chosen in this transaction
        if record.state == State.DUPLICATE:
            stored.unlink(record.original, number)
        else:
            stored.unindex(number, record)
        stored.remove(number, (record.identity, *identities.get(number, ())))
    return len(chosen)


def _in_use(record: Record, alive: Callable[[str], bool]) -> bool:
    return record.state == State.PENDING and alive(record.crawl)


def list_undelivered(stored: Documents) -> NDArray[np.uint64]:
    """List the fingerprints in the tables that are no ground to drop a page elsewhere; shape (n,).

    All their documents are pending, withdrawn, or stubs, which simhash says nothing about; and
    they were not bulk-loaded. Sorted, each once; reads every record.
    """
    done: set[int] = set()
    others: set[int] = set()
    for _, record in stored:
        if record.state != State.DUPLICATE:
            delivered = record.state == State.DONE and not record.stub
            (done if delivered else others).update(record.fingerprints)
    left = [fingerprint for fingerprint in others - done if 0 not in stored.numbers(fingerprint)]
    return np.array(sorted(left), np.uint64)


def note_end(stored: Documents, crawl: str) -> None:
    """Note that a crawl ended now."""
    record = stored.get_crawl(crawl)
    if record is not None:
        record.ended = time.time()
        stored.put_crawl(crawl, record)
