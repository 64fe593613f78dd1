"""Compaction and backups: all or nothing, of what was acknowledged, and good to go on from."""

import os
import signal
import stat
from contextlib import nullcontext
from pathlib import Path

import lmdb
import pytest

from scrapy_simhash.errors import StoreError, StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores import copying
from scrapy_simhash.stores.copying import back_up, compact
from scrapy_simhash.stores.opening import open_as_it_is
from tests.commands.test_commands_upkeep import damage
from tests.helpers.children import OPENER, running
from tests.helpers.commanding import Run
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but
from tests.stores.test_lmdb_store_processes import WRITER, compare

# Backups of one store while it is written; 20 is the long version.
ROUNDS = int(os.environ.get("SIMHASH_TEST_BACKUPS", "3"))


def files(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    """A store with a fingerprint that 300 documents have, more than fit into a page."""
    made = tmp_path / "store"
    with open_lmdb(made) as store:
        store.find_and_add([document(f"{n}", 7, scope=f"{n}") for n in range(300)])
    return made


def pack(folder: Path) -> dict[str, int]:
    with open_as_it_is(str(folder)) as store:
        return compact(store)


def test_a_compact_file_is_smaller_and_loses_nothing(folder: Path) -> None:
    with open_lmdb(folder) as store:
        store.delete(list(range(1, 200)))
    sizes = [pack(folder) for _ in range(2)]
    assert sizes[0]["bytes_before"] > sizes[0]["bytes_after"]
    assert sizes[1] == dict.fromkeys(sizes[1], sizes[0]["bytes_after"])
    assert stat.S_IMODE((folder / "data.mdb").stat().st_mode) == 0o600
    with open_lmdb(folder) as store:
        assert (store.check(), [*store.get_documents(range(400))]) == ([], [*range(200, 301)])
        store.find_and_add([document("new", 9, scope="new")])
        assert store.check() == []


@pytest.mark.parametrize("readonly", slow_but([True], [False, True]))
def test_no_compaction_while_somebody_has_it_open(folder: Path, *, readonly: bool) -> None:
    before = (folder / "data.mdb").read_bytes()
    with running(OPENER, folder, readonly), pytest.raises(StoreUnusableError, match="is open in"):
        pack(folder)
    assert (folder / "data.mdb").read_bytes() == before


def test_a_compaction_without_room_leaves_the_store_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk did not fail: the store is neither suspect nor given up."""

    def fill(*_: object, **__: object) -> None:
        raise lmdb.DiskError("No space left on device")

    before = (folder / "data.mdb").read_bytes()
    with open_as_it_is(str(folder)) as store, monkeypatch.context() as patched:
        patched.setattr(lmdb, "open", fill)
        with pytest.raises(StoreUnavailableError, match=r"unchanged: No space.*make room"):
            compact(store)
        assert store.check() == []
    assert ((folder / "data.mdb").read_bytes(), (folder / "suspect").exists()) == (before, False)


KILLED = """
import os, signal, sys
from pathlib import Path
from scrapy_simhash.stores import copying
from scrapy_simhash.stores.opening import open_as_it_is

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

print("ready", flush=True)
at, folder = sys.argv[1], Path(sys.argv[2])
if at == "copying":
    copying.open_whole = die
elif at == "syncing":
    os.fsync = die
else:
    Path.replace = die
with open_as_it_is(str(folder / "store")) as store:
    if sys.argv[3:]:
        copying.compact(store)
    copying.back_up(store, folder / "backup")
"""


@pytest.mark.parametrize("at", slow_but(["syncing"], ["copying", "syncing"]))
def test_a_compaction_that_is_killed_loses_nothing(folder: Path, at: str) -> None:
    before = (folder / "data.mdb").read_bytes()
    with running(KILLED, at, folder.parent, "compact") as killed:
        assert killed.process.wait() == -signal.SIGKILL
    assert (folder / "data.mdb").read_bytes() == before
    pack(folder)
    assert not list(folder.glob(".data.mdb.*"))
    with open_lmdb(folder) as store:
        assert (store.check(), [*store.get_documents(range(400))]) == ([], [*range(1, 301)])


@pytest.mark.parametrize("at", slow_but(["syncing"], ["copying", "syncing", "naming"]))
def test_of_a_backup_that_is_killed_there_is_none(tmp_path: Path, folder: Path, at: str) -> None:
    with running(KILLED, at, tmp_path) as killed:
        assert killed.process.wait() == -signal.SIGKILL
    assert not (tmp_path / "backup" / "data.mdb").exists()
    with open_lmdb(folder) as store:
        assert store.check() == []
        back_up(store, tmp_path / "another")


def test_a_backup_while_another_process_writes(tmp_path: Path) -> None:
    """Whatever was acknowledged before a backup began is in it, and all of it fits together."""
    told: list[list[str]] = []
    with (
        running(WRITER, tmp_path / "written", "crawl-1") as writer,
        open_lmdb(tmp_path / "written", readonly=True) as store,
    ):
        writer.tell("go")
        for number in range(ROUNDS):
            told += [writer.read().split(" ", 1) for _ in range(100)]
            back_up(store, tmp_path / f"backup-{number}")
            with open_lmdb(tmp_path / f"backup-{number}", readonly=True) as copy:
                assert copy.check() == []
                compare(copy, told, number)


def test_what_cannot_be_written_is_named(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left of it, and what is there stays."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with open_lmdb(folder) as store:
        for name in ("folder", "file", "link", "store"):
            with pytest.raises(FileExistsError, match=f"{name} exists already"):
                back_up(store, tmp_path / name)
        with pytest.raises(ValueError, match="within the store itself"):
            back_up(store, folder / "backup")
        with pytest.raises(FileNotFoundError, match="no such"):
            back_up(store, tmp_path / "no such" / "backup")
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(StoreError, match="as the user who owns it"):
            back_up(store, tmp_path / "backup")
        monkeypatch.undo()
        with Path("/dev/full").open("wb") as full:
            monkeypatch.setattr(copying, "open_whole", lambda *_, **__: nullcontext(full))
            with pytest.raises(OSError, match="No space left"):
                back_up(store, tmp_path / "backup")
        assert store.check() == []
    assert files(tmp_path).keys() == {"store", "folder", "file", "link"}
    assert ((tmp_path / "file").read_text(), list((tmp_path / "folder").iterdir())) == ("mine", [])


def test_the_command(run: Run, tmp_path: Path, folder: Path) -> None:
    backup = tmp_path / "backup"
    target = folder / ".." / "backup"
    done = run("export", "store", "-o", target, "--store", folder)
    octets = (backup / "data.mdb").stat().st_size
    assert (done.exit_code, done.err) == (0, "")
    assert done.out == f"folder: {backup}\nbytes: {octets:,}\n"
    assert files(backup) == {"data.mdb": 0o600}  # and no locks
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    with open_lmdb(backup) as copy, open_lmdb(folder) as store:
        assert copy.list_documents() == store.list_documents()
        copy.find_and_add([document("new", 8)])
        assert (copy.check(), len(copy.query(7))) == ([], 301)
    damage(folder)
    done = run("export", "store", "-o", tmp_path / "third", "--store", folder)
    assert (done.exit_code, done.out) == (2, "")
    assert "no backup was made of a store with damage: " in done.err
    assert files(tmp_path).keys() == {"store", "backup"}
