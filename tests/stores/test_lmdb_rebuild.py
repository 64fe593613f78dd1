"""Rebuilding mends every flipped bit outside of records, and keeps what damaged records had."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from scrapy_simhash.stores.lmdb.documents import BULK_LOADED
from scrapy_simhash.stores.lmdb.mending import check_documents, rebuild

from scrapy_simhash.errors import StoreError
from scrapy_simhash.judging.documents import Waiting
from scrapy_simhash.stores.records import octets, pack, pack_identity, unpack
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, document, open_in_crawl

if TYPE_CHECKING:
    import lmdb

    Work = Callable[["lmdb.Transaction[bytes]"], object]

A, B, C, D = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF, 0x3C3C << 40
# All but the documents themselves, crawls, texts and the header; waiting drops have their own test.
MENDED = {"identities", "fingerprints", "base0", "base1", "added0", "added1", "hot", "duplicates"}
# That are flipped in each row, one at a time; 100 for nearly all of them.
BITS_PER_ROW = int(os.environ.get("SIMHASH_TEST_BITS_PER_ROW", "6"))


@pytest.fixture
def every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store with rows of every kind."""
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.tables.MOST_IN_BUCKET", 2)
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.tables._MOST_SINGLE", 1)
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


def flip(octets_: bytes, bit: int) -> bytes:
    flipped = int.from_bytes(octets_, "big") ^ 1 << bit
    return flipped.to_bytes(len(octets_), "big")


Rows = dict[str, set[tuple[bytes, bytes]]]


def read_rows(store: Store, transaction: "lmdb.Transaction[bytes]") -> Rows:
    """List the rows that lead to documents."""
    return {
        name: set(transaction.cursor(getattr(store._databases, name)))
        for name in ("fingerprints", "identities", "duplicates", "waiting")
    }


class Mended(NamedTuple):
    """What came of a rebuilding."""

    problems_before: list[str]
    problems_after: list[str]
    fingerprints: list[int]
    rows: Rows


class UndoneError(Exception):
    """Ends a transaction without a trace."""


def damage_and_mend(store: Store, damage: "Work") -> Mended:
    """Damage a store and rebuild it, all in a transaction that is undone."""
    seen: list[Mended] = []

    def work(transaction: "lmdb.Transaction[bytes]") -> None:
        stored = store._refresh(transaction)
        damage(transaction)
        before = check_documents(stored)
        rebuild(stored, "4")
        after = check_documents(stored)
        held = next(stored.tables.read_tables()).tolist()
        seen.append(Mended(before, after, held, read_rows(store, transaction)))
        raise UndoneError

    with pytest.raises(UndoneError):
        store._environment.write(work)
    return seen[-1]


def test_every_flipped_bit_is_found_and_mended(every_kind: Store) -> None:
    """Nothing is lost by it but a damaged alias, or that a document's fingerprint was loaded."""
    draw = random.Random(7)  # noqa: S311 - reproducible
    stored = every_kind.fingerprints().tolist()
    every_row = every_kind._environment.read(
        lambda transaction: [
            (name, database, *row)
            for name, database in every_kind._databases._asdict().items()
            if name in MENDED
            for row in transaction.cursor(database)
        ]
    )
    assert {name for name, *_ in every_row} == MENDED - {"base1", "added1"}
    sound = every_kind._environment.read(lambda txn: read_rows(every_kind, txn))
    alias, mark = (b"alias", pack_identity(b"alias", 2)), (octets(5), BULK_LOADED)
    assert alias in sound["identities"]
    assert mark in sound["fingerprints"]
    for name, database, key, value in every_row:
        bits = draw.sample(range(8 * len(key + value)), min(BITS_PER_ROW, 8 * len(key + value)))
        for bit in bits:
            flipped = flip(key + value, bit)
            row = flipped[: len(key)], flipped[len(key) :]

            def damage(
                txn: "lmdb.Transaction[bytes]",
                old: tuple[bytes, bytes] = (key, value),
                new: tuple[bytes, bytes] = row,
                db: "lmdb._Database" = database,
            ) -> None:
                txn.delete(*old, db=db)
                txn.put(*new, db=db)

            mended = damage_and_mend(every_kind, damage)
            where = f"{name}: {key!r} {value!r} -> {row!r}"
            assert mended.problems_before != [], where
            assert mended.problems_after == [], where
            assert mended.fingerprints == stored, where
            may_be_lost = {alias} if row[0] == key else {alias, mark}
            for rows, rows_before in zip(mended.rows.values(), sound.values(), strict=True):
                assert rows <= rows_before, where
                assert rows_before - rows <= may_be_lost & {(key, value)}, where


