"""Which page a judge is at, in memory that it shares with its crawl.

A page that hangs in native code runs no Python any more, so nothing in its process can bound its
time: the crawl looks here, and kills it.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import time

# A judge exits with it if its page took too much memory. Above the codes of Python and the shell,
# below those of signals.
OUT_OF_MEMORY_EXIT_CODE = 97
_STATUS_BYTES = mmap.PAGESIZE
_CHANGING = -1.0


class Status:
    """The page that a judge is at, since when, and whether it loads a reader or asks the store."""

    # Memory, because a message for each page would wake the crawl's process each time.

    def __init__(self, file: int | None = None) -> None:
        self.file = _make_file() if file is None else file
        try:
            os.pwrite(self.file, bytes(_STATUS_BYTES), 0)  # so that no write to the memory fails
            self._memory = mmap.mmap(self.file, _STATUS_BYTES)
        except BaseException:
            os.close(self.file)
            raise
        self._values = memoryview(self._memory).cast("d")

    def begin(self, number: int, *, loading: bool = False) -> None:
        """Record that a page begins now, or with number 0 that none is read."""
        values = self._values
        values[0] = _CHANGING
        values[1], values[2] = time.monotonic(), loading
        values[0] = number

    def read(self) -> tuple[int, float, bool]:
        """Read number, beginning (`time.monotonic`, one clock for all processes), and loading."""
        number, began, loading, again = (self._values[i] for i in (0, 1, 2, 0))
        now = time.monotonic()
        if number == _CHANGING or number != again or not math.isfinite(number):
            return 0, now, False
        # What is no time counts as long ago: a process that wrote it is killed.
        return int(number), min(began, now) if math.isfinite(began) else 0.0, bool(loading)

    def close(self) -> None:
        """Release the memory; harmless if called twice."""
        if self.file >= 0:
            self._values.release()
            self._memory.close()
            os.close(self.file)
            self.file = -1


def _make_file() -> int:
    """Make a file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("scrapy_simhash-status", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as temporary:
        return os.dup(temporary.fileno())
