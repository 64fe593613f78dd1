"""Cross-check of an LMDB store: every table against every other and against the documents."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.jointables import contains
from scrapy_simhash.lmdb_documents import BULK_LOADED, Documents
from scrapy_simhash.lmdb_rows import is_duplicate_of, is_listed, is_waiting, scan_records
from scrapy_simhash.records import CrawlRecord, DamagedError, State, unpack
from scrapy_simhash.store_rows import number_of, unpack_identity
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_documents import Databases
    from scrapy_simhash.lmdb_tables import Tables
    from scrapy_simhash.records import Record


def check_documents(
    transaction: lmdb.Transaction[bytes], databases: Databases, tables: Tables
) -> list[str]:
    """List everything that does not fit together, one line each; reads the whole store."""
    stored = Documents(transaction, databases, tables)
    records, problems = _read_records(transaction, databases)
    content = tables.read_tables(transaction, tolerant=True)
    first = next(content)
    for number, other in enumerate(content, 1):
        for fingerprint in np.setxor1d(first, other, assume_unique=True):
            problems.append(f"fingerprint {fingerprint:016x} is not in both table 0 and {number}")
    for number, record in records.items():
        problems += _check_record(stored, number, record, records)
    held = tables.with_archived(transaction, first, tolerant=True)
    problems += _check_fingerprints(held, records)
    problems += _check_rows(transaction, databases, records)
    problems += _check_bulk_loaded(transaction, databases, held)
    problems += _check_texts(transaction, databases, records)
    problems += tables.find_strays(transaction)
    following = stored.following_number()
    if records and following <= max(records):
        problems.append(f"the next document would get number {following}, which is taken")
    return problems


def _check_rows(
    transaction: lmdb.Transaction[bytes], databases: Databases, records: dict[int, Record]
) -> list[str]:
    """Check what leads to documents: fingerprints, identities, lists of near-duplicates."""
    problems = []
    for key, row in transaction.cursor(databases.fingerprints):
        if row != BULK_LOADED and not is_listed(records.get(number_of(row[8:])), key, row):
            problems.append(
                f"fingerprint {key.hex()} leads to document {number_of(row[8:])}, "
                "which does not have it"
            )
    for original, duplicate in transaction.cursor(databases.duplicates):
        if not is_duplicate_of(records.get(number_of(duplicate)), original):
            problems.append(
                f"document {number_of(duplicate)} is listed as a near-duplicate of "
                f"{number_of(original)}, and is not"
            )
    for key, packed in transaction.cursor(databases.waiting):
        if not is_waiting(records.get(number_of(key)), key, packed):
            problems.append(f"what is noted of the drop of document {number_of(key)} is damaged")
    for identity, value in transaction.cursor(databases.identities):
        try:
            if unpack_identity(identity, value) not in records:
                problems.append(f"identity {identity.hex()} leads to no document")
        except StoreError as error:
            problems.append(str(error))
    return problems


def _check_bulk_loaded(
    transaction: lmdb.Transaction[bytes], databases: Databases, stored: NDArray[np.uint64]
) -> list[str]:
    noted = [
        number_of(key)
        for key, row in transaction.cursor(databases.fingerprints)
        if row == BULK_LOADED
    ]
    return [
        f"fingerprint {fingerprint:016x} is noted as bulk-loaded, and is in no table"
        for fingerprint, held in zip(
            noted, contains(stored, np.array(noted, np.uint64)).tolist(), strict=True
        )
        if not held
    ]


def _check_texts(
    transaction: lmdb.Transaction[bytes], databases: Databases, records: dict[int, Record]
) -> list[str]:
    problems = []
    for key, packed in transaction.cursor(databases.texts):
        if number_of(key) not in records:
            problems.append(f"there is a text of document {number_of(key)}, which is not there")
        try:
            zlib.decompress(packed)
        except zlib.error as error:
            problems.append(f"text of document {number_of(key)} is damaged: {error}")
    return problems


def _read_records(
    transaction: lmdb.Transaction[bytes], databases: Databases
) -> tuple[dict[int, Record], list[str]]:
    """Read the documents, and see whether the crawls can be read."""
    records, problems = {}, []
    for number, record in scan_records(transaction, databases):
        if isinstance(record, DamagedError):
            problems.append(record.what)
        else:
            records[number] = record
    for key, packed in transaction.cursor(databases.crawls):
        try:
            unpack(CrawlRecord, key, packed)
        except DamagedError as error:
            problems.append(error.what)
    return records, problems


def _check_record(
    stored: Documents,
    number: int,
    record: Record,
    records: dict[int, Record],
) -> list[str]:
    name = f"document {number} ({record.url!r})"
    try:
        if stored.find_number(record.identity) != number:
            return [f"{name} is not found by its identity"]
    except StoreError as error:
        return [str(error)]
    if record.state == State.DUPLICATE:
        if record.original and record.original not in records:
            return [f"{name} is a near-duplicate of document {record.original}, which is gone"]
        if not stored.is_linked(record.original, number):
            return [f"{name} is not listed as a near-duplicate of document {record.original}"]
        return []
    return [
        f"{name} is not found by its fingerprint {fingerprint:016x}"
        for fingerprint in record.fingerprints
        if number not in stored.numbers(fingerprint, record.scope)
    ]


def _check_fingerprints(stored: NDArray[np.uint64], records: dict[int, Record]) -> list[str]:
    """Find documents whose fingerprints the tables do not have."""
    owned = [
        (fingerprint, number)
        for number, record in records.items()
        if record.state != State.DUPLICATE
        for fingerprint in record.fingerprints
    ]
    wanted = np.array([fingerprint for fingerprint, _ in owned], np.uint64)
    missing = np.flatnonzero(~contains(stored, wanted))
    return [
        f"fingerprint {owned[at][0]:016x} of document {owned[at][1]} "
        f"({records[owned[at][1]].url!r}) is in no table"
        for at in missing.tolist()
    ]
