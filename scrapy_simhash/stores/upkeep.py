"""Describe and count the documents of a store, and delete them with their near-duplicates."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import Record, State, StoredDocument
from scrapy_simhash.judging.judge import get_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.stores.documents import Documents


# The number of the largest scopes, and of the largest groups, to list.
_ROWS_SHOWN = 20
# What a record has of a document as people see it.
_KEPT = set(StoredDocument.__struct_fields__) - {"document", "state", "text"}


def describe_document(number: int, record: Record, text: str | None) -> StoredDocument:
    """Describe a record for display and for `explain`."""
    kept = {name: getattr(record, name) for name in _KEPT}
    return StoredDocument(**kept, document=number, state=record.state.name.lower(), text=text)


def count_documents(stored: Documents) -> dict[str, Any]:
    """Count documents by state, distance, scope and group (an original and its near-duplicates)."""
    states: Counter[str] = Counter()
    distances: Counter[int] = Counter()
    scopes: Counter[str] = Counter()
    groups: Counter[int] = Counter()
    stubs = files = damaged = 0
    for _, record in stored.scan():
        if isinstance(record, DamagedError):
            damaged += 1
            continue
        stubs += record.stub and not record.file
        files += record.file
        states[record.state.name.lower()] += 1
        scopes[record.scope] += 1
        if record.state == State.DUPLICATE:
            distances[record.distance] += 1
            groups[record.original] += 1
    return {
        "documents": states.total() + damaged,
        **({"damaged": damaged} if damaged else {}),
        "done": states["done"],
        "pending": states["pending"],
        "near_duplicates": states["duplicate"],
        "distances": {str(bits): distances[bits] for bits in sorted(distances)},
        "stubs": stubs,
        "files": files,
        "scopes": dict(scopes.most_common(_ROWS_SHOWN)),
        "groups": [
            _describe_group(number, get_sound(stored, number), size)
            for number, size in groups.most_common(_ROWS_SHOWN)
        ],
    }


def _describe_group(number: int, original: Record | None, near_duplicates: int) -> dict[str, Any]:
    return {
        "document": number,
        "near_duplicates": near_duplicates,
        "url": original.url if original else None,
        "title": original.title if original else "",
    }


# With this number, a deletion locks the store for less than a second at a time.
DOCUMENTS_PER_DELETION = 1_000


def select_documents(
    stored: Documents,
    wanted: Callable[[StoredDocument], bool],
    alive: Callable[[str], bool],
) -> list[int]:
    """List the wanted documents and their near-duplicates; reads every record."""
    found = [
        number
        for number, record in stored
        if not _in_use(record, alive) and wanted(describe_document(number, record, None))
    ]
    return with_near_duplicates(stored, found, alive)


def spare_documents(stored: Documents, numbers: Iterable[int]) -> None:
    """Exempt near-duplicates from the next judgement; skips those that do not exist."""
    for number in numbers:
        record = stored.get(number)
        if record is not None and record.state == State.DUPLICATE:
            record.spared = True
            stored.put(number, record)


def with_near_duplicates(
    stored: Documents, numbers: Iterable[int], alive: Callable[[str], bool]
) -> list[int]:
    """Add near-duplicates, and theirs in turn; skips documents that are missing or in use."""
    # Without its original, the drop of a near-duplicate cannot be explained. An original becomes a
    # near-duplicate itself if its crawl dies and it is fetched again.
    chosen: set[int] = set()
    waiting = list(numbers)
    while waiting:
        number = waiting.pop()
        record = stored.get(number)
        if number not in chosen and record is not None and not _in_use(record, alive):
            chosen.add(number)
            waiting += stored.list_duplicates(number)
    return sorted(chosen)


def delete_documents(
    stored: Documents,
    numbers: Sequence[int],
    alive: Callable[[str], bool],
) -> int:
    """Delete documents that are not in use, with their near-duplicates; returns how many."""
    stored.prefetch_documents(numbers)
    chosen = with_near_duplicates(stored, numbers, alive)
    for number in chosen:
        record = stored.get(number)
        if record is None:  # it was there when it was chosen
            raise StoreError(
                f"document {number} is found in one place and not in another: the store is "
                "damaged; `scrapy simhash check` says where"
            )
        stored.take_out(number, record)
        stored.remove(number, record)
    return len(chosen)


def _in_use(record: Record, alive: Callable[[str], bool]) -> bool:
    return record.state == State.PENDING and alive(record.crawl)


def list_undelivered(stored: Documents) -> NDArray[np.uint64]:
    """List the fingerprints that must not cause drops in another store; sorted, shape (n,)."""
    # They were not bulk-loaded, and all their documents are pending, withdrawn, or stubs, which
    # have too little text for simhash.
    done: set[int] = set()
    others: set[int] = set()
    for _, record in stored:
        if record.state != State.DUPLICATE:
            delivered = record.state == State.DONE and not record.stub
            (done if delivered else others).update(record.fingerprints)
    left = [fingerprint for fingerprint in others - done if not stored.is_bulk_loaded(fingerprint)]
    return np.array(sorted(left), np.uint64)
