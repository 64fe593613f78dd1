"""Upkeep of an LMDB store: documents leave it, tables are written anew from what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.lmdb_stats import describe_document
from scrapy_simhash.records import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_documents import Documents
    from scrapy_simhash.lmdb_tables import Tables
    from scrapy_simhash.records import Record
    from scrapy_simhash.stored import StoredDocument

# A write transaction of a deletion holds the store for less than a second.
DOCUMENTS_PER_DELETION = 1_000


def select_documents(
    stored: Documents,
    wanted: Callable[[StoredDocument], bool],
    alive: Callable[[str], bool],
) -> list[int]:
    """List the documents that are wanted, and the near-duplicates of those; reads every record.

    Without its original nobody could say why a near-duplicate was dropped. Documents that a
    running crawl is at work on are left out.
    """
    chosen: set[int] = set()
    originals: dict[int, int] = {}
    for number, record in stored:
        if _in_use(record, alive):
            continue
        if record.state == State.DUPLICATE:
            originals[number] = record.original
        if wanted(describe_document(number, record, None)):
            chosen.add(number)
    chosen |= {number for number, original in originals.items() if original in chosen}
    return sorted(chosen)


def delete_documents(
    numbers: Sequence[int],
    identities: Mapping[int, Sequence[bytes]],
    alive: Callable[[str], bool],
    stored: Documents,
    _: lmdb.Transaction[bytes],
) -> int:
    """Delete documents; fingerprints that no other document has leave the tables.

    Args:
        numbers: of the documents; those that are gone or in use are passed over.
        identities: all that lead to each of them.
        alive: says whether the lease of a crawl is alive.
        stored: in a write transaction.

    Returns:
        How many were deleted.
    """
    deleted = 0
    for number in numbers:
        record = stored.get(number)
        if record is None or _in_use(record, alive):
            continue
        if record.state == State.DUPLICATE:
            stored.unlink(record.original, number)
        else:
            stored.unindex(number, record)
        stored.remove(number, (record.identity, *identities.get(number, ())))
        deleted += 1
    return deleted


def _in_use(record: Record, alive: Callable[[str], bool]) -> bool:
    return record.state == State.PENDING and alive(record.crawl)


def trusted_fingerprints(
    stored: Documents, tables: Tables, transaction: lmdb.Transaction[bytes]
) -> NDArray[np.uint64]:
    """List the fingerprints that belong into the tables; sorted, each once; shape (n,).

    Those of documents, and of the bulk-loaded ones those that two tables agree on: damage is in
    one. Reads every record and every table.
    """
    for number, record in stored:
        if record.state != State.DUPLICATE:
            stored.list_by_fingerprint(number, record)
    content = [
        tables.read_table(transaction, number) for number in range(len(tables.design.tables))
    ]
    found, counts = np.unique(np.concatenate(content), return_counts=True)
    return np.union1d(found[counts >= min(2, len(content))], stored.list_indexed())
