"""The leases of crawls in a folder; this loads no lmdb, for processes that need nothing else."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy_simhash.stores.leases import CRAWL_ID, Leases

if TYPE_CHECKING:
    from pathlib import Path

_FILE_MODE = 0o600


# A lease is an exclusive lock on a file. The kernel releases it when the process ends, however it
# ends, so pending records stop counting at once after `kill -9`; process ids, which repeat after a
# reboot, play no part. To test a lease, a process tries a *shared* lock, which `filelock` lacks:
# with exclusive ones, two testing processes would take each other for the crawl.
class FileLeases(Leases):
    """The leases of crawls in one folder, which the first lease creates."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._pid = os.getpid()

    def _take(self, crawl: str) -> int | None:
        if self._is_taken(crawl):
            return None
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sweep()
        # Locked under another name first, so that no process finds the file unlocked.
        unlocked = self._folder / f"{crawl}.new"
        file = os.open(unlocked, os.O_RDWR | os.O_CREAT, _FILE_MODE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unlocked.rename(self._path(crawl))
        except BaseException:
            os.close(file)
            raise
        return file

    def _end(self, crawl: str, lease: int) -> None:
        # A forked child shares the lock and must leave it to its parent.
        if os.getpid() == self._pid:
            self._path(crawl).unlink(missing_ok=True)
        os.close(lease)

    def _is_taken(self, crawl: str) -> bool:
        return bool(CRAWL_ID.fullmatch(crawl)) and _is_locked(self._path(crawl))

    def _sweep(self) -> None:
        """Remove the files of dead crawls."""
        for path in self._folder.glob("*.lock"):
            if not _is_locked(path):
                path.unlink(missing_ok=True)

    def _path(self, crawl: str) -> Path:
        return self._folder / f"{crawl}.lock"


def leases_of(store: Path) -> FileLeases:
    """Make the leases of the store in a folder."""
    return FileLeases(store.resolve() / "leases")


# A file that cannot be opened or locked for another reason counts as unlocked: at worst, a
# near-duplicate is kept.
def _is_locked(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
