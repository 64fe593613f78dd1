"""The LMDB databases: the header, documents, identities, fingerprints and near-duplicates.

All are in one environment; numbers are big-endian, so that LMDB sorts them numerically::

    header         b"store" -> Header, b"next" -> number of the next document (8 bytes)
    documents      document (8 bytes) -> Record
    identities     identity or alias -> document (8 bytes) + XXH3-64 of both, its first 4 bytes
    fingerprints   fingerprint (8 bytes) -> scope hash (8) + document (8), DUPFIXED
    base0, base1, added0, added1, hot    the permuted tables, see `tables`
    removed        empty, but 0.1.0 does not open a store without it
    duplicates     original -> its near-duplicates (8 bytes each), DUPFIXED
    waiting        near-duplicate whose original was pending -> Waiting
    crawls         crawl id -> CrawlRecord
    texts          document -> main text, zlib, where texts are kept
    urls           letter of a table (see `records.ROW_TABLES`) + key -> row; `#` + letter -> the
                   number of its rows (8 bytes). Made by the first row that is written
    addresses      one key -> rows of the index of URLs (see `records.address_row`), DUPFIXED: so
                   a row has no header, and takes 8 bytes in a full page. Old stores lack it

A fingerprint in the tables without a row in `fingerprints` was bulk-loaded, for every scope; if a
document has it, too, a row of zeros records that it was bulk-loaded.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from scrapy_simhash.errors import StoreError, StoreUnusableError
from scrapy_simhash.judging.documents import Record
from scrapy_simhash.stores.header import new_header
from scrapy_simhash.stores.lmdb.guard import refuse_foreign
from scrapy_simhash.stores.lmdb.tables import TableDatabases, Tables
from scrapy_simhash.stores.records import (
    ROW_TABLES,
    Header,
    Session,
    number_in,
    number_of,
    octets,
    pack,
    scope_hash,
    unpack,
    unpack_identity,
)
from scrapy_simhash.tables.sets import contains, sort_distinct

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.judging.merging import Row
    from scrapy_simhash.pages import Recipe
    from scrapy_simhash.stores.lmdb.environment import Environment
    from scrapy_simhash.tables.probing import Probe


NEXT, BULK_LOADED = b"next", bytes(16)
_ROWS_PER_CALL = 65_536
URLS, ADDRESSES = "urls", "addresses"
# Databases that a store may lack.
LATER = {URLS, ADDRESSES}
_ADDRESS = b"u"
_COUNT = b"#"


_DUPFIXED = {"fingerprints", "added0", "added1", "hot", "duplicates", ADDRESSES}


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
    urls: lmdb._Database | None = None  # None until the first row is written
    addresses: lmdb._Database | None = None

    @classmethod
    def open(
        cls, environment: Environment, transaction: lmdb.Transaction[bytes] | None = None
    ) -> Self:
        """Open those that every store has; within a write transaction, make missing ones."""
        return cls(
            *(
                environment.open_database(name, transaction, dupfixed=name in _DUPFIXED)
                for name in cls._fields
                if name not in LATER
            )
        )


class NoDatabaseError(Exception):
    """The transaction has no handle of a database that it needs, see `open_later`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _key_of(key: int | str) -> bytes:
    return octets(key) if isinstance(key, int) else key.encode()


