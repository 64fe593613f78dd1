"""Read pages in a worker process, one after the other, within bounds that the kernel keeps.

::

    orders, to the worker       pickle of a list of `Order`
    answers, from the worker    length, MessagePack of an `_Answer`; before the first one `READY`
    status, of the worker       shared memory: the page that it is reading, and since when

A worker that hangs in native code runs no Python any more, so nothing in it can bound it. On
systems other than Linux a thread watches the parent instead, and memory has no bound.
"""

from __future__ import annotations

import ctypes
import logging
import math
import mmap
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from scrapy_simhash._printable import describe_error
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.rule import MIN_FEATURES
from scrapy_simhash.pages.fingerprint import PageFingerprint, fingerprint_page, make_recipe
from scrapy_simhash.pages.main_text import load_text_reader, read_text
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, SECOND_EXTRACTOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from scrapy_simhash.pages.recipe import Recipe

# A worker exits with it if its page took too much memory. Above the codes of Python and the shell,
# below those of signals.
OUT_OF_MEMORY_EXIT_CODE = 97
# An extractor may swallow a MemoryError and return half a text. Below this share of the bound at
# peak, the allocation that failed was larger than all the rest, and no page needs such a one.
_TOO_CLOSE = 0.75
# Fewer than some hundred would not set up OpenBLAS's buffers.
_WARMING_WORDS = 5_000
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WATCHING_SECONDS = 0.2
_KIB = 1_024
# Answers of so many seconds go together: to take them costs the crawl's process less than half.
_ANSWERING_SECONDS = 0.01
_BUFFER_BYTES = 1 << 18
_LENGTH = struct.Struct("<I")
READY = _LENGTH.pack(0)
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
    keep_text: bool
    memory_bytes: int
    timeout_seconds: float
    second_opinion: str = ""  # why only the second reader shall read it
    text_reader: str = ""  # of the main text that is handed over, where nothing else is wanted


class _Answer(msgspec.Struct, array_like=True):
    """A page's fingerprint or text, or the reason why there is none."""

    # Not pickled: what native code made of a hostile page must not become objects of any kind in
    # the crawl's process.
    number: int
    made: PageFingerprint | str | None = None
    reason: str = ""
    detail: str = ""


Found: TypeAlias = PageFingerprint | str | NotJudgedError
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Answer).decode


def pack_answer(number: int, found: Found) -> bytes:
    """Make the message with the result of a page."""
    if isinstance(found, NotJudgedError):
        detail = found.detail.encode("utf-8", "backslashreplace").decode()
        answer = _Answer(number, reason=found.reason, detail=detail)
    else:
        answer = _Answer(number, found)
    message = _encode(answer)
    return _LENGTH.pack(len(message)) + message


def take_answers(received: bytearray) -> tuple[list[tuple[int, Found]], bool]:
    """Take complete answers from what was received; return them, and True unless one is damaged.

    A damaged answer, or one with a text that is not UTF-8, is the last one.
    """
    answers: list[tuple[int, Found]] = []
    offset = 0
    try:
        while len(received) >= offset + _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, offset)
            end = offset + _LENGTH.size + length
            if len(received) < end:
                break
            answer = _decode(received[offset + _LENGTH.size : end])
            found = NotJudgedError(answer.reason, answer.detail) if answer.reason else answer.made
            if found is None:
                return answers, False
            answers.append((answer.number, found))
            offset = end
    except ValueError:
        return answers, False
    del received[:offset]
    return answers, True


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


def main(orders_file: int, status_file: int, crawl_process: int) -> None:
    """Read pages until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the crawl
    end_with(crawl_process)
    # Otherwise messages of lxml and trafilatura would end up on the crawl's standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    crawl, status = socket.socket(fileno=orders_file), Status(status_file)
    orders = crawl.makefile("rb", _BUFFER_BYTES)
    _warm_up()
    bound = MemoryBound()
    answers = bytearray(READY)
    with suppress(EOFError, ConnectionError):
        while True:
            crawl.sendall(answers)
            answers.clear()
            sent = time.monotonic()
            pages: list[Order] = pickle.load(orders)  # noqa: S301 - from the crawl
            while pages:
                answers += _answer(pages.pop(0), status, bound)
                if pages and time.monotonic() - sent > _ANSWERING_SECONDS:
                    crawl.sendall(answers)
                    answers.clear()
                    sent = time.monotonic()


def _warm_up() -> None:
    """Load everything, so that what the first page sets up does not count as its memory."""
    # OpenBLAS sets up 32 MB.
    fingerprint_page(
        f"<html><body><p>{' '.join(map(str, range(_WARMING_WORDS)))}</p></body></html>"
    )


def _answer(order: Order, status: Status, bound: MemoryBound) -> bytes:
    """Read a page; the process ends if that takes more memory than it may."""
    number, memory_bytes = order.number, order.memory_bytes
    found: Found

    @contextmanager
    def loading() -> Iterator[None]:
        """Leave out of the page's bounds what is loaded for all pages."""
        status.begin(number, loading=True)
        with bound.lift():
            yield
        status.begin(number)

    status.begin(number)
    try:
        with bound.apply(memory_bytes):
            found = work(order, loading)
    except NotJudgedError as error:
        found = error
    except MemoryError:
        found = NotJudgedError("out_of_memory", f"{memory_bytes} bytes")
    try:
        return pack_answer(number, found)
    except UnicodeEncodeError as error:  # a lone surrogate
        return pack_answer(number, NotJudgedError("failed", describe_error(error)))


