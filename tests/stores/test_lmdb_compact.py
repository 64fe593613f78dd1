"""Compaction: crawls go on meanwhile, `kill -9` loses nothing, pages are full afterwards."""

import random
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.store import Store
from tests.helpers.children import running
from tests.helpers.documents import document, open_in_crawl, open_lmdb
from tests.helpers.lmdbrows import in_lmdb
from tests.helpers.needing import slow_but

COUNT = 300


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tables of 300 fingerprints in some forty slices."""
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.values._ROWS_PER_SLICE", 32)
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.values._MOST_SINGLE", 4)
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.values.MOST_IN_BUCKET", 8)


def draw_fingerprints(seed: int, count: int = COUNT) -> list[int]:
    """Draw fingerprints; every fifth shares 16 bits with the others of its kind, in any table."""
    draw = random.Random(seed)  # noqa: S311 - reproducible
    drawn = [draw.getrandbits(64) for _ in range(count)]
    for number in range(0, count, 5):
        shift = 16 * (number // 5 % 4)
        drawn[number] = drawn[number] & ~(0xFFFF << shift) | 0x5A5A << shift
    return drawn


def add(store: Store, fingerprints: list[int], crawl: str = "crawl-1") -> None:
    """Each is a document of its own scope: none is a near-duplicate."""
    pages = [document(f"{each:x}", each, scope=f"{each:x}", crawl=crawl) for each in fingerprints]
    verdicts = store.find_and_add(pages)
    assert {verdict.status for verdict in verdicts} <= {"new", "unjudged"}
    store.mark_done([verdict.document for verdict in verdicts], crawl)


def make(folder: Path) -> list[int]:
    """Make a store of packed buckets, single rows, and buckets that are too full."""
    fingerprints = draw_fingerprints(1)
    with open_in_crawl(folder) as store:
        add(store, fingerprints[:200])
        store.compact()
        add(store, fingerprints[200:])
        assert store.check() == []
        assert store.stats()["buckets_too_full"] == 4
    return fingerprints


def compare(store: Store, fingerprints: list[int]) -> None:
    """All of them are there, and each is found."""
    assert store.check() == []
    assert store.fingerprints().tolist() == sorted(fingerprints)
    for each in fingerprints:
        assert [match.fingerprint for match in store.query(each, 0)] == [each]


def count_single(store: Store) -> int:
    """Count the single rows of a store that nobody compacts."""
    return in_lmdb(
        store,
        lambda txn, dbs: sum(txn.stat(dbs[name])["entries"] for name in ("added0", "added1")),
    )


def is_compacting(store: Store) -> bool:
    return in_lmdb(
        store, lambda txn, dbs: (txn.get(b"tables", db=dbs["header"]) or bytes(3))[2] > 0
    )


def test_compaction_packs_everything_and_says_how_far_it_is(tmp_path: Path) -> None:
    fingerprints = make(tmp_path)
    told: list[tuple[int, int]] = []
    with open_lmdb(tmp_path) as store:
        assert count_single(store) > 0
        store.compact(lambda done, slices: told.append((done, slices)))
        slices = told[0][1]
        assert slices > 20
        assert told == [(done, slices) for done in range(slices + 1)]
        assert count_single(store) == 0
        compare(store, fingerprints)
        store.compact()
        compare(store, fingerprints)


ADDER = """
import sys
from tests.helpers.documents import open_in_crawl
from tests.stores.test_lmdb_compact import add, draw_fingerprints

with open_in_crawl(sys.argv[1], crawl="crawl-2") as store:
    print("ready", flush=True)
    for line in sys.stdin:
        kind, *numbers = line.split()
        fingerprints = [int(number, 16) for number in numbers]
        if kind == "add":
            add(store, fingerprints, "crawl-2")
        else:
            for each in fingerprints:
                stored = store.query(each, 0)
                store.delete([match.document for match in stored])
        print("done", flush=True)
