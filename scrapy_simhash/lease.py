"""Leases of crawls: the operating system tells whether the process behind a crawl still lives.

A lease is a lock on a file of the store's folder. The kernel drops it when the process ends in
whatever way, so a record left pending by `kill -9` stops counting at once: no time-out has to
pass, and no process id is taken for another one's after a reboot or in a container.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

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
        self._held: dict[str, FileLock] = {}

    def take(self, crawl: str) -> None:
        """Take the lease of a crawl that starts here.

        Raises:
            ValueError: an id with other characters than letters, digits, `.`, `_` and `-`.
            Timeout: somebody holds a lease of this id.
            OSError: the file cannot be made.
        """
        if not _CRAWL_ID.fullmatch(crawl):
            raise ValueError(f"crawl id {crawl!r}: letters, digits, '.', '_' and '-' only")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(self._path(crawl), timeout=0, mode=0o600, thread_local=False)
        lock.acquire()
        self._held[crawl] = lock

    def give_back(self, crawl: str) -> None:
        """End the lease of a crawl; harmless when it has none."""
        lock = self._held.pop(crawl, None)
        if lock is not None:
            self._path(crawl).unlink(missing_ok=True)
            lock.release()

    def give_back_all(self) -> None:
        """End every lease that was taken here."""
        for crawl in list(self._held):
            self.give_back(crawl)

    def alive(self, crawl: str) -> bool:
        """Say whether the process of a crawl still runs it."""
        if crawl in self._held:
            return True
        path = self._path(crawl)
        if not _CRAWL_ID.fullmatch(crawl) or not path.exists():
            return False
        probe = FileLock(path, timeout=0, thread_local=False)
        try:
            probe.acquire()
        except Timeout:
            return True
        except OSError:
            # Not ours to lock, for instance in a read-only folder: nobody can tell. Counting it
            # as dead can only let a page through.
            return False
        path.unlink(missing_ok=True)
        probe.release()
        return False

    def _path(self, crawl: str) -> Path:
        return self._folder / f"{crawl}.lock"
