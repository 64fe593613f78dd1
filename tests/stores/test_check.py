"""Check and rebuild: what was planted in any kind of store, and every flipped bit in LMDB."""

import os
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from scrapy_simhash.errors import StoreError
from scrapy_simhash.judging.documents import Waiting
from scrapy_simhash.stores import Store
from scrapy_simhash.stores.documents import BULK_LOADED, Documents
from scrapy_simhash.stores.header import unpack_header
from scrapy_simhash.stores.mending import find_problems, mend
from scrapy_simhash.stores.records import (
    address_row,
    number_of,
    octets,
    pack,
    pack_identity,
    unpack,
)
from tests.helpers.documents import CRAWL, document, open_in_crawl
from tests.helpers.lmdbrows import in_lmdb
from tests.helpers.parking import plant_rows

if TYPE_CHECKING:
    from scrapy_simhash.stores.keyvalues import KeyValues

    Plant = Callable[[KeyValues], object]

A, B, C, D = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF, 0x3C3C << 40
NONE = 0x7777_0000_1111_2222


def key_and_rest(table: int, fingerprint: int) -> tuple[bytes, bytes]:
    """Where the first table, which permutes nothing, has a fingerprint."""
    return bytes([table]) + octets(fingerprint)[:2], octets(fingerprint)[2:]


def flip(octets_: bytes, bit: int = 0) -> bytes:
    flipped = int.from_bytes(octets_, "big") ^ 1 << bit
    return flipped.to_bytes(len(octets_), "big")


def damage(values: "KeyValues", table: str, key: bytes) -> None:
    values.put(table, key, flip(values.get(table, key) or b""))


PLANTS: dict[str, tuple["Plant", str]] = {
    "missing in the first table": (
        lambda values: values.discard("tables", *key_and_rest(0, A)),
        f"{A:016x} is not in both table 0 and",
    ),
    "only in one table": (
        lambda values: values.add("tables", *key_and_rest(0, NONE)),
        f"{NONE:016x} is not in both table 0 and",
    ),
    "tables empty": (
        lambda values: values.clear("tables"),
        f"fingerprint {B:016x} of document 2 ('http://site.example/b') is in no table",
    ),
    "noted as bulk-loaded": (
        lambda values: values.add("fingerprints", octets(NONE), BULK_LOADED),
        f"fingerprint {NONE:016x} is noted as bulk-loaded, but is in no table",
    ),
    "fingerprint leads nowhere": (
        lambda values: values.delete("fingerprints", octets(C)),
        f"document 2 ('http://site.example/b') is not found by its fingerprint {C:016x}",
    ),
    "fingerprint leads to another": (
        lambda values: values.add("fingerprints", octets(B), octets(0) + octets(1)),
        f"fingerprint {B:016x} leads to document 1, which does not have it",
    ),
    "fingerprint leads to nobody": (
        lambda values: values.add("fingerprints", octets(B), octets(0) + octets(9)),
        f"fingerprint {B:016x} leads to document 9, which does not have it",
    ),
    "document gone": (
        lambda values: values.delete("documents", octets(2)),
        f"identity {b'b'.hex()} leads to no document",
    ),
    "original gone": (
        lambda values: values.delete("documents", octets(1)),
        (
            "document 3 ('http://site.example/c') is a near-duplicate of document 1, which no "
            "longer exists"
        ),
    ),
    "identity gone": (
        lambda values: values.delete("identities", b"b"),
        "document 2 ('http://site.example/b') is not found by its identity",
    ),
    "alias leads nowhere": (
        lambda values: values.put("identities", b"a2", pack_identity(b"a2", 9)),
        f"identity {b'a2'.hex()} leads to no document",
    ),
    "alias leads to another": (
        lambda values: values.put("identities", b"a2", octets(2) + bytes(4)),
        f"damaged identity {b'a2'.hex()}: checksum differs",
    ),
    "alias gone": (
        lambda values: values.delete("identities", b"a2"),
        "document 1 ('http://site.example/a') is not found by its identity",
    ),
    "alias of nobody": (
        lambda values: values.add("aliases", octets(9), b"x"),
        f"identity {b'x'.hex()} is an alias of document 9, which is not there",
    ),
    "flipped bit in a record": (
        lambda values: damage(values, "documents", octets(2)),
        "damaged record at key 0000000000000002: checksum differs",
    ),
    "records exchanged": (
        lambda values: values.put(
            "documents", octets(2), values.get("documents", octets(1)) or b""
        ),
        "damaged record at key 0000000000000002: checksum differs",
    ),
    "edge of a duplicate gone": (
        lambda values: values.delete("duplicates", octets(1)),
        "document 3 ('http://site.example/c') is not listed as a near-duplicate of document 1",
    ),
    "edge of no duplicate": (
        lambda values: values.add("duplicates", octets(1), octets(2)),
        "document 2 is listed as a near-duplicate of 1, but is not",
    ),
    "edge of nobody": (
        lambda values: values.add("duplicates", octets(1), octets(9)),
        "document 9 is listed as a near-duplicate of 1, but is not",
    ),
    "not found by its URL": (
        lambda values: values.discard("addresses", *address_row("http://site.example/b", 2)),
        "document 2 ('http://site.example/b') is not found by its URL",
    ),
    "URL leads to another": (
        lambda values: values.add("addresses", *address_row("http://site.example/a", 2)),
        "the index of URLs leads to document 2 by a URL that it does not have",
    ),
    "text damaged": (lambda values: values.put("texts", octets(2), b"no zlib"), "text"),
    "text of nobody": (
        lambda values: values.put("texts", octets(9), zlib.compress(b"text")),
        "there is a text of document 9, but no such document",
    ),
}
# A record that is gone or damaged, and a text, are not made anew.
LASTING = {"document gone", "original gone", "flipped bit in a record", "records exchanged"}
LASTING |= {"text damaged", "text of nobody"}


