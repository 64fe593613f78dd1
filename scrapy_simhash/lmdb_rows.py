"""What an LMDB store reads of rows that may be damaged, for checking and mending them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.records import DamagedError, Record, State, Waiting, unpack
from scrapy_simhash.store_rows import number_of, scope_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lmdb

    from scrapy_simhash.lmdb_documents import Databases


def scan_records(
    transaction: lmdb.Transaction[bytes], databases: Databases
) -> Iterator[tuple[int, Record | DamagedError]]:
    """Read every record, in the order in which the documents came.

    Yields:
        Number and record; an error stands for a record that is damaged.
    """
    for key, packed in transaction.cursor(databases.documents):
        try:
            yield number_of(key), unpack(Record, key, packed)
        except DamagedError as error:
            yield number_of(key), error


def is_listed(record: Record | None, fingerprint: bytes, row: bytes) -> bool:
    """Say whether a row of `fingerprints` is one of the document to which it leads."""
    return (
        record is not None
        and record.state != State.DUPLICATE
        and number_of(fingerprint) in record.fingerprints
        and row.startswith(scope_hash(record.scope))
    )


def is_waiting(record: Record | None, key: bytes, packed: bytes) -> bool:
    """Say whether a row of `waiting` can be read and is that of a drop."""
    try:
        waiting = unpack(Waiting, key, packed)
    except DamagedError:
        return False
    return record is not None and is_duplicate_of(record, waiting.original.to_bytes(8, "big"))


def is_duplicate_of(record: Record | None, original: bytes) -> bool:
    """Say whether a document is a near-duplicate of the key of its row of `duplicates`."""
    return (
        record is not None
        and record.state == State.DUPLICATE
        and record.original == number_of(original)
    )
