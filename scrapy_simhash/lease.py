"""Leases of crawls: the operating system tells whether the process behind a crawl still lives.

A lease is an exclusive lock on a file of the store's folder. The kernel drops it when the process
ends in whatever way, so a record left pending by `kill -9` stops counting at once: no time-out has
to pass, and no process id is taken for another one's after a reboot or in a container.

Whoever asks tries a *shared* lock: with an exclusive one, two who ask at once would take each other
for the crawl. `filelock` has no shared locks on one file, hence `fcntl`.
"""

from __future__ import annotations

import fcntl
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_CRAWL_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)


class Leases:
    """The leases in one folder.

    Args:
        folder: where the lock files are; made when the first lease is taken.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._held: dict[str, int] = {}

    def take(self, crawl: str) -> None:
        """Take the lease of a crawl that starts here.

        Raises:
            ValueError: an id with other characters than letters, digits, `.`, `_` and `-`, or one
                whose lease is held.
            OSError: the file cannot be made.
        """
        check_crawl_id(crawl)
        if self.alive(crawl):
            raise ValueError(f"crawl id {crawl!r}: a crawl of this id is running")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sweep()
        # Locked under another name first: nobody can find the file without its lock.
        unlocked = self._folder / f"{crawl}.new"
        file = os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unlocked.rename(self._path(crawl))
        except BaseException:
            os.close(file)
            raise
        self._held[crawl] = file

    def give_back(self, crawl: str) -> None:
        """End the lease of a crawl; harmless when it has none."""
        file = self._held.pop(crawl, None)
        if file is not None:
            # A forked child shares the lock and must leave it to its parent.
            if os.getpid() == self._pid:
                self._path(crawl).unlink(missing_ok=True)
            os.close(file)

    def give_back_all(self) -> None:
        """End every lease that was taken here."""
        for crawl in list(self._held):
            self.give_back(crawl)

    def alive(self, crawl: str) -> bool:
        """Say whether the process of a crawl still runs it.

        A file that cannot be opened or locked for another reason counts as dead: that can only
        let a page through.
        """
        if crawl in self._held:
            return True
        return bool(_CRAWL_ID.fullmatch(crawl)) and _is_locked(self._path(crawl))

    def _sweep(self) -> None:
        """Remove the files of crawls that died."""
        for path in self._folder.glob("*.lock"):
            if not _is_locked(path):
                path.unlink(missing_ok=True)

    def _path(self, crawl: str) -> Path:
        return self._folder / f"{crawl}.lock"


def check_crawl_id(crawl: str) -> None:
    """Accept the id of a crawl.

    Raises:
        ValueError: it has other characters than letters, digits, `.`, `_` and `-`.
    """
    if not _CRAWL_ID.fullmatch(crawl):
        raise ValueError(f"crawl id {crawl!r}: letters, digits, '.', '_' and '-' only")


def _is_locked(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False
