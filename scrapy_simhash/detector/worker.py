"""What runs in a worker process: one page after the other, within bounds that the kernel keeps.

A worker that hangs in native code runs no Python any more, so nothing in it can bound it. On
systems other than Linux a thread watches the parent instead, and memory has no bound.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import describe_error
from scrapy_simhash.detector.wire import READY, Place, pack_answer, receive_orders
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, SECOND_EXTRACTOR

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from scrapy_simhash.detector.wire import How, Order
    from scrapy_simhash.pages import PageFingerprint, Recipe

# A worker exits with it if its page took too much memory. Above the codes of Python and the shell,
# below those of signals.
OUT_OF_MEMORY_EXIT_CODE = 97
# An extractor may swallow a MemoryError and return half a text. Below this share of the bound at
# peak, the allocation that failed was larger than all the rest, and no page needs such a one.
_TOO_CLOSE = 0.75
# Fewer than some hundred would not set up OpenBLAS's buffers.
_WARMING_WORDS = 5_000
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WATCHER = "scrapy_simhash-parent-watcher"
_DATA_PAGES = 5  # the field of /proc/self/statm that RLIMIT_DATA is compared with
_KIB = 1_024
# Answers of so many seconds go together: to take them costs the crawl's process less than half.
_ANSWERING_SECONDS = 0.01


def serve(orders: socket.socket, place: Place) -> None:
    """Read pages until the other end is closed."""
    bound = _prepare()
    answers = bytearray(READY)
    with suppress(EOFError, ConnectionError):
        while True:
            orders.sendall(answers)
            answers.clear()
            sent = time.monotonic()
            pages = receive_orders(orders)
            while pages:
                answers += _answer(*pages.popleft(), place, bound)
                if pages and time.monotonic() - sent > _ANSWERING_SECONDS:
                    orders.sendall(answers)
                    answers.clear()
                    sent = time.monotonic()


def _answer(order: Order, body: bytes, place: Place, bound: _MemoryBound) -> bytes:
    """Read a page; the process ends if that takes more memory than it may."""
    number, how = order.number, order.how
    found: PageFingerprint | UnjudgedError

    @contextmanager
    def loading() -> Iterator[None]:
        """What is loaded for all pages counts for none, neither its time nor its memory."""
        place.begin(number, loading=True)
        with bound.lift():
            yield
        place.begin(number)

    place.begin(number)
    try:
        with bound.apply(how.memory_bytes):
            found = work(body, order.encoding, order.url, how, order.second_opinion, loading)
    except UnjudgedError as error:
        found = error
    except MemoryError:
        found = UnjudgedError("out_of_memory", f"{how.memory_bytes} bytes")
    try:
        return pack_answer(number, found)
    except UnicodeEncodeError as error:  # a lone surrogate
        return pack_answer(number, UnjudgedError("failed", describe_error(error)))


def _prepare() -> _MemoryBound:
    """Load everything; leave Ctrl-C to the parent, and end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Otherwise messages of lxml and trafilatura would end up on the crawl's standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    parent = multiprocessing.parent_process()
    if parent is not None and not _ask_kernel_to_end_with(parent.pid):
        _watch_parent(parent)
    from scrapy_simhash.pages import fingerprint_page  # noqa: PLC0415 - loads numpy

    # What the first page sets up, such as OpenBLAS's 32 MB, must not count as a page's memory.
    fingerprint_page(
        f"<html><body><p>{' '.join(map(str, range(_WARMING_WORDS)))}</p></body></html>"
    )
    return _MemoryBound()


