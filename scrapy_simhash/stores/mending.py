"""Check and mend a store: compare the entries that lead to documents with their records.

Identities, rows of fingerprints, lists of near-duplicates and notes about drops must lead to the
right documents. Mending restores them from the records. A damaged record is reported, and what
leads to it stays as it is: since its content is lost, its fingerprints stay in the tables, too. In
the sample of its host another document takes its place.

A damaged row of a wall or of a link that is owed is dropped: a wall is recognised again, and the
page of the link is fetched when a callback yields its address again.
"""

from __future__ import annotations

import zlib
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec import structs

from scrapy_simhash._printable import mask_password
from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import NOBODY, CrawlRecord, Record, State
from scrapy_simhash.judging.rows import (
    OWED,
    Owed,
    Sink,
    Why,
    pack_row,
    unpack_row,
)
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.stores.documents import (
    BULK_LOADED,
    leads_of,
    number_in,
    pack_identity,
    rows_of_site,
    scope_hash,
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
    ROW_TABLES,
    SAMPLE,
    SITES,
    TEXTS,
    cut,
    number_of,
    octets,
)
from scrapy_simhash.tables.permutation import contains, sort_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec
    from numpy.typing import NDArray

    from scrapy_simhash.stores.documents import Documents

Entry: TypeAlias = tuple[bytes, bytes]

# Sets whose members each lead to a document, see `_list_entries`: what is said of one that is
# missing, and of one that should not be there.
_LEADING = {
    FINGERPRINTS: (
        "{name} is not found by its fingerprint {key}",
        "fingerprint {key} leads to document {number}, which does not have it",
    ),
    DUPLICATES: (
        "{name} is not listed as a near-duplicate of document {original}",
        "document {number} is listed as a near-duplicate of {original}, but is not",
    ),
    ADDRESSES: (
        "{name} is not found by its URL",
        "the index of URLs leads to document {number} by a URL that it does not have",
    ),
}
# Sets that have documents of a host, of which only some fit in: what they are, and how many fit.
_OF_SITES = {SITES: ("the sample", SAMPLE), NAMES: ("a name", CALLED)}
# The kinds of rows, and the length of their keys.
_KINDS: dict[str, tuple[type[msgspec.Struct], int]] = {
    "owed": (Owed, 0),
    "sinks": (Sink, 8),
}
_RECORDS_PER_READ = 1_000


def find_problems(stored: Documents) -> list[str]:
    """List all inconsistencies, one line each; reads the whole store, see `Mender`."""
    content = stored.read_tables(tolerant=True)
    held = next(content)
    problems = [
        f"fingerprint {fingerprint:016x} is not in both table 0 and {number}"
        for number, other in enumerate(content, 1)
        for fingerprint in np.setxor1d(held, other, assume_unique=True).tolist()
    ]
    problems += Mender(stored).find_problems(held)
    problems += [problem for problem, _, _ in _find_damaged_rows(stored)]
    return problems + stored.values.find_strays(stored.design)


def mend(stored: Documents) -> tuple[NDArray[np.uint64], dict[str, int]]:
    """Restore everything but the records and the tables; reads the whole store, see `Mender`.

    Returns the fingerprints that belong in the tables, sorted, (n,), and counts, see
    `Store.rebuild`.
    """
    trusted = _read_trusted(stored)
    mended = Mender(stored).mend()
    damaged = list(_find_damaged_rows(stored))
    for _, table, key in damaged:
        stored.drop_row(table, key)
    dropped = {"rows_dropped": len(damaged)} if damaged else {}
    return _add_indexed(stored, trusted), mended | dropped


def trusted_fingerprints(stored: Documents) -> NDArray[np.uint64]:
    """List the fingerprints that belong in the tables, sorted, (n,).

    But on a server, where marks tell which were bulk-loaded, it mends FINGERPRINTS for that, and
    reads the records.
    """
    trusted = _read_trusted(stored)
    if not stored.remote:
        Mender(stored).mend_rows()
    return _add_indexed(stored, trusted)


def _read_trusted(stored: Documents) -> NDArray[np.uint64]:
    """Read the fingerprints that are in two tables or more, as damage affects one; sorted."""
    if stored.remote:
        return np.empty(0, np.uint64)  # the marks are trusted
    content = list(stored.read_tables(tolerant=True))
    found = np.sort(np.concatenate(content))
    if len(content) > 1:
        found = sort_distinct(found[1:][found[1:] == found[:-1]])
    return found


