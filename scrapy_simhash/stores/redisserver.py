"""A Redis or Valkey server: checks it, runs commands in few round trips, keeps leases there."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from redis import ConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - that of redis
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - that of redis
)
from redis.retry import Retry

from scrapy_simhash.errors import StoreError, StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.leases import Leases
from scrapy_simhash.stores.opening import server_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from redis.connection import AbstractConnection

    from scrapy_simhash.stores.opening import ServerAddress

    # Runs commands in one round trip.
    Run: TypeAlias = Callable[[Sequence["Command"]], list[Any]]

Command: TypeAlias = tuple[Any, ...]
logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 5.0
# After so many failures in a row nobody waits for the server any more.
_FAILURES = 2
# So long after a failure the next command tries again; the heartbeat of a crawl does so earlier.
_PAUSE_SECONDS = 15.0
_COMMANDS_PER_CALL = 4_096
# A server does not notice when a process on another machine dies, so a lease expires. After a
# `kill -9` the crawl's pending records count for this number of seconds; a page that is dropped for
# one of them is requested again, or listed as lost. A process that was stopped gets its lease back.
LEASE_SECONDS = 30.0
LOCK_SECONDS = 8.0
# So often leases and the lock are renewed, and a server that does not answer is tried again.
BEAT_SECONDS = 2.5
# The first version with GET and NX in one SET.
OLDEST_VERSION = 7


class NoAnswerError(StoreUnavailableError):
    """The server did not answer; it may have done what it was asked to do."""


class Server:
    """A server; several threads may use it."""

    def __init__(self, address: ServerAddress, *, readonly: bool) -> None:
        self._address = address
        self._failures, self._failure = 0, ""  # those in a row, and the last one
        self._pause_ends = 0.0
        options: dict[str, Any] = {"socket_timeout": TIMEOUT_SECONDS, "protocol": 2}
        if not address.url.startswith("unix:"):
            options["socket_connect_timeout"] = TIMEOUT_SECONDS
        with self.opening():
            with self._explained():
                # A command is never sent again by itself: the lock may have been lost meanwhile.
                retry = Retry(NoBackoff(), 0)
                self._pool = ConnectionPool.from_url(address.url, retry=retry, **options)
            try:
                self._check(self._describe(), readonly=readonly)
            except BaseException:
                self.close()
                raise

    def _describe(self) -> dict[str, str]:
        """Ask the server to describe itself."""
        (info,) = self.ask(("INFO",))
        return dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)

    def _check(self, info: dict[str, str], *, readonly: bool) -> None:
        """Refuse a server that would lose data, or lacks features that a store needs."""
        shown, version = self._address.shown, info["redis_version"]
        if int(version.partition(".")[0]) < OLDEST_VERSION:
            raise StoreUnusableError(
                f"the server at {shown} is Redis {version}; it must be {OLDEST_VERSION}.0 or later"
            )
        if info.get("cluster_enabled", "0") != "0":
            raise StoreUnusableError(
                f"the server at {shown} is a node of a cluster, which cannot keep a store; name "
                "one server, which may have replicas"
            )
        if readonly:
            return
        policy = info.get("maxmemory_policy", "noeviction")
        # `volatile-...` does no harm: of a store, only leases and the lock expire.
        if policy.startswith("allkeys"):
            raise StoreUnusableError(
                f"the server at {shown} deletes keys when its memory is full (maxmemory-policy "
                f"{policy}), parts of tables too; set it to noeviction, or take another server"
            )
        if info.get("role") != "master":
            raise StoreUnusableError(
                f"the server at {shown} is a replica and accepts no writes; name the primary"
            )

    def warn_of_loss(self) -> None:
        """Log a warning if the server may lose acknowledged writes in a crash."""
        if self._describe().get("aof_enabled", "0") == "0":
            logger.warning(
                "The server at %s keeps no append-only file: if it crashes, it loses writes "
                "that it acknowledged. Set appendonly to yes, and appendfsync to always",
                self._address.shown,
            )

    def ask(self, *commands: Command, insist: bool = False) -> list[Any]:
        """Run commands in one round trip; with `insist`, even after repeated failures."""
        with self.connected(insist=insist) as run:
            return run(commands)

    @contextmanager
    def connected(self, *, insist: bool = False) -> Iterator[Run]:
        """Take a connection for commands that belong together.

        Raises:
            NoAnswerError: it is not known whether the last commands were run.
            StoreUnavailableError: the server refused one, or did not answer twice in a row.
        """
        if self._failures >= _FAILURES and time.monotonic() < self._pause_ends and not insist:
            raise StoreUnavailableError(f"{self._failure}; it is tried again every few seconds")
        with self._explained():
            connection = self._pool.get_connection()
        try:
            yield partial(self._run, connection)
        except BaseException:
            # There may be answers that nobody read.
            connection.disconnect()  # type: ignore[no-untyped-call]
            raise
        finally:
            self._pool.release(connection)

    def _run(self, connection: AbstractConnection, commands: Sequence[Command]) -> list[Any]:
        answers: list[Any] = []
        with self._explained():
            for some in cut(commands, _COMMANDS_PER_CALL):
                packed = connection.pack_commands(some)  # type: ignore[no-untyped-call]
                connection.send_packed_command(packed)  # type: ignore[no-untyped-call]
                for _ in some:
                    try:
                        answers.append(connection.read_response())
                    except ResponseError as error:
                        answers.append(error)
            self._failures = 0
            for answer in answers:
                if isinstance(answer, ResponseError):
                    raise answer
        return answers

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of redis-py into one that names the cure."""
        try:
            yield
        except (RedisError, OSError, ValueError, TypeError) as error:
            # The error message may contain the URL.
            said = str(error).replace(self._address.url, self._address.shown)
            text = f"the server at {self._address.shown} {_find_cure(error)} ({said})"
            if not isinstance(error, (ConnectionError, TimeoutError, OSError)):
                raise StoreUnavailableError(text) from error
            self._failures, self._failure = self._failures + 1, text
            self._pause_ends = time.monotonic() + _PAUSE_SECONDS
            raise NoAnswerError(text) from error

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Say of what fails here that the store cannot be opened."""
        try:
            yield
        except StoreUnavailableError as error:
            raise StoreUnusableError(str(error)) from error

    def close(self) -> None:
        """Close all connections."""
        self._pool.disconnect()


def _find_cure(error: Exception) -> str:
    """Describe an error and its cure."""
    said = str(error)
    if "DB index" in said:
        return "has no database with this number; name another, or see its setting `databases`"
    if "SSL" in said or "certificate" in said:
        return (
            "does not use TLS on this port, or its certificate is not trusted; name its port for "
            "TLS and the certificate authority (?ssl_ca_certs=/path), or write redis://"
        )
    if said.startswith("WRONGTYPE"):
        return "has another program's data under this prefix; name another one (?prefix=...)"
    late = "check load, port and TLS"
    unreached = "check that it runs, host and port, and rediss:// (TLS)"
    cures: list[tuple[type[Exception], str]] = [
        (AuthenticationError, "refuses the user or password; write redis://user:password@host"),
        (NoPermissionError, "does not let this user do that; see its access control list (ACL)"),
        (BusyLoadingError, "is loading its data; try again when it is done"),
        (OutOfMemoryError, "has no memory left (maxmemory); give it more, then prune the store"),
        (ReadOnlyError, "is a replica and accepts no writes; name the primary"),
        # A port without TLS does not answer a client that uses TLS.
        (TimeoutError, f"did not answer within {TIMEOUT_SECONDS:g} seconds; {late}"),
        (ConnectionError, f"cannot be reached; {unreached}"),
        (ResponseError, "refused the command"),
    ]
    return next((cure for kind, cure in cures if isinstance(error, kind)), "cannot be used")


class RedisLeases(Leases):
    """The leases of the crawls that this process runs; a thread renews them, and the lock."""

    def __init__(self, server: Server, prefix: str, token: bytes) -> None:
        super().__init__()
        self._server, self._prefix, self._token = server, prefix, token
        # Crawls of other processes that transactions asked for, and whether they are running.
        self._running: dict[str, bool] = {}
        self.lock: bytes | None = None
        """The name of the lock, while this process has it."""
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=self._renew, name="scrapy_simhash-heartbeat", daemon=True
        )

    def _name(self, crawl: str) -> bytes:
        return f"{self._prefix}:lease:{crawl}".encode()

    def begin(self) -> list[Command]:
        """Make the commands that find out which crawls are running, see `begun`."""
        return [("EXISTS", self._name(crawl)) for crawl in self._running]

    def begun(self, answers: Sequence[int]) -> None:
        """Take the answers to `begin`."""
        self._running = dict(zip(self._running, map(bool, answers), strict=True))

    def start(self) -> None:
        """Start to renew what is held."""
        if not self._thread.ident:
            self._thread.start()

    def _renew(self) -> None:
        while not self._ending.wait(BEAT_SECONDS):
            crawls = list(self._held)
            names = [(self._name(crawl), LEASE_SECONDS) for crawl in crawls]
            if lock := self.lock:  # of another process's lock, only the time would change
                names.append((lock, LOCK_SECONDS))
            commands = [("PEXPIRE", name, round(1_000 * seconds)) for name, seconds in names]
            with suppress(StoreError):
                there = self._server.ask(*commands, ("PING",), insist=True)
                ended = [crawl for crawl, found in zip(crawls, there, strict=False) if not found]
                self._server.ask(*map(self._set, ended), insist=True)

    def _set(self, crawl: str) -> Command:
        """Make the command that takes a lease, unless another process has it."""
        name, milliseconds = self._name(crawl), round(1_000 * LEASE_SECONDS)
        return ("SET", name, self._token, "NX", "GET", "PX", milliseconds)

    def _is_taken(self, crawl: str) -> bool:
        if crawl not in self._running:
            self._running[crawl] = bool(self._server.ask(("EXISTS", self._name(crawl)))[0])
        return self._running[crawl]

    def _take(self, crawl: str) -> str | None:
        self._server.warn_of_loss()
        (holder,) = self._server.ask(self._set(crawl))
        if holder is not None:
            return None
        self.start()
        return crawl

    def _end(self, crawl: str, lease: str) -> None:
        del lease
        with suppress(StoreError):  # then it ends by itself
            self._server.ask(("DEL", self._name(crawl)))

    def close(self) -> None:
        super().close()
        self._ending.set()


class LeasesApart(RedisLeases):
    """The leases of a process that does not open the store; they have a connection of their own."""

    def __init__(self, url: str) -> None:
        address = server_address(url)
        server = Server(address, readonly=False)
        super().__init__(server, address.prefix, secrets.token_bytes(16))

    def close(self) -> None:
        super().close()
        self._server.close()