@pytest.mark.parametrize("home", ["lmdb", "memory"], indirect=True)
@pytest.mark.parametrize("name", PLANTS)
def test_what_was_planted_is_found_and_mended(home: str, name: str) -> None:
    plant, message = PLANTS[name]
    with open_in_crawl(Path(home) if home != "memory:" else home) as store:
        pages = [document("a", A, aliases=(b"a2",)), document("b", B, C, scope="s", text="text")]
        store.find_and_add([*pages, document("c", A ^ 1)])
        store.mark_done([1], CRAWL)
        assert store.check() == []
        before = store.fingerprints().tolist()
        store.write(lambda stored: plant(stored.values))
        assert any(message in problem for problem in store.check()), store.check()
        store.rebuild()
        if name not in LASTING:
            assert store.check() == []
            assert store.fingerprints().tolist() == before
            assert store.find_and_add([document("a2", A)])[0].status == "revisit"


def test_numbers_in_use_are_passed_over(tmp_path: Path) -> None:
    """If the counter is damaged, or a server lost it."""
    with open_in_crawl(tmp_path) as store:
        store.find_and_add([document("a", A), document("b", B)])
        in_lmdb(store, lambda txn, dbs: txn.delete(b"next", db=dbs["header"]))
        assert [verdict.document for verdict in store.find_and_add([document("c", C)])] == [3]
        assert store.check() == []


def test_a_damaged_record_makes_no_page_a_duplicate_silently(store: Store) -> None:
    """Reading it is an error of the store, which lets pages pass unjudged."""
    store.find_and_add([document("a", A), document("b", B)])
    store.write(lambda stored: damage(stored.values, "documents", octets(2)))
    with pytest.raises(StoreError, match="damaged record"):
        store.find_and_add([document("d", B)])
    assert store.find_and_add([document("e", 1 << 20)])[0].status == "new"
    store.write(lambda stored: damage(stored.values, "documents", octets(2)))