"""


def test_another_process_adds_and_deletes_meanwhile(tmp_path: Path) -> None:
    """Between any two slices; in the end what it acknowledged is what is there."""
    fingerprints = make(tmp_path)
    fresh = draw_fingerprints(2)
    kept = set(fingerprints)
    draw = random.Random(3)  # noqa: S311 - reproducible
    with open_lmdb(tmp_path) as store, running(ADDER, tmp_path) as adder:

        def meddle(done: int, _: int) -> None:
            del done
            added, removed = [fresh.pop() for _ in range(3)], draw.sample(sorted(kept), 3)
            for kind, numbers in (("add", added), ("delete", removed), ("add", removed[:1])):
                assert adder.ask(" ".join([kind, *(f"{each:x}" for each in numbers)])) == "done"
            kept.difference_update(removed[1:])
            kept.update(added)
            if draw.random() < 0.2:
                assert store.check() == []

        store.compact(meddle)
        compare(store, sorted(kept))
        store.compact()
        compare(store, sorted(kept))


@pytest.mark.slow
def test_another_process_adds_at_the_same_time(tmp_path: Path) -> None:
    """Not between slices but whenever it gets the lock."""
    fingerprints, fresh = make(tmp_path), draw_fingerprints(4, 100)
    with open_lmdb(tmp_path) as store, running(ADDER, tmp_path) as adder:
        for each in fresh:
            adder.tell(f"add {each:x}")
        store.compact()
        store.compact()
        assert [adder.read() for _ in fresh] == ["done"] * len(fresh)
        compare(store, fingerprints + fresh)
        store.compact()
        compare(store, fingerprints + fresh)


KILLED = """
import os, signal, sys
from scrapy_simhash.stores.lmdb import compacting as lmdb_compact
from scrapy_simhash.stores.lmdb import values as lmdb_values
from tests.helpers.documents import open_lmdb

lmdb_values._ROWS_PER_SLICE, lmdb_values._MOST_SINGLE, lmdb_values.MOST_IN_BUCKET = 32, 4, 8
stop = int(sys.argv[2])

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

print("ready", flush=True)
if stop < 0:
    lmdb_compact._switch = die  # after the last slice; in its transaction
with open_lmdb(sys.argv[1]) as store:
    store.compact(lambda done, slices: die() if done == stop else None)
"""


@pytest.mark.parametrize("stop", slow_but([7], [0, 1, 7, 20, -1]))
def test_kill_9_in_the_middle_loses_nothing(tmp_path: Path, stop: int) -> None:
    fingerprints, fresh = make(tmp_path), draw_fingerprints(5, 100)
    with running(KILLED, tmp_path, stop) as killed:
        assert killed.process.wait() == -9
    with open_in_crawl(tmp_path, crawl="crawl-2") as store:
        compare(store, fingerprints)
        assert is_compacting(store)
        add(store, fresh, "crawl-2")
        compare(store, fingerprints + fresh)
        store.compact()
        compare(store, fingerprints + fresh)
        assert not is_compacting(store)
        assert count_single(store) > 0  # what came after the first compaction began
        store.compact()
        compare(store, fingerprints + fresh)
        assert count_single(store) == 0


def test_a_second_compaction_is_refused(tmp_path: Path) -> None:
    fingerprints = make(tmp_path)
    refused: list[str] = []
    with open_lmdb(tmp_path) as store, open_lmdb(tmp_path) as other:

        def compact_as_well(*_: int) -> None:
            with pytest.raises(
                StoreError, match="another process is compacting the store"
            ) as caught:
                other.compact()
            refused.append(str(caught.value))

        store.compact(compact_as_well)
        assert str(tmp_path) in refused[0]
        compare(store, fingerprints)
        other.compact()


REWRITER = """
import sys
import numpy as np
from tests.helpers.documents import open_lmdb

with open_lmdb(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "bulk_load":
        store.bulk_load(np.array([1, 2, 3], np.uint64))
    else:
        store.rebuild(sys.argv[2])
    print("done", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 11])
@pytest.mark.parametrize("what", ["bulk_load", "4", "10"])
def test_whoever_rewrites_the_tables_stops_the_compaction(
    tmp_path: Path, what: str, at: int
) -> None:
    fingerprints = make(tmp_path)
    loaded = [1, 2, 3] if what == "bulk_load" else []
    with open_lmdb(tmp_path) as store, running(REWRITER, tmp_path, what) as rewriter:

        def rewrite(done: int, _: int) -> None:
            if done == at:
                assert rewriter.ask("go") == "done"

        with pytest.raises(StoreError, match=r"rewritten by another process .* nothing is lost"):
            store.compact(rewrite)
        compare(store, fingerprints + loaded)
        assert store.design == ("10" if what == "10" else "4")
        store.compact()
        compare(store, fingerprints + loaded)