@dataclass(eq=False)
class LmdbDocuments(Session):
    """The documents and tables in one transaction, see `stores.records.Session`."""

    transaction: lmdb.Transaction[bytes]
    databases: Databases
    tables: Tables
    addressed: bool

    def _get(self, kind: str, key: int | str) -> bytes | None:
        return self.transaction.get(_key_of(key), db=getattr(self.databases, kind))

    def _put(self, kind: str, key: int | str, packed: bytes) -> None:
        self.transaction.put(_key_of(key), packed, db=getattr(self.databases, kind))

    def _drop(self, kind: str, key: int) -> None:
        self.transaction.delete(octets(key), db=getattr(self.databases, kind))

    def scan_packed(self, kind: str) -> Iterator[tuple[int, bytes]]:
        for key, packed in self.transaction.cursor(getattr(self.databases, kind)):
            yield number_of(key), packed

    def find_number(self, identity: bytes) -> int | None:
        value = self.transaction.get(identity, db=self.databases.identities)
        return None if value is None else unpack_identity(identity, value)

    def _name(self, number: int, identity: bytes, row: bytes, *, own: bool) -> None:
        del number
        self.transaction.put(identity, row, overwrite=own, db=self.databases.identities)

    def remove(self, number: int, identities: Iterable[bytes]) -> None:
        self._drop("documents", number)
        self._drop("duplicates", number)
        self.drop_waiting(number)
        self.drop_text(number)
        for identity in identities:
            if self.find_number(identity) == number:
                self.transaction.delete(identity, db=self.databases.identities)

    def list_identities(self, numbers: Container[int]) -> dict[int, list[bytes]]:
        found: dict[int, list[bytes]] = {}
        for identity, value in self.transaction.cursor(self.databases.identities):
            if (number := unpack_identity(identity, value)) in numbers:
                found.setdefault(number, []).append(identity)
        return found

    def next_number(self) -> int:
        number = self.following_number()
        self.transaction.put(NEXT, octets(number + 1), db=self.databases.header)
        return number

    def following_number(self) -> int:
        """Get the number that the next document will have."""
        stored = self.transaction.get(NEXT, db=self.databases.header)
        return 1 if stored is None else number_of(stored)

    def index(self, number: int, record: Record) -> None:
        row = scope_hash(record.scope) + octets(number)
        for fingerprint in record.fingerprints:
            self.transaction.put(octets(fingerprint), row, db=self.databases.fingerprints)
            self.tables.add(fingerprint)

    def unindex(self, number: int, record: Record) -> None:
        row, database = scope_hash(record.scope) + octets(number), self.databases.fingerprints
        for fingerprint in record.fingerprints:
            removed = self.transaction.delete(octets(fingerprint), row, db=database)
            if removed and not self._has_rows(fingerprint):
                self.tables.remove(fingerprint)

    def _has_rows(self, fingerprint: int) -> bool:
        key = octets(fingerprint)
        return self.transaction.get(key, db=self.databases.fingerprints) is not None

    def keep_bulk_loaded(self, fingerprints: Iterable[int]) -> None:
        for fingerprint in fingerprints:
            known = self.tables.holds(fingerprint)
            if known and not self._has_rows(fingerprint):
                self.note_bulk_loaded(fingerprint)

    def note_bulk_loaded(self, fingerprint: int) -> None:
        """Record that a fingerprint of a document was bulk-loaded as well."""
        self.transaction.put(octets(fingerprint), BULK_LOADED, db=self.databases.fingerprints)

    def list_indexed(self) -> NDArray[np.uint64]:
        """List the fingerprints that documents have; shape (n,). Cost: reads all rows."""
        cursor = self.transaction.cursor(self.databases.fingerprints)
        keys = b"".join(cursor.iternext_nodup(keys=True, values=False))
        return np.frombuffer(keys, ">u8").astype(np.uint64)

    def near(
        self, fingerprint: int, distance: int, most: int | None = None, *, bounded: bool = False
    ) -> Probe:
        tables = self.tables
        prober = tables.layout.prober
        return prober.probe(tables.read, fingerprint, distance, most, bounded=bounded)

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        key = octets(fingerprint)
        cursor = self.transaction.cursor(self.databases.fingerprints)
        if not cursor.set_key(key):
            return [0]
        if scope is None and most is None:
            return [number_of(row[8:]) for row in cursor.iternext_dup()]
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

    def link(self, original: int, duplicate: int) -> None:
        self.transaction.put(octets(original), octets(duplicate), db=self.databases.duplicates)

    def unlink(self, original: int, duplicate: int) -> None:
        self.transaction.delete(octets(original), octets(duplicate), db=self.databases.duplicates)

    def list_duplicates(self, original: int) -> list[int]:
        cursor = self.transaction.cursor(self.databases.duplicates)
        if not cursor.set_key(octets(original)):
            return []
        return [number_of(duplicate) for duplicate in cursor.iternext_dup()]

    def has_waiting(self) -> bool:
        return bool(self._count(self.databases.waiting))

    def get_row(self, table: str, key: bytes) -> bytes | None:
        urls = self.databases.urls
        return None if urls is None else self.transaction.get(ROW_TABLES[table] + key, db=urls)

    def put_row(self, table: str, key: bytes, row: bytes) -> None:
        urls, letter = self._require_urls(), ROW_TABLES[table]
        if self.transaction.put(letter + key, row, overwrite=False, db=urls):
            self._add_to_count(letter, 1)
        else:
            self.transaction.put(letter + key, row, db=urls)

    def drop_row(self, table: str, key: bytes) -> None:
        letter = ROW_TABLES[table]
        urls = self.databases.urls
        if urls is not None and self.transaction.delete(letter + key, db=urls):
            self._add_to_count(letter, -1)

    def scan_rows(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        if self.databases.urls is None:
            return
        wanted = ROW_TABLES[table] + prefix
        cursor = self.transaction.cursor(self.databases.urls)
        if cursor.set_range(wanted):
            for key, row in cursor:
                if not key.startswith(wanted):
                    break
                yield key[1:], row

    def draw_keys(self, table: str, prefix: bytes, most: int) -> Sequence[bytes]:
        """List keys of a table that begin so: those from a random place on, then the first ones."""
        keys: list[bytes] = []
        if self.databases.urls is None:
            return keys
        wanted = ROW_TABLES[table] + prefix
        place = wanted + secrets.token_bytes(8)
        cursor = self.transaction.cursor(self.databases.urls)
        for first, end in ((place, None), (wanted, place)):
            if not cursor.set_range(first):
                continue
            for key in cursor.iternext(values=False):
                ended = not key.startswith(wanted) or (end is not None and key >= end)
                if ended or len(keys) == most:
                    break
                keys.append(key[1:])
        return keys

    def count_rows(self, table: str) -> int:
        urls = self.databases.urls
        stored = None if urls is None else self.transaction.get(_COUNT + ROW_TABLES[table], db=urls)
        return 0 if stored is None else number_of(stored)

    def mend_count(self, table: str) -> None:
        """Count the rows of a table again."""
        if self.databases.urls is not None:
            counted = sum(1 for _ in self.scan_rows(table))
            self._add_to_count(ROW_TABLES[table], counted - self.count_rows(table))

    def list_stray_keys(self) -> list[bytes]:
        """List the keys of `urls` that are of no table."""
        if self.databases.urls is None:
            return []
        letters = set(ROW_TABLES.values())
        counts = {_COUNT + letter for letter in letters}
        keys = self.transaction.cursor(self.databases.urls).iternext(values=False)
        return [key for key in keys if key[:1] not in letters and key not in counts]

    def drop_stray_keys(self) -> None:
        """Delete the keys of `urls` that are of no table."""
        for key in self.list_stray_keys():
            self.transaction.delete(key, db=self._require_urls())

    def _add_to_count(self, letter: bytes, change: int) -> None:
        urls = self._require_urls()
        stored = self.transaction.get(_COUNT + letter, db=urls)
        counted = change + (0 if stored is None else number_of(stored))
        if counted > 0:
            self.transaction.put(_COUNT + letter, octets(counted), db=urls)
        else:
            self.transaction.delete(_COUNT + letter, db=urls)

    def _require_urls(self) -> lmdb._Database:
        if self.databases.urls is None:
            raise NoDatabaseError(URLS)
        return self.databases.urls

    def _put_address(self, row: int) -> None:
        self.transaction.put(_ADDRESS, octets(row), db=self._require_addresses())

    def _drop_address(self, row: int) -> None:
        self.transaction.delete(_ADDRESS, octets(row), db=self._require_addresses())

    def _find_addresses(self, row: int) -> Iterator[int]:
        cursor = self.transaction.cursor(self._require_addresses())
        if cursor.set_range_dup(_ADDRESS, octets(row)):
            for found in map(number_of, cursor.iternext_dup()):
                if found - number_in(found) != row:
                    break
                yield found

    def read_addresses(self) -> NDArray[np.uint64]:
        cursor = self.transaction.cursor(self._require_addresses())
        rows = b"".join(cursor.iternext_dup()) if cursor.set_key(_ADDRESS) else b""
        return np.frombuffer(rows, ">u8").astype(np.uint64)

    def rewrite_addresses(self, rows: NDArray[np.uint64]) -> None:
        """Write the index of URLs anew, from its sorted rows."""
        addresses = self._require_addresses()
        self.transaction.drop(addresses, delete=False)
        cursor = self.transaction.cursor(addresses)
        for start in range(0, rows.size, _ROWS_PER_CALL):
            some = rows[start : start + _ROWS_PER_CALL].tolist()
            cursor.putmulti([(_ADDRESS, octets(row)) for row in some], append=True)

    def _require_addresses(self) -> lmdb._Database:
        if self.databases.addresses is None:
            raise NoDatabaseError(ADDRESSES)
        return self.databases.addresses

    def list_newest(self, most: int) -> list[tuple[int, Record]]:
        cursor = self.transaction.cursor(self.databases.documents)
        newest = islice(cursor.iterprev(), most) if cursor.last() else ()
        return [(number_of(key), unpack(Record, key, packed)) for key, packed in newest]

    def reserve(self, rows: Sequence[Row]) -> None:
        following = max((row.number for row in rows), default=0) + 1
        if following > self.following_number():
            self.transaction.put(NEXT, octets(following), db=self.databases.header)

    def list_aliases(self) -> dict[int, list[bytes]]:
        """List each document's aliases (identities other than its own) by number; reads all."""
        found: dict[int, list[bytes]] = {}
        for identity, value in self.transaction.cursor(self.databases.identities):
            number = unpack_identity(identity, value)
            record = self.get(number)
            if record is not None and record.identity != identity:
                found.setdefault(number, []).append(identity)
        return found

    def scan_crawls(self) -> Iterable[tuple[bytes, bytes]]:
        return self.transaction.cursor(self.databases.crawls)

    def count_crawls(self) -> int:
        return self._count(self.databases.crawls)

    def _count(self, database: lmdb._Database) -> int:
        entries: int = self.transaction.stat(database)["entries"]
        return entries

    def list_texts(self) -> set[int]:
        keys = self.transaction.cursor(self.databases.texts).iternext(keys=True, values=False)
        return set(map(number_of, keys))

    def list_bulk_loaded(self) -> NDArray[np.uint64]:
        held = self.read_fingerprints()
        rows = self.transaction.cursor(self.databases.fingerprints)
        firsts = rows.iternext_nodup(keys=True, values=True)
        noted = [number_of(key) for key, first in firsts if first == BULK_LOADED]
        alone = held[~contains(self.list_indexed(), held)]
        return sort_distinct(np.concatenate([alone, np.array(noted, np.uint64)]))

    def read_fingerprints(self) -> NDArray[np.uint64]:
        return self.tables.read_all()

    def measure_tables(self) -> tuple[int, int, int]:
        names = "base0", "base1", "added0", "added1", "hot"
        stats = [self.transaction.stat(getattr(self.databases, name)) for name in names]
        size = sum(
            stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
            for stat in stats
        )
        too_full = len(self.tables.hot_keys())
        return self.tables.count_fingerprints(), size, too_full


# Increased when a version writes data that earlier versions would misread.
FORMAT = 3
HEADER_KEY = b"store"
_HEADER = b"header"


def make_store(environment: Environment, recipe: Recipe, design: str, seed: int | None) -> bool:
    """Make a store in an empty file, in one transaction; returns whether it was empty."""

    def work(transaction: lmdb.Transaction[bytes]) -> bool:
        if transaction.stat()["entries"]:
            return False
        databases = Databases.open(environment, transaction)
        environment.open_database(ADDRESSES, transaction, dupfixed=True)
        header = new_header(FORMAT, recipe, design, seed, client="lmdb")
        transaction.put(HEADER_KEY, pack(HEADER_KEY, header), db=databases.header)
        return True

    return environment.write(work)


def open_databases(environment: Environment) -> Databases:
    """Open the databases of a store; does not touch a foreign file or another version's."""
    names = {name.encode() for name in Databases._fields if name not in LATER}
    found = environment.read(lambda txn: {bytes(key) for key, _ in txn.cursor()})
    # Check the header first: another version may have other databases.
    if _HEADER in found:
        header = environment.open_database(_HEADER.decode())
        packed = environment.read(lambda txn: txn.get(HEADER_KEY, db=header))
        if packed is not None:
            unpack_header(packed)
    made = found & {name.encode() for name in LATER}
    if found - made != names:
        refuse_foreign(environment.folder, found - made - names)
    databases = Databases.open(environment)
    for name in made:
        databases = open_later(environment, databases, name.decode())
    return databases


def open_later(
    environment: Environment, databases: Databases, name: str, *, make: bool = False
) -> Databases:
    """Open a database that a store may lack, outside of transactions; with `make`, it may."""
    # The handle of a database that a transaction made is void if that transaction is given up.
    dupfixed = name in _DUPFIXED
    if make:
        environment.write(lambda txn: environment.open_database(name, txn, dupfixed=dupfixed))
    return databases._replace(**{name: environment.open_database(name, dupfixed=dupfixed)})


def unpack_header(packed: bytes | None) -> Header:
    """Read a header; refuses one that is missing, damaged, or of another format."""
    if packed is None:
        raise StoreUnusableError("the store has no header; restore it from a backup")
    try:
        header = unpack(Header, HEADER_KEY, packed)
    except StoreError as error:
        raise StoreUnusableError(
            f"{error}. Restore the store from a backup, or open it with the newest scrapy-simhash"
        ) from error
    if header.format > FORMAT:
        raise StoreUnusableError(
            f"the store has format {header.format}, but this version reads up to {FORMAT}; "
            f"upgrade scrapy-simhash (it was made with {header.libraries.get('scrapy-simhash')})"
        )
    if header.format < FORMAT:
        raise StoreUnusableError(
            f"the store has format {header.format}, from before the first release; this version "
            f"reads {FORMAT}: name another SIMHASH_STORE and crawl again"
        )
    return header


def read_header(stored: LmdbDocuments) -> Header:
    """Read the header of an open store."""
    return unpack_header(stored.transaction.get(HEADER_KEY, db=stored.databases.header))


def write_header(stored: LmdbDocuments, header: Header) -> None:
    """Write the header; every other user sees it at its next transaction."""
    stored.transaction.put(HEADER_KEY, pack(HEADER_KEY, header), db=stored.databases.header)


def table_databases(databases: Databases, header: Header) -> TableDatabases:
    """Return the databases that the tables use at present."""
    bases = databases.base0, databases.base1
    added = databases.added0, databases.added1
    return TableDatabases(
        base=bases[header.base],
        added=added[header.added],
        frozen=added[1 - header.added] if header.compacting else None,
        hot=databases.hot,
        building=bases[1 - header.base] if header.compacting else None,
    )
