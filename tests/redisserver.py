"""A Redis server of one's own, on a socket in a folder."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.beside import require_modules, require_program
from tests.processes import PATIENCE_SECONDS, wait_until


@contextmanager
def serve_redis() -> Iterator[str]:
    """Run a server that keeps nothing; gives its URL."""
    require_modules("redis")
    program = require_program("redis-server")
    # The path of a socket has at most 107 bytes, that of a test's folder may have more.
    with TemporaryDirectory(prefix="redis") as folder:
        socket = Path(folder) / "socket"
        options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", folder]
        with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as server:
            try:
                wait_until(lambda: socket.exists() or server.poll() is not None)
                assert server.poll() is None, "redis-server ended"
                yield f"unix://{socket}"
            finally:
                server.terminate()
                server.wait(PATIENCE_SECONDS)
