"""A Redis or Valkey server: connected, looked at before it is used, asked in few round trips."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.cluster import RedisCluster
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
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

from scrapy_simhash.stores import StoreError, StoreUnavailableError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_simhash.store_urls import ServerAddress

logger = logging.getLogger(__name__)

# A page waits for its verdict no longer than this, twice: a call is tried again once.
TIMEOUT_SECONDS = 5.0
_RETRIES = 1
# Of a pipeline: what is sent and received at once stays below some 100 MB.
_COMMANDS_PER_CALL = 4_096
_KEYS_PER_SCAN = 1_000
# Scripts with flags, and XRANGE with exclusive bounds.
OLDEST_VERSION = 7


class Server:
    """A connection to a server, or to all nodes of a cluster; may be used by several threads.

    Args:
        address: of it.
        readonly: a replica will do, and nothing is asked of its durability.

    Raises:
        StoreUnusableError: it cannot be used; the message names the cure.
    """

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
        """Ask every server for what it says of itself."""
        if isinstance(self._client, Redis):
            return [self._client.info()]
        answers = self._client.info(target_nodes=RedisCluster.PRIMARIES)
        # Of a single node it is not by its name.
        return [answers] if "redis_version" in answers else list(answers.values())

    def _check(self, info: dict[str, Any], *, readonly: bool) -> None:
        """Refuse a server that would lose what it is given, or cannot do what is asked of it."""
        shown, version = self.address.shown, str(info["redis_version"])
        if int(version.partition(".")[0]) < OLDEST_VERSION:
            raise StoreUnusableError(
                f"the server at {shown} is Redis {version}; at least {OLDEST_VERSION}.0 is needed"
            )
        if bool(info.get("cluster_enabled")) != self.address.cluster:
            raise StoreUnusableError(
                f"the server at {shown} is {'no' if self.address.cluster else 'a'} node of a "
                f"cluster; write {'redis' if self.address.cluster else 'redis+cluster'}://"
            )
        if readonly:
            return
        policy = str(info.get("maxmemory_policy", "noeviction"))
        # No key of a store but its lock expires.
        if policy.startswith("allkeys"):
            raise StoreUnusableError(
                f"the server at {shown} throws away keys when its memory is full (maxmemory-policy "
                f"{policy}), and tables with them; set it to noeviction, or take another server"
            )
        if info.get("role") != "master":
            raise StoreUnusableError(
                f"the server at {shown} is a replica and takes no writes; name the primary"
            )

    def warn_of_loss(self) -> None:
        """Say in one line what the server's settings do not keep from being lost."""
        with self._explained(StoreUnavailableError):
            if not all(info.get("aof_enabled") for info in self._infos()):
                logger.warning(
                    "The server at %s keeps no append-only file: what it acknowledged is lost when "
                    "it crashes. Set appendonly to yes, and appendfsync to always",
                    self.address.shown,
                )

    def call(self, *command: Any, opening: bool = False) -> Any:
        """Run a command."""
        return self.run([command], opening=opening)[0]

    def run(self, commands: Sequence[Sequence[Any]], *, opening: bool = False) -> list[Any]:
        """Run commands, all in one round trip; in order, as long as one server has their keys.

        Raises:
            StoreUnavailableError: one failed; those before it may have been done.
            StoreUnusableError: the same, while the store is being opened.
        """
        answers: list[Any] = []
        with self._explained(StoreUnusableError if opening else StoreUnavailableError):
            for start in range(0, len(commands), _COMMANDS_PER_CALL):
                part = commands[start : start + _COMMANDS_PER_CALL]
                try:
                    answers += self._run(part)
                except NoScriptError:
                    # Restarted, or another node has the slot now.
                    self._load([each[1] for each in part if each[0] == "EVALSHA"])
                    answers += self._run(part)
        return answers

    def _run(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        if len(commands) == 1:
            return [self._client.execute_command(*commands[0])]  # type: ignore[no-untyped-call]
        with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return pipeline.execute()

    def _load(self, hashes: Sequence[str]) -> None:
        for script in {_scripts[each] for each in hashes}:
            self._client.script_load(script)

    def scan(self, pattern: bytes) -> set[bytes]:
        """List the keys with a pattern; looks at every key of the server."""
        with self._explained(StoreUnavailableError):
            return set(self._client.scan_iter(pattern, _KEYS_PER_SCAN))

    @contextmanager
    def _explained(self, kind: type[StoreUnavailableError | StoreUnusableError]) -> Iterator[None]:
        """Turn what redis-py raises into an error that names the cure."""
        try:
            yield
        except (RedisError, RedisClusterException, OSError, ValueError, TypeError) as error:
            # What the server says may repeat what it was sent.
            told = str(error).replace(self.address.url, self.address.shown)
            raise kind(f"the server at {self.address.shown} {_cure(error)} ({told})") from error

    def close(self) -> None:
        """Close all connections."""
        if isinstance(self._client, RedisCluster):
            # It leaves those of its nodes to the garbage collector.
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
    """Say what is wrong and what helps; the first that fits."""
    told = str(error)
    if "DB index" in told:
        return "has no database of this number; name another, or see its setting `databases`"
    if "SSL" in told or "certificate" in told:
        return (
            "speaks no TLS on this port, or shows a certificate that is not trusted; name its "
            "port for TLS and the authority (?ssl_ca_certs=/path), or write redis://"
        )
    if told.startswith("WRONGTYPE"):
        return "has another program's data under this prefix; name another one (?prefix=...)"
    cures: list[tuple[type[Exception], str]] = [
        (AuthenticationError, "refuses user or password; write redis://user:password@host"),
        (NoPermissionError, "does not let this user do that; see its access control list (ACL)"),
        (BusyLoadingError, "is loading its data; try again when it is done"),
        (OutOfMemoryError, "has no memory left (maxmemory); give it more, or prune the store"),
        (ReadOnlyError, "is a replica and takes no writes; name the primary"),
        # A port without TLS says nothing to who speaks it.
        (
            TimeoutError,
            f"did not answer within {TIMEOUT_SECONDS:g} seconds; check load, port and TLS",
        ),
        (
            ConnectionError,
            "cannot be reached; check that it runs, host and port, and rediss:// (TLS)",
        ),
        (ClusterDownError, "has a node down; start it, or let its replica take over"),
        (RedisClusterException, "is no whole cluster; check its nodes"),
        (ResponseError, "refuses what it is asked"),
    ]
    # Behind what redis-py says of a cluster is what one of the nodes said.
    causes = list(_list_causes(error))
    fitting = (cure for kind, cure in cures if any(isinstance(each, kind) for each in causes))
    return next(fitting, "cannot be used")


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """List an error and those behind it, up to one that was explained already."""
    while error is not None and not isinstance(error, StoreError):
        yield error
        error = error.__cause__ or error.__context__


def is_out_of_memory(error: StoreUnavailableError) -> bool:
    """Say whether the server refused something because its memory is full."""
    return isinstance(error.__cause__, OutOfMemoryError)
