"""Scopes, and a reader of main texts, that misbehave; settings name them by import path."""

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

# What a page must be called to set a scope off, with a way behind it; others are of one scope.
TRIGGER = "misbehave: "


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
    raise ArithmeticError("this scope always fails here")


def _fork() -> None:
    """Leave behind a process that has all that is open here, as pools do that fork."""
    if os.fork():
        os._exit(3)
    time.sleep(30)
    os._exit(0)


_WAYS: dict[str, Callable[[], object]] = {
    "hang": lambda: time.sleep(3600),
    "hang deaf": _hang_deaf,
    "eat": _eat,
    "eat quietly": _eat_quietly,
    "crash": lambda: ctypes.string_at(0),
    "leave": lambda: os._exit(3),
    "fail": _fail,
    "fork": _fork,
}


def misbehave(_: str, page: Any) -> str:
    """Misbehave in the way that a page is called by."""
    if way := page.facts.title.partition(TRIGGER)[2]:
        _WAYS[way]()
    return ""


def fill_disk(_: str, page: Any) -> str:
    """Let no file be written from one page on, and from another one on again."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if "disk is" in page.facts.heading:
        limit = 0 if "disk is full" in page.facts.heading else hard
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    return ""


def read_badly(html: str) -> str:
    """Raise, hang or find nothing where the menu says so."""
    if "second" in html:
        raise ValueError("as a reader may")
    if "third" in html:
        time.sleep(60)
    return "" if "fourth" in html else "what it found"


def scope_that_quotes(url: str, page: Any) -> str:
    raise LookupError(f"no scope for {url} {page}")
