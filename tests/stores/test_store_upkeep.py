"""Upkeep: documents leave the store, damaged tables are mended, designs change."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores import Store
from tests.helpers.documents import CRAWL, document, open_in_crawl, open_lmdb
from tests.helpers.lmdbrows import in_lmdb

STORE_KINDS = ("lmdb", "redis", "cluster")
A, B, C = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF


def add_done(store: Store, name: str, *fingerprints: int, **fields: object) -> int:
    """Add a document whose items came through, and return its number."""
    (verdict,) = store.find_and_add([document(name, *fingerprints, **fields)])
    store.mark_done([verdict.document], CRAWL)
    return verdict.document


def count_rows(store: Store) -> dict[str, int]:
    """Count the rows of every database but header and crawls."""

    return in_lmdb(
        store,
        lambda txn, dbs: {
            name: txn.stat(database)["entries"]
            for name, database in dbs.items()
            if name not in ("header", "crawls")
        },
    )


@pytest.mark.parametrize("home", ["lmdb"], indirect=True)
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_deleted_leaves_no_row(store: Store, packed: bool) -> None:
    original = add_done(store, "a", A, B, aliases=(b"a2", b"a3"), text="some text")
    near = [add_done(store, f"near {bit}", A ^ 1 << bit, aliases=(b"%d" % bit,)) for bit in (1, 50)]
    assert [store.get_document(number).original for number in near] == [original] * 2  # type: ignore[union-attr]
    if packed:
        store.compact()
    assert store.select(lambda stored: stored.document == original) == [original, *near]
    assert store.delete([original]) == 3
    assert set(count_rows(store).values()) == {0}
    assert store.find_and_add([document("a", A)])[0].status == "new"
    assert store.find_and_add([document("other", A)])[0].status == "near_duplicate"


@pytest.mark.parametrize("packed", [False, True])
def test_the_others_stay(store: Store, packed: bool) -> None:
    """Those that share a fingerprint, and what was bulk-loaded before or after."""
    store.bulk_load(np.array([C], np.uint64))
    first = add_done(store, "a", A, scope="one", text="text")
    second = add_done(store, "b", A, B, scope="two", text="other text", aliases=(b"b2",))
    third = add_done(store, "c", 7, scope="one")
    store.bulk_load(np.array([7], np.uint64))
    if packed:
        store.compact()
    assert store.delete([first, third, 99]) == 2
    assert store.get_document(second).text == "other text"  # type: ignore[union-attr]
    assert store.fingerprints().tolist() == sorted([A, B, C, 7])
    assert [match.document for match in store.query(A)] == [second]
    assert [match.document for match in store.query(7)] == [0]
    assert store.find_and_add([document("b3", A, scope="two")])[0].status == "near_duplicate"
    assert store.find_and_add([document("d", A, scope="one")])[0].status == "new"
    assert store.delete([second]) == 2
    assert store.fingerprints().tolist() == sorted([A, C, 7])


def test_more_documents_than_one_transaction_deletes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Originals in one, their near-duplicates in another; a kill in between leaves no half."""
    monkeypatch.setattr("scrapy_simhash.stores.store.DOCUMENTS_PER_DELETION", 3)
    draw = random.Random(5)  # noqa: S311 - reproducible
    fingerprints = [draw.getrandbits(64) for _ in range(6)]
    originals = [add_done(store, f"a{n}", each) for n, each in enumerate(fingerprints)]
    near = [add_done(store, f"b{n}", each ^ 1) for n, each in enumerate(fingerprints)]
    problems: list[str] = []
    write: Callable[..., int] = store.write

    def write_and_check(work: Callable[..., int]) -> int:
        done = write(work)
        problems.extend(store.check())
        return done

    monkeypatch.setattr(store, "write", write_and_check)
    assert store.delete(originals[1:]) == 10
    assert problems == []
    assert [stored for n in range(1, 13) if (stored := store.get_document(n))]
    assert store.select(lambda _: True) == [originals[0], near[0]]


def test_a_read_only_store_deletes_and_rebuilds_nothing(tmp_path: Path) -> None:
    with open_in_crawl(tmp_path) as store:
        add_done(store, "a", A)
    with open_lmdb(tmp_path, readonly=True) as store:
        assert store.select(lambda _: True) == [1]
        for work in (store.compact, store.rebuild, lambda: store.delete([1])):
            with pytest.raises(ValueError, match="opened read-only"):
                work()
        assert store.fingerprints().tolist() == [A]


def clusters(count: int) -> list[int]:
    """Make fingerprints of which many are few bits apart."""
    draw = random.Random(count)  # noqa: S311 - reproducible
    centres = [draw.getrandbits(64) for _ in range(count)]
    near = [
        centre ^ sum(1 << bit for bit in draw.sample(range(64), draw.randint(4, 9)))
        for centre in centres
        for _ in range(3)
    ]
    return sorted({*centres, *near})


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Store]:
    """Bulk-loaded fingerprints, packed ones of documents, and single rows."""
    with open_in_crawl(tmp_path / "mixed", distance=3, tables="4") as store:
        loaded, packed, single = (clusters(20)[start::3] for start in range(3))
        store.bulk_load(np.array(loaded, np.uint64))
        for group in (packed, single):
            pages = [document(f"page {each:x}", each, scope=f"{each:x}") for each in group]
            store.find_and_add(pages)
            if group is packed:
                store.compact()
        assert store.check() == []
        yield store


# What becomes of a packed bucket; flipped bits of all rows are in `test_check`.
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda _: None,
    "cut short": lambda packed: packed[:-1],
    "marked as too full": lambda _: b"",
}


def damage(store: Store, name: str) -> bytes:
    """Damage the first packed bucket; returns its key."""

    def work(txn: Any, dbs: Any) -> bytes:
        cursor = next(c for each in ("base0", "base1") if (c := txn.cursor(dbs[each])).first())
        key, packed = cursor.item()
        cursor.delete()
        if (damaged := DAMAGES[name](packed)) is not None:
            cursor.put(key, damaged)
        return bytes(key)

    return in_lmdb(store, work)


@pytest.mark.parametrize("name", DAMAGES)
def test_rebuilding_mends_the_tables(mixed: Store, name: str) -> None:
    before = mixed.fingerprints().tolist()
    damage(mixed, name)
    assert mixed.check() != []
    mixed.rebuild()
    assert mixed.check() == []
    assert mixed.fingerprints().tolist() == before


def test_a_bucket_cut_short_is_an_error_of_the_store(mixed: Store) -> None:
    """Which lets pages pass unjudged; a wrong verdict would not be noticed."""
    key = damage(mixed, "cut short")
    damaged = int.from_bytes(key[1:], "big") << 48  # table 0 permutes nothing
    with pytest.raises(StoreError, match=r"tables are damaged: .* rebuild"):
        mixed.find_and_add([document("any", damaged)])
