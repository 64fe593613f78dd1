"""Documents in Redis: their records, identities, fingerprints and near-duplicates.

A fingerprint leads to the documents of each scope that have it; one that was bulk-loaded, for every
scope, has a row that says so. What there is under which key is drawn in `redis_keys`.
"""

from __future__ import annotations

import zlib
from itertools import chain
from typing import TYPE_CHECKING

from scrapy_simhash.records import CrawlRecord, Record, Waiting, pack, unpack
from scrapy_simhash.redis_keys import BULK_LOADED, LEADING_BYTES
from scrapy_simhash.redis_reading import scan_packed
from scrapy_simhash.redis_snapshot import cut_rows
from scrapy_simhash.redis_writes import token_of
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.store_rows import (
    number_of,
    octets,
    pack_identity,
    scope_hash,
    unpack_identity,
)
from scrapy_simhash.stored import Probe
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from scrapy_simhash.redis_keys import Keys
    from scrapy_simhash.redis_snapshot import Snapshot
    from scrapy_simhash.redis_tables import RedisTables

_REST_BYTES = 8 - LEADING_BYTES


class RedisDocuments:
    """The documents as one commit sees them, see `lmdb_documents.Documents`.

    Args:
        snapshot: what the commit read, and what it is to write.
        keys: of the store.
        tables: of the store's design.
        take_number: takes the next document number.

    Attributes:
        asked: fingerprints near to which something was sought, and within how many bits.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        keys: Keys,
        tables: RedisTables,
        take_number: Callable[[], int],
    ) -> None:
        self.snapshot = snapshot
        self.asked: dict[int, int] = {}
        self._keys = keys
        self._tables = tables
        self._take_number = take_number
        self._probes: dict[tuple[int, int, int | None, bool], Probe] = {}
        self._added: set[int] = set()
        self._removed: set[int] = set()

    def fetch(
        self,
        *,
        identities: Iterable[bytes] = (),
        probes: Iterable[tuple[int, int]] = (),
        rows: Iterable[tuple[int, str]] = (),
        records: Iterable[int] = (),
        duplicates: Iterable[int] = (),
        waiting: Iterable[int] = (),
    ) -> None:
        """Read in one round trip what will be asked for.

        Args:
            identities: for `find_number`.
            probes: fingerprint and distance, for `near`.
            rows: fingerprint and scope, for `numbers`.
            records: for `get`.
            duplicates: for `list_duplicates`.
            waiting: for `get_waiting`.
        """
        keys = self._keys
        fields = [(keys.identities(identity), identity) for identity in identities]
        for fingerprint, scope in rows:
            key, rest = self._place(fingerprint)
            fields += [(key, rest + BULK_LOADED), (key, rest + _scope(scope))]
        fields += [(keys.records(number), b"%d" % number) for number in records]
        fields += [(keys.waiting, b"%d" % number) for number in waiting]
        buckets = chain.from_iterable(self._tables.list_keys(*probe) for probe in probes)
        self.snapshot.fetch(
            fields, map(keys.duplicates, duplicates), self._tables.locate(self.snapshot, buckets)
        )

    def find_number(self, identity: bytes) -> int | None:
        value = self.snapshot.get(self._keys.identities(identity), identity)
        return None if value is None else unpack_identity(identity, value)

    def name(self, number: int, identity: bytes, *, overwrite: bool = False) -> None:
        key = self._keys.identities(identity)
        if not overwrite and self.snapshot.get(key, identity) is not None:
            return
        self.snapshot.put(key, identity, pack_identity(identity, number))
        record = self.get(number)
        if record is None or record.identity != identity:
            self.snapshot.add_member(self._keys.aliases(number), identity)

    def get(self, number: int) -> Record | None:
        packed = self.snapshot.get(self._keys.records(number), b"%d" % number)
        return None if packed is None else unpack(Record, octets(number), packed)

    def put(self, number: int, record: Record, text: str | None = None) -> None:
        field = b"%d" % number
        self.snapshot.put(self._keys.records(number), field, pack(octets(number), record))
        if text is not None:
            self.snapshot.put(self._keys.texts(number), field, zlib.compress(text.encode()))

    def get_text(self, number: int) -> str | None:
        packed = self.snapshot.get(self._keys.texts(number), b"%d" % number)
        try:
            return None if packed is None else zlib.decompress(packed).decode()
        except (zlib.error, UnicodeDecodeError) as error:
            raise StoreError(f"text of document {number} is damaged: {error}") from error

    def drop_text(self, number: int) -> None:
        self.snapshot.delete(self._keys.texts(number), b"%d" % number)

    def remove(self, number: int, identities: Iterable[bytes]) -> None:
        self.snapshot.delete(self._keys.records(number), b"%d" % number)
        self.drop_text(number)
        self.drop_waiting(number)
        self.snapshot.drop_key(self._keys.duplicates(number))
        self.snapshot.drop_key(self._keys.aliases(number))
        for identity in identities:
            if self.find_number(identity) == number:
                self.snapshot.delete(self._keys.identities(identity), identity)

    def list_identities(self, numbers: Collection[int]) -> dict[int, list[bytes]]:
        """List all identities but their own that lead to these documents."""
        self.snapshot.fetch(sets=map(self._keys.aliases, numbers))
        return {
            number: sorted(found)
            for number in numbers
            if (found := self.snapshot.members(self._keys.aliases(number)))
        }

    def next_number(self) -> int:
        # One that was reserved may be in use all the same: a server that failed over may have
        # forgotten it, and a store that is copied into this one brings its own along.
        while self._is_taken(number := self._take_number()):
            pass
        return number

    def _is_taken(self, number: int) -> bool:
        return self.snapshot.get(self._keys.records(number), b"%d" % number) is not None

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        for number, packed in scan_packed(self.snapshot.server, self._keys):
            yield number, unpack(Record, octets(number), packed)

    def list_rows(self, number: int, record: Record) -> Iterator[tuple[bytes, bytes, int]]:
        """List the rows by which a document is found: key, field and its number."""
        for fingerprint in record.fingerprints:
            key, rest = self._place(fingerprint)
            yield key, rest + _scope(record.scope), number

    def index(self, number: int, record: Record) -> None:
        for fingerprint in record.fingerprints:
            key, rest = self._place(fingerprint)
            self._touch(fingerprint, key, rest)
            self.snapshot.add_row(key, rest + _scope(record.scope), octets(number))
            self._tables.add(self.snapshot, fingerprint)
            self._added.add(fingerprint)
            self._removed.discard(fingerprint)

    def unindex(self, number: int, record: Record) -> None:
        for fingerprint in record.fingerprints:
            key, rest = self._place(fingerprint)
            self._touch(fingerprint, key, rest)
            field = rest + _scope(record.scope)
            if self.snapshot.drop_row(key, field, octets(number)) and not self._rows(fingerprint):
                self._tables.remove(self.snapshot, fingerprint)
                self._removed.add(fingerprint)
                self._added.discard(fingerprint)

    def _place(self, fingerprint: int) -> tuple[bytes, bytes]:
        """Get the hash of a fingerprint, and what its fields begin with."""
        packed = octets(fingerprint)
        return self._keys.fingerprints(packed), packed[LEADING_BYTES:]

    def _touch(self, fingerprint: int, key: bytes, rest: bytes) -> None:
        """Let others know, who asked for what is near to it, or for its documents."""
        self.snapshot.writes.fingerprints.add(fingerprint)
        self.snapshot.writes.touched.add(token_of(key, rest))

    def _rows(self, fingerprint: int) -> dict[bytes, bytes]:
        """Get the rows of a fingerprint: scope hash, or `BULK_LOADED` -> document numbers."""
        key, rest = self._place(fingerprint)
        self.snapshot.read.add(token_of(key, rest))
        return {
            field[_REST_BYTES:]: value
            for field, value in self.snapshot.get_all(key).items()
            if field.startswith(rest)
        }

    def assume_none(self, fingerprint: int, scope: str) -> None:
        """Take a fingerprint for one that no document has; it is in no table."""
        key, rest = self._place(fingerprint)
        self.snapshot.assume(key, rest + _scope(scope))

    def keep_bulk_loaded(self, fingerprints: Iterable[int]) -> None:
        """Do nothing: every bulk-loaded fingerprint has a row that says so."""

    def near(
        self, fingerprint: int, distance: int, most: int | None = None, *, bounded: bool = False
    ) -> Probe:
        self.asked[fingerprint] = max(distance, self.asked.get(fingerprint, 0))
        asked = (fingerprint, distance, most, bounded)
        if asked not in self._probes:
            self._probes[asked] = self._tables.probe(
                self.snapshot, fingerprint, distance, most, bounded=bounded
            )
        probe = self._probes[asked]
        changed = self._added | self._removed
        if not changed:
            return probe
        near = [each for each in probe.near if each[1] not in changed]
        near += [
            (bits, added)
            for added in self._added
            if (bits := hamming_distance(fingerprint, added)) <= distance
        ]
        return Probe(sorted(near)[:most], probe.complete_bits)

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        if scope is None:
            rows = self._rows(fingerprint)
        else:
            key, rest = self._place(fingerprint)
            self.snapshot.read.add(token_of(key, rest))
            fields = [rest + BULK_LOADED, rest + _scope(scope)]
            self.snapshot.fetch((key, field) for field in fields)
            rows = {
                field[_REST_BYTES:]: value
                for field in fields
                if (value := self.snapshot.get(key, field, noted=False)) is not None
            }
        bulk_loaded = rows.pop(BULK_LOADED, None) is not None
        found = [
            number
            for _, value in sorted(rows.items())
            for number in sorted(map(number_of, cut_rows(value, 8)))
        ]
        if most is not None:
            del found[max(0, most - bulk_loaded) :]
        return [0, *found] if bulk_loaded else found

    def get_crawl(self, crawl: str) -> CrawlRecord | None:
        key = crawl.encode()
        packed = self.snapshot.get(self._keys.crawls, key)
        return None if packed is None else unpack(CrawlRecord, key, packed)

    def put_crawl(self, crawl: str, record: CrawlRecord) -> None:
        key = crawl.encode()
        self.snapshot.put(self._keys.crawls, key, pack(key, record))

    def link(self, original: int, duplicate: int) -> None:
        self.snapshot.add_member(self._keys.duplicates(original), b"%d" % duplicate)

    def unlink(self, original: int, duplicate: int) -> None:
        self.snapshot.drop_member(self._keys.duplicates(original), b"%d" % duplicate)

    def list_duplicates(self, original: int) -> list[int]:
        return sorted(map(int, self.snapshot.members(self._keys.duplicates(original))))

    def is_linked(self, original: int, duplicate: int) -> bool:
        return b"%d" % duplicate in self.snapshot.members(self._keys.duplicates(original))

    def put_waiting(self, number: int, waiting: Waiting) -> None:
        self.snapshot.writes.touched.add(token_of(self._keys.waiting))
        self.snapshot.put(self._keys.waiting, b"%d" % number, pack(octets(number), waiting))

    def get_waiting(self, number: int) -> Waiting | None:
        packed = self.snapshot.get(self._keys.waiting, b"%d" % number)
        return None if packed is None else unpack(Waiting, octets(number), packed)

    def drop_waiting(self, number: int) -> None:
        self.snapshot.writes.touched.add(token_of(self._keys.waiting))
        self.snapshot.delete(self._keys.waiting, b"%d" % number)

    def has_waiting(self) -> bool:
        # To know it, a commit would have to begin anew for each drop that another one notes.
        return True

    def list_waiting(self) -> list[tuple[int, Waiting]]:
        return [
            (int(number), unpack(Waiting, octets(int(number)), packed))
            for number, packed in sorted(self.snapshot.get_all(self._keys.waiting).items())
        ]


def _scope(scope: str) -> bytes:
    """Make what follows a fingerprint in its row: nothing for the global scope."""
    return scope_hash(scope) if scope else b""
