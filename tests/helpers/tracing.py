"""What a process asks of the kernel, seen and spoilt by strace."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.helpers.needing import do_without
from tests.helpers.processes import PATIENCE_SECONDS, ROOT, environment

_CALL = re.compile(r"\d+ +(\w+)\((.*)\) += (\d+)(?:<([^>]*)>)?(?: .*)?$")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_FILE = re.compile(r"\d+<((?:\\x[0-9a-f]{2})*)>")


@cache
def _why_not() -> str:
    if shutil.which("strace") is None:
        return "there is no strace"
    tried = subprocess.run(["strace", "-qq", "true"], capture_output=True, text=True, check=False)  # noqa: S607
    return "" if tried.returncode == 0 else f"strace does not work: {tried.stderr.strip()}"


def require_strace() -> None:
    """Skip the test, or fail, where strace is not there or may not trace."""
    if reason := _why_not():
        do_without(reason)


def run_traced(
    options: Sequence[str], *arguments: object, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run Python under strace to its end; its exit code is Python's."""
    return subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-qq", *options, sys.executable, *map(str, arguments)],  # noqa: S607
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


class Call(NamedTuple):
    """A system call that went well.

    Attributes:
        name: of the call.
        fd_path: of the file it was given as its first argument, or "".
        strings: all it was given, paths and content alike, in order.
        rest: its arguments without strings.
        result: a number.
        opened: path of the file it opened, or "".
    """

    name: str
    fd_path: str
    strings: tuple[bytes, ...]
    rest: str
    result: int
    opened: str


def trace_options(log: Path, calls: str) -> list[str]:
    """Say how strace writes a log of calls for `read_calls`."""
    longest = str(2**24)
    return ["-y", "-xx", "-s", longest, "-o", str(log), "-e", f"trace={calls}"]


def read_calls(log: Path) -> Iterator[Call]:
    """Read what strace saw; failed calls are left out."""
    with log.open(encoding="ascii") as lines:
        for line in lines:
            assert "<unfinished" not in line, "two threads at once have no order"
            found = _CALL.match(line)
            if found is None:  # failed, or a signal
                continue
            name, arguments, result, opened = found.groups()
            given = _FILE.match(arguments)
            yield Call(
                name,
                _octets(given.group(1)).decode() if given else "",
                tuple(_octets(string) for string in _STRING.findall(arguments)),
                _STRING.sub('""', arguments),
                int(result),
                _octets(opened or "").decode(),
            )


def _octets(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))