def test_an_empty_store_is_consistent(tmp_path: Path) -> None:
    for name in ("4", "20"):
        with open_in_crawl(tmp_path / name, tables=name) as store:
            assert store.check() == []


@pytest.fixture
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.tables.MOST_IN_BUCKET", 2)
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.tables._MOST_SINGLE", 1)


@pytest.fixture
def every_kind(tmp_path: Path, small_buckets: None) -> Iterator[Store]:
    """A store with rows of every kind."""
    del small_buckets
    with open_in_crawl(tmp_path, tables="4") as store:
        crowd = [7 << 48 | number << 8 for number in (1, 2, 4)]
        store.bulk_load(np.array([5, C, *crowd], np.uint64))
        pages = [
            document("original", A, D, text="text"),
            document("near", A ^ 1, aliases=(b"alias",)),
            document("of a loaded one", C ^ 1, scope="s"),
            document("stub", 5, stub=True),
            document("scoped", B, scope="s"),
        ]
        found = store.find_and_add(pages)
        statuses = ["new", "near_duplicate", "near_duplicate", "new", "new"]
        assert [verdict.status for verdict in found] == statuses
        store.mark_done([1], CRAWL)
        assert store.check() == []
        yield store


@pytest.fixture
def least(tmp_path: Path, small_buckets: None) -> Iterator[Store]:
    """A store with rows of every kind: the least that has them, as every bit is flipped below."""
    del small_buckets
    with open_in_crawl(tmp_path, tables="2:1", distance=1) as store:
        store.bulk_load(np.array([5, C], np.uint64))
        store.find_and_add([document("c", C, scope="s")])  # where nothing else is compared
        store.find_and_add([document("a", A, text="text"), document("b", A ^ 1, aliases=(b"b2",))])
        crowd = [7 << 48 | number << 8 for number in (1, 2, 4)]
        store.bulk_load(np.array(crowd, np.uint64))
        store.find_and_add([document("d", B)])
        plant_rows(store, 2)
        assert store.check() == []
        yield store


class Silent(NamedTuple):
    """A flipped bit of which the check says nothing."""

    database: str
    key: bytes
    before: bytes
    after: bytes


def flip_every_bit(store: Store, *, keys: bool) -> list[Silent]:
    """Flip every bit of every value, or of every key, one at a time; lists what is not found."""

    def is_silent(stored: Documents) -> bool:
        try:
            unpack_header(stored.values.get("header", b"store") or b"")
            return not find_problems(stored)
        except StoreError:  # nobody opens it any more
            return False

    def work(stored: Documents) -> list[Silent]:
        silent = []
        transaction = stored.values.transaction  # type: ignore[attr-defined]
        rows = [
            (name, database, *row)
            for name, database in stored.values.databases.items()  # type: ignore[attr-defined]
            for row in transaction.cursor(database)
            # Of the state of the tables and the next number others tell.
            if row[0] not in (b"tables", b"next")
        ]
        for name, opened, key, value in rows:
            for bit in range(8 * len(key if keys else value)):
                row = (flip(key, bit), value) if keys else (key, flip(value, bit))
                overwritten = transaction.get(row[0], db=opened)
                transaction.delete(key, value, db=opened)
                transaction.put(*row, db=opened)
                if is_silent(stored):
                    silent.append(Silent(name, key, *((key, row[0]) if keys else (value, row[1]))))
                transaction.delete(*row, db=opened)
                if keys and overwritten is not None:
                    transaction.put(row[0], overwritten, db=opened)
                transaction.put(key, value, db=opened)
        return silent

    silent = store.write(work)
    assert store.check() == []
    return silent


@pytest.mark.slow
def test_every_flipped_bit_of_a_value_is_found(least: Store) -> None:
    """Except for those that fill up the last octet of a compressed text, and mean nothing."""
    for database, key, before, after in flip_every_bit(least, keys=False):
        if database == "aliases":
            assert key == octets(3)  # it is no alias any more, and leads to its document still
        else:
            assert database == "texts"
            assert zlib.decompress(after) == zlib.decompress(before)


