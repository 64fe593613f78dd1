"""Leases: alive while their process lives, dead at once when it is killed."""

import fcntl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrapy_simhash.stores.leases import FileLeases
from tests.helpers.children import Child, run_script, running

HOLDER = """
import sys
from pathlib import Path
from scrapy_simhash.stores.leases import FileLeases
leases = FileLeases(Path(sys.argv[1]))
leases.take("theirs")
leases.take("too")
print("ready", flush=True)
sys.stdin.readline()
leases.close()
print("given back", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "leases"


@pytest.fixture
def holder(folder: Path) -> Iterator[Child]:
    """Another process with the leases of `theirs` and `too`."""
    with running(HOLDER, folder) as child:
        yield child


@pytest.mark.usefixtures("holder")
def test_asking_does_not_end_a_lease(folder: Path) -> None:
    for _ in range(3):
        assert FileLeases(folder).alive("theirs")
    with pytest.raises(ValueError, match="is running"):
        FileLeases(folder).take("theirs")
    assert FileLeases(folder).alive("theirs")


def test_a_killed_process_is_dead_at_once(folder: Path, holder: Child) -> None:
    leases = FileLeases(folder)
    assert leases.alive("theirs")
    holder.kill()
    assert not leases.alive("theirs")
    assert not leases.alive("too")


def test_the_files_of_dead_crawls_are_cleared_away_by_the_next_one(
    folder: Path, holder: Child
) -> None:
    leases = FileLeases(folder)
    leases.take("first")
    assert (folder / "theirs.lock").exists()
    holder.kill()
    leases.take("second")
    assert sorted(path.name for path in folder.iterdir()) == ["first.lock", "second.lock"]
    assert leases.alive("first")
    leases.close()


def test_nobody_holds_two_leases_of_one_id(folder: Path) -> None:
    first, second = FileLeases(folder), FileLeases(folder)
    first.take("same")
    for leases in (first, second):
        with pytest.raises(ValueError, match="is running"):
            leases.take("same")
    second.give_back("same")  # it has none: harmless
    assert second.alive("same")
    first.give_back("same")
    second.take("same")
    second.close()


def test_two_who_ask_at_once_do_not_take_each_other_for_the_crawl(
    folder: Path, holder: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only store asks while a writer does; the writer would drop a page wrongly."""
    holder.kill()
    answers: list[bool] = []
    flock = fcntl.flock

    def flock_while_another_asks(file: int, operation: int) -> None:
        flock(file, operation)
        monkeypatch.undo()
        answers.append(FileLeases(folder).alive("theirs"))

    monkeypatch.setattr(fcntl, "flock", flock_while_another_asks)
    answers.append(FileLeases(folder).alive("theirs"))
    assert answers == [False, False]


def test_nobody_else_may_look(folder: Path) -> None:
    leases = FileLeases(folder)
    leases.take("mine")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "mine.lock").stat().st_mode) == 0o600
    leases.close()


def test_a_lease_that_cannot_be_taken_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "leases").write_text("a file in the place of the folder")
    leases = FileLeases(tmp_path / "leases")
    with pytest.raises(OSError, match="leases"):
        leases.take("mine")
    assert not leases.alive("mine")


FORK = """
import os, sys
from pathlib import Path
from scrapy_simhash.stores.leases import FileLeases
leases = FileLeases(Path(sys.argv[1]))
leases.take("mine")
if not (child := os.fork()):
    leases.close()
    os._exit(0)
os.waitpid(child, 0)
print(FileLeases(Path(sys.argv[1])).alive("mine"))
"""


def test_a_forked_child_cannot_give_back_the_leases_of_its_parent(folder: Path) -> None:
    assert run_script(FORK, folder) == "True\n"
