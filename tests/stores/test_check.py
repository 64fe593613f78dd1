"""The cross-check finds whatever is damaged, and a rebuild mends it, in every kind of store.

Damage is done to the rows below the interface of all kinds, and in LMDB to packed rows below that.
"""

import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import xxhash

from scrapy_simhash import open_store
from scrapy_simhash.judging.documents import Document, State
from scrapy_simhash.pages.facts import SKETCH_BYTES, Facts, Reader
from scrapy_simhash.stores.documents import Documents, hash_text, pack_row
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    FINGERPRINTS,
    FORMAT,
    HEADER,
    IDENTITIES,
    SETS,
    SITES,
    TABLES,
    TEXTS,
    VALUES,
    KeyValues,
    number_of,
    octets,
)
from scrapy_simhash.stores.store import Store
from scrapy_simhash.tables import parse_design
from tests.helpers.documents import READER, document

A, B, C = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF
URL = "http://site.example/"
SKETCH = bytes(SKETCH_BYTES)
# That are flipped in each row, one at a time; 100 for nearly all of them.
BITS_PER_ROW = int(os.environ.get("SIMHASH_TEST_BITS_PER_ROW", "2"))
Row = tuple[str, bytes, bytes]


@pytest.fixture
def store(home: str) -> Iterator[Store]:
    """A store with rows of every kind."""
    with open_store(home, tables="4", rule="plain") as store:
        pages = [
            document("original", A, text="text", sketch=SKETCH),
            *(document("near", A ^ 1, sketch=SKETCH), document("of another", C, scope="t")),
            *(document("stub", 5, stub=True, sketch=SKETCH), document("scoped", B, scope="s")),
            document("waiting", B ^ 1, scope="s"),
            document("elsewhere", ~A & 2**64 - 1, url="http://other.example/", sketch=SKETCH),
        ]
        expected = ["near_duplicate" if n in {1, 5} else "new" for n in range(len(pages))]
        assert [verdict.status for verdict in store.find_and_add(pages)] == expected
        assert store.check() == []
        yield store


def read_rows(store: Store) -> set[Row]:
    """Read the rows of all tables; members of sets with their keys."""

    def work(stored: Documents) -> set[Row]:
        tables = [table for table in (*VALUES, *SETS) if table != HEADER]
        return {(table, *row) for table in tables for row in stored.values.scan(table)}

    return store.read(work)


def write_rows(gone: set[Row], come: set[Row], stored: Documents) -> None:
    values = stored.values
    for table, key, value in gone:
        if table in SETS:
            values.delete(table, key, value)
        else:
            values.delete(table, key)
    for table, key, value in come:
        values.put(table, key, value)


def row_of(table: int, fingerprint: int) -> tuple[bytes, bytes]:
    return parse_design("4").split(fingerprint)[table]


def flip(value: bytes, bit: int) -> bytes:
    return (int.from_bytes(value, "big") ^ 1 << bit).to_bytes(len(value), "big")


def flip_record(values: KeyValues, number: int) -> None:
    (packed,) = values.get(DOCUMENTS, octets(number))
    assert packed
    values.put(DOCUMENTS, octets(number), flip(packed, 9))


def lead(fingerprint: int, number: int, scope: str = "") -> tuple[bytes, bytes]:
    group = hash_text(f"{scope}\0{READER.spider}\0{READER.callback}")
    return octets(fingerprint), group + octets(number)


def enter(values: KeyValues, number: int) -> None:
    """Put a document into the sample of the first one's host."""
    (key,) = {key for key, member in values.scan(SITES) if member[8:16] == octets(1)}
    entered = [row[1] for row in values.scan(SITES) if number_of(row[1][8:16]) == number != 1]
    values.put(SITES, key, entered[0] if entered else bytes(8) + octets(number) + bytes(8))


