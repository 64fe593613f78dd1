"""Look after a store: compare all that is in it, and rebuild what leads to documents.

A record says which rows lead to its document. `find_problems` compares these with what is there,
and `rebuild` writes them anew; to a damaged record nothing leads then: its page is new again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.documents import Document, State
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

    _Row: TypeAlias = tuple[bytes, bytes]

_NO_WORDING = "no page is dropped for it until it was fetched again, which mends it"
_DERIVED = (IDENTITIES, FINGERPRINTS, SITES, KEYS)
_RECORDS_PER_READ = 1_000


class _Names(dict[int, str]):
    """Documents as messages name them; damaged ones, of which others tell, are ""."""

    def __missing__(self, number: int) -> str:
        return f"document {number}"


def find_problems(stored: Documents) -> Iterator[str]:
    """Find all inconsistencies, one line each; keeps what leads to documents, some 4 kB each."""
    seed, dissolved = stored.header.seed, set(map(number_of, _list_dissolved(stored)))
    # Of each table, with whether they must be there.
    leads: defaultdict[str, dict[_Row, bool]] = defaultdict(dict)
    names, fingerprints, without = _Names(), set[int](), set[int]()
    for number, each in stored.scan():
        if isinstance(each, DamagedError):
            names[number] = ""
            yield each.what
            continue
        names[number] = f"{names[number]} ({each.facts.url!r})"
        for table, row, must in list_leads(each, seed, dissolved):
            leads[table][row] = must
        if each.state != State.DUPLICATE:
            fingerprints.add(each.facts.fingerprint)
            without |= {number} if each.facts.whole_words else set()
    for table in _DERIVED:
        yield from _compare(table, stored.values.scan(table), leads.pop(table, {}), names)
    for place in range(len(stored.design.tables)):
        for bits in sorted(fingerprints ^ {*read_table(stored, place).tolist()}):
            what = "is missing in" if bits in fingerprints else "leads to nothing in"
            yield f"fingerprint {bits:016x} {what} table {place}"
    yield from _check_texts(stored.values.scan(TEXTS), without, names)


def _compare(
    table: str, rows: Iterable[_Row], left: dict[_Row, bool], names: _Names
) -> Iterator[str]:
    """Compare the rows of a table with those that lead to the records."""
    led = set[bytes]()
    for key, member in rows:
        if left.pop((key, member), None) is not None:
            # Two writers on a server may each have made a document of one identity.
            led |= {key} if table == IDENTITIES else set()
        elif (table, member) != (KEYS, DISSOLVED) and (name := names[_lead(table, member)]):
            yield f"{name} is in {table}, where it does not belong, at key {key.hex()}"
    for (key, member), must in left.items():
        if must and key not in led:
            yield f"{names[_lead(table, member)]} is missing in {table}, at key {key.hex()}"


def _check_texts(rows: Iterable[_Row], without: set[int], names: _Names) -> Iterator[str]:
    """Find unreadable texts, and documents or texts without the other."""
    for key, packed in rows:
        number = number_of(key)
        without.discard(number)
        if number not in names:
            yield f"there is a text of document {number}, but no such document"
        try:
            unpack_wording(key, packed)
        except DamagedError as error:
            yield f"{error.what}; {_NO_WORDING}"
    yield from (f"{names[number]} lacks its text; {_NO_WORDING}" for number in sorted(without))


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
        values.put(KEYS, key, DISSOLVED)
    readers, remembered, damaged = set[Reader](), set[int](), 0
    for some in cut(stored.scan(), _RECORDS_PER_READ):
        sound = [each for _, each in some if isinstance(each, Document)]
        damaged += len(some) - len(sound)
        # A new one each time, or it would remember all keys.
        keys = KeyTable(values, stored.header.seed, remembered)
        anew = replace(stored, design=design, keys=keys)
        anew.read_ahead_of(sound)
        for each in sound:
            anew.index(each)
            readers.add(each.facts.reader)
    stored.put_header(design=design.name, readers=tuple(sorted(readers)))
    return {"tables": len(design.tables)} | ({"damaged": damaged} if damaged else {})


def add_duplicates(stored: Documents, numbers: Iterable[int]) -> list[int]:
    """Add to documents their near-duplicates, and theirs in turn; leaves out what is damaged.

    Without its original, the drop of a near-duplicate cannot be explained. Reads every record.
    """
    originals = {each.number: each.original for each in stored}
    chosen = originals.keys() & numbers
    while more := {number for number, each in originals.items() if each in chosen} - chosen:
        chosen |= more
    return sorted(chosen)


def read_table(stored: Documents, number: int) -> NDArray[np.uint64]:
    """Read the distinct fingerprints of a table, sorted; leaves out damaged keys."""
    lead, key_bytes = bytes((number,)), 1 + stored.design.key_bytes
    widths = key_bytes, ROW_BYTES - key_bytes
    rows = bytearray()
    for key, rest in stored.values.scan(TABLES, lead):
        if (len(key), len(rest)) == widths:
            rows += key + rest
    permuted = np.frombuffer(rows, ROW)["permuted"].astype(np.uint64)
    return sort_distinct(stored.design.tables[number].restore(permuted))
