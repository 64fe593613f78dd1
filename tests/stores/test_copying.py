"""Compaction and backups: all or nothing, of what was acknowledged, and good to go on from."""

import os
import random
import signal
import stat
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.copying import back_up, compact
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.commands.test_commands_upkeep import damage
from tests.helpers.children import OPENER, running
from tests.helpers.commanding import Run
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but
from tests.stores.test_lmdb_store_processes import WRITER
from tests.stores.test_lmdb_store_processes import compare as compare_told

# Backups of one store while it is written; 20 is the long version.
ROUNDS = int(os.environ.get("SIMHASH_TEST_BACKUPS", "3"))


def draw_fingerprints(seed: int, count: int = 300) -> list[int]:
    """Draw fingerprints; every fifth shares 16 bits with the others of its kind, in any table."""
    draw = random.Random(seed)  # noqa: S311 - reproducible
    drawn = [draw.getrandbits(64) for _ in range(count)]
    for number in range(0, count, 5):
        shift = 16 * (number // 5 % 4)
        drawn[number] = drawn[number] & ~(0xFFFF << shift) | 0x5A5A << shift
    return drawn


def add(store: Store, fingerprints: list[int]) -> None:
    """Each is a document of its own scope: none is a near-duplicate."""
    store.find_and_add([document(f"{each:x}", each, scope=f"{each:x}") for each in fingerprints])


def compare(store: Store, fingerprints: list[int]) -> None:
    """All of them are there, and each is found."""
    assert (store.check(), store.fingerprints().tolist()) == ([], sorted(fingerprints))
    for each in fingerprints[::7]:
        assert [match.fingerprint for match in store.query(each, 0)] == [each]


@pytest.fixture
def fingerprints(tmp_path: Path) -> list[int]:
    """Those in the folder `store`, some of which were added after it was compacted."""
    drawn = draw_fingerprints(1)
    with open_lmdb(tmp_path / "store") as store:
        add(store, drawn[:200])
    compact(tmp_path / "store")
    with open_lmdb(tmp_path / "store") as store:
        add(store, drawn[200:])
    return drawn


def files(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


def test_a_compact_file_is_smaller_and_loses_nothing(
    tmp_path: Path, fingerprints: list[int]
) -> None:
    folder, fresh = tmp_path / "store", draw_fingerprints(2, 40)
    data, sizes = folder / "data.mdb", list[int]()
    for _ in range(3):
        sizes.append(data.stat().st_size)
        compact(folder)
        with open_lmdb(folder) as store:
            compare(store, fingerprints)
    assert sizes[0] > sizes[1] == sizes[2] == data.stat().st_size
    assert stat.S_IMODE(data.stat().st_mode) == 0o600
    with open_lmdb(folder) as store:
        add(store, fresh)
        gone = fingerprints[::3]
        for each in gone:
            store.delete([match.document for match in store.query(each, 0)])
        compare(store, [*set(fingerprints).difference(gone), *fresh])


KILLED = """
import os, signal, sys
from pathlib import Path
from scrapy_simhash import _files
from scrapy_simhash.stores import copying
from scrapy_simhash.stores.opening import open_as_it_is

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

print("ready", flush=True)
how, at, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
if at == "copying":
    calls = iter(range(2))
    cut = copying.cut
    copying.cut = lambda *args: cut(*args) if next(calls, None) is not None else die()
elif at == "syncing":
    os.fsync = die
elif at == "replacing":
    Path.rename = Path.replace = die
else:
    _files.sync_folder = die
if how == "compact":
    copying.compact(folder / "store")
with open_as_it_is(str(folder / "store")) as store:
    copying.back_up(store, folder / "backup")
"""
MOMENTS = ["copying", "syncing", "replacing", "ending"]


@pytest.mark.parametrize("at", slow_but(MOMENTS[:1], MOMENTS))
def test_a_compaction_that_is_killed_loses_nothing(
    tmp_path: Path, fingerprints: list[int], at: str
) -> None:
    folder, fresh = tmp_path / "store", draw_fingerprints(5, 100)
    before = (folder / "data.mdb").stat().st_size
    with running(KILLED, "compact", at, tmp_path) as killed:
        assert killed.process.wait() == -signal.SIGKILL
    assert ((folder / "data.mdb").stat().st_size < before) == (at == "ending")
    with open_lmdb(folder) as store:
        compare(store, fingerprints)
        add(store, fresh)
    compact(folder)
    assert not list(folder.glob(".data.mdb.*"))
    with open_lmdb(folder) as store:
        compare(store, fingerprints + fresh)


@pytest.mark.parametrize("at", slow_but(["syncing"], MOMENTS[:3]))
@pytest.mark.usefixtures("fingerprints")
def test_of_a_backup_that_is_killed_there_is_none(tmp_path: Path, at: str) -> None:
    with running(KILLED, "back up", at, tmp_path) as killed:
        assert killed.process.wait() == -signal.SIGKILL
    partial, _ = sorted(path.name for path in tmp_path.iterdir())
    assert (partial.startswith(".backup."), partial.endswith(".partial")) == (True, True)
    with open_lmdb(tmp_path / "store") as store:
        assert store.check() == []
        back_up(store, tmp_path / "backup")


@pytest.mark.parametrize("readonly", slow_but([True], [False, True]))
@pytest.mark.usefixtures("fingerprints")
def test_no_compaction_while_somebody_has_it_open(tmp_path: Path, *, readonly: bool) -> None:
    folder = tmp_path / "store"
    before = (folder / "data.mdb").read_bytes()
    with running(OPENER, folder, readonly) as other:
        said = f"is open.*, in process {other.process.pid}: wait until"
        with pytest.raises(StoreUnusableError, match=said):
            compact(folder)
    with open_lmdb(folder, readonly=readonly), pytest.raises(StoreUnusableError, match="open"):
        compact(folder)
    assert (folder / "data.mdb").read_bytes() == before


def test_nobody_opens_it_while_it_is_compacted(
    tmp_path: Path, fingerprints: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, refused = tmp_path / "store", list[bool]()

    def look(_: int) -> None:
        for readonly in (False, True):
            with pytest.raises(StoreUnusableError, match="being made or packed, in process"):
                open_store(str(folder), readonly=readonly)
            refused.append(readonly)

    with monkeypatch.context() as patched:
        patched.setattr("scrapy_simhash.stores.copying.os.fsync", look)
        patched.setattr("scrapy_simhash.stores.lmdb._OPENING_SECONDS", 0)
        compact(folder)
    assert refused[:2] == [False, True]
    with open_lmdb(folder) as store:
        compare(store, fingerprints)


def test_a_backup_while_another_process_writes(tmp_path: Path) -> None:
    """Whatever was acknowledged before a backup began is in it, and all of it fits together."""
    told: list[list[str]] = []
    with (
        running(WRITER, tmp_path / "store", "crawl-1") as writer,
        open_lmdb(tmp_path / "store", readonly=True) as store,
    ):
        writer.tell("go")
        for number in range(ROUNDS):
            told += [writer.read().split(" ", 1) for _ in range(100)]
            made = back_up(store, tmp_path / f"backup-{number}")
            with open_lmdb(tmp_path / f"backup-{number}", readonly=True) as copy:
                assert (copy.check(), copy.stats()["documents"]) == ([], made["documents"])
                compare_told(copy, told, number)


def test_a_target_that_is_there_is_refused(tmp_path: Path) -> None:
    open_lmdb(tmp_path / "store").close()
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with open_lmdb(tmp_path / "store") as store:
        for name in ("folder", "file", "link", "store"):
            with pytest.raises(FileExistsError, match=f"{name} exists already"):
                back_up(store, tmp_path / name)
        with pytest.raises(ValueError, match="within the store itself"):
            back_up(store, tmp_path / "store" / "backup")
        with pytest.raises(StoreUnavailableError, match="whose parent exists"):
            back_up(store, tmp_path / "no such" / "backup")
    assert files(tmp_path).keys() == {"store", "folder", "file", "link"}
    assert ((tmp_path / "file").read_text(), list((tmp_path / "folder").iterdir())) == ("mine", [])


@pytest.mark.usefixtures("fingerprints")
def test_the_command(run: Run, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    target = tmp_path / "store" / ".." / "backup"
    done = run("export", "store", "-o", target, "--store", tmp_path / "store")
    octets = (backup / "data.mdb").stat().st_size
    assert (done.exit_code, done.err) == (0, "")
    assert done.out == f"folder: {backup}\ndocuments: 300\nbytes: {octets:,}\n"
    assert files(backup) == {"data.mdb": 0o600}  # and no locks
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    damage(tmp_path / "store")
    done = run("export", "store", "-o", tmp_path / "third", "--store", tmp_path / "store")
    assert (done.exit_code, done.out) == (2, "")
    assert "no backup was made, because the store has 1 problems" in done.err
    assert files(tmp_path).keys() == {"store", "backup"}
