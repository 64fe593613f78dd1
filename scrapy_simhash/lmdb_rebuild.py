"""Writes anew what leads to the documents of an LMDB store: tables, fingerprints, names, lists.

The records are what everything else is restored from. Of a damaged record nobody knows what it
said; so rows that lead to it stay as they are, and its fingerprints stay in the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.designs import parse_design
from scrapy_simhash.jointables import contains, sort_distinct
from scrapy_simhash.lmdb_documents import BULK_LOADED, Documents
from scrapy_simhash.lmdb_header import read_header, table_databases, write_header
from scrapy_simhash.lmdb_rows import is_duplicate_of, is_listed, is_waiting, scan_records
from scrapy_simhash.lmdb_tables import Tables
from scrapy_simhash.records import DamagedError, State, Waiting
from scrapy_simhash.store_rows import number_of, octets, unpack_identity
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_documents import Databases


def rebuild(
    design: str, transaction: lmdb.Transaction[bytes], databases: Databases, tables: Tables
) -> dict[str, int]:
    """Restore everything but the records.

    Args:
        design: the tables to write.
        transaction: a write transaction.
        databases: of the store.
        tables: as they are.

    Returns:
        What `Store.rebuild` does. Cost: reads everything, each record about three times.
    """
    stored = Documents(transaction, databases, tables)
    found = trusted_fingerprints(transaction, databases, tables)
    dropped = _mend_identities(transaction, databases, stored)
    damaged = _mend_duplicates(transaction, databases, stored)
    rewrite_tables(transaction, databases, tables, design, found)
    return {
        "fingerprints": found.size,
        "tables": len(parse_design(design).tables),
        **({"damaged": damaged} if damaged else {}),
        **({"aliases_dropped": dropped} if dropped else {}),
    }


def rewrite_tables(
    transaction: lmdb.Transaction[bytes],
    databases: Databases,
    tables: Tables,
    design: str,
    fingerprints: NDArray[np.uint64],
) -> None:
    """Write all tables anew, in this or another design.

    A compaction is given up; nothing is left to an archive beneath them.
    """
    header = read_header(transaction, databases)
    if header.compacting or header.archive or design != header.design:
        header.compacting, header.archive, header.merging = False, "", ""
        header.design = design
        write_header(transaction, databases, header)
    tables.clear(transaction)
    Tables(parse_design(design), table_databases(databases, header)).fill(transaction, fingerprints)


def trusted_fingerprints(
    transaction: lmdb.Transaction[bytes], databases: Databases, tables: Tables
) -> NDArray[np.uint64]:
    """List the fingerprints that belong into the tables; sorted, each once; shape (n,).

    Those of documents, and of the bulk-loaded ones and those of damaged records those that two
    tables agree on: damage is in one. The rows of `fingerprints` are mended. Reads every record
    and every table.
    """
    found = tables.read_trusted(transaction)
    stored = Documents(transaction, databases, tables)
    _mend_fingerprints(transaction, databases, stored, found)
    return sort_distinct(np.concatenate([found, stored.list_indexed()]))


def _mend_fingerprints(
    transaction: lmdb.Transaction[bytes],
    databases: Databases,
    stored: Documents,
    held: NDArray[np.uint64],
) -> None:
    """Let the fingerprints of each document lead to it, and nothing else.

    Args:
        transaction: a write transaction.
        databases: of the store.
        stored: the documents.
        held: the fingerprints that are in the tables for certain; sorted, shape (n,).
    """
    damaged = set()
    for number, record in scan_records(transaction, databases):
        if isinstance(record, DamagedError):
            damaged.add(number)
        elif record.state != State.DUPLICATE:
            stored.list_by_fingerprint(number, record)
    strays = [
        (key, row)
        for key, row in transaction.cursor(databases.fingerprints)
        if row != BULK_LOADED
        and (number := number_of(row[8:])) not in damaged
        and not is_listed(stored.get(number), key, row)
    ]
    for key, row in strays:
        transaction.delete(key, row, db=databases.fingerprints)
        if number_of(row).bit_count() == 1:
            # No document has number and scope like that: a bit of `BULK_LOADED` was flipped.
            stored.note_bulk_loaded(number_of(key))
    noted = [key for key, row in transaction.cursor(databases.fingerprints) if row == BULK_LOADED]
    known = contains(held, np.array([number_of(key) for key in noted], np.uint64))
    for key in (key for key, held_too in zip(noted, known.tolist(), strict=True) if not held_too):
        transaction.delete(key, BULK_LOADED, db=databases.fingerprints)


def _mend_identities(
    transaction: lmdb.Transaction[bytes], databases: Databases, stored: Documents
) -> int:
    """Let each document be found by its identity, and no identity lead nowhere.

    Returns:
        How many aliases are lost: a record does not say which it had.
    """
    strays = []
    for identity, value in transaction.cursor(databases.identities):
        try:
            key = octets(unpack_identity(identity, value))
        except StoreError:
            strays.append(identity)
        else:
            if transaction.get(key, db=databases.documents) is None:
                strays.append(identity)
    for identity in strays:
        transaction.delete(identity, db=databases.identities)
    named = 0
    for number, record in scan_records(transaction, databases):
        if not isinstance(record, DamagedError) and stored.find_number(record.identity) != number:
            stored.name(number, record.identity, overwrite=True)
            named += 1
    return max(0, len(strays) - named)


def _mend_duplicates(
    transaction: lmdb.Transaction[bytes], databases: Databases, stored: Documents
) -> int:
    """List each near-duplicate with its original, and nothing else.

    Returns:
        How many records are damaged.
    """
    damaged = set()
    for number, record in scan_records(transaction, databases):
        if isinstance(record, DamagedError):
            damaged.add(number)
        elif record.state == State.DUPLICATE:
            stored.link(record.original, number)
    strays = [
        (original, duplicate)
        for original, duplicate in transaction.cursor(databases.duplicates)
        if (number := number_of(duplicate)) not in damaged
        and not is_duplicate_of(stored.get(number), original)
    ]
    for original, duplicate in strays:
        transaction.delete(original, duplicate, db=databases.duplicates)
    unread = [
        key
        for key, packed in transaction.cursor(databases.waiting)
        if number_of(key) not in damaged and not is_waiting(stored.get(number_of(key)), key, packed)
    ]
    for key in unread:
        # Which crawl took it over, and the request, are gone; that it waits is not.
        number = number_of(key)
        page = stored.get(number)
        stored.drop_waiting(number)
        if page is not None and page.state == State.DUPLICATE:
            dropped_for = stored.get(page.original)
            digest = dropped_for.text_digest if dropped_for is not None else b""
            stored.put_waiting(number, Waiting(page.original, digest, page.crawl))
    return len(damaged)
