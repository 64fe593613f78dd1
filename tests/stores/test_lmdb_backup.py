"""Backups: taken while others write, whole or not there, and good to go on from."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.pages.wording import Wording
from scrapy_simhash.stores.copying import back_up
from tests.commands.test_commands_upkeep import damage
from tests.helpers.children import running
from tests.helpers.commanding import Run
from tests.helpers.documents import document, open_lmdb
from tests.helpers.needing import slow_but
from tests.stores.test_lmdb_store_processes import WRITER

# Backups of one store while it is written; 20 is the long version.
ROUNDS = int(os.environ.get("SIMHASH_TEST_BACKUPS", "3"))


def fill(folder: Path) -> None:
    """Make a store of a page, its near-duplicate and another one."""
    with open_lmdb(folder) as store:
        store.find_and_add([document("one", 0xFF, text="some text"), document("twin", 0xFE)])
        store.find_and_add([document("two", 0xFF << 40)])


def files(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


def test_restored_backup_is_gone_on_with(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with open_lmdb(tmp_path / "store") as store:
        back_up(store, tmp_path / "backup")
        store.find_and_add([document("lost", 0xFF << 20)])
        seed = store.seed
    shutil.rmtree(tmp_path / "store")
    shutil.copytree(tmp_path / "backup", tmp_path / "store")
    with open_lmdb(tmp_path / "store") as store:
        assert store.seed == seed
        again = [
            document("one", 0xFF),
            document("like one", 0xFF ^ 1),
            document("like two", 0xFF << 40),
            document("lost", 0xFF << 20),
        ]
        verdicts = store.find_and_add(again)
        assert [verdict.status for verdict in verdicts] == [
            "revisit",
            "near_duplicate",
            "near_duplicate",
            "new",
        ]
        assert store.check() == []


def test_backup_while_another_process_writes(tmp_path: Path) -> None:
    """Whatever was acknowledged before a backup began is in it, and all of it fits together."""
    told: list[str] = []
    with (
        running(WRITER, tmp_path / "store", "crawl-1") as writer,
        open_lmdb(tmp_path / "store", readonly=True) as store,
    ):
        writer.tell("go")
        for number in range(ROUNDS):
            told += [writer.read() for _ in range(100)]
            backup = tmp_path / f"backup-{number}"
            made = back_up(store, backup)
            with open_lmdb(backup, readonly=True) as copy:
                assert copy.check() == []
                assert copy.stats()["documents"] == made["documents"]
                for line in told:
                    acknowledged, name = line.split(" ", 1)
                    found = copy.get_documents([int(acknowledged)]).get(int(acknowledged))
                    assert found, line
                    assert (found.facts.url, found.wording) == (name, Wording(name * 9))


STOPPED = """
import os, sys
from pathlib import Path
from scrapy_simhash.stores.copying import back_up
from scrapy_simhash.stores.opening import open_as_it_is

calls, sync = 0, os.fsync
def stop(file):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        print("stopped", flush=True)
        sys.stdin.readline()
    sync(file)
os.fsync = stop
print("ready", flush=True)
folder = Path(sys.argv[1])
with open_as_it_is(str(folder / "store")) as store:
    back_up(store, folder / "backup")
"""


@pytest.mark.parametrize("at", slow_but([1], [1, 2]))
def test_killed_in_the_middle_there_is_no_backup(tmp_path: Path, at: int) -> None:
    """Killed at its n-th sync: of the data file, of the folder."""
    fill(tmp_path / "store")
    with running(STOPPED, tmp_path, at) as child:
        assert child.read() == "stopped"
        child.kill()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 2
    assert left[0].startswith(".backup.")
    assert left[0].endswith(".partial")
    with open_lmdb(tmp_path / "store") as store:
        assert store.check() == []
        back_up(store, tmp_path / "backup")


def test_target_that_is_there_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "store")
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
    assert (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "folder").iterdir()) == []


def test_command(run: Run, tmp_path: Path) -> None:
    fill(tmp_path / "store")
    backup = tmp_path / "backup"
    done = run(
        "export", "store", "-o", tmp_path / "store" / ".." / "backup", "--store", tmp_path / "store"
    )
    octets = (backup / "data.mdb").stat().st_size
    assert (done.exit_code, done.err) == (0, "")
    said = f"folder: {backup}\ndocuments: 3\nfingerprints: 2\nbytes: {octets:,}\n"
    assert done.out == f"{said}checked: yes\n"
    assert files(backup) == {"data.mdb": 0o600}  # and no locks
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    damage(tmp_path / "store")
    done = run("export", "store", "-o", tmp_path / "third", "--store", tmp_path / "store")
    assert (done.exit_code, done.out) == (2, "")
    assert "no backup was made, because the store has 1 problems" in done.err
    assert files(tmp_path).keys() == {"store", "backup"}
