"""Extractors and scopes that misbehave; workers and settings name them by import path."""

import ctypes
import os
import signal
import sys
import time
from collections import deque
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


def _triggered(tree: Any) -> bool:
    return TRIGGER in _read(tree)


def hang(tree: Any) -> str:
    while _triggered(tree):
        time.sleep(3600)
    return _read(tree)


def spin(tree: Any) -> str:
    triggered = _triggered(tree)
    while triggered:
        pass
    return _read(tree)


def hang_natively(tree: Any) -> str:
    """Loop in C: the interpreter is not let go, and no Python signal handler ever runs."""
    if _triggered(tree):
        deque(repeat(0), maxlen=0)
    return _read(tree)


def hang_deaf(tree: Any) -> str:
    """Loop in C with every signal blocked that can be."""
    if _triggered(tree):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        deque(repeat(0), maxlen=0)
    return _read(tree)


def eat(tree: Any) -> str:
    """Take memory; a gigabyte is the end, for the sake of the machine."""
    if _triggered(tree):
        _eat()
    return _read(tree)


def eat_quietly(tree: Any) -> str:
    """Take memory, and make the best of it when there is no more."""
    if _triggered(tree):
        with suppress(MemoryError):
            _eat()
    return _read(tree)


def _eat() -> None:
    _ = [bytes([number % 256]) * 2**20 for number in range(1_024)]


def crash(tree: Any) -> str:
    if _triggered(tree):
        ctypes.string_at(0)
    return _read(tree)


def leave(tree: Any) -> str:
    if _triggered(tree):
        os._exit(3)
    return _read(tree)


def fail(tree: Any) -> str:
    if _triggered(tree):
        raise ArithmeticError("this extractor always fails here")
    return _read(tree)


def fail_with_the_page(tree: Any) -> str:
    """Raise with the page's own words, as parsers do."""
    raise ValueError("cannot read " + tree.text_content())


def find_nothing(_: Any) -> str | None:
    return None


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


def describe_process(_: Any) -> str:
    """Say which process extracts, and what it has loaded."""
    return f"{os.getpid()} {' '.join(sys.modules)}"


def scope_by_language(_: str, page: Any) -> str:
    return str(page.language)


def scope_that_quotes(url: str, page: Any) -> str:
    raise LookupError(f"no scope for {url} {page.title} {page.text}")


def scope_that_fails(_: str, page: Any) -> str:
    raise LookupError(f"no scope for {page.title}")