def test_every_flipped_bit_of_a_key_is_found(least: Store) -> None:
    """Except that a text, and a lost alias, may be given to another document."""
    for database, _, _, after in flip_every_bit(least, keys=True):
        assert database in {"texts", "aliases"}
        assert number_of(after) in range(1, 9)


# All but the documents themselves, crawls, texts and the header; waiting drops have their own test.
MENDED = {"identities", "fingerprints", "base0", "added0", "hot", "duplicates", "addresses"}
LEADING = ("fingerprints", "identities", "duplicates", "waiting", "addresses")
# That are flipped in each row, one at a time; 100 for nearly all of them.
BITS_PER_ROW = int(os.environ.get("SIMHASH_TEST_BITS_PER_ROW", "6"))
Rows = dict[str, set[tuple[bytes, bytes]]]


def read_rows(stored: Documents) -> Rows:
    """List the rows that lead to documents."""
    return {name: set(stored.values.scan(name)) for name in LEADING}


class Mended(NamedTuple):
    """What came of a rebuilding."""

    problems_before: list[str]
    problems_after: list[str]
    fingerprints: list[int]
    rows: Rows


class UndoneError(Exception):
    """Ends a transaction without a trace."""


def damage_and_mend(store: Store, work: Callable[[Documents], object]) -> Mended:
    """Damage a store and rebuild it, all in a transaction that is undone."""
    seen: list[Mended] = []

    def try_it(stored: Documents) -> None:
        work(stored)
        before = find_problems(stored)
        stored.rewrite_tables(stored.design, mend(stored)[0])
        after, held = find_problems(stored), stored.read_fingerprints().tolist()
        seen.append(Mended(before, after, held, read_rows(stored)))
        raise UndoneError

    with pytest.raises(UndoneError):
        store.write(try_it)
    return seen[-1]


def replace(
    database: str, old: tuple[bytes, bytes], new: tuple[bytes, bytes]
) -> Callable[[Documents], None]:
    """Make what puts another row in place of one."""

    def work(stored: Documents) -> None:
        values = stored.values
        opened = values.databases[database]  # type: ignore[attr-defined]
        values.transaction.delete(*old, db=opened)  # type: ignore[attr-defined]
        values.transaction.put(*new, db=opened)  # type: ignore[attr-defined]

    return work


def test_every_flipped_bit_is_mended(every_kind: Store) -> None:
    """Nothing is lost by it but that a document's fingerprint was loaded, too."""
    draw = random.Random(7)  # noqa: S311 - reproducible
    held = every_kind.fingerprints().tolist()
    every_row = in_lmdb(
        every_kind,
        lambda txn, dbs: [(name, *row) for name in MENDED for row in txn.cursor(dbs[name])],
    )
    assert {name for name, *_ in every_row} == MENDED
    sound = every_kind.read(read_rows)
    mark = octets(5), BULK_LOADED
    assert mark in sound["fingerprints"]
    for name, key, value in sorted(every_row):
        bits = draw.sample(range(8 * len(key + value)), min(BITS_PER_ROW, 8 * len(key + value)))
        for bit in bits:
            flipped = flip(key + value, bit)
            row = flipped[: len(key)], flipped[len(key) :]
            mended = damage_and_mend(every_kind, replace(name, (key, value), row))
            where = f"{name}: {key!r} {value!r} -> {row!r}"
            assert mended.problems_before != [], where
            assert mended.problems_after == [], where
            assert mended.fingerprints == held, where
            may_be_lost = set() if row[0] == key else {mark}
            for rows, rows_before in zip(mended.rows.values(), sound.values(), strict=True):
                assert rows <= rows_before, where
                assert rows_before - rows <= may_be_lost & {(key, value)}, where


