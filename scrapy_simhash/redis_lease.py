"""Leases of crawls on a server: a crawl lives as long as its process says so, every few seconds.

Nothing tells a server when a process on another machine dies. So a lease ends by itself: after a
`kill -9` its pending records count for `LEASE_SECONDS` more, in which a page may be dropped for one
of them; it is requested again, or listed, like any other that was dropped for a page that never
came through. A process that stood still for longer gets its lease back when it goes on.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

from scrapy_simhash.lease import check_crawl_id
from scrapy_simhash.redis_scripts import LEASE
from scrapy_simhash.redis_server import script
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from scrapy_simhash.redis_server import Server

# Longer than a process that works may stand still: a time-out of the server, a full garbage
# collection, a virtual machine that is moved. Five beats may fail in it.
LEASE_SECONDS = 30.0
_BEATS_PER_LEASE = 6


class RedisLeases:
    """The leases that this process holds.

    Args:
        server: that keeps them.
        key: of all leases of the store.
    """

    def __init__(self, server: Server, key: bytes) -> None:
        self._server = server
        self._key = key
        self._token = secrets.token_hex(16)
        self._ending = threading.Event()
        self._beating: threading.Thread | None = None
        self.held: set[str] = set()

    def take(self, crawl: str) -> None:
        """Take the lease of a crawl that starts here.

        Raises:
            ValueError: no id of a crawl, or one whose lease is held.
            StoreUnavailableError: the server did not answer.
        """
        check_crawl_id(crawl)
        if crawl in self.held or not self._beat(crawl, "new"):
            raise ValueError(f"crawl id {crawl!r}: a crawl of this id is running")
        self.held.add(crawl)
        if self._beating is None:
            self._beating = threading.Thread(
                target=self._keep, name="scrapy_simhash-leases", daemon=True
            )
            self._beating.start()

    def _beat(self, crawl: str, kind: str) -> bool:
        microseconds = round(LEASE_SECONDS * 1_000_000)
        arguments = (crawl, self._holder(crawl), microseconds, kind)
        return bool(self._server.call(*script(LEASE, [self._key], *arguments)))

    def _holder(self, crawl: str) -> str:
        """Name a crawl of this process, see `read_holder`."""
        return f"{crawl} {self._token}"

    def _keep(self) -> None:
        while not self._ending.wait(LEASE_SECONDS / _BEATS_PER_LEASE):
            for crawl in list(self.held):
                try:
                    self._beat(crawl, "old")
                except StoreError:
                    continue
                if crawl not in self.held:  # given back meanwhile
                    self._end(crawl)

    def give_back(self, crawl: str) -> None:
        """End the lease of a crawl; harmless when it has none."""
        if crawl in self.held:
            self.held.discard(crawl)
            self._end(crawl)

    def _end(self, crawl: str) -> None:
        self._server.call("ZREM", self._key, self._holder(crawl))

    def close(self) -> None:
        """End every lease that was taken here; where the server is gone they end by themselves."""
        self._ending.set()
        if self._beating is not None:
            self._beating.join()
        for crawl in list(self.held):
            try:
                self.give_back(crawl)
            except StoreError:
                continue


def read_holder(holder: bytes) -> str:
    """Get the crawl of who holds a lease: its id has no blanks, and what follows is a token."""
    return holder.partition(b" ")[0].decode()
