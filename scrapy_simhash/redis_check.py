"""Cross-check of a Redis store: every table against every other and against the documents."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.jointables import contains, sort_distinct
from scrapy_simhash.records import CrawlRecord, DamagedError, Record, State, unpack
from scrapy_simhash.redis_keys import BULK_LOADED
from scrapy_simhash.redis_reading import (
    read_table,
    scan_hashes,
    scan_identities,
    scan_links,
    scan_records,
    scan_rows,
)
from scrapy_simhash.redis_rebuild import is_waiting
from scrapy_simhash.store_rows import scope_hash, unpack_identity
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.redis_keys import Keys
    from scrapy_simhash.redis_server import Server
    from scrapy_simhash.redis_tables import RedisTables


class Checker:
    """Compares everything with everything.

    Args:
        server: of the store.
        keys: of the store.
        tables: of its design.
    """

    def __init__(self, server: Server, keys: Keys, tables: RedisTables) -> None:
        self._server = server
        self._keys = keys
        self._tables = tables
        self._records: dict[int, Record] = {}

    def check(self) -> list[str]:
        """List everything that does not fit together, one line each; reads the whole store."""
        problems = []
        for number, record in scan_records(self._server, self._keys):
            if isinstance(record, DamagedError):
                problems.append(record.what)
            else:
                self._records[number] = record
        problems += self._check_identities()
        problems += self._check_tables()
        problems += self._check_links()
        problems += self._check_others()
        last = int(self._server.call("GET", self._keys.next) or 0)
        if self._records and last < max(self._records):
            problems.append(f"the next document would get number {last + 1}, which is taken")
        return problems

    def _check_identities(self) -> Iterator[str]:
        leads = {}
        for identity, row in scan_identities(self._server, self._keys):
            try:
                leads[identity] = unpack_identity(identity, row)
            except StoreError as error:
                yield str(error)
                continue
            if leads[identity] not in self._records:
                yield f"identity {identity.hex()} leads to no document"
        for number, record in self._records.items():
            if leads.get(record.identity) != number:
                yield f"{self._name(number)} is not found by its identity"

    def _check_tables(self) -> Iterator[str]:
        """Compare the tables with the first, with the rows, and those with the records."""
        first, problems = read_table(self._server, self._keys, self._tables, 0)
        yield from problems
        for number in range(1, len(self._tables.design.tables)):
            other, problems = read_table(self._server, self._keys, self._tables, number)
            yield from problems
            for fingerprint in np.setxor1d(first, other, assume_unique=True):
                yield f"fingerprint {fingerprint:016x} is not in both table 0 and {number}"
        rows = list(scan_rows(self._server, self._keys))
        held = sort_distinct(np.array([fingerprint for fingerprint, _, _ in rows], np.uint64))
        for fingerprint in np.setxor1d(first, held, assume_unique=True):
            where = (
                "leads to nothing"
                if contains(first, np.array([fingerprint]))[0]
                else ("is in no table")
            )
            yield f"fingerprint {fingerprint:016x} {where}"
        yield from self._check_rows(rows)

    def _check_rows(self, rows: list[tuple[int, bytes, list[int]]]) -> Iterator[str]:
        wanted = {
            (fingerprint, scope_hash(record.scope) if record.scope else b"", number)
            for number, record in self._records.items()
            if record.state != State.DUPLICATE
            for fingerprint in record.fingerprints
        }
        known = {
            (fingerprint, scope, number)
            for fingerprint, scope, numbers in rows
            if scope != BULK_LOADED
            for number in numbers
        }
        for fingerprint, _, number in sorted(known - wanted):
            yield (
                f"fingerprint {fingerprint:016x} leads to document {number}, which does not have it"
            )
        for fingerprint, _, number in sorted(wanted - known):
            yield f"{self._name(number)} is not found by its fingerprint {fingerprint:016x}"

    def _check_links(self) -> Iterator[str]:
        wanted = {
            (record.original, number)
            for number, record in self._records.items()
            if record.state == State.DUPLICATE
        }
        known = set(scan_links(self._server, self._keys))
        for original, number in sorted(known - wanted):
            yield f"document {number} is listed as a near-duplicate of {original}, and is not"
        for original, number in sorted(wanted - known):
            yield f"{self._name(number)} is not listed as a near-duplicate of document {original}"
        for original, number in sorted(wanted):
            if original and original not in self._records:
                name = self._name(number)
                yield f"{name} is a near-duplicate of document {original}, which is gone"

    def _check_others(self) -> Iterator[str]:
        """Check what is noted of drops, crawls, and texts."""
        for field, packed in self._server.call("HGETALL", self._keys.waiting).items():
            if not is_waiting(self._records.get(int(field)), int(field), packed):
                yield f"what is noted of the drop of document {int(field)} is damaged"
        for key, packed in self._server.call("HGETALL", self._keys.crawls).items():
            try:
                unpack(CrawlRecord, key, packed)
            except DamagedError as error:
                yield error.what
        for _, found in scan_hashes(self._server, self._keys.pattern("d", ":text")):
            for field, packed in found.items():
                if int(field) not in self._records:
                    yield f"there is a text of document {int(field)}, which is not there"
                try:
                    zlib.decompress(packed)
                except zlib.error as error:
                    yield f"text of document {int(field)} is damaged: {error}"

    def _name(self, number: int) -> str:
        return f"document {number} ({self._records[number].url!r})"
