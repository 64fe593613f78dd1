"""Extractors and scopes that misbehave; settings name them by import path."""

import ctypes
import os
import resource
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import repeat
from typing import Any

from turbohtml import parse

# What a page's text must contain to set an extractor off; other pages are read as usual.
TRIGGER = "misbehave"
NOT_CALLABLE = 7


def _read(html: str) -> str:
    """Read what pages of `tests.helpers.pages` have in common, or all there is."""
    page = parse(html)
    main = page.find("main") or page.find("body")
    return " ".join(main.text.split()) if main else ""


def _make(misbehave: Callable[[], object]) -> Callable[[str], str]:
    """Make an extractor that misbehaves on pages that say so."""

    def extract(html: str) -> str:
        if TRIGGER in html:
            misbehave()
        return _read(html)

    return extract


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


hang, hang_deaf = _make(lambda: time.sleep(3600)), _make(_hang_deaf)
eat, eat_quietly = _make(_eat), _make(_eat_quietly)
crash, leave, fail = _make(lambda: ctypes.string_at(0)), _make(lambda: os._exit(3)), _make(_fail)


def fail_with_the_page(html: str) -> str:
    """Raise with the page's own words, as parsers do."""
    raise ValueError("cannot read " + html)


def slow(html: str) -> str:
    """Take 0.3 seconds, computing."""
    _compute(0.3)
    return _read(html)


def _compute(seconds: float) -> None:
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


def fill_disk(html: str) -> str:
    """Let no file be written from one page on, and from another one on again."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if "disk is" in html:
        limit = 0 if "disk is full" in html else hard
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    return _read(html)


def scope_by_language(_: str, page: Any) -> str:
    return str(page.language)


def scope_that_quotes(url: str, page: Any) -> str:
    raise LookupError(f"no scope for {url} {page}")
