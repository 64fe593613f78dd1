"""What bounds a worker process: its parent's life, and the memory a page may take.

Both bounds are the kernel's, because a worker that hangs in native code runs no Python any more. On
systems other than Linux a thread watches the parent instead, and memory has no bound.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of a worker that ended itself because its page took too much memory. Above those of Python and
# the shell, below those of signals.
OUT_OF_MEMORY_EXIT_CODE = 97
# An extractor may swallow a MemoryError and return half a text. With a peak below this share of the
# bound, what could not be allocated was larger than the rest, and nothing that a page needs at a
# time is.
_TOO_CLOSE = 0.75
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WATCHER = "scrapy_simhash-parent-watcher"
_DATA_PAGES = 5  # the field of /proc/self/statm that RLIMIT_DATA is compared with
_KIB = 1_024


def end_with_parent() -> None:
    """Have this process ended when its parent is, however that ends."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if not _ask_kernel_to_end_with(parent.pid):
        watch_parent(parent)


def _ask_kernel_to_end_with(parent_pid: int | None) -> bool:
    """Have the kernel kill this process when the thread that started it ends.

    A thread of this process cannot do it: while native code holds the interpreter no other thread
    runs, and a hanging worker would outlive a killed crawl for ever. SIGKILL, because SIGTERM may
    be blocked. The kernel looks at the thread that started the process, not at the parent as a
    whole, hence the launcher thread in `workers`.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        return False
    # The parent may have ended before the call; the signal would never come.
    if os.getppid() != parent_pid:
        os._exit(0)
    return True


def watch_parent(parent: Any) -> None:
    """Have a thread end this process when its parent ends; once."""
    if not any(thread.name == _WATCHER for thread in threading.enumerate()):
        threading.Thread(target=_end_with, args=(parent,), name=_WATCHER, daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(0)


class MemoryBound:
    """Bounds what pages take, beyond what the process has loaded when this is made."""

    def __init__(self) -> None:
        self._data_bytes = _read_data_bytes()
        self._resident_bytes = _read_peak_bytes()

    @contextmanager
    def apply(self, page_bytes: int) -> Iterator[None]:
        """End this process when the block takes more memory.

        The whole process, so that the next page finds a fresh one and nothing that swallowed the
        MemoryError goes on with half a page.

        Args:
            page_bytes: of data, allocated whether used or not.
        """
        if self._data_bytes is None or self._resident_bytes is None:
            yield
            return
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        bound = self._data_bytes + page_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (_smaller(bound, hard), hard))
        try:
            yield
        except MemoryError:
            os._exit(OUT_OF_MEMORY_EXIT_CODE)
        finally:
            taken = (_read_peak_bytes() or 0) - self._resident_bytes
            if taken > _TOO_CLOSE * page_bytes:
                os._exit(OUT_OF_MEMORY_EXIT_CODE)


def _smaller(bound: int, hard: int) -> int:
    return bound if hard == resource.RLIM_INFINITY else min(bound, hard)


def _read_data_bytes() -> int | None:
    """Read how much writable, private memory this process has; None where nothing tells."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - a page's cost
            return int(statm.read().split()[_DATA_PAGES]) * resource.getpagesize()
    except OSError:
        return None


def _read_peak_bytes() -> int | None:
    """Read the most memory this process had in use at a time; None where nothing tells.

    Not from getrusage, where it may be that of the parent at the time of the fork.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * _KIB
    except (OSError, StopIteration):
        return None
