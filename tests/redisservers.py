"""Real Redis servers for the tests: started in a folder, on a socket of their own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis
from redis.exceptions import RedisError

from tests.processes import PATIENCE_SECONDS, wait_until
from tests.tracing import EVERYTHING


def require_redis() -> None:
    """Skip the test, or fail, where there is no Redis server."""
    reason = "" if shutil.which("redis-server") else "there is no redis-server"
    if reason and os.environ.get(EVERYTHING):
        pytest.fail(f"{EVERYTHING} is set, and {reason}")
    if reason:
        pytest.skip(reason)


class RedisServer:
    """A server that listens on a socket, and keeps nothing on disk unless told so.

    Args:
        folder: of its own, with a short path: sockets have at most 108 characters.
        options: of `redis-server`.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.socket = folder / "s"
        self._options = options
        self._prefixes = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        place = ("--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder))
        command = ("redis-server", *place, "--save", "", *self._options)
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def url(self, prefix: str = "") -> str:
        """Make the URL of a store of its own."""
        self._prefixes += 1
        return f"unix://{self.socket}?prefix={prefix or f'store-{self._prefixes}'}"

    def client(self) -> Redis:
        return Redis(unix_socket_path=str(self.socket))

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
def run_redis(*options: str) -> Iterator[RedisServer]:
    """Run a server, with no warning about what it does not keep on disk."""
    require_redis()
    with TemporaryDirectory(dir="/tmp") as folder:
        server = RedisServer(Path(folder), *options)
        try:
            server.wait()
            yield server
        finally:
            server.kill()
