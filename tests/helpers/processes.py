"""Other processes: started, watched and waited for."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
# For anything that ends by itself; only a broken test waits so long.
PATIENCE_SECONDS = 120


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Make an environment in which the package and these tests can be imported."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **(extra or {})}


def run_python(
    *arguments: str | Path,
    cwd: Path,
    extra: Mapping[str, str] | None = None,
    given: str = "",
    seconds: float = PATIENCE_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end; what it prints is text."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment(extra),
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def run_scrapy(
    *arguments: str | Path, cwd: Path, given: str = ""
) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "scrapy", *arguments, cwd=cwd, given=given)


@contextmanager
def start_python(*arguments: str | Path, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Start Python; it is killed at the end of the block if it still runs then."""
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(holds: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def list_judges() -> set[int]:
    """List the processes of this one that judge pages."""
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # gone meanwhile, or about to
            if "judge.judge import" in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


def is_running(pid: int) -> bool:
    """Say whether a process lives; a zombie does not."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
