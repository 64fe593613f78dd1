"""Real servers of Redis or Valkey for the tests, alone or as a cluster: each in its own folder."""

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from scrapy_simhash.stores.redis.server import Server
from tests.helpers.needing import require_program
from tests.helpers.processes import PATIENCE_SECONDS, wait_until

_SLOTS = 16_384
_PRIMARIES = 3


class RedisServer:
    """A server that listens on a socket, and keeps nothing on disk unless told so.

    Args:
        folder: of its own, with a short path: sockets have at most 108 characters.
        options: of the program.
        program: `redis-server` or `valkey-server`.
    """

    def __init__(self, folder: Path, *options: str, program: str = "redis-server") -> None:
        self.folder = folder
        self._program = program
        self.socket = folder / "s"
        self._options = options
        self._prefixes = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        place = ("--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder))
        command = (self._program, *place, "--save", "", *self._options)
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def url(self, prefix: str = "") -> str:
        """Make the URL of a store, of its own unless it has a name."""
        self._prefixes += 1
        return f"unix://{self.socket}?prefix={prefix or f'store-{self._prefixes}'}"

    def client(self) -> Redis:
        return Redis(unix_socket_path=str(self.socket))

    def empty(self) -> None:
        """Delete every key."""
        with self.client() as client:
            client.flushall()

    def wait(self) -> None:
        """Wait until it answers."""

        def answers() -> bool:
            try:
                with self.client() as client:
                    return bool(client.ping())
            except RedisError:
                return False

        wait_until(answers)

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def restart(self) -> None:
        """Start it again, with what it kept."""
        self.process = self._start()
        self.wait()


@contextmanager
def run_redis(*options: str, program: str = "redis-server") -> Iterator[RedisServer]:
    """Run a server."""
    require_program(program)
    with TemporaryDirectory(dir="/tmp") as folder:
        server = RedisServer(Path(folder), *options, program=program)
        try:
            server.wait()
            yield server
        finally:
            server.kill()


class RedisCluster:
    """Servers that share the slots; they are asked through sockets, and ask by TCP.

    The first three are primaries at first; others have a copy of one each.
    """

    def __init__(self, nodes: list[RedisServer], ports: list[int]) -> None:
        self.nodes = nodes
        self.ports = ports
        self._ids = [
            str(self.ask(number, "CLUSTER", "MYID"), "ascii") for number in range(len(nodes))
        ]
        self._prefixes = 0

    def url(self, prefix: str = "") -> str:
        """Make the URL of a store, of its own unless it has a name."""
        self._prefixes += 1
        name = prefix or f"store-{self._prefixes}"
        return f"redis+cluster://127.0.0.1:{self.ports[0]}?prefix={name}"

    def empty(self) -> None:
        """Delete every key of every node."""
        for node in self.nodes:
            node.empty()

    def join(self) -> None:
        """Let the nodes share the slots, and wait until each knows all of them."""
        step = -(-_SLOTS // _PRIMARIES)
        for number, node in enumerate(self.nodes):
            with node.client() as client:
                if number < _PRIMARIES:
                    last = min(_SLOTS, step * (number + 1)) - 1
                    client.execute_command("CLUSTER", "ADDSLOTSRANGE", step * number, last)
                client.execute_command("CONFIG", "SET", "cluster-require-full-coverage", "no")
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        with self.nodes[0].client() as client:
            for number in range(1, len(self.nodes)):
                port = self.ports[number]
                meet = ("CLUSTER", "MEET", "127.0.0.1", port, self.ports[number] + 10_000)
                client.execute_command(*meet)
        self.wait()
        for number in range(_PRIMARIES, len(self.nodes)):
            self.ask(number, "CLUSTER", "REPLICATE", self._ids[number - _PRIMARIES])

    def ask(self, number: int, *command: object) -> Any:
        """Let a node run a command."""
        with self.nodes[number].client() as client:
            return client.execute_command(*command)

    def list_living(self) -> list[int]:
        """List the nodes that run."""
        return [number for number, node in enumerate(self.nodes) if node.process.poll() is None]

    def list_primaries(self) -> list[int]:
        """List the nodes that take writes."""
        return [number for number in self.list_living() if self.ask(number, "ROLE")[0] == b"master"]

    def find_owner(self, slot: int) -> int:
        """Find the node that has a slot."""
        for first, last, primary, *_ in self.ask(self.list_living()[0], "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return self.ports.index(primary[1])
        raise LookupError(f"no node has slot {slot}")

    def find_slot(self, key: str) -> int:
        """Find the slot of a key."""
        return int(self.ask(self.list_living()[0], "CLUSTER", "KEYSLOT", key))

    def wait_for_copies(self) -> None:
        """Wait until the replicas have all that their primaries have."""
        for number in self.list_primaries():
            wait_until(lambda number=number: self.ask(number, "WAIT", 1, 1_000))  # type: ignore[misc]

    def fail_over(self, primary: int) -> None:
        """Let a primary and its replica change their roles, as one does for upkeep."""
        replica = (primary + _PRIMARIES) % len(self.nodes)

        def is_over() -> bool:
            roles = [self.ask(number, "ROLE")[0] for number in (replica, primary)]
            return roles == [b"master", b"slave"]

        def try_again() -> bool:
            # It gives up after 5 seconds where the replica is far behind.
            if self.ask(replica, "ROLE")[0] == b"slave":
                self.ask(replica, "CLUSTER", "FAILOVER")
            with suppress(AssertionError):
                wait_until(is_over, 10)
            return is_over()

        wait_until(try_again)
        self.wait()
        self.wait_for_copies()

    def move(self, slot: int, target: int, pause: Callable[[], object] = lambda: None) -> None:
        """Move a slot to another primary as `redis-cli --cluster reshard` does, key by key."""
        source = self.find_owner(slot)
        self.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self._ids[source])
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self._ids[target])
        while keys := self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 1):
            place = ("127.0.0.1", self.ports[target], "", 0, 1_000 * PATIENCE_SECONDS)
            self.ask(source, "MIGRATE", *place, "KEYS", *keys)
            pause()
        for number in (target, source):
            self.ask(number, "CLUSTER", "SETSLOT", slot, "NODE", self._ids[target])

    def wait(self) -> None:
        """Wait until every node knows who has which slot."""

        def knows(node: RedisServer) -> bool:
            with node.client() as client:
                info: bytes = client.execute_command("CLUSTER", "INFO")
            return b"cluster_state:ok" in info and b"cluster_slots_ok:%d\r" % _SLOTS in info

        wait_until(lambda: all(knows(self.nodes[number]) for number in self.list_living()))


def free_port() -> int:
    """Find a port that is free, with the one that Redis takes for the talk of its nodes."""
    while True:
        # Below those that the system gives to the connections of other tests.
        port = SystemRandom().randrange(10_000, 22_000)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port


@contextmanager
def run_cluster(
    *options: str, program: str = "redis-server", replicas: bool = False
) -> Iterator[RedisCluster]:
    """Run a cluster of three primaries, with a replica each or with none."""
    with ExitStack() as stack:
        ports = [free_port() for _ in range(2 * _PRIMARIES if replicas else _PRIMARIES)]
        nodes = [
            stack.enter_context(
                run_redis(
                    *("--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes"),
                    *("--cluster-node-timeout", "2000", *options),
                    *("--repl-diskless-sync-delay", "0"),
                    program=program,
                )
            )
            for port in ports
        ]
        cluster = RedisCluster(nodes, ports)
        cluster.join()
        yield cluster


def count_trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count round trips from now on, in a list of one number; not those of leases."""
    counted = [0]
    run = Server.run

    def count(self: Server, *arguments: Any, **options: Any) -> list[Any]:
        counted[0] += threading.current_thread() is threading.main_thread()
        return run(self, *arguments, **options)

    monkeypatch.setattr(Server, "run", count)
    return counted
