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
    from collections.abc import Callable, Iterable

    from scrapy_simhash.stores.redis.server import Server

# A server does not notice when a process on another machine dies, so a lease expires. After a
# `kill -9` the crawl's pending records count for this number of seconds; a page that is dropped for
# one of them is requested again, or listed as lost. A process that was stopped gets its lease back.
# This is longer than a working process may pause for a time-out of the server, a full garbage
# collection, or a move of its virtual machine. Five renewals may fail in this time.
LEASE_SECONDS = 30.0
_BEATS_PER_LEASE = 6


class Held:
    """A lease of one holder; a crawl and a token, or what else it is called."""

    def __init__(self, server: Server, key: bytes, name: str, seconds: float) -> None:
        self.holder = f"{name} {secrets.token_hex(16)}"
        self._server = server
        self._key = key
        self._name = name
        self._seconds = seconds

    def renew(self, how: Literal["take", "keep", "hold"]) -> bool:
        """Take or renew it; returns whether it is held now, see `lease.lua`."""
        arguments = (self._name, self.holder, round(self._seconds * 1_000_000), how)
        return bool(self._server.run_script(LEASE, [self._key], *arguments))

    def end(self) -> None:
        """Give it back, if it is held."""
        self._server.call("ZREM", self._key, self.holder)


class Heartbeat:
    """A thread that calls `beat` at intervals, until `stop`."""

    def __init__(self, beat: Callable[[], object], lease_seconds: float) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=self._run,
            args=(beat, lease_seconds / _BEATS_PER_LEASE),
            name="scrapy_simhash-heartbeat",
            daemon=True,
        )
        self._thread.start()

    def _run(self, beat: Callable[[], object], seconds: float) -> None:
        while not self._ending.wait(seconds):
            with suppress(StoreError):
                beat()

    def stop(self) -> None:
        """End the thread; waits for a call that is running."""
        self._ending.set()
        self._thread.join()


class RedisLeases(Leases):
    """The leases of the crawls that this process runs; a thread renews them."""

    def __init__(self, server: Server, key: bytes) -> None:
        super().__init__()
        self._server = server
        self._key = key
        self._living: set[str] = set()
        self._heartbeat: Heartbeat | None = None

    def take_over(self, holders: Iterable[bytes]) -> None:
        """Take over which leases are valid, by their holders."""
        # Ids of crawls have no spaces.
        self._living = {holder.partition(b" ")[0].decode() for holder in holders}

    def _is_taken(self, crawl: str) -> bool:
        return crawl in self._living

    def _take(self, crawl: str) -> Held | None:
        self._server.warn_of_loss()
        lease = Held(self._server, self._key, crawl, LEASE_SECONDS)
        if not lease.renew("take"):
            return None
        if self._heartbeat is None:
            self._heartbeat = Heartbeat(self._keep, LEASE_SECONDS)
        return lease

    def _end(self, crawl: str, lease: Held) -> None:
        del crawl
        lease.end()

    def _keep(self) -> None:
        for crawl, lease in list(self._held.items()):
            with suppress(StoreError):
                lease.renew("keep")
                if crawl not in self._held:  # given back meanwhile
                    lease.end()

    def give_back(self, crawl: str) -> None:
        with suppress(StoreError):  # then it ends by itself
            super().give_back(crawl)

    def close(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
        super().close()
