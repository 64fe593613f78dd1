"""Check and mend a store: compare the entries that lead to documents with their records.

Identities, rows of fingerprints, lists of near-duplicates and notes about drops must lead to the
right documents. Mending restores them from the records. A damaged record is reported, and what
leads to it stays as it is: since its content is lost, its fingerprints stay in the tables, too.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import CrawlRecord, Record, State, Waiting
from scrapy_simhash.stores import rows
from scrapy_simhash.stores.documents import BULK_LOADED
from scrapy_simhash.stores.keyvalues import (
    ADDRESSES,
    ALIASES,
    CRAWLS,
    DUPLICATES,
    FINGERPRINTS,
    IDENTITIES,
    SETS,
    TEXTS,
    WAITING,
)
from scrapy_simhash.stores.records import (
    address_row,
    number_in,
    number_of,
    octets,
    pack_identity,
    scope_hash,
    unpack,
    unpack_identity,
)
from scrapy_simhash.tables.permutation import contains, sort_distinct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.stores.documents import Documents

Entry: TypeAlias = tuple[bytes, bytes]


def find_problems(stored: Documents) -> list[str]:
    """List all inconsistencies, one line each; reads the whole store into memory."""
    content = stored.read_tables(tolerant=True)
    held = next(content)
    problems = [
        f"fingerprint {fingerprint:016x} is not in both table 0 and {number}"
        for number, other in enumerate(content, 1)
        for fingerprint in np.setxor1d(held, other, assume_unique=True).tolist()
    ]
    problems += Mender(stored, in_memory=True).find_problems(held)
    return problems + stored.values.find_strays(stored.design)


def mend(stored: Documents) -> tuple[NDArray[np.uint64], dict[str, int]]:
    """Restore everything but the records and the tables; reads the records some times.

    Returns the fingerprints that belong in the tables, sorted, (n,), and counts, see
    `Store.rebuild`.
    """
    found = read_trusted(stored)
    mended = Mender(stored, in_memory=stored.remote).mend()
    return add_indexed(stored, found), mended


def trusted_fingerprints(stored: Documents) -> NDArray[np.uint64]:
    """List the fingerprints that belong in the tables, sorted, (n,); mends FINGERPRINTS."""
    found = read_trusted(stored)
    Mender(stored, in_memory=stored.remote).mend_rows()
    return add_indexed(stored, found)


def read_trusted(stored: Documents) -> NDArray[np.uint64]:
    """Read the fingerprints that are in two tables or more, as damage affects one; sorted."""
    content = list(stored.read_tables(tolerant=True))
    found = np.sort(np.concatenate(content))
    if len(content) > 1:
        found = sort_distinct(found[1:][found[1:] == found[:-1]])
    return found


def add_indexed(stored: Documents, held: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Add the documents' fingerprints to the trusted ones; only these remain bulk-loaded."""
    indexed, noted = stored.read_indexed()
    if stored.values.marks_bulk_loaded:
        return indexed  # marks without a row in the tables are those of an import that died
    for fingerprint in noted[~contains(held, noted)].tolist():
        stored.values.discard(FINGERPRINTS, octets(fingerprint), BULK_LOADED)
    return sort_distinct(np.concatenate([held, stored.read_indexed()[0]]))


