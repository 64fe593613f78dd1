"""Documents in LMDB: their records, identities, fingerprints and near-duplicates.

Databases of one environment; numbers are big-endian, so that their order is that of the bytes::

    header         b"store" -> Header, b"next" -> number of the next document (8 bytes)
    documents      document (8 bytes) -> Record
    identities     identity or alias -> document (8 bytes) + XXH3-64 of both, its first 4 bytes
    fingerprints   fingerprint (8 bytes) -> scope hash (8) + document (8), DUPFIXED
    base0, base1, added0, added1, hot    the permuted tables, see `lmdb_tables`
    removed        fingerprint -> nothing: is in the archive beneath the tables, and does not count
    duplicates     original -> its near-duplicates (8 bytes each), DUPFIXED
    waiting        near-duplicate whose original was pending -> Waiting
    crawls         crawl id -> CrawlRecord
    texts          document -> main text, zlib, where texts are kept

A fingerprint in the tables without a row in `fingerprints` was bulk-loaded, for every scope; a row
of zeros keeps that in mind when a document has it, too.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from scrapy_simhash.records import CrawlRecord, Record, Waiting, pack, unpack
from scrapy_simhash.store_rows import (
    number_of,
    octets,
    pack_identity,
    scope_hash,
    unpack_identity,
)
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_environment import Environment
    from scrapy_simhash.lmdb_tables import Tables
    from scrapy_simhash.stored import Probe

NEXT, BULK_LOADED = b"next", bytes(16)


class Databases(NamedTuple):
    """Handles of the named databases."""

    header: lmdb._Database
    documents: lmdb._Database
    identities: lmdb._Database
    fingerprints: lmdb._Database
    base0: lmdb._Database
    base1: lmdb._Database
    added0: lmdb._Database
    added1: lmdb._Database
    hot: lmdb._Database
    removed: lmdb._Database
    duplicates: lmdb._Database
    waiting: lmdb._Database
    crawls: lmdb._Database
    texts: lmdb._Database

    @classmethod
    def open(
        cls, environment: Environment, transaction: lmdb.Transaction[bytes] | None = None
    ) -> Self:
        """Open them all; within a write transaction, make those that are not there."""
        dupfixed = {"fingerprints", "added0", "added1", "hot", "duplicates"}
        return cls(
            *(
                environment.open_database(name, transaction, dupfixed=name in dupfixed)
                for name in cls._fields
            )
        )


class Documents:
    """The documents as one transaction sees them.

    Args:
        transaction: a write transaction for the methods that change something.
        databases: of its environment.
        tables: of the store's design.
    """

    def __init__(
        self, transaction: lmdb.Transaction[bytes], databases: Databases, tables: Tables
    ) -> None:
        self._transaction = transaction
        self._databases = databases
        self._tables = tables

    def find_number(self, identity: bytes) -> int | None:
        """Get the number of the document with this identity or alias."""
        value = self._transaction.get(identity, db=self._databases.identities)
        return None if value is None else unpack_identity(identity, value)

    def name(self, number: int, identity: bytes, *, overwrite: bool = False) -> None:
        """Let an identity lead to a document."""
        self._transaction.put(
            identity,
            pack_identity(identity, number),
            overwrite=overwrite,
            db=self._databases.identities,
        )

    def get(self, number: int) -> Record | None:
        """Get a record, or None."""
        key = octets(number)
        packed = self._transaction.get(key, db=self._databases.documents)
        return None if packed is None else unpack(Record, key, packed)

    def put(self, number: int, record: Record, text: str | None = None) -> None:
        """Write a record, and its text unless that is None."""
        key = octets(number)
        self._transaction.put(key, pack(key, record), db=self._databases.documents)
        if text is not None:
            packed = zlib.compress(text.encode())
            self._transaction.put(key, packed, db=self._databases.texts)

    def get_text(self, number: int) -> str | None:
        """Get a document's main text, or None where none was kept."""
        packed = self._transaction.get(octets(number), db=self._databases.texts)
        try:
            return None if packed is None else zlib.decompress(packed).decode()
        except (zlib.error, UnicodeDecodeError) as error:
            raise StoreError(f"text of document {number} is damaged: {error}") from error

    def remove(self, number: int, identities: Iterable[bytes]) -> None:
        """Delete a record with its text and identities; it must be out of all lists."""
        self._transaction.delete(octets(number), db=self._databases.documents)
        self._transaction.delete(octets(number), db=self._databases.duplicates)
        self.drop_waiting(number)
        self.drop_text(number)
        for identity in identities:
            if self.find_number(identity) == number:
                self._transaction.delete(identity, db=self._databases.identities)

    def list_identities(self, numbers: Container[int]) -> dict[int, list[bytes]]:
        """List all identities that lead to these documents; reads every identity."""
        found: dict[int, list[bytes]] = {}
        for identity, value in self._transaction.cursor(self._databases.identities):
            if (number := unpack_identity(identity, value)) in numbers:
                found.setdefault(number, []).append(identity)
        return found

    def drop_text(self, number: int) -> None:
        """Forget a document's main text."""
        self._transaction.delete(octets(number), db=self._databases.texts)

    def next_number(self) -> int:
        """Take the next document number; from 1, never given twice."""
        number = self.following_number()
        self._transaction.put(NEXT, octets(number + 1), db=self._databases.header)
        return number

    def following_number(self) -> int:
        """Get the number the next document will have."""
        stored = self._transaction.get(NEXT, db=self._databases.header)
        return 1 if stored is None else number_of(stored)

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        """Read every record, in the order in which the documents came."""
        for key, packed in self._transaction.cursor(self._databases.documents):
            yield number_of(key), unpack(Record, key, packed)

    def index(self, number: int, record: Record) -> None:
        """Make a document findable by its fingerprints."""
        self.list_by_fingerprint(number, record)
        for fingerprint in record.fingerprints:
            self._tables.add(self._transaction, fingerprint)

    def list_by_fingerprint(self, number: int, record: Record) -> None:
        """Let its fingerprints lead to a document; harmless when they do."""
        for fingerprint in record.fingerprints:
            self._transaction.put(
                octets(fingerprint),
                scope_hash(record.scope) + octets(number),
                db=self._databases.fingerprints,
            )

    def unindex(self, number: int, record: Record) -> None:
        """Undo `index`; a fingerprint leaves the tables with its last document."""
        for fingerprint in record.fingerprints:
            row = scope_hash(record.scope) + octets(number)
            removed = self._transaction.delete(
                octets(fingerprint), row, db=self._databases.fingerprints
            )
            if removed and not self._has_rows(fingerprint):
                self._tables.remove(self._transaction, fingerprint)

    def _has_rows(self, fingerprint: int) -> bool:
        key = octets(fingerprint)
        return self._transaction.get(key, db=self._databases.fingerprints) is not None

    def keep_bulk_loaded(self, fingerprints: Iterable[int]) -> None:
        """Note which of these were bulk-loaded, before documents get them."""
        for fingerprint in fingerprints:
            known = self._tables.holds(self._transaction, fingerprint)
            if known and not self._has_rows(fingerprint):
                self.note_bulk_loaded(fingerprint)

    def note_bulk_loaded(self, fingerprint: int) -> None:
        """Note that a fingerprint of a document was bulk-loaded as well."""
        self._transaction.put(octets(fingerprint), BULK_LOADED, db=self._databases.fingerprints)

    def list_indexed(self) -> NDArray[np.uint64]:
        """List the fingerprints that documents have; shape (n,). Cost: all documents."""
        cursor = self._transaction.cursor(self._databases.fingerprints)
        keys = b"".join(cursor.iternext_nodup(keys=True, values=False))
        return np.frombuffer(keys, ">u8").astype(np.uint64)

    def near(
        self, fingerprint: int, distance: int, most: int | None = None, *, bounded: bool = False
    ) -> Probe:
        """Find stored fingerprints within a distance, see `Prober.probe`."""
        return self._tables.probe(self._transaction, fingerprint, distance, most, bounded=bounded)

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        """List the documents that have a fingerprint of the tables, oldest first within a scope.

        Args:
            fingerprint: exactly this one.
            scope: only documents of this scope; None for all.
            most: only so many; None for all.

        Returns:
            Document numbers; 0 leads them where the fingerprint was bulk-loaded.
        """
        key = octets(fingerprint)
        cursor = self._transaction.cursor(self._databases.fingerprints)
        if not cursor.set_key(key):
            return [0]
        numbers = [0] if cursor.value() == BULK_LOADED else []
        wanted = b"" if scope is None else scope_hash(scope)
        if not cursor.set_range_dup(key, wanted.ljust(8, b"\0") + octets(1)):
            return numbers
        for row in cursor.iternext_dup():
            if not row.startswith(wanted):
                break
            if most is not None and len(numbers) >= most:
                break
            numbers.append(number_of(row[8:]))
        return numbers

    def get_crawl(self, crawl: str) -> CrawlRecord | None:
        """Get the record of a crawl, or None."""
        key = crawl.encode()
        packed = self._transaction.get(key, db=self._databases.crawls)
        return None if packed is None else unpack(CrawlRecord, key, packed)

    def put_crawl(self, crawl: str, record: CrawlRecord) -> None:
        """Write the record of a crawl."""
        key = crawl.encode()
        self._transaction.put(key, pack(key, record), db=self._databases.crawls)

    def link(self, original: int, duplicate: int) -> None:
        """Note that a document is a near-duplicate of another."""
        self._transaction.put(octets(original), octets(duplicate), db=self._databases.duplicates)

    def unlink(self, original: int, duplicate: int) -> None:
        """Undo `link`."""
        self._transaction.delete(octets(original), octets(duplicate), db=self._databases.duplicates)

    def list_duplicates(self, original: int) -> list[int]:
        """List the near-duplicates of a document."""
        cursor = self._transaction.cursor(self._databases.duplicates)
        if not cursor.set_key(octets(original)):
            return []
        return [number_of(duplicate) for duplicate in cursor.iternext_dup()]

    def put_waiting(self, number: int, waiting: Waiting) -> None:
        """Note that the drop of a document may have to be taken back."""
        key = octets(number)
        self._transaction.put(key, pack(key, waiting), db=self._databases.waiting)

    def get_waiting(self, number: int) -> Waiting | None:
        """Get what `put_waiting` noted, or None."""
        key = octets(number)
        packed = self._transaction.get(key, db=self._databases.waiting)
        return None if packed is None else unpack(Waiting, key, packed)

    def drop_waiting(self, number: int) -> None:
        """Note that the drop of a document is settled; harmless when it is."""
        self._transaction.delete(octets(number), db=self._databases.waiting)

    def has_waiting(self) -> bool:
        """Say whether any drop may have to be taken back; reads no row."""
        return bool(self._transaction.stat(self._databases.waiting)["entries"])

    def list_waiting(self) -> list[tuple[int, Waiting]]:
        """List the drops that may have to be taken back: few, those of the last seconds."""
        cursor = self._transaction.cursor(self._databases.waiting)
        return [(number_of(key), unpack(Waiting, key, packed)) for key, packed in cursor]

    def is_linked(self, original: int, duplicate: int) -> bool:
        """Say whether `link` noted this pair."""
        cursor = self._transaction.cursor(self._databases.duplicates)
        return cursor.set_key_dup(octets(original), octets(duplicate))