def work(
    body: bytes,
    encoding: str | None,
    url: str,
    how: How,
    second_opinion: str = "",
    loading: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> PageFingerprint:
    """Fingerprint a page in this process; raises UnjudgedError or MemoryError, nothing else."""
    # A page that breaks the fast reader is read by the second one: at once if that raises.
    page = body, encoding, how.seed, url, how.min_features
    made = None
    if not second_opinion:
        _load(how.recipe, loading)
        try:
            made = _read(how.recipe, *page)
        except UnjudgedError as error:
            if error.reason != "failed" or how.recipe.extractor != DEFAULT_EXTRACTOR:
                raise
            second_opinion = "raised"
    if made is None:
        second = replace(how.recipe, extractor=SECOND_EXTRACTOR, extractor_version=0)
        _load(second, loading)
        made = replace(_read(second, *page), second_opinion=second_opinion)
    return made if how.keep_text else replace(made, text="")


# Whose readers this process has loaded.
_loaded: set[Recipe] = set()


def _load(recipe: Recipe, loading: Callable[[], AbstractContextManager[None]]) -> None:
    """Load the reader of a recipe before its first page: trafilatura takes a second, and 60 MB."""
    if recipe in _loaded:
        return
    _loaded.add(recipe)
    from scrapy_simhash.pages import make_recipe  # noqa: PLC0415 - loads numpy

    # What cannot be loaded is told when the page is read.
    with loading(), suppress(Exception):
        make_recipe(recipe.extractor, recipe.features)


def _read(
    recipe: Recipe,
    body: bytes,
    encoding: str | None,
    seed: int,
    url: str,
    min_features: int | None,
) -> PageFingerprint:
    from scrapy_simhash.pages import fingerprint_page  # noqa: PLC0415 - loads numpy

    try:
        return fingerprint_page(body, encoding, recipe, seed, url, min_features)
    except (UnjudgedError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a page does, the worker goes on
        # SystemExit would end the worker.
        raise UnjudgedError("failed", describe_error(error)) from None


def _ask_kernel_to_end_with(parent_pid: int | None) -> bool:
    """Have the kernel kill this process when the thread that started it ends; Linux only."""
    # A thread of this process cannot do it: while native code holds the interpreter no other thread
    # runs, and a hanging worker would outlive a killed crawl for ever. SIGKILL, because SIGTERM may
    # be blocked. The kernel looks at the thread that started the process, not at the parent as a
    # whole, hence the launcher thread in `workers`.
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        return False
    # The parent may have ended before the call; the signal would never come.
    if os.getppid() != parent_pid:
        os._exit(0)
    return True


def _watch_parent(parent: Any) -> None:
    """Have a thread end this process when its parent ends; once."""

    def end_with_parent() -> None:
        parent.join()
        os._exit(0)

    if not any(thread.name == _WATCHER for thread in threading.enumerate()):
        threading.Thread(target=end_with_parent, name=_WATCHER, daemon=True).start()


class _MemoryBound:
    """Bounds what pages take, beyond what the process has loaded when this is made."""

    def __init__(self) -> None:
        self._data_bytes = _read_data_bytes()
        self._resident_bytes = _read_peak_bytes()

    @contextmanager
    def apply(self, page_bytes: int) -> Iterator[None]:
        """End this process when the block allocates more data than that, used or not."""
        # The whole process, so that the next page finds a fresh one and nothing that swallowed the
        # MemoryError goes on with half a page.
        if self._data_bytes is None or self._resident_bytes is None:
            yield
            return
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        bound = self._data_bytes + page_bytes
        soft = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        try:
            yield
        except MemoryError:
            os._exit(OUT_OF_MEMORY_EXIT_CODE)
        finally:
            taken = (_read_peak_bytes() or 0) - self._resident_bytes
            if taken > _TOO_CLOSE * page_bytes:
                os._exit(OUT_OF_MEMORY_EXIT_CODE)

    @contextmanager
    def lift(self) -> Iterator[None]:
        """Let the block, within `apply`, load what later pages need, too."""
        before = _read_data_bytes()
        if before is None or self._data_bytes is None or self._resident_bytes is None:
            yield
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        yield
        loaded = (_read_data_bytes() or before) - before
        self._data_bytes += loaded
        self._resident_bytes += loaded
        if hard != resource.RLIM_INFINITY:
            soft = min(soft + loaded, hard)
        else:
            soft += loaded
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _read_data_bytes() -> int | None:
    """Read how much writable, private memory this process has; None where nothing tells."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - a page's cost
            return int(statm.read().split()[_DATA_PAGES]) * resource.getpagesize()
    except OSError:
        return None


def _read_peak_bytes() -> int | None:
    """Read the most memory this process had in use at a time; None where nothing tells."""
    # Not from getrusage, where it may be that of the parent at the time of the fork.
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * _KIB
    except (OSError, StopIteration):
        return None
