"""Show the progress of commands, only on a terminal; it disappears at the end."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SECONDS_BETWEEN = 0.2
_ERASE_LINE = "\r\x1b[K"


@contextmanager
def show_progress(unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a line; yields a function that takes the numbers of units (a plural) done, and of all.

    If that is never called, the line names the work alone; None is for a number that nobody knows.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    begun = shown = time.monotonic()

    def show(done: int, total: int | None) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= _SECONDS_BETWEEN:
            shown = now
            of = "" if total is None else f" of {total:,}"
            sys.stderr.write(f"{_ERASE_LINE}{done:,}{of} {unit}, {now - begun:.0f} s")
            sys.stderr.flush()

    sys.stderr.write(f"{unit} ...")
    sys.stderr.flush()
    try:
        yield show
    finally:
        sys.stderr.write(_ERASE_LINE)
