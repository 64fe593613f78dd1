"""Scripts for processes of their own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.processes import ROOT, run_python


def run_script(script: str, *arguments: object) -> str:
    """Run a script to its end and return what it printed; a signal death is an error too."""
    done = run_python("-c", script, *map(str, arguments), cwd=ROOT)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


# Reads or writes a store (`read`, `write`), and stays in the transaction until it gets a line.
HOLDER = """
import sys
from scrapy_simhash.stores.lmdb import LmdbEngine
engine = LmdbEngine(sys.argv[1], readonly=sys.argv[2] == "read")
engine.open()

def work(values):
    values.transaction.stat()
    print("ready", flush=True)
    sys.stdin.readline()

engine.run(work, writing=sys.argv[2] == "write")
"""
# Opens a store, read-only or not (`True`, `False`), until it gets a line.
OPENER = """
import sys
from scrapy_simhash import open_store
with open_store(sys.argv[1], readonly=sys.argv[2] == "True"):
    print("ready", flush=True)
    sys.stdin.readline()
"""


class Child:
    """A running script that prints a line for each line it gets."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def read_whole_lines(self) -> list[str]:
        """Read to the end; what a killed process had begun to print does not count."""
        assert self.process.stdout
        return self.process.stdout.read().split("\n")[:-1]

    def tell(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.read()

    def kill(self) -> None:
        """Kill it as `kill -9` does and wait until it is gone."""
        self.process.kill()
        assert self.process.wait() == -9


@contextmanager
def running(script: str, *arguments: object) -> Iterator[Child]:
    """Start a script, wait for its first line, and kill it at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        child = Child(process)
        try:
            assert child.read() == "ready"
            yield child
        finally:
            process.kill()
