"""Check and mend a store: compare the rows that are there with those that its records derive.

A record says which rows lead to its document (`documents.rows_of`): what is missing is written, and
what nobody has is removed. A damaged record is reported, and what leads to it stays as it is: since
its content is lost, its fingerprints stay in the tables, too. In the sample of its host another
document takes its place. A damaged row of a lost page is made anew, without its request.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import structs

from scrapy_simhash._printable import mask_password
from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import NOBODY, CrawlRecord, Record, State
from scrapy_simhash.judging.rows import LOST, Lost, key_of_lost, pack_row, unpack_row
from scrapy_simhash.stores.documents import (
    BULK_LOADED,
    number_in,
    pack_identity,
    rows_of,
    unpack_identity,
)
from scrapy_simhash.stores.keyvalues import (
    ADDRESSES,
    ALIASES,
    CALLED,
    CRAWLS,
    DUPLICATES,
    FINGERPRINTS,
    IDENTITIES,
    NAMES,
    SAMPLE,
    SETS,
    SITES,
    TEXTS,
    cut,
    number_of,
)
from scrapy_simhash.tables.permutation import FINGERPRINT_BYTES, contains, sort_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.stores.documents import Documents

_DERIVED = (ALIASES, IDENTITIES, FINGERPRINTS, DUPLICATES, ADDRESSES, SITES, NAMES)
# Sets that only some of the documents fit into that belong there: how many.
_MOST = {SITES: SAMPLE, NAMES: CALLED}
_RECORDS_PER_READ = 1_000


class Difference(NamedTuple):
    """A row that is missing, or one that should not be there, and the document it leads to."""

    missing: bool
    table: str
    key: bytes
    member: bytes
    number: int


def find_problems(stored: Documents) -> list[str]:
    """List all inconsistencies, one line each; reads the whole store, see `Mender`."""
    return Mender(stored).find_problems()


class Mender:
    """Checks and mends a store in one transaction, which must be a writing one for mending.

    It keeps the tables in memory, 8 bytes a fingerprint each, all records but for most of their
    sketches, some 1.5 kB each, and the rows of one table at a time.
    """

    def __init__(self, stored: Documents) -> None:
        self._stored = stored
        self._values = stored.values
        self._tables = list(stored.read_tables(tolerant=True))
        # As damage affects one table, what is in two of them is trusted.
        self._trusted = self._tables[0]
        if len(self._tables) > 1:
            held = np.sort(np.concatenate(self._tables))
            self._trusted = sort_distinct(held[1:][held[1:] == held[:-1]])
        self._records: dict[int, Record] = {}
        self._damaged: dict[int, DamagedError] = {}
        for number, record in stored.scan():
            if isinstance(record, DamagedError):
                self._damaged[number] = record
            else:
                short = structs.replace(record, sketch=record.sketch[:1], link_sketch=b"")
                self._records[number] = short

    def find_problems(self) -> list[str]:
        """List all inconsistencies, one line each; reads the whole store."""
        problems = [error.what for error in self._damaged.values()]
        problems += [self._describe(each) for table in _DERIVED for each in self._compare(table)]
        problems += [f"{self._name(n)} lacks its original, {o}" for n, o in self._find_orphans()]
        wanted = self.list_fingerprints()
        for number, held in enumerate(self._tables):
            for what, some in (
                ("is missing in", wanted[~contains(held, wanted)]),
                ("leads to nothing in", held[~contains(wanted, held)]),
            ):
                problems += [
                    f"fingerprint {each:016x} {what} table {number}" for each in some.tolist()
                ]
        problems += self._check_sizes()
        problems += self._check_values()
        problems += [what for what, _ in self._find_damaged_rows()]
        return problems + self._values.find_strays()

    def mend(self) -> dict[str, int]:
        """Correct all but the records, the texts and the tables; returns what is damaged."""
        for table in _DERIVED:
            for missing, _, key, member, _ in self._compare(table):
                if table in SETS:
                    (self._values.add if missing else self._values.discard)(table, key, member)
                elif missing:
                    self._values.put(table, key, member)
                else:
                    self._values.delete(table, key)
        for some in cut(self._records.items(), _RECORDS_PER_READ):
            self._stored.prefetch_sites(record for _, record in some)
            for number, record in some:
                self._stored.enter_site(number, record)
        rows = list(self._find_damaged_rows())
        for _, key in rows:
            self._values.delete(LOST, key)
            number = number_of(key[-8:])
            if key == key_of_lost(number) and number in self._records:
                self._add_lost(number, self._records[number])
        found = {"damaged": len(self._damaged), "rows_dropped": len(rows)}
        return {name: count for name, count in found.items() if count}

    def list_fingerprints(self) -> NDArray[np.uint64]:
        """List the fingerprints that belong in the tables: sorted, shape (n,)."""
        rows = [key for key, _ in self._derive(FINGERPRINTS)]
        rows += [
            key
            for key, member in self._values.scan(FINGERPRINTS)
            if number_of(member[-8:]) in self._damaged and len(key) == FINGERPRINT_BYTES
        ]
        owned = np.frombuffer(b"".join(rows), ">u8").astype(np.uint64)
        return sort_distinct(np.concatenate([self._trusted, owned]))

    def _derive(self, table: str) -> Iterator[tuple[bytes, bytes]]:
        """List the rows of a table that the records derive."""
        for number, record in self._records.items():
            yield from rows_of(table, number, record, self._stored.seed)

    def _compare(self, table: str) -> list[Difference]:
        """List what is wrong with a table; first what should not be there."""
        there, wanted = dict.fromkeys(self._values.scan(table)), dict.fromkeys(self._derive(table))
        strays = [row for row in there if row not in wanted and self._is_stray(table, *row)]
        missing = [] if table in _MOST else [row for row in wanted if row not in there]
        if table == IDENTITIES:
            # An alias leads to its document, unless it leads to another one by now.
            named = {key for key, _ in there.keys() - set(strays)} | {key for key, _ in missing}
            missing += [
                (name, pack_identity(name, number_of(key)))
                for key, name in self._values.scan(ALIASES)
                if name not in named and self._exists(number_of(key))
            ]
        return [
            Difference(is_missing, table, *row, _lead(table, *row))
            for is_missing, rows in ((False, strays), (True, missing))
            for row in rows
        ]

    def _is_stray(self, table: str, key: bytes, member: bytes) -> bool:
        """Return True if a row that no record derives should not be there."""
        if table == FINGERPRINTS and member == BULK_LOADED:
            return not contains(self._trusted, np.array([number_of(key)], np.uint64))[0]
        number = _lead(table, key, member)
        if table in (IDENTITIES, ALIASES):
            return not self._exists(number)
        # In a sample or under a name a damaged record is of no use.
        return number not in self._damaged or table in _MOST

    def _exists(self, number: int) -> bool:
        """Return True if there is a record, which may be damaged."""
        return number in self._damaged or number in self._records

    def _name(self, number: int) -> str:
        """Name a document for a message."""
        record = self._records.get(number)
        return f"document {number}" + (f" ({record.url!r})" if record else "")

    def _describe(self, difference: Difference) -> str:
        missing, table, key, _, number = difference
        if missing:
            return f"{self._name(number)} is missing in {table}, at key {key.hex()}"
        return f"{self._name(number)} is in {table}, where it does not belong, at key {key.hex()}"

    def _find_orphans(self) -> list[tuple[int, int]]:
        """List the near-duplicates whose original is gone, and that."""
        found = self._records.items()
        pairs = [(number, each.original) for number, each in found if each.state == State.DUPLICATE]
        return [pair for pair in pairs if pair[1] and not self._exists(pair[1])]

    def _check_sizes(self) -> Iterator[str]:
        """Find sets with more documents than fit. Fewer are right: a deletion leaves a gap."""
        for table, most in _MOST.items():
            for key, count in Counter(key for key, _ in self._values.scan(table)).items():
                if count > most:
                    yield f"{table} has {count} documents, not {most}, at key {key.hex()}"

    def _check_values(self) -> Iterator[str]:
        """Find records of crawls and texts that are unreadable, and texts of no document."""
        for key, packed in self._values.scan(CRAWLS):
            try:
                unpack_row(CrawlRecord, key, packed)
            except DamagedError as error:
                yield error.what
        for key, packed in self._values.scan(TEXTS):
            if not self._exists(number_of(key)):
                yield f"there is a text of document {number_of(key)}, but no such document"
            try:
                zlib.decompress(packed)
            except zlib.error as error:
                yield f"text of document {number_of(key)} is damaged: {error}"

    def _find_damaged_rows(self) -> Iterator[tuple[str, bytes]]:
        """List the rows of lost pages that are damaged: what is wrong, and the key."""
        for key, packed in list(self._values.scan(LOST)):
            number = number_of(key[-8:])
            if number in self._damaged:
                continue
            try:
                row = unpack_row(Lost, key, packed)
            except DamagedError as error:
                yield error.what, key
                continue
            record = self._records.get(number)
            original = record.original if record and record.state == State.DUPLICATE else 0
            if original != row.page:
                yield f"{self._name(number)} is lost, but not dropped", key

    def _add_lost(self, number: int, record: Record) -> None:
        """Write that a near-duplicate is lost, though its request is."""
        if record.state != State.DUPLICATE:
            return
        crawl = self._stored.get_crawl(record.crawl)
        original = self._records.get(record.original)
        lost = Lost(
            url=mask_password(record.url),
            spider=crawl.spider if crawl is not None else "",
            crawl=record.crawl,
            page=record.original,
            text_digest=original.text_digest if original is not None else b"",
            reader=original.reader if original is not None else NOBODY,
        )
        key = key_of_lost(number)
        self._values.put(LOST, key, pack_row(key, lost))


def _lead(table: str, key: bytes, member: bytes) -> int:
    """Return the document that a row leads to; 0, which none has, for a damaged identity."""
    if table == ADDRESSES:
        return number_in(member)
    if table == SITES:
        return number_of(member[8:16])
    if table == ALIASES:
        return number_of(key)
    if table != IDENTITIES:
        return number_of(member[-8:])
    try:
        return unpack_identity(key, member)
    except StoreError:
        return 0
