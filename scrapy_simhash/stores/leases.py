"""The leases of crawls: what is pending counts while the crawl that has it is alive.

A crawl's process has its lease, and loads no more of the stores than this: no lmdb.
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_CRAWL_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)
_FILE_MODE = 0o600


class Leases:
    """The leases of the crawls that use a store; one ends with its process, however that ends.

    Those of a store that other processes use are a subclass.
    """

    def __init__(self) -> None:
        # What `_take` made of each lease of this process.
        self._held: dict[str, Any] = {}

    def take(self, crawl: str) -> None:
        """Take the lease of a crawl that starts here.

        The id has 1 to 100 letters, digits, `.`, `_` and `-`; a ValueError if not, or if it is in
        use.
        """
        if not _CRAWL_ID.fullmatch(crawl):
            raise ValueError(f"crawl id {crawl!r}: letters, digits, '.', '_' and '-' only")
        lease = None if crawl in self._held else self._take(crawl)
        if lease is None:
            raise ValueError(f"crawl id {crawl!r}: a crawl with this id is running")
        self._held[crawl] = lease

    def give_back(self, crawl: str) -> None:
        """End the lease of a crawl, if this process has it."""
        lease = self._held.pop(crawl, None)
        if lease is not None:
            self._end(crawl, lease)

    def alive(self, crawl: str) -> bool:
        """Whether the lease of a crawl is valid; on a server, when the last transaction began."""
        return crawl in self._held or self._is_taken(crawl)

    def close(self) -> None:
        """End all leases of this process."""
        for crawl in list(self._held):
            self.give_back(crawl)

    def _take(self, crawl: str) -> Any:
        """Take a lease that this process does not have; None if another one has it."""
        return crawl

    def _end(self, crawl: str, lease: Any) -> None:
        """End what `_take` took."""

    def _is_taken(self, crawl: str) -> bool:
        """Whether another process has the lease of a crawl."""
        del crawl
        return False


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
        return bool(_CRAWL_ID.fullmatch(crawl)) and _is_locked(self._path(crawl))

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
