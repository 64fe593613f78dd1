"""Connect to a Redis or Valkey server, check it, and run commands in few round trips."""

from __future__ import annotations

import logging
import secrets
import threading
from contextlib import contextmanager, suppress
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.cluster import RedisCluster
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ClusterError,
    ConnectionError,  # noqa: A004 - that of redis
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - that of redis
)
from redis.retry import Retry

from scrapy_simhash.errors import StoreError, StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.header import check_crawl_id, new_header
from scrapy_simhash.stores.records import Header, pack, unpack
from scrapy_simhash.stores.redis.keys import Keys
from scrapy_simhash.stores.redis.scripts import LEASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_simhash.pages import Recipe
    from scrapy_simhash.stores.urls import ServerAddress


logger = logging.getLogger(__name__)

# A page waits for its verdict at most twice as long: a call is tried again once.
TIMEOUT_SECONDS = 5.0
_RETRIES = 1
# A pipeline of this size sends and receives at most some 100 MB at once.
_COMMANDS_PER_CALL = 4_096
_KEYS_PER_SCAN = 1_000
# The first version with flags of scripts, and exclusive bounds of XRANGE.
OLDEST_VERSION = 7


class Server:
    """A connection to a server, or all nodes of a cluster; several threads may use it."""

    def __init__(self, address: ServerAddress, *, readonly: bool) -> None:
        self.address = address
        self.keys = Keys(address.prefix)
        with self._explained(StoreUnusableError):
            self._client = self._connect()
            try:
                for info in self._infos():
                    self._check(info, readonly=readonly)
            except BaseException:
                self.close()
                raise

    def _connect(self) -> Redis | RedisCluster:
        retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), _RETRIES)
        options: dict[str, Any] = {
            "socket_timeout": TIMEOUT_SECONDS,
            "socket_connect_timeout": TIMEOUT_SECONDS,
            "retry": retry,
        }
        if self.address.cluster:
            return RedisCluster.from_url(self.address.url, **options)
        if self.address.url.startswith("unix:"):
            del options["socket_connect_timeout"]
        return Redis.from_url(self.address.url, **options)

    def _infos(self) -> list[dict[str, Any]]:
        """Ask every server to describe itself."""
        if isinstance(self._client, Redis):
            return [self._client.info()]
        answers = self._client.info(target_nodes=RedisCluster.PRIMARIES)
        # The answer of a single node is not keyed by its name.
        return [answers] if "redis_version" in answers else list(answers.values())

    def _check(self, info: dict[str, Any], *, readonly: bool) -> None:
        """Refuse a server that would lose data, or lacks features that a store needs."""
        shown, version = self.address.shown, str(info["redis_version"])
        if int(version.partition(".")[0]) < OLDEST_VERSION:
            raise StoreUnusableError(
                f"the server at {shown} is Redis {version}; it must be {OLDEST_VERSION}.0 or later"
            )
        if bool(info.get("cluster_enabled")) != self.address.cluster:
            raise StoreUnusableError(
                f"the server at {shown} is {'no' if self.address.cluster else 'a'} node of a "
                f"cluster; write {'redis' if self.address.cluster else 'redis+cluster'}://"
            )
        if readonly:
            return
        policy = str(info.get("maxmemory_policy", "noeviction"))
        # `volatile-...` does no harm: the lock is the only key of a store that expires.
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
        """Log a one-line warning if the server may lose acknowledged writes in a crash."""
        with self._explained(StoreUnavailableError):
            if not all(info.get("aof_enabled") for info in self._infos()):
                logger.warning(
                    "The server at %s keeps no append-only file: if it crashes, it loses writes "
                    "that it acknowledged. Set appendonly to yes, and appendfsync to always",
                    self.address.shown,
                )

    def call(self, *command: Any, opening: bool = False) -> Any:
        """Run a command."""
        return self.run([command], opening=opening)[0]

    def run_script(self, text: str, keys: Sequence[bytes], *arguments: object) -> Any:
        """Run a script."""
        return self.call(*script(text, keys, *arguments))

    def run(self, commands: Sequence[Sequence[Any]], *, opening: bool = False) -> list[Any]:
        """Run commands in one round trip; those before a failed one may have been done."""
        answers: list[Any] = []
        with self._explained(StoreUnusableError if opening else StoreUnavailableError):
            for start in range(0, len(commands), _COMMANDS_PER_CALL):
                part = commands[start : start + _COMMANDS_PER_CALL]
                try:
                    answers += self._run(part)
                except NoScriptError:
                    # The server was restarted, or another node has the slot now.
                    for text in {_scripts[each[1]] for each in part if each[0] == "EVALSHA"}:
                        self._client.script_load(text)
                    answers += self._run(part)
        return answers

    def _run(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        if len(commands) == 1:
            return [self._client.execute_command(*commands[0])]  # type: ignore[no-untyped-call]
        with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return pipeline.execute()

    def scan(self, pattern: bytes) -> set[bytes]:
        """List the keys that match a pattern; looks at every key of the server."""
        with self._explained(StoreUnavailableError):
            return set(self._client.scan_iter(pattern, _KEYS_PER_SCAN))

    @contextmanager
    def _explained(self, kind: type[StoreUnavailableError | StoreUnusableError]) -> Iterator[None]:
        """Turn errors of redis-py into one that names the cure."""
        try:
            yield
        except (RedisError, RedisClusterException, OSError, ValueError, TypeError) as error:
            # The error message may contain the URL.
            told = str(error).replace(self.address.url, self.address.shown)
            raise kind(f"the server at {self.address.shown} {_cure(error)} ({told})") from error

    def close(self) -> None:
        """Close all connections."""
        if isinstance(self._client, RedisCluster):
            # `close` leaves the connections of the nodes to the garbage collector.
            for node in self._client.get_nodes():  # type: ignore[no-untyped-call]
                if node.redis_connection is not None:
                    node.redis_connection.connection_pool.disconnect()
        self._client.close()


_scripts: dict[str, str] = {}


def script(text: str, keys: Sequence[bytes], *arguments: object) -> tuple[object, ...]:
    """Make the command that runs a script, by its hash."""
    name = sha1(text.encode(), usedforsecurity=False).hexdigest()
    _scripts[name] = text
    return ("EVALSHA", name, len(keys), *keys, *arguments)


def _cure(error: Exception) -> str:
    """Describe an error and its cure."""
    told = str(error)
    if "DB index" in told:
        return "has no database with this number; name another, or see its setting `databases`"
    if "SSL" in told or "certificate" in told:
        return (
            "does not use TLS on this port, or its certificate is not trusted; name its port for "
            "TLS and the certificate authority (?ssl_ca_certs=/path), or write redis://"
        )
    if told.startswith("WRONGTYPE"):
        return "has another program's data under this prefix; name another one (?prefix=...)"
    late = "check load, port and TLS"
    unreached = "check that it runs, host and port, and rediss:// (TLS)"
    cures: list[tuple[type[Exception], str]] = [
        (AuthenticationError, "refuses the user or password; write redis://user:password@host"),
        (NoPermissionError, "does not let this user do that; see its access control list (ACL)"),
        (BusyLoadingError, "is loading its data; try again when it is done"),
        (OutOfMemoryError, "has no memory left (maxmemory); give it more, or prune the store"),
        (ReadOnlyError, "is a replica and accepts no writes; name the primary"),
        # A port without TLS does not answer a client that uses TLS.
        (TimeoutError, f"did not answer within {TIMEOUT_SECONDS:g} seconds; {late}"),
        (ConnectionError, f"cannot be reached; {unreached}"),
        (ClusterDownError, "has a node down; start it, or let its replica take over"),
        (ClusterError, "is moving a slot to another node; it is used again when that is done"),
        (RedisClusterException, "is not a complete cluster; check its nodes"),
        (ResponseError, "refused the command"),
    ]
    # redis-py wraps the error of a cluster's node.
    causes = list(_list_causes(error))
    fitting = (cure for kind, cure in cures if any(isinstance(each, kind) for each in causes))
    return next(fitting, "cannot be used")


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """List an error and its causes, up to one that was explained already."""
    while error is not None and not isinstance(error, StoreError):
        yield error
        error = error.__cause__ or error.__context__


def is_out_of_memory(error: StoreUnavailableError) -> bool:
    """Whether the server refused something because its memory is full."""
    return isinstance(error.__cause__, OutOfMemoryError)


# Increased when a version writes data that earlier versions would misread.
FORMAT = 1
_KEY = b"store"


def make_store(server: Server, recipe: Recipe, design: str, seed: int | None) -> bool:
    """Write the header of a store that has none; returns whether this call did."""
    keys = server.keys
    if server.call("EXISTS", keys.header, opening=True):
        return False
    # Reading all keys takes too long; another program's data would use one of these.
    ours = [keys.seq, keys.log, keys.next, keys.crawls, keys.waiting, keys.chunk(0)]
    if foreign := [key for key in ours if server.call("EXISTS", key, opening=True)]:
        raise StoreUnusableError(
            f"the server at {server.address.shown} has a key {foreign[0].decode()!r}, but no "
            "header of a store: the data is another program's, or damaged. Name another prefix "
            "(?prefix=...) in SIMHASH_STORE"
        )
    header = new_header(FORMAT, recipe, design, seed, client="redis")
    return bool(server.call("SET", keys.header, pack_header(header), "NX", opening=True))


def pack_header(header: Header) -> bytes:
    """Pack a header."""
    return pack(_KEY, header)


def unpack_header(packed: bytes | None, shown: str) -> Header:
    """Read a header, or raise a StoreUnusableError; `shown` is the store's URL for messages."""
    if packed is None:
        raise StoreUnusableError(f"there is no store at {shown}; name an existing one")
    try:
        header = unpack(Header, _KEY, packed)
    except StoreError as error:
        raise StoreUnusableError(
            f"{error}: the data at {shown} is another program's, damaged, or of a newer version. "
            "Name another prefix (?prefix=...) in SIMHASH_STORE, restore the server's own backup, "
            "or open it with the newest scrapy-simhash"
        ) from error
    if header.format != FORMAT:
        raise StoreUnusableError(
            f"the store at {shown} has format {header.format}, this version reads {FORMAT}: use "
            f"scrapy-simhash {header.libraries.get('scrapy-simhash')}, which made it"
        )
    return header


# A server does not notice when a process on another machine dies, so a lease expires. After a
# `kill -9` the crawl's pending records count for this number of seconds; a page that is dropped for
# one of them is requested again, or listed as lost. A process that was stopped gets its lease back.
# This is longer than a working process may pause for a time-out of the server, a full garbage
# collection, or a move of its virtual machine. Five renewals may fail in this time.
LEASE_SECONDS = 30.0
_BEATS_PER_LEASE = 6


class Heartbeat:
    """A thread that calls `beat` at intervals, for instance to renew a lock, until `stop`."""

    def __init__(self, beat: Callable[[], object], seconds: float) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(beat, seconds), name="scrapy_simhash-heartbeat", daemon=True
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


class RedisLeases:
    """The leases of the crawls that this process runs; a thread renews them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._key = server.keys.leases
        self._token = secrets.token_hex(16)
        self._heartbeat: Heartbeat | None = None
        self.held: set[str] = set()

    def take(self, crawl: str) -> None:
        """Take the lease of a starting crawl; a ValueError for an invalid id or one in use."""
        check_crawl_id(crawl)
        if crawl in self.held or not self._beat(crawl, "new"):
            raise ValueError(f"crawl id {crawl!r}: a crawl with this id is running")
        self.held.add(crawl)
        if self._heartbeat is None:
            self._heartbeat = Heartbeat(self._keep, LEASE_SECONDS / _BEATS_PER_LEASE)

    def _beat(self, crawl: str, kind: str) -> bool:
        microseconds = round(LEASE_SECONDS * 1_000_000)
        arguments = (crawl, self._holder(crawl), microseconds, kind)
        return bool(self._server.run_script(LEASE, [self._key], *arguments))

    def _holder(self, crawl: str) -> str:
        """Name the holder of a crawl's lease: the crawl, a space, and a token of this process."""
        return f"{crawl} {self._token}"

    def _keep(self) -> None:
        for crawl in list(self.held):
            with suppress(StoreError):
                self._beat(crawl, "old")
                if crawl not in self.held:  # given back meanwhile
                    self._end(crawl)

    def give_back(self, crawl: str) -> None:
        """End the lease of a crawl, if it has one."""
        if crawl in self.held:
            self.held.discard(crawl)
            self._end(crawl)

    def _end(self, crawl: str) -> None:
        self._server.call("ZREM", self._key, self._holder(crawl))

    def close(self) -> None:
        """End every lease that this object took; if the server is gone, they expire."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
        for crawl in list(self.held):
            with suppress(StoreError):
                self.give_back(crawl)


def read_holder(holder: bytes) -> str:
    """Get the crawl from the holder of its lease; ids of crawls have no spaces."""
    return holder.partition(b" ")[0].decode()
