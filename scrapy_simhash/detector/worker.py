"""What a reader process is asked and answers, and how it reads pages, within the kernel's bounds.

::

    orders, to the worker       two frames each: MessagePack of an `Order`, the body of its page
    answers, from the worker    two frames each: MessagePack of an `Answer`, then of its
                                `PageFingerprint`, which the crawl passes on as it is; before the
                                first one `READY`
    status, of the worker       shared memory: the page that it is reading, and since when

The crawl's process loads this, but what reads pages only where pages are read. A worker that hangs
in native code runs no Python any more, so nothing in it can bound it. On systems other than Linux a
thread watches the parent instead, and memory has no bound.
"""

from __future__ import annotations

import logging
import math
import mmap
import os
import resource
import signal
import tempfile
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from scrapy_simhash._printable import describe_error
from scrapy_simhash.detector.process import Parent, end_with
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.rule import MIN_FEATURES
from scrapy_simhash.pages.facts import Page, PageFingerprint
from scrapy_simhash.pages.links import NO_LINKS, PageLinks
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, SECOND_EXTRACTOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

# A worker exits with it if its page took too much memory. Above the codes of Python and the shell,
# below those of signals.
OUT_OF_MEMORY_EXIT_CODE = 97
READY = b""
_STATUS_BYTES = mmap.PAGESIZE
_CHANGING = -1.0
# An extractor may swallow a MemoryError and return half a text. Below this share of the bound at
# peak, the allocation that failed was larger than all the rest, and no page needs such a one.
_TOO_CLOSE = 0.75
# Fewer than some hundred would not set up OpenBLAS's buffers.
_WARMING_WORDS = 5_000
_KIB = 1_024
# Answers of so many seconds go together: to take them costs the crawl's process less than half.
_ANSWERING_SECONDS = 0.01
_FRAMES_OF_ORDER = 2  # what is to be done, and the body


class Order(NamedTuple):
    """A page to read, and how."""

    number: int  # no other page of the process has it
    page: Page
    extractor: str
    features: str
    seed: int
    scope: str  # SIMHASH_SCOPE
    memory_bytes: int
    timeout_seconds: float
    second_opinion: str = ""  # why only the second reader shall read it
    text_reader: str = ""  # of the main text that is handed over, where nothing else is wanted


class Answer(msgspec.Struct, array_like=True):
    """What the crawl needs of a page that was read, or the reason why it was not."""

    # Not pickled: what native code made of a hostile page must not become objects of any kind in
    # the crawl's process.
    number: int
    targets: PageLinks = NO_LINKS
    scope: str = ""
    second_opinion: str = ""
    text: str = ""  # that is handed over
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0  # that it took


class ReadPage(NamedTuple):
    """A page that was read: what the crawl needs, and for the judge a packed `PageFingerprint`."""

    answer: Answer
    packed: bytes = b""


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


pack = msgspec.msgpack.Encoder().encode
_unpack_order = msgspec.msgpack.Decoder(Order).decode
unpack_answer = msgspec.msgpack.Decoder(Answer).decode
unpack_fingerprint = msgspec.msgpack.Decoder(PageFingerprint).decode
Found: TypeAlias = PageFingerprint | str | NotJudgedError


def make_answer(number: int, found: Found, scope: str = "", seconds: float = 0.0) -> ReadPage:
    """Make the answer of what was found on a page; UnicodeEncodeError for half a surrogate pair."""
    if isinstance(found, NotJudgedError):
        detail = found.detail.encode("utf-8", "backslashreplace").decode()
        return ReadPage(Answer(number, reason=found.reason, detail=detail, seconds=seconds))
    if isinstance(found, str):
        return ReadPage(Answer(number, text=found, seconds=seconds))
    answer = Answer(number, found.targets, scope, found.second_opinion, seconds=seconds)
    return ReadPage(answer, pack(replace(found, targets=NO_LINKS, text="")))


