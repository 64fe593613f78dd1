"""What a crawl and its workers say to each other.

::

    orders, to the worker       frames: MessagePack of a list of `Order`, then the bodies
    answers, from the worker    frames: MessagePack of an `Answer`, then of its `PageFingerprint`,
                                which the crawl passes on as it is; before the first one `READY`
    status, of the worker       shared memory: the page that it is reading, and since when

The crawl's process loads this, and nothing that reads pages.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import tempfile
import time
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from scrapy_simhash.pages.facts import PageFingerprint
from scrapy_simhash.pages.links import NO_LINKS, PageLinks
from scrapy_simhash.pages.recipe import Recipe  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Sequence

# A worker exits with it if its page took too much memory. Above the codes of Python and the shell,
# below those of signals.
OUT_OF_MEMORY_EXIT_CODE = 97
READY = b""
SIZE = struct.Struct("<I")
_STATUS_BYTES = mmap.PAGESIZE
_CHANGING = -1.0


class Order(NamedTuple):
    """A page to read, and how."""

    number: int  # no other page of the process has it
    body: bytes
    encoding: str | None
    url: str
    recipe: Recipe
    seed: int
    scope: str  # SIMHASH_SCOPE
    memory_bytes: int
    timeout_seconds: float
    second_opinion: str = ""  # why only the second reader shall read it
    text_reader: str = ""  # of the main text that is handed over, where nothing else is wanted


def pack_orders(orders: Sequence[Order]) -> list[bytes]:
    """Make the parts of a message; the bodies are not copied."""
    sizes = [len(order.body) for order in orders]
    head = _encode((sizes, [order._replace(body=b"") for order in orders]))
    size = SIZE.pack(len(head))
    return [size, head, *(order.body for order in orders)]


def unpack_orders(message: bytes) -> list[Order]:
    """Read what `pack_orders` made."""
    start = SIZE.size + SIZE.unpack_from(message)[0]
    sizes, orders = _decode_orders(message[SIZE.size : start])
    ends = list(accumulate(sizes, initial=start))
    return [
        order._replace(body=message[start:end])
        for order, (start, end) in zip(orders, pairwise(ends), strict=True)
    ]


class Answer(msgspec.Struct, array_like=True):
    """What the crawl needs of a page that was read, or the reason why it was not."""

    # Not pickled: what native code made of a hostile page must not become objects of any kind in
    # the crawl's process.
    number: int
    targets: PageLinks = NO_LINKS
    scope: str = ""
    second_opinion: str = ""
    is_file: bool = False
    text: str = ""  # that is handed over
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0  # that it took


class ReadPage(NamedTuple):
    """A page that was read: what the crawl needs, and the whole message, for the judge."""

    answer: Answer
    packed: bytes

    def unpack(self) -> PageFingerprint:
        """Read the fingerprint; ValueError if it is damaged."""
        start = SIZE.size + SIZE.unpack_from(self.packed)[0]
        return replace(_decode_made(self.packed[start:]), targets=self.answer.targets)


_encode = msgspec.msgpack.Encoder().encode
_decode_orders = msgspec.msgpack.Decoder(tuple[list[int], list[Order]]).decode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode
_decode_made = msgspec.msgpack.Decoder(PageFingerprint).decode


def unpack_answer(message: bytes) -> ReadPage:
    """Read the result of a page; ValueError if it is damaged."""
    # Of a fingerprint not more is looked at here.
    if len(message) < SIZE.size:
        raise ValueError("no answer of a worker")
    end = SIZE.size + SIZE.unpack_from(message)[0]
    return ReadPage(_decode_answer(message[SIZE.size : end]), message)


class Status:
    """The page that a worker is reading, since when, and whether it still loads the reader."""

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
        """Record that a page begins now; called by the worker."""
        values = self._values
        values[0] = _CHANGING
        values[1], values[2] = time.monotonic(), loading
        values[0] = number

    def spent(self) -> float:
        """Return the seconds since the page began; called by the worker."""
        return time.monotonic() - self._values[1]

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