def test_flipped_bits_of_waiting_drops_are_found_and_mended(store: Store) -> None:
    """The drop still waits, unless the bit was one of its number; its request is lost."""
    store.find_and_add([document("original", A), document("near", A ^ 1)])
    store.find_and_add([], requests={2: b"request"})
    ((key, packed),) = store._environment.read(lambda txn: read_rows(store, txn))["waiting"]
    digest = unpack(Waiting, key, packed).text_digest
    still = {(key, pack(key, Waiting(1, digest, CRAWL)))}
    for bit in range(8 * len(key + packed)):
        flipped = flip(key + packed, bit)
        row = flipped[: len(key)], flipped[len(key) :]

        def damage(txn: "lmdb.Transaction[bytes]", row: tuple[bytes, bytes] = row) -> None:
            txn.delete(key, db=store._databases.waiting)
            txn.put(*row, db=store._databases.waiting)

        mended = damage_and_mend(store, damage)
        assert mended.problems_before != [], row
        assert mended.problems_after == [], row
        assert mended.rows["waiting"] == (still if row[0] == key else set()), row


def damage_record(store: Store, number: int) -> None:
    def work(transaction: "lmdb.Transaction[bytes]") -> None:
        packed = transaction.get(octets(number), b"", db=store._databases.documents)
        transaction.put(octets(number), flip(packed, 9), db=store._databases.documents)

    store._environment.write(work)


@pytest.mark.parametrize("number", range(1, 6))
def test_what_a_damaged_record_had_is_kept(every_kind: Store, number: int) -> None:
    """Only the record is damaged: its rows and fingerprints are as they were, and stay so."""
    stored = every_kind.fingerprints().tolist()
    rows = every_kind._environment.read(lambda txn: read_rows(every_kind, txn))
    damage_record(every_kind, number)
    problems = every_kind.check()
    assert f"damaged record at key {number:016x}: checksum differs" in problems
    done = every_kind.rebuild()
    assert done == {"fingerprints": len(stored), "tables": 4, "damaged": 1}
    assert every_kind.fingerprints().tolist() == stored
    assert every_kind._environment.read(lambda txn: read_rows(every_kind, txn)) == rows
    assert every_kind.check() == problems
    assert every_kind.bulk_load(np.array([99], np.uint64)) == 1
    assert every_kind.fingerprints().tolist() == sorted([*stored, 99])
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
    every_kind._environment.write(
        lambda txn: txn.put(b"alias", bytes(12), db=every_kind._databases.identities)
    )
    with pytest.raises(
        StoreError, match=r"damaged identity .*; mend it with `scrapy simhash check --rebuild`"
    ):
        every_kind.delete([1])
    assert every_kind.rebuild()["aliases_dropped"] == 1
    assert every_kind.delete([1]) == 2


def test_fingerprints_that_lead_nowhere_are_dropped(every_kind: Store) -> None:
    """And do not come into the tables."""
    stored = every_kind.fingerprints().tolist()
    rows = [(77, octets(0) + octets(1)), (78, octets(0) + octets(99)), (79, BULK_LOADED)]

    def plant(transaction: "lmdb.Transaction[bytes]") -> None:
        for fingerprint, row in rows:
            transaction.put(octets(fingerprint), row, db=every_kind._databases.fingerprints)

    every_kind._environment.write(plant)
    assert len(every_kind.check()) == 3
    every_kind.rebuild()
    assert every_kind.check() == []
    assert every_kind.fingerprints().tolist() == stored
