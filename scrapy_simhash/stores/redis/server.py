"""Connect to a Redis or Valkey server, check it, and run commands in few round trips."""

from __future__ import annotations

import logging
from contextlib import contextmanager
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
from scrapy_simhash.stores.redis.scripts import TEXTS, script

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from scrapy_simhash.stores.opening import ServerAddress


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
        # `volatile-...` does no harm: no key of a store expires by itself.
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

    def run_script(self, digest: str, keys: Sequence[bytes], *arguments: object) -> Any:
        """Run a script."""
        return self.call(*script(digest, keys, *arguments))

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
                    for digest in {each[1] for each in part if each[0] == "EVALSHA"}:
                        self._client.script_load(TEXTS[digest])
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

    def measure(self, names: Collection[bytes]) -> int:
        """Return the server's estimate of the memory that keys take, in bytes (MEMORY USAGE)."""
        sizes = self.run([("MEMORY", "USAGE", name) for name in names])
        return sum(size or 0 for size in sizes)

    @contextmanager
    def _explained(self, kind: type[StoreUnavailableError | StoreUnusableError]) -> Iterator[None]:
        """Turn errors of redis-py into one that names the cure."""
        try:
            yield
        except (RedisError, RedisClusterException, OSError, ValueError, TypeError) as error:
            # The error message may contain the URL.
            said = str(error).replace(self.address.url, self.address.shown)
            raise kind(f"the server at {self.address.shown} {_cure(error)} ({said})") from error

    def close(self) -> None:
        """Close all connections."""
        if isinstance(self._client, RedisCluster):
            # `close` leaves the connections of the nodes to the garbage collector.
            for node in self._client.get_nodes():  # type: ignore[no-untyped-call]
                if node.redis_connection is not None:
                    node.redis_connection.connection_pool.disconnect()
        self._client.close()


def _cure(error: Exception) -> str:
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
