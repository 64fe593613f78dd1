"""Real servers of Redis or Valkey for the tests, each in its own folder."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from scrapy_simhash.stores.redis import RedisEngine
from tests.helpers.needing import require_program
from tests.helpers.processes import PATIENCE_SECONDS, wait_until


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
    require_program(program)
    with TemporaryDirectory(dir="/tmp") as folder:
        server = RedisServer(Path(folder), *options, program=program)
        try:
            server.wait()
            yield server
        finally:
            server.kill()


def free_port() -> int:
    while True:
        # Below those that the system gives to the connections of other tests.
        port = SystemRandom().randrange(10_000, 22_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def count_trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count round trips from now on, in a list of one number."""
    counted = [0]
    ask = RedisEngine.ask

    def count(self: RedisEngine, *arguments: Any, **options: Any) -> list[Any]:
        counted[0] += 1
        return ask(self, *arguments, **options)

    monkeypatch.setattr(RedisEngine, "ask", count)
    return counted
