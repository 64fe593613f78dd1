"""Who has a store open: a shared lock for each user, an exclusive one for who replaces the file.

LMDB's own lock file names readers within transactions only. Replacing the data file under a live
writer loses what it acknowledges, so the file is rewritten only when nobody has it open, and nobody
can open it meanwhile.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import lmdb

from scrapy_simhash.lmdb_guard import LOCK_FILE
from scrapy_simhash.stores import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.wholefile import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOCK_FILE = "users.lock"
_FILE_MODE = 0o600


class User:
    """One who has the store of a folder open, until `leave`.

    Args:
        folder: of the store.
        readonly: make no file; where there is none, or none that may be read, there is no lock.

    Raises:
        StoreUnusableError: the file is being replaced.
    """

    def __init__(self, folder: Path, *, readonly: bool) -> None:
        self._file = _open_lock(folder, readonly=readonly)
        if self._file is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise StoreUnusableError(
                f"the file of the store at {folder} is being shrunk just now; try again later"
            ) from None

    def leave(self) -> None:
        """Let others replace the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _open_lock(folder: Path, *, readonly: bool) -> int | None:
    try:
        return os.open(
            folder / _LOCK_FILE,
            os.O_RDONLY if readonly else os.O_RDWR | os.O_CREAT,
            _FILE_MODE,
        )
    except OSError:
        if readonly:  # who has the replaced file open goes on to see its old state
            return None
        raise


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Keep everybody else out; says whether that was possible."""
    file = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT, _FILE_MODE)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(file)


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder that is not there, and those it is in; a power cut does not undo it."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def shrink_file(folder: Path, name: str, lib_version: int) -> tuple[int, int] | None:
    """Rewrite a data file without its free pages, when nobody has it open.

    Args:
        folder: of the store.
        name: of the data file.
        lib_version: of the LMDB engine.

    Returns:
        Its bytes before and after, or None when somebody has it open. Cost: reads and writes the
        file; needs room for both.

    Raises:
        StoreUnavailableError: the disk is full, or the like; the store is as it was.
    """
    data, shrunk = folder / name, folder / f"{name}.shrunk"
    with _alone(folder) as alone:
        if not alone:
            return None
        before = data.stat().st_size
        try:
            with shrunk.open("wb") as file:
                os.fchmod(file.fileno(), data.stat().st_mode & 0o777)
                with lmdb.open(
                    str(folder), readonly=True, lock=False, lib_version=lib_version
                ) as env:
                    env.copyfd(file.fileno(), compact=True)
                os.fsync(file.fileno())
            # LMDB's lock file counts transactions of the old file; a reader that has it open would
            # hand it to the next writer, who would take the wrong one of two states for the last.
            (folder / LOCK_FILE).unlink(missing_ok=True)
            # An empty one says that the file was not copied here, see `lmdb_guard`.
            (folder / LOCK_FILE).touch(_FILE_MODE)
            shrunk.rename(data)
        except (lmdb.Error, OSError) as error:
            shrunk.unlink(missing_ok=True)
            raise StoreUnavailableError(
                f"the file of the store at {folder} could not be shrunk and is as it was: {error}"
            ) from error
        sync_folder(folder)
        return before, data.stat().st_size
