"""An archive beneath the tables: both are probed, and merged while crawls go on."""

import random
from pathlib import Path

import numpy as np
import pytest

from scrapy_simhash import archive_writer, lmdb_archived
from scrapy_simhash.archive import Archive
from scrapy_simhash.archive_writer import write_archive
from scrapy_simhash.stores import StoreError, StoreUnavailableError, StoreUnusableError
from tests.children import running
from tests.commanding import make_run
from tests.documents import document, open_in_crawl, open_lmdb
from tests.oracle import distance_between
from tests.test_lmdb_compact import ADDER, add, compare, draw_fingerprints

LOADED = np.unique(np.random.default_rng(7).integers(0, 2**64 - 1, 40, np.uint64))
FIRST = int(LOADED[0])


def make(folder: Path) -> list[int]:
    """Make a store of an archive, documents in it, and documents above it."""
    drawn = draw_fingerprints(1, 60)
    with open_in_crawl(folder) as store:
        add(store, drawn[:40])
        assert store.bulk_load(LOADED, archived=True) == LOADED.size
        add(store, drawn[40:])
        assert store.check() == []
    return [*drawn, *LOADED.tolist()]


def archives(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.archive"))


def test_what_is_in_the_archive_makes_near_duplicates(tmp_path: Path) -> None:
    fingerprints = make(tmp_path)
    with open_in_crawl(tmp_path, crawl="crawl-2") as store:
        compare(store, fingerprints)
        pages = [
            document("like a loaded one", FIRST ^ 0b1011, crawl="crawl-2"),
            document("like a document", fingerprints[0] ^ 1, crawl="crawl-2", scope="other"),
            document("f" * 16, fingerprints[0] ^ 1, crawl="crawl-2", scope=f"{fingerprints[0]:x}"),
            document("like one above", 0x1234, crawl="crawl-2"),
            document("like that one", 0x1235, crawl="crawl-2"),
        ]
        verdicts = store.find_and_add(pages)
        statuses = [verdict.status for verdict in verdicts]
        # The second one is of another scope than the document it is like.
        assert statuses == ["near_duplicate", "new", "near_duplicate", "new", "near_duplicate"]
        match = verdicts[0].match
        assert match
        assert (match.document, match.fingerprint, match.distance) == (0, FIRST, 3)
        assert store.check() == []


def test_merging_empties_the_tables(tmp_path: Path) -> None:
    fingerprints = make(tmp_path)
    assert archives(tmp_path) == ["base-1.archive"]
    assert (tmp_path / "base-1.archive").stat().st_mode & 0o777 == 0o600
    with open_lmdb(tmp_path) as store:
        assert store._environment.read(store._tables.count_rows) == 4 * 20
        store.compact()
        assert store._environment.read(store._tables.count_rows) == 0
        compare(store, fingerprints)
        stats = store.stats()
        assert stats["fingerprints"] == len(fingerprints)
        assert stats["archive_bytes"] == (tmp_path / "base-2.archive").stat().st_size
        assert store.bulk_load(np.array([5, FIRST], np.uint64)) == 1
        compare(store, [*fingerprints, 5])
    assert archives(tmp_path) == ["base-3.archive"]


def test_only_what_is_in_the_archive_is_noted_as_removed(tmp_path: Path) -> None:
    fingerprints = make(tmp_path)
    with open_lmdb(tmp_path) as store:
        above = [match.document for each in fingerprints[40:60] for match in store.query(each, 0)]
        assert store.delete(above) == 20
        assert store.stats()["fingerprints"] == len(fingerprints) - 20
        (below,) = store.query(fingerprints[0], 0)
        store.delete([below.document])
        assert store.stats()["fingerprints"] == len(fingerprints) - 21


def test_rebuilding_brings_everything_back_into_the_tables(tmp_path: Path) -> None:
    fingerprints = make(tmp_path)
    with open_lmdb(tmp_path) as store:
        assert store.rebuild("10") == {"fingerprints": len(fingerprints), "tables": 10}
        compare(store, fingerprints)
        assert "archive_bytes" not in store.stats()
    assert archives(tmp_path) == []


def test_what_was_deleted_does_not_count_and_may_come_back(tmp_path: Path) -> None:
    fingerprints = make(tmp_path)
    gone = fingerprints[0]
    with open_in_crawl(tmp_path, crawl="crawl-2") as store:
        (match,) = store.query(gone)
        assert store.delete([match.document]) == 1
        assert store.query(gone) == []
        compare(store, fingerprints[1:])
        add(store, [gone], "crawl-2")
        compare(store, fingerprints)
        (match,) = store.query(gone)
        assert store.delete([match.document]) == 1
        store.compact()
        compare(store, fingerprints[1:])
        # Loading it takes the deletion back.
        assert store.bulk_load(np.array([gone], np.uint64)) == 1
        compare(store, fingerprints)


@pytest.fixture
def meddler(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Functions that are called before and after the archive is written."""
    called: list[object] = []
    written = lmdb_archived._write

    def write(*arguments: object) -> None:
        for each in called:
            each()  # type: ignore[operator]
        written(*arguments)  # type: ignore[arg-type]
        for each in called:
            each()  # type: ignore[operator]

    monkeypatch.setattr(lmdb_archived, "_write", write)
    return called


def test_another_process_adds_and_deletes_meanwhile(tmp_path: Path, meddler: list[object]) -> None:
    fingerprints = make(tmp_path)
    fresh, kept = draw_fingerprints(2), set(fingerprints)
    documents = sorted(set(fingerprints) - set(LOADED.tolist()))
    draw = random.Random(3)  # noqa: S311 - reproducible
    with open_lmdb(tmp_path) as store, running(ADDER, tmp_path) as adder:

        def meddle() -> None:
            added = [fresh.pop() for _ in range(10)]
            removed = draw.sample(sorted(kept.intersection(documents)), 10)
            for kind, numbers in (
                *(("add", added), ("delete", removed), ("add", removed[:5])),
                *(("delete", removed[:2]), ("delete", added[:3])),
            ):
                assert adder.ask(" ".join([kind, *(f"{each:x}" for each in numbers)])) == "done"
            kept.difference_update(removed)
            kept.update(added[3:], removed[2:5])
            compare(store, sorted(kept))

        meddler.append(meddle)
        for _ in range(3):
            store.compact()
            compare(store, sorted(kept))


KILLED = """
import os, signal, sys
from scrapy_simhash import lmdb_archived
from tests.documents import open_lmdb

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

print("ready", flush=True)
setattr(lmdb_archived, sys.argv[2], die)
with open_lmdb(sys.argv[1]) as store:
    store.compact()
"""


@pytest.mark.parametrize("at", ["_read", "_write", "_end", "switch"])
def test_kill_9_in_the_middle_loses_nothing(tmp_path: Path, at: str) -> None:
    fingerprints, fresh = make(tmp_path), draw_fingerprints(5, 20)
    with running(KILLED, tmp_path, at) as killed:
        assert killed.process.wait() == -9
    with open_in_crawl(tmp_path, crawl="crawl-2") as store:
        compare(store, fingerprints)
        add(store, fresh, "crawl-2")
        (match,) = store.query(fresh[0])
        store.delete([match.document])
        compare(store, fingerprints + fresh[1:])
        for _ in range(2):
            store.compact()
            compare(store, fingerprints + fresh[1:])
    assert len(archives(tmp_path)) == 1


def test_a_killed_first_merge_leaves_an_ordinary_store(tmp_path: Path) -> None:
    fingerprints = draw_fingerprints(1, 40)
    with open_in_crawl(tmp_path) as store:
        add(store, fingerprints)
        store._environment.write(lambda txn: lmdb_archived._begin(store._databases, txn))
        (match,) = store.query(fingerprints[0])
        store.delete([match.document])
        compare(store, fingerprints[1:])
        store.compact()  # gives up the merge
        add(store, fingerprints[:1])
        compare(store, fingerprints)
        store.bulk_load(LOADED, archived=True)
        compare(store, [*fingerprints, *LOADED.tolist()])


def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprints = make(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with open_lmdb(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(archive_writer, "_write", fail)
            with pytest.raises(StoreUnavailableError, match=r"base-2.archive .* nothing is lost"):
                store.compact()
        compare(store, fingerprints)
        assert archives(tmp_path) == ["base-1.archive"]
        store.compact()
        compare(store, fingerprints)


def test_damage_of_one_table_is_found_and_mended(tmp_path: Path) -> None:
    fingerprints = make(tmp_path)
    path = tmp_path / "base-1.archive"
    octets = bytearray(path.read_bytes())
    octets[1_200] ^= 1  # within the first table of four, after the header
    path.write_bytes(octets)
    with open_lmdb(tmp_path) as store:
        assert any("base-1.archive is damaged at octets" in each for each in store.check())
        with pytest.raises(StoreError, match="damaged at octets"):
            store.fingerprints()
        store.rebuild()
        compare(store, fingerprints)


@pytest.mark.parametrize("damage", ["gone", "cut", "foreign"])
def test_a_store_without_its_archive_is_refused(tmp_path: Path, damage: str) -> None:
    make(tmp_path)
    path = tmp_path / "base-1.archive"
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(whole[:-1])
    else:
        write_archive(path, LOADED, design="4", seed=1, overwrite=True)
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(StoreUnusableError, match=r"base-1.archive.*[Rr]estore .*from a backup"):
        open_lmdb(tmp_path)
    assert (tmp_path / "data.mdb").read_bytes() == before
    path.write_bytes(whole)
    open_lmdb(tmp_path).close()


def test_import_as_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(capsys)
    write_archive(tmp_path / "a", LOADED)
    done = run("import", "a", "--base", "--store", "s", "--json")
    assert (done.exit_code, done.err) == (0, "")
    assert done.answers[0]["new"] == LOADED.size
    assert archives(tmp_path / "s") == ["base-1.archive"]
    assert run("import", "a", "--store", "s", "--json").answers[0]["new"] == 0
    assert run("compact", "--store", "s").exit_code == 0
    assert run("check", "--store", "s").exit_code == 0
    assert run("export", "b", "--store", "s").exit_code == 0
    with Archive(tmp_path / "b") as exported:
        assert (exported.read_all() == LOADED).all()


@pytest.mark.parametrize("crowded_tables", [1, 2, 4])
def test_crowded_prefixes_of_an_archive_are_passed_over(
    tmp_path: Path, crowded_tables: int
) -> None:
    """Other tables make up for them as far as they can, and the answer says how far that is."""
    draw = random.Random(5)  # noqa: S311 - reproducible
    query = draw.getrandbits(64)
    masks = [0xFFFF << shift for shift in (48, 32, 16, 0)]
    crowd = {
        draw.getrandbits(64) & ~mask | query & mask
        for mask in masks[:crowded_tables]
        for _ in range(2_000)
    }
    near = {query ^ sum(1 << bit for bit in draw.sample(range(64), 3)) for _ in range(60)}
    others = {draw.getrandbits(64) for _ in range(2_000)}
    path = tmp_path / "a"
    stored = crowd | near | others
    write_archive(path, np.array(sorted(stored), np.uint64), design="4", block_bytes=64)
    with Archive(path) as archive:
        bounded = archive.probe(query, 3, most_rows=500)
        assert bounded.complete_bits == {1: 3, 2: 3, 4: -1}[crowded_tables]
        expected = [(distance_between(query, each), each) for each in stored]
        within = sorted(each for each in expected if each[0] <= bounded.complete_bits)
        assert [each for each in bounded.near if each[0] <= bounded.complete_bits] == within
        assert archive.probe(query, 3).near == sorted(each for each in expected if each[0] <= 3)
        assert archive.probe(query, 3).complete_bits == 3