Plant = Callable[[KeyValues], object]
MENDED: dict[str, tuple[Plant, str]] = {
    "not in another table": (
        lambda values: values.delete(TABLES, *row_of(2, A)),
        f"fingerprint {A:016x} is missing in table 2",
    ),
    "only in one table": (
        lambda values: values.put(TABLES, *row_of(0, 77)),
        f"fingerprint {77:016x} leads to nothing in table 0",
    ),
    "fingerprint leads nowhere": (
        lambda values: values.delete(FINGERPRINTS, *lead(B, 5, "s")),
        f"document 5 ('{URL}scoped') is missing in fingerprints, at key {B:016x}",
    ),
    "fingerprint leads to another": (
        lambda values: values.put(FINGERPRINTS, *lead(B, 1)),
        f"document 1 ('{URL}original') is in fingerprints, where it does not belong",
    ),
    "near-duplicate gone": (
        lambda values: values.delete(DOCUMENTS, octets(2)),
        f"document 2 is in identities, where it does not belong, at key {b'near'.hex()}",
    ),
    "identity leads to another document": (
        lambda values: values.put(IDENTITIES, b"scoped", octets(1)),
        f"document 5 ('{URL}scoped') is missing in identities, at key {b'scoped'.hex()}",
    ),
    "identity damaged": (
        lambda values: values.put(IDENTITIES, b"scoped", bytes(8)),
        f"document 0 is in identities, where it does not belong, at key {b'scoped'.hex()}",
    ),
    **{
        f"sample has document {number}": (
            partial(enter, number=number),
            f"document {number}{named} is in sites, where it does not belong",
        )
        for number, named in (
            (1, f" ('{URL}original')"),
            (2, f" ('{URL}near')"),
            (4, f" ('{URL}stub')"),
            (5, f" ('{URL}scoped')"),
            (7, " ('http://other.example/')"),
            (9, ""),
        )
    },
}
GONE: dict[str, tuple[Plant, str]] = {
    "flipped bit in a record": (
        lambda values: flip_record(values, 5),
        "damaged document at key 0000000000000005: checksum differs",
    ),
    "record of another document": (
        lambda values: values.put(DOCUMENTS, octets(5), values.get(DOCUMENTS, octets(1))[0] or b""),
        "damaged document at key 0000000000000005: checksum differs",
    ),
    "original below 0": (lambda values: values.put(DOCUMENTS, octets(5), BELOW_0), "`int` >= 0"),
    "text damaged": (
        lambda values: values.put(TEXTS, octets(1), b"no text"),
        "damaged text of document 1: checksum differs; no page is dropped for it until",
    ),
    "text of nobody": (
        lambda values: values.put(TEXTS, octets(9), values.get(TEXTS, octets(1))[0] or b""),
        "there is a text of document 9, but no such document",
    ),
}


def plant(store: Store, name: str) -> str:
    """Damage a store; returns what its check must say."""
    damage, told = (MENDED | GONE)[name]
    store.write(lambda stored: damage(stored.values))
    return told


@pytest.mark.parametrize("name", [*MENDED, *GONE])
def test_what_was_planted_is_found_and_mended(store: Store, name: str) -> None:
    before, stored = read_rows(store), store.fingerprints().tolist()
    told = plant(store, name)
    assert any(told in problem for problem in store.check()), store.check()
    done = store.rebuild()
    if name in GONE:
        assert any(told in problem for problem in store.check())
        return
    assert (store.check(), store.fingerprints().tolist()) == ([], stored)
    assert done["fingerprints"] == len(stored)
    if name != "near-duplicate gone":
        assert read_rows(store) == before


@pytest.mark.parametrize("home", ["lmdb", "memory"], indirect=True)
def test_every_flipped_bit_is_found_and_mended(store: Store) -> None:
    """Nothing is lost by it but what only the damaged row said."""
    draw = random.Random(7)  # noqa: S311 - reproducible
    sound, stored = read_rows(store), store.fingerprints().tolist()
    assert {table for table, *_ in sound} == {*VALUES, *SETS} - {HEADER}
    for row in sorted(sound):
        table, key, value = row
        octets_ = key + value if table != TABLES else key[1:] + value
        for bit in draw.sample(range(8 * len(octets_)), BITS_PER_ROW):
            flipped = key[: len(key) + len(value) - len(octets_)] + flip(octets_, bit)
            other = table, flipped[: len(key)], flipped[len(key) :]
            store.write(partial(write_rows, {row}, {other}))
            problems = store.check()
            assert problems, (row, other)
            store.rebuild()
            if table in {IDENTITIES, FINGERPRINTS, TABLES, SITES}:
                assert store.check() == [], (row, other)
                assert store.fingerprints().tolist() == stored
            now = read_rows(store)
            lost = {each for each in sound - now if each[0] != DOCUMENTS}
            assert lost <= {row} or table == DOCUMENTS, (row, other, lost)
            store.write(partial(write_rows, now - sound, sound - now))
    assert store.check() == []