def main(orders_file: int, status_file: int, crawl_process: int) -> None:
    """Read pages until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the crawl
    end_with(crawl_process)
    # Otherwise messages of lxml and trafilatura would end up on the crawl's standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    crawl, status = Parent(orders_file), Status(status_file)
    _warm_up()
    bound = MemoryBound()
    answers, sent = [READY], 0.0
    with suppress(EOFError, ConnectionError):
        while True:
            if time.monotonic() - sent > _ANSWERING_SECONDS or not crawl.has_sent(_FRAMES_OF_ORDER):
                crawl.send(answers)
                answers.clear()
                sent = time.monotonic()
            # No name holds a page while the next one is read: that costs 8 MB.
            answer, packed = _answer(_get_order(crawl), status, bound)
            answers += [pack(answer), packed]


def _get_order(crawl: Parent) -> Order:
    """Wait for an order, and for the body of its page."""
    order = _unpack_order(crawl.get())
    return order._replace(page=structs.replace(order.page, body=crawl.get()))


def _warm_up() -> None:
    """Load everything, so that what the first page sets up does not count as its memory."""
    from scrapy_simhash.pages.fingerprint import fingerprint_page  # noqa: PLC0415 - loads numpy

    # OpenBLAS sets up 32 MB.
    fingerprint_page(
        f"<html><body><p>{' '.join(map(str, range(_WARMING_WORDS)))}</p></body></html>"
    )


def _answer(order: Order, status: Status, bound: MemoryBound) -> ReadPage:
    """Read a page; the process ends if that takes more memory than it may."""
    number, memory_bytes = order.number, order.memory_bytes

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
            return work(order, loading, status.spent)
    except MemoryError:
        return make_answer(number, NotJudgedError("out_of_memory", f"{memory_bytes} bytes"))


def work(
    order: Order,
    loading: Callable[[], AbstractContextManager[None]] = nullcontext,
    spent: Callable[[], float] = lambda: 0.0,
) -> ReadPage:
    """Read a page in this process, and make its answer; raises MemoryError, nothing else."""
    number, scope = order.number, ""
    try:
        found = _work(order, loading)
        if isinstance(found, PageFingerprint):
            scope = _find_scope(order.scope, order.page.url, found, loading)
        return make_answer(number, found, scope, spent())
    except NotJudgedError as error:
        return make_answer(number, error, seconds=spent())
    except UnicodeEncodeError as error:  # a lone surrogate
        return make_answer(number, NotJudgedError("failed", describe_error(error)))


def _work(
    order: Order, loading: Callable[[], AbstractContextManager[None]]
) -> PageFingerprint | str:
    if name := order.text_reader:
        from scrapy_simhash.pages.main_text import (  # noqa: PLC0415 - seldom wanted
            load_text_reader,
            read_text,
        )

        with _load(name, partial(load_text_reader, name), loading):
            return read_text(order.page.body, order.page.encoding, name)
    # A page that breaks the fast reader is read by the second one: at once if that raises.
    second_opinion = order.second_opinion
    if not second_opinion:
        try:
            return _read(order, loading)
        except NotJudgedError as error:
            if error.reason != "failed" or order.extractor != DEFAULT_EXTRACTOR:
                raise
            second_opinion = "raised"
    made = _read(order._replace(extractor=SECOND_EXTRACTOR), loading)
    return replace(made, second_opinion=second_opinion)


def _find_scope(
    name: str, url: str, made: PageFingerprint, loading: Callable[[], AbstractContextManager[None]]
) -> str:
    if name == "global":
        return ""
    from scrapy_simhash.detector import scopes  # noqa: PLC0415 - loads tldextract

    with _load(f"scope {name}", partial(scopes.prepare_scope, name), loading, "scope_failed"):
        return scopes.find_scope(name, url, made)


def read_file(page: Page, seed: int, scope: str) -> ReadPage:
    """Make the fingerprint of a file that is no HTML page; `NotJudgedError` if that fails."""
    from scrapy_simhash.pages.fingerprint import fingerprint_file  # noqa: PLC0415 - loads numpy

    made = fingerprint_file(page.body, seed)
    return make_answer(0, made, _find_scope(scope, page.url, made, nullcontext))


# What this process has loaded.
_loaded: set[str | tuple[str, str]] = set()


def _read(order: Order, loading: Callable[[], AbstractContextManager[None]]) -> PageFingerprint:
    from scrapy_simhash.pages.fingerprint import (  # noqa: PLC0415 - loads numpy
        fingerprint_page,
        make_recipe,
    )

    page, names = order.page, (order.extractor, order.features)
    with _load(names, partial(make_recipe, *names), loading):
        return fingerprint_page(
            page.body, page.encoding, make_recipe(*names), order.seed, page.url, MIN_FEATURES
        )


@contextmanager
def _load(
    what: str | tuple[str, str],
    load: Callable[[], object],
    loading: Callable[[], AbstractContextManager[None]],
    reason: str = "failed",
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
        raise NotJudgedError(reason, describe_error(error)) from None


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
