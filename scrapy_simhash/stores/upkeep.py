"""Look after a store: compare all that is in it, and rebuild what leads to documents.

A record says which rows lead to its document. `Check` compares these with what is there, and
`rebuild` writes them anew; to a damaged record nothing leads then, so that its page is new again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.documents import Record, State
from scrapy_simhash.pages.facts import Reader
from scrapy_simhash.pages.features import sort_distinct
from scrapy_simhash.stores.documents import Documents, list_leads, unpack_wording
from scrapy_simhash.stores.keys import DISSOLVED, KeyTable
from scrapy_simhash.stores.keyvalues import (
    FINGERPRINTS,
    IDENTITIES,
    KEYS,
    SITES,
    TABLES,
    TEXTS,
    cut,
    number_of,
)
from scrapy_simhash.tables import ROW, ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.tables import Design

_NO_WORDING = "no page is dropped for it until it was fetched again, which mends it"
_DERIVED = (IDENTITIES, FINGERPRINTS, SITES, KEYS)
_RECORDS_PER_READ = 1_000


class Check:
    """Compares all that is in a store; keeps records and what leads to them, some 5 kB each."""

    def __init__(self, stored: Documents) -> None:
        self._stored, self._values = stored, stored.values
        seed, dissolved = stored.header.seed, set(map(number_of, _list_dissolved(stored)))
        # Of each table, with whether they must be there.
        self._rows: defaultdict[str, dict[tuple[bytes, bytes], bool]] = defaultdict(dict)
        self._records: dict[int, Record] = {}
        self._damaged: dict[int, DamagedError] = {}
        for number, record in stored.scan():
            if isinstance(record, DamagedError):
                self._damaged[number] = record
                continue
            for table, row, must in list_leads(number, record, seed, dissolved):
                self._rows[table][row] = must
            record.facts = structs.replace(record.facts, sketch=b"")
            self._records[number] = record

    def find_problems(self) -> Iterator[str]:
        """Find all inconsistencies, one line each; reads the whole store."""
        yield from (error.what for error in self._damaged.values())
        for table in _DERIVED:
            yield from self._compare(table, self._rows.pop(table, {}))
        yield from self._compare_tables()
        yield from self._check_texts()

    def _compare(self, table: str, left: dict[tuple[bytes, bytes], bool]) -> Iterator[str]:
        """Compare a table with the rows that lead to the records."""
        led = set[bytes]()
        for row in self._values.scan(table):
            number = _lead(table, row[1])
            if row in left:
                del left[row]
                # Two writers on a server may each have made a document of one identity.
                led |= {row[0]} if table == IDENTITIES else set()
            elif (table, row[1]) != (KEYS, DISSOLVED) and number not in self._damaged:
                name, at = self._name(number), row[0].hex()
                yield f"{name} is in {table}, where it does not belong, at key {at}"
        for (key, member), must in left.items():
            if must and key not in led:
                name = self._name(_lead(table, member))
                yield f"{name} is missing in {table}, at key {key.hex()}"

    def _name(self, number: int) -> str:
        """Name a document for a message."""
        record = self._records.get(number)
        return f"document {number}" + (f" ({record.facts.url!r})" if record else "")

    def _compare_tables(self) -> Iterator[str]:
        """Compare each table with the fingerprints of the records."""
        kept = (each for each in self._records.values() if each.state != State.DUPLICATE)
        wanted = {each.facts.fingerprint for each in kept}
        for number in range(len(self._stored.design.tables)):
            held = {*read_table(self._stored, number).tolist()}
            for each in sorted(wanted ^ held):
                what = "is missing in" if each in wanted else "leads to nothing in"
                yield f"fingerprint {each:016x} {what} table {number}"

    def _check_texts(self) -> Iterator[str]:
        """Find unreadable texts, and documents or texts without the other."""
        without = {
            number
            for number, record in self._records.items()
            if record.facts.whole_words and record.state != State.DUPLICATE
        }
        for key, packed in self._values.scan(TEXTS):
            number = number_of(key)
            without.discard(number)
            if number not in self._damaged and number not in self._records:
                yield f"there is a text of document {number}, but no such document"
            try:
                unpack_wording(key, packed)
            except DamagedError as error:
                yield f"{error.what}; {_NO_WORDING}"
        for number in sorted(without):
            yield f"{self._name(number)} lacks its text; {_NO_WORDING}"


def _lead(table: str, member: bytes) -> int:
    """Return the document that a row leads to."""
    return number_of(member[8:16] if table == SITES else member[-8:])


def _list_dissolved(stored: Documents) -> list[bytes]:
    return [key for key, member in stored.values.scan(KEYS) if member == DISSOLVED]


def rebuild(stored: Documents, design: Design) -> dict[str, int]:
    """Write the tables, and all that leads to documents, anew, see `Store.rebuild`."""
    values, dissolved = stored.values, _list_dissolved(stored)
    stored.keys.dissolved.clear()
    for table in (TABLES, *_DERIVED):
        values.clear(table)
    # Other processes remember what is dissolved, so that it stays so.
    for key in dissolved:
        values.add(KEYS, key, DISSOLVED)
    readers, remembered, damaged = set[Reader](), set[int](), 0
    for some in cut(stored.scan(), _RECORDS_PER_READ):
        sound = [(number, each) for number, each in some if isinstance(each, Record)]
        damaged += len(some) - len(sound)
        # A new one each time, or it would remember all keys.
        keys = KeyTable(values, stored.header.seed, remembered)
        anew = replace(stored, design=design, keys=keys)
        anew.read_ahead_of(sound)
        for number, record in sound:
            anew.index(number, record)
            readers.add(record.facts.reader)
    stored.put_header(design=design.name, readers=tuple(sorted(readers)))
    return {"tables": len(design.tables)} | ({"damaged": damaged} if damaged else {})


def add_duplicates(stored: Documents, numbers: Iterable[int]) -> list[int]:
    """Add to documents their near-duplicates, and theirs in turn; leaves out what is damaged.

    Without its original, the drop of a near-duplicate cannot be explained. Reads every record.
    """
    originals = {number: record.original for number, record in stored}
    chosen = originals.keys() & numbers
    while more := {number for number, each in originals.items() if each in chosen} - chosen:
        chosen |= more
    return sorted(chosen)


def read_table(stored: Documents, number: int) -> NDArray[np.uint64]:
    """Read the distinct fingerprints of a table, sorted; leaves out damaged keys, see `Check`."""
    lead, key_bytes = bytes((number,)), 1 + stored.design.key_bytes
    widths = key_bytes, ROW_BYTES - key_bytes
    rows = bytearray()
    for key, rest in stored.values.scan(TABLES, lead):
        if (len(key), len(rest)) == widths:
            rows += key + rest
    permuted = np.frombuffer(rows, ROW)["permuted"].astype(np.uint64)
    return sort_distinct(stored.design.tables[number].restore(permuted))