def test_flipped_bits_of_waiting_drops_are_found_and_mended(store: Store) -> None:
    """The drop still waits, unless the bit was one of its number; its request is lost."""
    store.find_and_add([document("original", A), document("near", A ^ 1)])
    store.find_and_add([], requests={2: b"request"})
    ((key, packed),) = store.read(read_rows)["waiting"]
    digest = unpack(Waiting, key, packed).text_digest
    still = {(key, pack(key, Waiting(1, digest, CRAWL)))}
    for bit in range(8 * len(key + packed)):
        flipped = flip(key + packed, bit)
        row = flipped[: len(key)], flipped[len(key) :]
        mended = damage_and_mend(store, replace("waiting", (key, packed), row))
        assert mended.problems_before != [], row
        assert mended.problems_after == [], row
        assert mended.rows["waiting"] == (still if row[0] == key else set()), row


def damage_record(store: Store, number: int) -> None:
    store.write(lambda stored: damage(stored.values, "documents", octets(number)))


@pytest.mark.parametrize("number", range(1, 6))
def test_what_a_damaged_record_had_is_kept(every_kind: Store, number: int) -> None:
    """Only the record is damaged: its rows and fingerprints are as they were, and stay so."""
    held = every_kind.fingerprints().tolist()
    rows = every_kind.read(read_rows)
    damage_record(every_kind, number)
    problems = every_kind.check()
    assert f"damaged record at key {number:016x}: checksum differs" in problems
    done = every_kind.rebuild()
    assert done == {"fingerprints": len(held), "tables": 4, "damaged": 1}
    assert every_kind.fingerprints().tolist() == held
    assert every_kind.read(read_rows) == rows
    assert every_kind.check() == problems
    assert every_kind.bulk_load(np.array([99], np.uint64)) == 1
    assert every_kind.fingerprints().tolist() == sorted([*held, 99])
    damage_record(every_kind, number)  # flipped back
    every_kind.rebuild()
    assert every_kind.check() == []


def test_a_damaged_record_is_counted(every_kind: Store) -> None:
    """That of an original, of which its group is named."""
    before = every_kind.stats()
    assert "damaged" not in before
    damage_record(every_kind, 1)
    after = every_kind.stats()
    assert (after["documents"], after["damaged"], after["done"]) == (5, 1, 0)
    assert {group["document"]: group["url"] for group in after["groups"]} == {0: None, 1: None}
    assert every_kind.table_stats() == {key: after[key] for key in every_kind.table_stats()}


def test_what_stops_at_damage_names_the_cure(every_kind: Store) -> None:
    damage_record(every_kind, 2)
    cure = (
        r"damaged record at key 0+2: .*; restore the store from a backup \(`scrapy simhash check`"
    )
    with pytest.raises(StoreError, match=cure):
        every_kind.select(lambda _: True)
    with pytest.raises(StoreError, match=cure):
        every_kind.delete([2])
    damage_record(every_kind, 2)  # flipped back
    every_kind.end_crawl(CRAWL)
    every_kind.write(lambda stored: stored.values.put("identities", b"alias", bytes(12)))
    with pytest.raises(
        StoreError, match=r"damaged identity .*; mend it with `scrapy simhash check --rebuild`"
    ):
        every_kind.delete([1])
    every_kind.rebuild()
    assert every_kind.delete([1]) == 2


def test_fingerprints_that_lead_nowhere_are_dropped(every_kind: Store) -> None:
    """And do not come into the tables."""
    held = every_kind.fingerprints().tolist()
    rows = [(77, octets(0) + octets(1)), (78, octets(0) + octets(99)), (79, BULK_LOADED)]

    def plant(stored: Documents) -> None:
        for fingerprint, row in rows:
            stored.values.add("fingerprints", octets(fingerprint), row)

    every_kind.write(plant)
    assert len(every_kind.check()) == 3
    every_kind.rebuild()
    assert every_kind.check() == []
    assert every_kind.fingerprints().tolist() == held
