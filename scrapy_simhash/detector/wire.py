"""What goes between the crawl's process and a worker.

::

    orders, to the worker       pickle of a list of `Order`
    answers, from the worker    length, MessagePack of an `_Answer`; before the first one `READY`
    place, of the worker        memory that both see: the page it is at, and since when
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.pages import PageFingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.pages import Recipe

_LENGTH = struct.Struct("<I")
READY = _LENGTH.pack(0)
_PLACE_BYTES = mmap.PAGESIZE
_CHANGING = -1.0


class Order(NamedTuple):
    """A page to read, and how."""

    number: int  # no other page of the process has it
    body: bytes
    encoding: str | None
    url: str
    recipe: Recipe
    seed: int
    keep_text: bool
    memory_bytes: int
    timeout_seconds: float
    second_opinion: str = ""  # why only the second reader shall read it


class _Answer(msgspec.Struct, array_like=True):
    """What a worker found: the fingerprint of a page, or the reason why there is none."""

    # Not pickled: what native code made of a hostile page must not become objects of any kind in
    # the crawl's process.
    number: int
    made: bytes = b""  # MessagePack of it
    reason: str = ""
    detail: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Answer).decode
_decode_page = msgspec.msgpack.Decoder(PageFingerprint).decode


def pack_answer(number: int, found: PageFingerprint | UnjudgedError) -> bytes:
    """Make the message with what was found on a page."""
    if isinstance(found, UnjudgedError):
        detail = found.detail.encode("utf-8", "backslashreplace").decode()
        answer = _Answer(number, reason=found.reason, detail=detail)
    else:
        answer = _Answer(number, _encode(found))
    message = _encode(answer)
    return _LENGTH.pack(len(message)) + message


def take_answers(received: bytearray) -> Iterator[tuple[int, PageFingerprint | UnjudgedError]]:
    """Take the whole answers from what was received; an error if one is none.

    Raises:
        ValueError: an answer is damaged, or a text of it is not UTF-8.
    """
    place = 0
    try:
        while len(received) >= place + _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, place)
            end = place + _LENGTH.size + length
            if len(received) < end:
                return
            answer = _decode(received[place + _LENGTH.size : end])
            place = end
            if answer.reason:
                yield answer.number, UnjudgedError(answer.reason, answer.detail)
            else:
                yield answer.number, _decode_page(answer.made)
    finally:
        del received[:place]


class Place:
    """Where a worker is: which page, since when, and whether it still loads what reads it."""

    # Memory, because a message for each page would wake the crawl's process each time.

    def __init__(self, file: int | None = None) -> None:
        self.file = _make_file() if file is None else file
        self._memory = mmap.mmap(self.file, _PLACE_BYTES)
        self._values = memoryview(self._memory).cast("d")

    def begin(self, number: int, *, loading: bool = False) -> None:
        """Note that a page begins now; called by the worker."""
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
        # What is no time is long ago: a process that writes such things is killed.
        return int(number), min(began, now) if math.isfinite(began) else 0.0, bool(loading)

    def close(self) -> None:
        """Let the memory go; harmless if closed twice."""
        if self.file >= 0:
            self._values.release()
            self._memory.close()
            os.close(self.file)
            self.file = -1


def _make_file() -> int:
    """Make a file without a name that has its room, so that no write to the memory fails."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("scrapy_simhash-place", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.write(file, bytes(_PLACE_BYTES))
    return file