class Mender:
    """Checks and mends a store in one transaction, which must be a writing one for mending.

    Args:
        stored: the documents.
        in_memory: keep all records, and on a server all entries; otherwise there may be more than
            fit into memory, and they are read several times.
    """

    def __init__(self, stored: Documents, *, in_memory: bool) -> None:
        self._stored = stored
        self._values = stored.values
        self._in_memory = in_memory
        self._records: dict[int, Record] = {}
        self._entries: dict[str, set[Entry]] = {}
        self.damaged: dict[int, DamagedError] = {}
        for number, record in stored.scan():
            if isinstance(record, DamagedError):
                self.damaged[number] = record
            elif in_memory:
                self._records[number] = record

    def _list_records(self) -> Iterator[tuple[int, Record]]:
        """List the undamaged records, in the order of their numbers."""
        if self._in_memory:
            yield from self._records.items()
            return
        for number, record in self._stored.scan():
            if not isinstance(record, DamagedError):
                yield number, record

    def _get(self, number: int) -> Record | None:
        """Get an undamaged record."""
        if self._in_memory or number in self.damaged:
            return self._records.get(number)
        return self._stored.get(number)

    def _scan(self, table: str) -> Iterable[Entry]:
        """Read a table: keys, and values or members."""
        if not self._values.remote:
            return self._values.scan(table)
        if table not in self._entries:
            self._entries[table] = set(self._values.scan(table))
        return self._entries[table]

    def _has(self, table: str, entry: Entry) -> bool:
        if self._values.remote:
            return entry in self._scan(table)
        if table in SETS:
            return self._values.has(table, *entry)
        return self._values.get(table, entry[0]) == entry[1]

    def find_problems(self, held: NDArray[np.uint64]) -> Iterator[str]:
        """List the problems; `held`: the fingerprints in the tables, sorted, shape (n,)."""
        for error in self.damaged.values():
            yield error.what
        yield from self._check_identities()
        yield from self._check_rows()
        yield from self._check_tables(held)
        yield from self._check_links()
        yield from self._check_addresses()
        for key in self._list_unread():
            yield f"the note about the drop of document {number_of(key)} is damaged"
        yield from self._check_crawls()
        yield from self._check_texts()
        yield from rows.find_problems(self._stored)

    def mend(self) -> dict[str, int]:
        """Correct all entries from the records; returns the counts of `Store.rebuild`."""
        strays = self._list_stray_aliases()
        for entry in strays:
            self._values.discard(ALIASES, *entry)
        missing, stray_names = self._compare_identities()
        for identity, _ in stray_names:
            self._values.delete(IDENTITIES, identity)
        for identity, value in missing:
            self._values.put(IDENTITIES, identity, value)
        self.mend_rows()
        self._mend(DUPLICATES, *self._compare_links())
        self._mend(ADDRESSES, *self._compare_addresses())
        self._mend_waiting()
        lost = rows.mend(self._stored)
        return {
            **({"damaged": len(self.damaged)} if self.damaged else {}),
            **({"aliases_dropped": len(strays)} if strays else {}),
            **({"url_rows_dropped": lost} if lost else {}),
        }

    def mend_rows(self) -> None:
        """Correct only the rows, so that each document's fingerprint leads to it."""
        missing, strays = self._compare_rows()
        self._mend(FINGERPRINTS, missing, strays)
        for key, row in strays:
            if number_of(row).bit_count() == 1:
                # No document has such a number and scope: a bit of `BULK_LOADED` was flipped.
                self._values.add(FINGERPRINTS, key, BULK_LOADED)

    def _mend(self, table: str, missing: list[Entry], strays: list[Entry]) -> None:
        """Add the missing members, and remove the strays."""
        for entry in strays:
            self._values.discard(table, *entry)
        for entry in missing:
            self._values.add(table, *entry)

    def _name_of(self, number: int) -> str:
        """Name a document for a message."""
        record = self._get(number)
        return f"document {number} ({record.url!r})" if record else f"document {number}"

    # The `_compare_` methods list the missing entries and the strays.

    def _compare_identities(self) -> tuple[list[Entry], list[Entry]]:
        own = ((record.identity, number) for number, record in self._list_records())
        wanted = ((name, pack_identity(name, number)) for name, number in own)
        missing = [entry for entry in wanted if not self._has(IDENTITIES, entry)]
        strays = [
            entry
            for entry in self._scan(IDENTITIES)
            if not (number := _lead_of(entry)) or not self._exists(number)
        ]
        # An alias leads to its document, unless it leads to another one by now.
        bad = {identity for identity, _ in strays}
        missing += [
            (identity, pack_identity(identity, number_of(key)))
            for key, identity in self._scan(ALIASES)
            if self._exists(number_of(key))
            and (identity in bad or self._values.get(IDENTITIES, identity) is None)
        ]
        return missing, strays

    def _exists(self, number: int) -> bool:
        """Whether there is a record, which may be damaged."""
        if number in self.damaged or number in self._records:
            return True
        return not self._in_memory and self._get(number) is not None

    def _list_stray_aliases(self) -> list[Entry]:
        """List the aliases of documents that do not exist."""
        return [entry for entry in self._scan(ALIASES) if not self._exists(number_of(entry[0]))]

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

    def _list_rows(self) -> Iterator[tuple[int, Entry]]:
        """List the rows that the records require, with the numbers of these."""
        for number, record in self._list_records():
            if record.state != State.DUPLICATE:
                row = scope_hash(record.scope) + octets(number)
                for fingerprint in record.fingerprints:
                    yield number, (octets(fingerprint), row)

    def _is_wanted(self, key: bytes, row: bytes) -> bool:
        number = number_of(row[8:])
        if row == BULK_LOADED or number in self.damaged:
            return True
        record = self._get(number)
        return (
            record is not None
            and record.state != State.DUPLICATE
            and number_of(key) in record.fingerprints
            and row[:8] == scope_hash(record.scope)
        )

    def _compare_rows(self) -> tuple[list[Entry], list[Entry]]:
        missing = [row for _, row in self._list_rows() if not self._has(FINGERPRINTS, row)]
        return missing, [row for row in self._scan(FINGERPRINTS) if not self._is_wanted(*row)]

    def _check_rows(self) -> Iterator[str]:
        missing, strays = self._compare_rows()
        for key, row in missing:
            name = self._name_of(number_of(row[8:]))
            yield f"{name} is not found by its fingerprint {key.hex()}"
        for key, row in strays:
            number = number_of(row[8:])
            yield f"fingerprint {key.hex()} leads to document {number}, which does not have it"

    def _check_tables(self, held: NDArray[np.uint64]) -> Iterator[str]:
        """Find fingerprints of documents, or bulk-loaded ones, that the tables lack."""
        owned = [(number_of(key), number) for number, (key, _) in self._list_rows()]
        for at in _find_missing(held, [fingerprint for fingerprint, _ in owned]):
            fingerprint, number = owned[at]
            yield f"fingerprint {fingerprint:016x} of {self._name_of(number)} is in no table"
        indexed, noted = self._stored.read_indexed()
        for fingerprint in noted[~contains(held, noted)].tolist():
            yield f"fingerprint {fingerprint:016x} is noted as bulk-loaded, but is in no table"
        if self._values.marks_bulk_loaded:
            for fingerprint in held[~contains(indexed, held)].tolist():
                yield f"fingerprint {fingerprint:016x} leads to nothing"

    def _compare_links(self) -> tuple[list[Entry], list[Entry]]:
        wanted = (
            (octets(record.original), octets(number))
            for number, record in self._list_records()
            if record.state == State.DUPLICATE
        )
        missing = [link for link in wanted if not self._has(DUPLICATES, link)]
        return missing, [
            (key, member)
            for key, member in self._scan(DUPLICATES)
            if not self._is_linked(number_of(key), number_of(member))
        ]

    def _is_linked(self, original: int, number: int) -> bool:
        """Whether a document's record says that it is a near-duplicate of this original."""
        record = self._get(number)
        if record is None:
            return number in self.damaged
        return record.state == State.DUPLICATE and record.original == original

    def _check_links(self) -> Iterator[str]:
        missing, strays = self._compare_links()
        for key, member in strays:
            original, number = number_of(key), number_of(member)
            yield f"document {number} is listed as a near-duplicate of {original}, but is not"
        for key, member in missing:
            name = self._name_of(number_of(member))
            yield f"{name} is not listed as a near-duplicate of document {number_of(key)}"
        for number, record in self._list_records():
            original = record.original if record.state == State.DUPLICATE else 0
            if original and not self._exists(original):
                name = self._name_of(number)
                yield f"{name} is a near-duplicate of document {original}, which no longer exists"

    def _compare_addresses(self) -> tuple[list[Entry], list[Entry]]:
        wanted = (
            address_row(record.url, number) for number, record in self._list_records() if record.url
        )
        missing = [row for row in wanted if not self._has(ADDRESSES, row)]
        return missing, [row for row in self._scan(ADDRESSES) if not self._is_address(row)]

    def _is_address(self, row: Entry) -> bool:
        number = number_in(row[1])
        record = self._get(number)
        if record is None:
            return number in self.damaged
        return bool(record.url) and row == address_row(record.url, number)

    def _check_addresses(self) -> Iterator[str]:
        missing, strays = self._compare_addresses()
        for _, member in missing:
            yield f"{self._name_of(number_in(member))} is not found by its URL"
        for _, member in strays:
            number = number_in(member)
            yield f"the index of URLs leads to document {number} by a URL that it does not have"

    def _list_unread(self) -> list[bytes]:
        """List the keys of notes about drops that are unreadable or another document's."""
        return [key for key, packed in self._scan(WAITING) if not self._is_waiting(key, packed)]

    def _is_waiting(self, key: bytes, packed: bytes) -> bool:
        try:
            waiting = unpack(Waiting, key, packed)
        except DamagedError:
            return False
        return self._is_linked(waiting.original, number_of(key))

    def _mend_waiting(self) -> None:
        for key in self._list_unread():
            number = number_of(key)
            if number in self.damaged:
                continue
            # The note's crawl and request are lost, but not the fact that the document waits.
            self._stored.drop_waiting(number)
            record = self._get(number)
            if record is not None and record.state == State.DUPLICATE:
                original = self._get(record.original)
                digest = original.text_digest if original is not None else b""
                self._stored.put_waiting(number, Waiting(record.original, digest, record.crawl))

    def _check_crawls(self) -> Iterator[str]:
        """Find unreadable records of crawls; one line each."""
        for key, packed in self._scan(CRAWLS):
            try:
                unpack(CrawlRecord, key, packed)
            except DamagedError as error:
                yield error.what

    def _check_texts(self) -> Iterator[str]:
        """Find texts that are unreadable or belong to no document; one line each."""
        for key, packed in self._scan(TEXTS):
            number = number_of(key)
            if not self._exists(number):
                yield f"there is a text of document {number}, but no such document"
            try:
                zlib.decompress(packed)
            except zlib.error as error:
                yield f"text of document {number} is damaged: {error}"


def _lead_of(entry: Entry) -> int:
    """Get the number of the document of an identity; 0, which none has, if it is damaged."""
    try:
        return unpack_identity(*entry)
    except StoreError:
        return 0


def _find_missing(held: NDArray[np.uint64], wanted: list[int]) -> list[int]:
    """List the indexes of the wanted fingerprints that the tables lack."""
    missing: list[int] = np.flatnonzero(~contains(held, np.array(wanted, np.uint64))).tolist()
    return missing