@pytest.mark.parametrize("number", range(1, 7))
def test_to_a_damaged_record_nothing_leads(store: Store, number: int) -> None:
    """Nothing leads to it after a rebuild, so that its page is new; with the record all is back."""
    before, stored = read_rows(store), store.fingerprints().tolist()
    store.write(lambda documents: flip_record(documents.values, number))
    told = f"damaged document at key {number:016x}: checksum differs"
    said = [problem for problem in store.check() if "text" not in problem]
    assert said[0] == told
    assert all("leads to nothing in table" in problem for problem in said[1:])
    assert store.rebuild()["damaged"] == 1
    assert [problem for problem in store.check() if "text" not in problem] == [told]
    assert store.stats()["damaged"] == 1
    assert {*store.fingerprints().tolist()} <= {*stored}
    store.write(lambda documents: flip_record(documents.values, number))  # flipped back
    store.rebuild()
    assert (store.check(), store.fingerprints().tolist()) == ([], stored)
    assert before <= read_rows(store)


def test_a_damaged_record_makes_no_page_a_duplicate(store: Store) -> None:
    """Its page is new again, as are its copies."""
    assert "damaged" not in store.stats()
    plant(store, "flipped bit in a record")
    assert store.find_and_add([document("d", B, scope="s")])[0].status == "new"
    assert store.find_and_add([document("e", B, scope="s")])[0].status == "near_duplicate"


@pytest.mark.parametrize("table", [FINGERPRINTS, TABLES])
def test_a_damaged_row_of_a_fingerprint_drops_no_page(home: str, table: str) -> None:
    with open_store(home, rule="plain") as store:
        store.find_and_add([document("a", A)])
        other = document("b", A ^ 1, reader=Reader("spider", "another callback"))
        before = read_rows(store)
        row = min(row for row in before if row[0] == table)
        key, member = (row[1], flip(row[2], 0)) if table == TABLES else (flip(row[1], 0), row[2])
        store.write(partial(write_rows, {row}, {(table, key, member)}))
        assert store.find_and_add([other])[0].status == "new"
        assert store.check()
        store.rebuild()
        assert (store.check(), store.fingerprints().tolist()) == ([], sorted([A, A ^ 1]))


def test_what_is_damaged_is_not_deleted(store: Store) -> None:
    store.write(lambda stored: flip_record(stored.values, 2))
    assert store.delete([2]) == 0
    assert "damaged document at key 0000000000000002: checksum differs" in store.check()


NAMED: dict[str, Any] = {"scope": "site.example", "url": "http://site.example/ü", "title": "Title"}
NAMED |= {"language": "en", "heading": "Heading", "canonical": "/c", "views": "/v"}
OCTETS: dict[str, Any] = {"data_fingerprint": b"\5" * 8, "sketch": b"\3" * 4, "hidden": b"\6" * 8}
NUMBERS: dict[str, Any] = {"features": 12, "words": 13, "whole_words": 14, "time": 2.5}
NUMBERS |= {"stub": True, "reader": Reader("spider", "parse")}
FACTS = Facts(b"\1" * 20, 2**64 - 1, b"\2" * 16, **NAMED, **OCTETS, **NUMBERS)
DROP: dict[str, Any] = {"original": 3, "distance": 2, "similarity": 0.75, "new_links": 0.25}
DROP["tests"] = ("distance 2 bits",)
DROPPED = Document(FACTS, State.DUPLICATE, ("crawl-1", "crawl-2"), 1.5, **DROP)
BELOW_0: bytes = pack_row(octets(5), Document(FACTS, original=-1).row)
DIGEST = "7c8843a5dd6ae607"


def test_what_is_on_disk_never_changes() -> None:
    """Whoever must change this raises the store's format."""
    assert (FORMAT, xxhash.xxh3_64_hexdigest(pack_row(bytes(8), DROPPED.row))) == (27, DIGEST)
