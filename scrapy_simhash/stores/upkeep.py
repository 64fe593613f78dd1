"""Look after a store: check and mend it, read and write its tables as a whole.

A record says which rows lead to its document (`documents.rows_of`): what is missing is written, and
what nobody has is removed. A damaged record is reported, and what leads to it stays as it is: since
its content is lost, its fingerprints stay in the tables, too. In the sample of its host another
document takes its place.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import Record, State
from scrapy_simhash.judging.hosts import SAMPLE
from scrapy_simhash.judging.noise import Measured
from scrapy_simhash.stores.documents import (
    BULK_LOADED,
    rows_of,
    rows_of_site,
    unpack_identity,
    unpack_wording,
)
from scrapy_simhash.stores.keys import DISSOLVED, MOST_UNDER_KEY, choose_keys, keys_of
from scrapy_simhash.stores.keyvalues import (
    CALLED,
    FINGERPRINTS,
    IDENTITIES,
    KEYS,
    NAMES,
    NOISE,
    SETS,
    SITES,
    TABLES,
    TEXTS,
    cut,
    number_of,
    octets,
)
from scrapy_simhash.stores.rows import unpack_row
from scrapy_simhash.tables.arrays import contains, sort_distinct
from scrapy_simhash.tables.permutation import FINGERPRINT_BYTES
from scrapy_simhash.tables.probing import ROW, ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.pages.facts import Reader
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.tables.permutation import Design

_NO_WORDING = "no page is dropped for it until it was fetched again, which mends it"


_DERIVED = (IDENTITIES, FINGERPRINTS, SITES, NAMES, KEYS)
# Sets that only some of the documents fit into that belong there: how many.
_MOST = {SITES: SAMPLE, NAMES: CALLED}
_RECORDS_PER_READ = 1_000
_ROWS_PER_SLICE = 65_536


class Mender:
    """Checks and mends a store in one transaction, which must be a writing one for mending.

    It keeps the tables in memory, 8 bytes a fingerprint each, all records but for most of their
    sketches, some 2 kB each, and the rows of one table at a time.
    """

    def __init__(self, stored: Documents) -> None:
        self._stored = stored
        self._values = stored.values
        numbers = range(len(stored.design.tables))
        self._tables = [read_table(stored, number, tolerant=True) for number in numbers]
        # As damage affects one table, what is in two of them is trusted.
        self._trusted = self._tables[0]
        if len(self._tables) > 1:
            held = np.sort(np.concatenate(self._tables))
            self._trusted = sort_distinct(held[1:][held[1:] == held[:-1]])
        rows = self._values.scan(KEYS)
        self._dissolved = {number_of(key) for key, member in rows if member == DISSOLVED}
        self._keys: dict[int, list[int]] = {}
        self._records: dict[int, Record] = {}
        self._damaged: dict[int, DamagedError] = {}
        for number, record in stored.scan():
            if isinstance(record, DamagedError):
                self._damaged[number] = record
            else:
                if keys := keys_of(record):
                    self._keys[number] = choose_keys(keys, self._dissolved)
                sketch = record.facts.sketch[:1]
                record.facts = structs.replace(record.facts, sketch=sketch, link_sketch=b"")
                self._records[number] = record

    def find_problems(self) -> list[str]:
        """List all inconsistencies, one line each; reads the whole store."""
        problems = [error.what for error in self._damaged.values()]
        problems += [
            self._describe(table, *each) for table in _DERIVED for each in self._compare(table)
        ]
        if self._find_missing_readers():
            problems.append(
                "readers of documents are not noted, so that imports may count for none"
            )
        wanted = self.list_fingerprints()
        for number, held in enumerate(self._tables):
            for what, some in (
                ("is missing in", wanted[~contains(held, wanted)]),
                ("leads to nothing in", held[~contains(wanted, held)]),
            ):
                problems += [
                    f"fingerprint {each:016x} {what} table {number}" for each in some.tolist()
                ]
        return [*problems, *self._check_texts(), *self._check_noise()]

    def _check_noise(self) -> Iterator[str]:
        """Find unreadable noise of hosts; the next doubt about one of their pages replaces it."""
        for key, packed in self._values.scan(NOISE):
            try:
                unpack_row(Measured, key, packed)
            except DamagedError as error:
                yield f"{error.what}; it is measured anew"

    def mend(self) -> dict[str, int]:
        """Correct all but the records, the texts and the tables; returns what is damaged."""
        for table in _DERIVED:
            for missing, key, member in self._compare(table):
                if table in SETS:
                    (self._values.add if missing else self._values.discard)(table, key, member)
                elif missing:
                    self._values.put(table, key, member)
                else:
                    self._values.delete(table, key)
        self._stored.keys.forget()
        for key in self._find_full(KEYS, MOST_UNDER_KEY):
            self._stored.keys.dissolve(number_of(key))
        for some in cut(self._records.items(), _RECORDS_PER_READ):
            rows = (row for each in some for row in rows_of_site(*each, self._stored.seed))
            self._values.fetch((table, key) for table, key, _ in rows)
            for number, record in some:
                self._stored.enter_site(number, record)
        if readers := self._find_missing_readers():
            self._stored.put_readers(readers)
        return {"damaged": len(self._damaged)} if self._damaged else {}

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
        if table == KEYS:
            for number, keys in self._keys.items():
                yield from ((octets(key), octets(number)) for key in keys)
            return
        for number, record in self._records.items():
            yield from rows_of(table, number, record, self._stored.seed)

    def _compare(self, table: str) -> list[tuple[bool, bytes, bytes]]:
        """List the rows that should not be in a table, and then those that are missing (True)."""
        there, wanted = dict.fromkeys(self._values.scan(table)), dict.fromkeys(self._derive(table))
        strays = [row for row in there if row not in wanted and self._is_stray(table, *row)]
        missing = [] if table in _MOST else [row for row in wanted if row not in there]
        if table == IDENTITIES:
            # Two writers on a server may each have made a document of one identity.
            led = {key for key, member in wanted if (key, member) in there}
            missing = [row for row in missing if row[0] not in led]
        return [*((False, *row) for row in strays), *((True, *row) for row in missing)]

    def _is_stray(self, table: str, key: bytes, member: bytes) -> bool:
        """Return True if a row that no record derives should not be there."""
        if table == FINGERPRINTS and member == BULK_LOADED:
            return not contains(self._trusted, np.array([number_of(key)], np.uint64))[0]
        if table == KEYS and member == DISSOLVED:
            return False
        number = _lead(table, key, member)
        # In a sample or under a name a damaged record is of no use.
        return number not in self._damaged or table in _MOST

    def _exists(self, number: int) -> bool:
        """Return True if there is a record, which may be damaged."""
        return number in self._damaged or number in self._records

    def _name(self, number: int) -> str:
        """Name a document for a message."""
        record = self._records.get(number)
        return f"document {number}" + (f" ({record.facts.url!r})" if record else "")

    def _describe(self, table: str, missing: bool, key: bytes, member: bytes) -> str:
        what = f"is missing in {table}" if missing else f"is in {table}, where it does not belong"
        return f"{self._name(_lead(table, key, member))} {what}, at key {key.hex()}"

    def _find_full(self, table: str, most: int) -> dict[bytes, int]:
        """Find the sets that have more members than fit, with their sizes."""
        sizes = Counter(key for key, _ in self._values.scan(table))
        return {key: count for key, count in sizes.items() if count > most}

    def _check_texts(self) -> Iterator[str]:
        """Find unreadable texts, and documents or texts without the other."""
        without = {
            number
            for number, record in self._records.items()
            if record.facts.whole_words and record.state != State.DUPLICATE
        }
        for key, packed in self._values.scan(TEXTS):
            without.discard(number_of(key))
            if not self._exists(number_of(key)):
                yield f"there is a text of document {number_of(key)}, but no such document"
            try:
                unpack_wording(key, packed)
            except DamagedError as error:
                yield f"{error.what}; {_NO_WORDING}"
        for number in sorted(without):
            yield f"{self._name(number)} lacks its text; {_NO_WORDING}"

    def _find_missing_readers(self) -> set[Reader]:
        """Find all readers of the documents if some of them are not noted, or that is damaged."""
        there = {record.facts.reader for record in self._records.values()}
        with suppress(StoreError):
            if there.issubset(self._stored.list_readers()):
                return set()
        return there


def _lead(table: str, key: bytes, member: bytes) -> int:
    """Return the document that a row leads to; 0, which none has, for a damaged identity."""
    if table == SITES:
        return number_of(member[8:16])
    if table != IDENTITIES:
        return number_of(member[-8:])
    try:
        return unpack_identity(key, member)
    except StoreError:
        return 0


# The fingerprints as a whole: those in the tables, and those that have no document


def read_table(stored: Documents, number: int, *, tolerant: bool = False) -> NDArray[np.uint64]:
    """Read the distinct fingerprints of a table, sorted; `tolerant` passes over damage."""
    table = stored.design.tables[number]
    parts = [np.empty(0, np.uint64)]
    slices = _read_rows(stored, number, tolerant=tolerant)
    parts += [np.frombuffer(rows, ROW)["permuted"] for rows in slices]
    return sort_distinct(table.restore(np.concatenate(parts)))


def count_fingerprints(stored: Documents) -> int:
    """Count the fingerprints in the tables; reads one table, and passes over damage."""
    return sum(map(len, _read_rows(stored, 0, tolerant=True))) // ROW.itemsize


def _read_rows(stored: Documents, number: int, *, tolerant: bool) -> Iterator[bytes]:
    """Read the rows of a table, in slices of some megabytes.

    A key or a rest of a wrong width is damaged: that is a StoreError, but `tolerant` leaves it out.
    """
    key_bytes = 1 + stored.design.key_bytes
    for some in cut(stored.values.scan(TABLES, bytes((number,))), _ROWS_PER_SLICE):
        odd = {key for key, rest in some if (len(key), len(key + rest)) != (key_bytes, ROW_BYTES)}
        if odd and not tolerant:
            raise StoreError(
                f"the tables are damaged: key {min(odd).hex()} has no whole rows; mend them with "
                "`scrapy simhash check --rebuild`"
            )
        yield b"".join(key + rest for key, rest in some if key not in odd)


def rewrite_tables(stored: Documents, design: Design, fingerprints: NDArray[np.uint64]) -> None:
    """Replace the tables by those of a design, with distinct fingerprints, shape (n,)."""
    stored.values.clear(TABLES)
    for number, table in enumerate(design.tables):
        rows = np.empty(fingerprints.size, ROW)
        rows["table"], rows["permuted"] = number, np.sort(table.permute(fingerprints))
        stored.values.fill(rows.tobytes(), key_bytes=1 + design.key_bytes)


def _list_indexed(stored: Documents, *, noted: bool = False) -> NDArray[np.uint64]:
    """List the fingerprints that have rows, or are noted as bulk-loaded; sorted, shape (n,)."""
    rows = stored.values.scan(FINGERPRINTS)
    keys = (number_of(key) for key, member in rows if not noted or member == BULK_LOADED)
    return sort_distinct(np.fromiter(keys, np.uint64))


def list_bulk_loaded(stored: Documents) -> NDArray[np.uint64]:
    """List the fingerprints that were bulk-loaded; sorted, shape (n,)."""
    held = read_table(stored, 0)
    alone = held[~contains(_list_indexed(stored), held)]
    return sort_distinct(np.concatenate([alone, _list_indexed(stored, noted=True)]))


def note_bulk_loaded(stored: Documents, fingerprints: NDArray[np.uint64]) -> None:
    """Record that these were bulk-loaded, as far as the tables do not tell; shape (n,)."""
    indexed = _list_indexed(stored)
    for fingerprint in indexed[contains(fingerprints, indexed)].tolist():
        stored.values.add(FINGERPRINTS, octets(fingerprint), BULK_LOADED)


def list_stubs(stored: Documents) -> NDArray[np.uint64]:
    """List the fingerprints that only stubs have, and were not bulk-loaded; sorted, shape (n,)."""
    of_stubs: set[int] = set()
    others: set[int] = set()
    for _, record in stored:
        if record.state != State.DUPLICATE:
            (of_stubs if record.facts.stub else others).add(record.facts.fingerprint)
    left = [each for each in of_stubs - others if stored.numbers(each, most=1) != [0]]
    return np.array(sorted(left), np.uint64)
