"""The reader of the default recipe, misbehaving on pages that say so; for judges only.

A recipe names one of the feature sets here, and a judge that loads it gets the reader, too. A page
says `turbohtml crashes`, `turbohtml hangs` and the like.
"""

import ctypes
import gc
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from scrapy_simhash.pages import fingerprint
from scrapy_simhash.pages.features import FEATURE_SETS

_load_reader = fingerprint.load_reader
WORDS = FEATURE_SETS["words-1"]


def _hang() -> None:
    time.sleep(3600)


def _raise() -> None:
    raise ArithmeticError("this reader cannot count")


def _eat() -> None:
    _ = [bytes([number % 256]) * 2**20 for number in range(1_024)]


def _babble(message: bytes) -> None:
    """Send what is no answer, as a process might that native code has taken over."""
    for found in gc.get_objects():
        if isinstance(found, socket.socket):
            found.sendall(struct.pack("<I", len(message)) + message)


_WAYS: dict[str, Callable[[], object]] = {
    "crashes": lambda: ctypes.string_at(0),
    "aborts": os.abort,
    "hangs": _hang,
    "raises": _raise,
    "eats": _eat,
    "babbles": lambda: _babble(b"words"),
    # Number, no fingerprint, and a reason that is not UTF-8.
    "mumbles": lambda: _babble(b"\x93\x01\xc4\x00\xa2\xff\xfe"),
    "takes time": lambda: time.sleep(0.3),
}


def _read(read: Callable[..., Any], extractor: str, html: str, ignore: Sequence[str]) -> Any:
    for way, misbehave in _WAYS.items():
        if f"{extractor} {way}" in html:
            misbehave()
    return read(html, ignore)


def _load(extractor: str) -> Callable[..., Any]:
    return partial(_read, _load_reader(extractor), extractor)


if "pytest" not in sys.modules:  # in a judge
    fingerprint.load_reader = _load  # type: ignore[assignment]


def __getattr__(name: str) -> Any:
    """Make feature sets that take long to load."""
    if name == "WORDS_SLOW_TO_LOAD":
        time.sleep(1.5)
        return WORDS
    if name == "WORDS_NEVER_LOADED":
        time.sleep(3600)
    raise AttributeError(name)