def work(
    order: Order, loading: Callable[[], AbstractContextManager[None]] = nullcontext
) -> PageFingerprint | str:
    """Read a page in this process; raises NotJudgedError or MemoryError, nothing else."""
    if name := order.text_reader:
        with _load(name, partial(load_text_reader, name), loading):
            return read_text(order.body, order.encoding, name)
    # A page that breaks the fast reader is read by the second one: at once if that raises.
    recipe, second_opinion = order.recipe, order.second_opinion
    made = None
    if not second_opinion:
        try:
            made = _read(order, recipe, loading)
        except NotJudgedError as error:
            if error.reason != "failed" or recipe.extractor != DEFAULT_EXTRACTOR:
                raise
            second_opinion = "raised"
    if made is None:
        second = replace(recipe, extractor=SECOND_EXTRACTOR, extractor_version=0)
        made = replace(_read(order, second, loading), second_opinion=second_opinion)
    return made if order.keep_text else replace(made, text="")


# Recipes, and names of readers of text, that this process has loaded.
_loaded: set[Recipe | str] = set()


def _read(
    order: Order, recipe: Recipe, loading: Callable[[], AbstractContextManager[None]]
) -> PageFingerprint:
    with _load(recipe, partial(make_recipe, recipe.extractor, recipe.features), loading):
        return fingerprint_page(
            order.body, order.encoding, recipe, order.seed, order.url, MIN_FEATURES
        )


@contextmanager
def _load(
    what: Recipe | str,
    load: Callable[[], object],
    loading: Callable[[], AbstractContextManager[None]],
) -> Iterator[None]:
    """Load a reader, then run the block, which uses it: trafilatura takes 1 s and 60 MB."""
    if what not in _loaded:
        _loaded.add(what)
        # What cannot be loaded is reported when the page is read.
        with loading(), suppress(Exception):
            load()
    try:
        yield
    except (NotJudgedError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a page does, the worker goes on
        # SystemExit would end the worker.
        raise NotJudgedError("failed", describe_error(error)) from None


def end_with(process: int) -> None:
    """End this process with the one that started it: by the kernel, or by a thread if not Linux."""
    # On Linux the kernel sends SIGKILL: while native code holds the interpreter no other thread
    # runs, and a hanging worker would outlive a killed crawl for ever. SIGTERM may be blocked. It
    # does so when the *thread* ends that started this process, which is the event loop's.
    if sys.platform != "linux" or ctypes.CDLL(None).prctl(
        _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0
    ):
        threading.Thread(target=_watch, args=(process,), daemon=True).start()
    elif os.getppid() != process:  # it ended before the call; the signal would never come
        os._exit(0)


def _watch(process: int) -> None:
    while os.getppid() == process:
        time.sleep(_WATCHING_SECONDS)
    os._exit(0)


class MemoryBound:
    """Bounds the memory of pages, beyond what the process has loaded when this is made."""

    def __init__(self) -> None:
        self._loaded = _read_memory()

    @contextmanager
    def apply(self, page_bytes: int) -> Iterator[None]:
        """End this process when the block allocates more data than that, used or not."""
        # The whole process, so that the next page finds a fresh one and nothing that swallowed the
        # MemoryError goes on with half a page.
        if self._loaded is None:
            yield
            return
        _limit_data(self._loaded.data_bytes + page_bytes)
        try:
            yield
        except MemoryError:
            os._exit(OUT_OF_MEMORY_EXIT_CODE)
        finally:
            now = _read_memory() or self._loaded
            if now.peak_bytes - self._loaded.peak_bytes > _TOO_CLOSE * page_bytes:
                os._exit(OUT_OF_MEMORY_EXIT_CODE)

    @contextmanager
    def lift(self) -> Iterator[None]:
        """Let the block, within `apply`, load what later pages need, too."""
        if self._loaded is None:
            yield
            return
        before = _read_memory() or self._loaded
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        yield
        grown = (_read_memory() or before).data_bytes - before.data_bytes
        data_bytes, peak_bytes = self._loaded
        self._loaded = _Memory(data_bytes + grown, peak_bytes + grown)
        _limit_data(soft + grown)


class _Memory(NamedTuple):
    """Memory of this process: data, as RLIMIT_DATA counts it, and the most in use at a time."""

    data_bytes: int
    peak_bytes: int


def _read_memory() -> _Memory | None:
    """Return the memory of this process, or None if the system does not report it."""
    # The peak not from getrusage, where it may be that of the parent at the time of the fork.
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - a page's cost
            found = dict(line.split(":", 1) for line in status if line.startswith("Vm"))
        return _Memory(*(int(found[name].split()[0]) * _KIB for name in ("VmData", "VmHWM")))
    except (OSError, KeyError):
        return None


def _limit_data(most_bytes: int) -> None:
    """Bound the data of this process, below what the system allows it."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
