"""What a process holds on a server, leases and a lock: it ends unless a thread renews it."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.keyvalues import Leases
from scrapy_simhash.stores.redis.scripts import LEASE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.stores.redis.server import Server

# A server does not notice when a process on another machine dies, so a lease expires. After a
# `kill -9` the crawl's pending records count for this number of seconds; a page that is dropped for
# one of them is requested again, or listed as lost. A process that was stopped gets its lease back.
# This is longer than a working process may pause for a time-out of the server, a full garbage
# collection, or a move of its virtual machine. Five renewals may fail in this time.
LEASE_SECONDS = 30.0
_BEATS_PER_LEASE = 6


class Held:
    """A lease that this process may take; a thread renews it until `end`.

    Args:
        server: that has it.
        key: of the leases, on the server.
        name: a crawl, or what else is held.
        seconds: how long it lasts if it is not renewed.
        how: what the thread does, see `lease.lua`.
    """

    def __init__(
        self, server: Server, key: bytes, name: str, seconds: float, how: Literal["keep", "hold"]
    ) -> None:
        self.holder = f"{name} {secrets.token_hex(16)}"
        self._server = server
        self._key = key
        self._name = name
        self._seconds = seconds
        self._how = how
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=self._keep, name="scrapy_simhash-heartbeat", daemon=True
        )

    def take(self) -> bool:
        """Take it; returns False, and may be called again, if another holder has it."""
        taken = self._renew("take")
        if taken:
            self._thread.start()
        return taken

    def renew(self) -> bool:
        """Renew it; returns whether it is held now."""
        return self._renew(self._how)

    def _renew(self, how: str) -> bool:
        arguments = (self._name, self.holder, round(self._seconds * 1_000_000), how)
        return bool(self._server.run_script(LEASE, [self._key], *arguments))

    def _keep(self) -> None:
        while not self._ending.wait(self._seconds / _BEATS_PER_LEASE):
            with suppress(StoreError):
                self.renew()

    def end(self) -> None:
        """Give it back; if the server is gone, it ends by itself."""
        self._ending.set()
        self._thread.join()
        with suppress(StoreError):
            self._server.call("ZREM", self._key, self.holder)


class RedisLeases(Leases):
    """The leases of the crawls that this process runs."""

    def __init__(self, server: Server, key: bytes) -> None:
        super().__init__()
        self._server = server
        self._key = key
        self._living: set[str] = set()

    def take_over(self, holders: Iterable[bytes]) -> None:
        """Take over which leases are valid, by their holders."""
        # Ids of crawls have no spaces.
        self._living = {holder.partition(b" ")[0].decode() for holder in holders}

    def _is_taken(self, crawl: str) -> bool:
        return crawl in self._living

    def _take(self, crawl: str) -> Held | None:
        self._server.warn_of_loss()
        lease = Held(self._server, self._key, crawl, LEASE_SECONDS, "keep")
        return lease if lease.take() else None

    def _end(self, crawl: str, lease: Held) -> None:
        del crawl
        lease.end()
