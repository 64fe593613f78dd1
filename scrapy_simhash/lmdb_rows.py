"""What an LMDB store reads of rows that may be damaged, for checking and mending them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.lmdb_documents import _scope_hash, number_of
from scrapy_simhash.records import DamagedError, Record, State, unpack

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
        and row.startswith(_scope_hash(record.scope))
    )


def is_duplicate_of(record: Record | None, original: bytes) -> bool:
    """Say whether a document is a near-duplicate of the key of its row of `duplicates`."""
    return (
        record is not None
        and record.state == State.DUPLICATE
        and record.original == number_of(original)
    )
