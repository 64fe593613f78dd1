"""Upkeep: documents leave the store, damaged tables are mended, designs change."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, document, open_in_crawl, open_lmdb
from tests.helpers.lmdbrows import in_lmdb

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
    monkeypatch.setattr("scrapy_simhash.stores.upkeep.DOCUMENTS_PER_DELETION", 3)
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
