"""Extractors and scopes that misbehave; workers and settings name them by import path."""

import ctypes
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import repeat
from typing import Any

# What a page's text must contain to set an extractor off; other pages are read as usual.
TRIGGER = "misbehave"
NOT_CALLABLE = 7


def _read(tree: Any) -> str:
    """Read what pages of `tests.helpers.pages` have in common, or all there is."""
    main = tree.find(".//main")
    return " ".join((tree if main is None else main).text_content().split())


def _make(misbehave: Callable[[], object]) -> Callable[[Any], str]:
    """Make an extractor that misbehaves on pages that say so."""

    def extract(tree: Any) -> str:
        if TRIGGER in _read(tree):
            misbehave()
        return _read(tree)

    return extract


def _spin() -> None:
    while True:
        pass


def _hang_natively() -> None:
    """Loop in C: the interpreter is not let go, and no Python signal handler ever runs."""
    deque(repeat(0), maxlen=0)


def _hang_deaf() -> None:
    """Loop in C with every signal blocked that can be."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    _hang_natively()


def _eat() -> None:
    """Take memory; a gigabyte is the end, for the sake of the machine."""
    _ = [bytes([number % 256]) * 2**20 for number in range(1_024)]


def _eat_quietly() -> None:
    """Take memory, and make the best of it when there is no more."""
    with suppress(MemoryError):
        _eat()


def _fail() -> None:
    raise ArithmeticError("this extractor always fails here")


hang, spin = _make(lambda: time.sleep(3600)), _make(_spin)
hang_natively, hang_deaf = _make(_hang_natively), _make(_hang_deaf)
eat, eat_quietly = _make(_eat), _make(_eat_quietly)
crash, leave, fail = _make(lambda: ctypes.string_at(0)), _make(lambda: os._exit(3)), _make(_fail)


def fail_with_the_page(tree: Any) -> str:
    """Raise with the page's own words, as parsers do."""
    raise ValueError("cannot read " + tree.text_content())


def slow(tree: Any) -> str:
    """Take 0.3 seconds, computing."""
    _compute(0.3)
    return _read(tree)


def slower(tree: Any) -> str:
    """Take long enough that an event loop that waited for it would show."""
    _compute(1.5)
    return _read(tree)


def _compute(seconds: float) -> None:
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


def describe_process(_: str, __: Any) -> str:
    """Say as a scope which process reads pages, and what it has loaded."""
    return f"{os.getpid()} {' '.join(sys.modules)}"


def scope_by_language(_: str, page: Any) -> str:
    return str(page.language)


def scope_that_quotes(url: str, page: Any) -> str:
    raise LookupError(f"no scope for {url} {page.title} {page.text}")
