"""Files are there as a whole or not at all; what killed writers leave is in nobody's way."""

import os
import signal
import stat
from pathlib import Path

import pytest

from scrapy_simhash._files import open_whole
from tests.helpers.processes import ROOT, run_python

KILLED = """
import os, signal, sys
from pathlib import Path
from scrapy_simhash._files import open_whole
with open_whole(Path(sys.argv[1]), overwrite=False) as file:
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_a_killed_writer_left_is_in_nobodys_way(tmp_path: Path, overwrite: bool) -> None:
    path = tmp_path / "out"
    done = run_python("-c", KILLED, str(path), cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(".out.")
    with open_whole(path, overwrite=overwrite) as file:
        file.write(b"whole")
    assert (path.read_bytes(), names(tmp_path)) == (b"whole", [left, "out"])


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o640)])
def test_only_the_owner_may_read_what_is_private(tmp_path: Path, private: bool, mode: int) -> None:
    path = tmp_path / "out"
    before = os.umask(0o027)
    try:
        for overwrite in (False, True):
            with open_whole(path, overwrite=overwrite, private=private):
                pass
            assert path.stat().st_mode & 0o777 == mode
            path.chmod(0o666)
    finally:
        os.umask(before)


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    path = tmp_path / ("long name \u00e4 " * 9)
    path.write_bytes(b"before")

    def fail() -> None:
        with open_whole(path, overwrite=True) as file:
            file.write(b"half")
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fail()
    assert (path.read_bytes(), names(tmp_path)) == (b"before", [path.name])


def test_file_and_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before it has its name, the folder afterwards."""
    synced: list[tuple[bool, bool]] = []

    def note(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append((is_folder, (tmp_path / "out").exists()))

    monkeypatch.setattr(os, "fsync", note)
    with open_whole(tmp_path / "out", overwrite=False):
        pass
    assert synced == [(False, False), (True, True)]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        # Nor is /dev/null replaced, for a user who may do that.
        ("pipe", FileExistsError, "not a regular file"),
        ("", IsADirectoryError, "is a folder; name a file"),
        ("nowhere/file", FileNotFoundError, "there is no folder"),
    ],
)
def test_what_is_no_file(tmp_path: Path, name: str, error: type[Exception], message: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(error, match=message), open_whole(tmp_path / name, overwrite=True):
        pass
    assert names(tmp_path) == ["pipe"]
    assert (tmp_path / "pipe").is_fifo()
