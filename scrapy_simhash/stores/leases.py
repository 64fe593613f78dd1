"""The leases of crawls: what is pending counts while the crawl that has it is alive.

A crawl's process has its lease, and loads no more of the stores than this.
"""

from __future__ import annotations

import re
from typing import Any

CRAWL_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)


class Leases:
    """The leases of the crawls that use a store; one ends with its process, however that ends.

    Those of a store that other processes use are a subclass.
    """

    def __init__(self) -> None:
        # What `_take` made of each lease of this process.
        self._held: dict[str, Any] = {}

    def take(self, crawl: str) -> None:
        """Take the lease of a crawl that starts here; a ValueError if it is invalid or in use."""
        _check_id(crawl)
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


def _check_id(crawl: str) -> None:
    """Raise a ValueError unless an id has 1 to 100 letters, digits, `.`, `_` and `-`."""
    if not CRAWL_ID.fullmatch(crawl):
        raise ValueError(f"crawl id {crawl!r}: letters, digits, '.', '_' and '-' only")
