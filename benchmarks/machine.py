"""What numbers were measured on, and how results are shown and written; for all benchmarks."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def progress(text: str) -> None:
    """Show on standard error what is being done."""
    print(text, file=sys.stderr, flush=True)


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table; numbers to two digits after the point or three in all."""
    print(f"\n| {' | '.join(head)} |\n| --- |{' ---: |' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(map(_show, row))} |", flush=True)


def _show(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@contextmanager
def run_redis(folder: Path, *options: str) -> Iterator[str]:
    """Run a `redis-server` on a socket; yields its URL. Nothing is saved without an append file."""
    socket = folder / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(folder)]
    command += ["--save", "", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            while not socket.exists():
                assert server.poll() is None, "redis-server ended"  # noqa: S101
                time.sleep(0.01)
            yield f"unix://{socket}"
        finally:
            server.kill()


# Every commit is synced, as LMDB does.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def describe_machine() -> dict[str, str | int]:
    """Return what the numbers were measured on; no host name."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "model": model,
        "cores": os.cpu_count() or 0,
        "memory_gib": round(memory / 2**30),
        "system": platform.system(),
    }


def describe_versions(*names: str) -> dict[str, str]:
    """Return the versions of these distributions, and of Python."""
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def write_result(path: Path | None, distributions: Sequence[str], **figures: Any) -> None:
    """Write what was measured as JSON: by which command, on what machine, with which versions.

    Args:
        path: of the file; None to write nothing.
        distributions: those that were measured.
        figures: the rest of the file.
    """
    if path is not None:
        script = Path(sys.argv[0]).resolve().relative_to(Path(__file__).resolve().parent.parent)
        # Of folders only their names: nobody has the same ones.
        arguments = (Path(each).name if each.startswith("/") else each for each in sys.argv[1:])
        result = {
            "command": " ".join(["python", str(script), *arguments]),
            "machine": describe_machine(),
            "versions": describe_versions(*distributions),
            **figures,
        }
        path.write_text(json.dumps(result, indent=1) + "\n")