def _add_indexed(stored: Documents, held: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Add the documents' fingerprints to the trusted ones; only these remain bulk-loaded."""
    indexed, noted = stored.read_indexed()
    if stored.remote:
        return indexed  # marks without a row in the tables are those of an import that died
    for fingerprint in noted[~contains(held, noted)].tolist():
        stored.values.discard(FINGERPRINTS, octets(fingerprint), BULK_LOADED)
    return sort_distinct(np.concatenate([held, stored.read_indexed()[0]]))


class Mender:
    """Checks and mends a store in one transaction, which must be a writing one for mending.

    It keeps all records in memory, but for most of their sketches: some 1.5 kB each, and the rows
    of one table at a time.
    """

    def __init__(self, stored: Documents) -> None:
        self._stored = stored
        self._values = stored.values
        self._records: dict[int, Record] = {}
        self.damaged: dict[int, DamagedError] = {}
        for number, record in stored.scan():
            if isinstance(record, DamagedError):
                self.damaged[number] = record
            else:
                short = structs.replace(record, sketch=record.sketch[:1], link_sketch=b"")
                self._records[number] = short

    def _exists(self, number: int) -> bool:
        """Whether there is a record, which may be damaged."""
        return number in self.damaged or number in self._records

    def _name_of(self, number: int) -> str:
        """Name a document for a message."""
        record = self._records.get(number)
        return f"document {number} ({record.url!r})" if record else f"document {number}"

    def find_problems(self, held: NDArray[np.uint64]) -> Iterator[str]:
        """List the problems; `held`: the fingerprints in the tables, sorted, shape (n,)."""
        for error in self.damaged.values():
            yield error.what
        yield from self._check_identities()
        for table, (absent, stray) in _LEADING.items():
            missing, strays = self._compare(table)
            for said, entries in ((absent, missing), (stray, strays)):
                for key, member in entries:
                    number = _lead_of(table, (key, member))
                    name, original = self._name_of(number), number_of(key)
                    yield said.format(name=name, key=key.hex(), number=number, original=original)
        yield from self._check_sites()
        yield from self._check_tables(held)
        yield from self._check_originals()
        for key in self._list_unread():
            yield f"what is owed for the drop of document {number_of(key[-8:])} is damaged"
        yield from self._check_crawls()
        yield from self._check_texts()

    def mend(self) -> dict[str, int]:
        """Correct all entries from the records; returns the counts of `Store.rebuild`."""
        aliases = self._list_stray_aliases()
        for entry in aliases:
            self._values.discard(ALIASES, *entry)
        missing, strays = self._compare_identities()
        for identity, _ in strays:
            self._values.delete(IDENTITIES, identity)
        for identity, value in missing:
            self._values.put(IDENTITIES, identity, value)
        self.mend_rows()
        self._mend(DUPLICATES)
        self._mend(ADDRESSES)
        self._mend_sites()
        self._mend_lost()
        return {
            **({"damaged": len(self.damaged)} if self.damaged else {}),
            **({"aliases_dropped": len(aliases)} if aliases else {}),
        }

    def mend_rows(self) -> None:
        """Correct only the rows, so that each document's fingerprint leads to it."""
        for key, row in self._mend(FINGERPRINTS):
            if number_of(row).bit_count() == 1:
                # No document has such a number and scope: a bit of `BULK_LOADED` was flipped.
                self._values.add(FINGERPRINTS, key, BULK_LOADED)

    def _mend(self, table: str) -> list[Entry]:
        """Remove the strays of a set, and add what is missing; returns the strays."""
        missing, strays = self._compare(table)
        for entry in strays:
            self._values.discard(table, *entry)
        for entry in missing:
            self._values.add(table, *entry)
        return strays

    def _compare(self, table: str) -> tuple[list[Entry], list[Entry]]:
        """List the entries that a set of `_LEADING` lacks, and the strays."""
        there, wanted = dict.fromkeys(self._values.scan(table)), self._list_wanted(table)
        missing = [entry for entry in wanted if entry not in there]
        strays = there.keys() - set(wanted) - {entry for entry in there if entry[1] == BULK_LOADED}
        return missing, sorted(e for e in strays if _lead_of(table, e) not in self.damaged)

    def _list_wanted(self, table: str) -> list[Entry]:
        """List the entries of a table that the records name."""
        return [
            entry
            for number, record in self._records.items()
            for entry in _list_entries(table, number, record)
        ]

    def _compare_identities(self) -> tuple[list[Entry], list[Entry]]:
        """List the identities that lead nowhere, or elsewhere, and those that lead to nothing."""
        there = dict(self._values.scan(IDENTITIES))
        strays = {e[0]: e[1] for e in there.items() if not self._exists(_lead_of(IDENTITIES, e))}
        wanted = self._list_wanted(IDENTITIES)
        missing = [(name, value) for name, value in wanted if there.get(name) != value]
        # An alias leads to its document, unless it leads to another one by now.
        missing += [
            (name, pack_identity(name, number_of(key)))
            for key, name in self._values.scan(ALIASES)
            if self._exists(number_of(key)) and (name in strays or name not in there)
        ]
        return missing, list(strays.items())

    def _list_stray_aliases(self) -> list[Entry]:
        """List the aliases of documents that do not exist."""
        aliases = self._values.scan(ALIASES)
        return [entry for entry in aliases if not self._exists(number_of(entry[0]))]

    def _check_identities(self) -> Iterator[str]:
        missing, strays = self._compare_identities()
        for _, value in missing:
            yield f"{self._name_of(number_of(value[:8]))} is not found by its identity"
        for entry in strays:
            try:
                unpack_identity(*entry)
            except StoreError as error:
                yield str(error)
            else:
                yield f"identity {entry[0].hex()} leads to no document"
        for key, identity in self._list_stray_aliases():
            number = number_of(key)
            yield f"identity {identity.hex()} is an alias of document {number}, which is not there"

    def _check_sites(self) -> Iterator[str]:
        """Find documents in samples and under names where they do not belong, and sets too large.

        Too small ones are right, too: a deletion leaves a gap.
        """
        for table, (what, most) in _OF_SITES.items():
            for _, group in groupby(self._values.scan(table), itemgetter(0)):
                entries = list(group)
                for entry in entries:
                    number = _lead_of(table, entry)
                    fault = "" if number in self.damaged else self._find_fault(table, entry)
                    if fault:
                        yield f"{self._name_of(number)} is in {what} of a host, but {fault}"
                # Where others commit meanwhile, the next one to add a document takes some out.
                if len(entries) > most and not self._values.remote:
                    numbers = [_lead_of(table, entry) for entry in entries]
                    records = (self._records[each] for each in numbers if each in self._records)
                    hosts = {host_of(record.url) for record in records}
                    host = min(hosts, default="")
                    yield f"{what} of host {host!r} has {len(entries)} documents, not {most}"

    def _find_fault(self, table: str, entry: Entry) -> str:
        """Say why a document does not belong where it is in a table; "" if it does."""
        number = _lead_of(table, entry)
        record = self._records.get(number)
        if record is None:
            return "is not there"
        rows = rows_of_site(number, record, self._stored.seed)
        if (table, *entry) in rows:
            return ""
        faults = {
            "is a near-duplicate": record.state == State.DUPLICATE
            or (table == SITES and bool(record.original)),
            "is a stub": record.stub and table == SITES,
            "has no sketch": not record.sketch,
            "has no host": not host_of(record.url),
            "is called otherwise": table == NAMES,
            "is of another host": entry[0] not in {row[1] for row in rows},
        }
        return next((fault for fault, found in faults.items() if found), "with a wrong digest")

    def _mend_sites(self) -> None:
        """Make each sample that of the records, the smallest ones; and fill the sets of names."""
        for table in _OF_SITES:
            entries = self._values.scan(table)
            for entry in [entry for entry in entries if self._find_fault(table, entry)]:
                self._values.discard(table, *entry)
        for some in cut(self._records.items(), _RECORDS_PER_READ):
            self._stored.prefetch_sites(record for _, record in some)
            for number, record in some:
                self._stored.enter_site(number, record)

    def _check_tables(self, held: NDArray[np.uint64]) -> Iterator[str]:
        """Find fingerprints of documents, or bulk-loaded ones, that the tables lack."""
        owned = [
            (number_of(key), number_of(row[8:])) for key, row in self._list_wanted(FINGERPRINTS)
        ]
        lacking = ~contains(held, np.array([fingerprint for fingerprint, _ in owned], np.uint64))
        for at in np.flatnonzero(lacking).tolist():
            fingerprint, number = owned[at]
            yield f"fingerprint {fingerprint:016x} of {self._name_of(number)} is in no table"
        indexed, noted = self._stored.read_indexed(tolerant=True)
        for fingerprint in noted[~contains(held, noted)].tolist():
            yield f"fingerprint {fingerprint:016x} is noted as bulk-loaded, but is in no table"
        if self._stored.remote:
            for fingerprint in held[~contains(indexed, held)].tolist():
                yield f"fingerprint {fingerprint:016x} leads to nothing"

    def _check_originals(self) -> Iterator[str]:
        """Find near-duplicates whose original is gone; one line each."""
        for number, record in self._records.items():
            original = record.original if record.state == State.DUPLICATE else 0
            if original and not self._exists(original):
                name = self._name_of(number)
                yield f"{name} is a near-duplicate of document {original}, which no longer exists"

    def _list_unread(self) -> list[bytes]:
        """List the keys of lost pages that are unreadable, or another document's."""
        rows = self._values.scan(OWED, Why.LOST.letter)
        return [key for key, packed in rows if not self._is_lost(key, packed)]

    def _is_lost(self, key: bytes, packed: bytes) -> bool:
        try:
            original = unpack_row(Owed, key, packed).page
        except DamagedError:
            return False
        number = number_of(key[-8:])
        record = self._records.get(number)
        if record is None or record.state != State.DUPLICATE:
            return number in self.damaged
        return record.original == original

    def _mend_lost(self) -> None:
        for key in self._list_unread():
            number = number_of(key[-8:])
            if number in self.damaged:
                continue
            # The request is lost, but not the fact that the page may be.
            self._values.delete(OWED, key)
            record = self._records.get(number)
            if record is not None and record.state == State.DUPLICATE:
                crawl = self._stored.get_crawl(record.crawl)
                original = self._records.get(record.original)
                owed = Owed(
                    url=mask_password(record.url),
                    why=Why.LOST,
                    spider=crawl.spider if crawl is not None else "",
                    crawl=record.crawl,
                    page=record.original,
                    text_digest=original.text_digest if original is not None else b"",
                    reader=original.reader if original is not None else NOBODY,
                    time=record.time,
                    identity=record.identity,
                )
                self._values.put(OWED, key, pack_row(key, owed))

    def _check_crawls(self) -> Iterator[str]:
        """Find unreadable records of crawls; one line each."""
        for key, packed in self._values.scan(CRAWLS):
            try:
                unpack_row(CrawlRecord, key, packed)
            except DamagedError as error:
                yield error.what

    def _check_texts(self) -> Iterator[str]:
        """Find texts that are unreadable or belong to no document; one line each."""
        for key, packed in self._values.scan(TEXTS):
            number = number_of(key)
            if not self._exists(number):
                yield f"there is a text of document {number}, but no such document"
            try:
                zlib.decompress(packed)
            except zlib.error as error:
                yield f"text of document {number} is damaged: {error}"


def _list_entries(table: str, number: int, record: Record) -> list[Entry]:
    """List the entries of a table that lead to a document, as its record says."""
    if table == IDENTITIES:
        return [(record.identity, pack_identity(record.identity, number))]
    if table != FINGERPRINTS:
        return [lead[1:] for lead in leads_of(number, record) if lead[0] == table]
    if record.state == State.DUPLICATE:
        return []
    row = scope_hash(record.scope) + octets(number)
    return [(octets(fingerprint), row) for fingerprint in record.fingerprints]


def _lead_of(table: str, entry: Entry) -> int:
    """Tell to which document an entry leads; 0, which none has, for a damaged identity."""
    if table == ADDRESSES:
        return number_in(entry[1])
    if table == SITES:
        return number_of(entry[1][8:16])
    if table != IDENTITIES:
        return number_of(entry[1][-8:])
    try:
        return unpack_identity(*entry)
    except StoreError:
        return 0


def _find_damaged_rows(stored: Documents) -> Iterator[tuple[str, str, bytes]]:
    """List the damaged rows of ROW_TABLES: what is wrong, the table and the key."""
    for table in ROW_TABLES:
        for key, row in stored.scan_rows(table):
            problem = _find_damage(table, key, row)
            if problem and not (table == OWED and key.startswith(Why.LOST.letter)):  # see `Mender`
                yield problem, table, key


def _find_damage(table: str, key: bytes, row: bytes) -> str:
    """Return what is wrong with a row, or ""."""
    kind, length = _KINDS[table]
    if length and len(key) != length:
        return f"the table {table} has a row at key {key.hex()}, which is none of its keys"
    try:
        unpack_row(kind, key, row)
    except DamagedError as error:
        return f"table {table}: {error.what}"
    return ""
