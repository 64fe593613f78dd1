"""Read pages in a worker process, one after the other, within bounds that the kernel keeps.

A worker that hangs in native code runs no Python any more, so nothing in it can bound it. On
systems other than Linux a thread watches the parent instead, and memory has no bound.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from scrapy_simhash._printable import describe_error
from scrapy_simhash.detector.orders import (
    OUT_OF_MEMORY_EXIT_CODE,
    READY,
    SIZE,
    Answer,
    Order,
    Status,
    unpack_orders,
)
from scrapy_simhash.detector.process import Parent, end_with
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judging.rule import MIN_FEATURES
from scrapy_simhash.pages.facts import PageFingerprint
from scrapy_simhash.pages.fingerprint import fingerprint_file, fingerprint_page, make_recipe
from scrapy_simhash.pages.links import NO_LINKS
from scrapy_simhash.pages.main_text import load_text_reader, read_text
from scrapy_simhash.pages.recipe import DEFAULT_EXTRACTOR, SECOND_EXTRACTOR, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

# An extractor may swallow a MemoryError and return half a text. Below this share of the bound at
# peak, the allocation that failed was larger than all the rest, and no page needs such a one.
_TOO_CLOSE = 0.75
# Fewer than some hundred would not set up OpenBLAS's buffers.
_WARMING_WORDS = 5_000
_KIB = 1_024
# Answers of so many seconds go together: to take them costs the crawl's process less than half.
_ANSWERING_SECONDS = 0.01


Found: TypeAlias = PageFingerprint | str | NotJudgedError
_encode = msgspec.msgpack.Encoder().encode


def pack_answer(number: int, found: Found, scope: str = "", seconds: float = 0.0) -> bytes:
    """Make the message with the result of a page."""
    tail = b""
    if isinstance(found, NotJudgedError):
        detail = found.detail.encode("utf-8", "backslashreplace").decode()
        answer = Answer(number, reason=found.reason, detail=detail)
    elif isinstance(found, str):
        answer = Answer(number, text=found)
    else:
        answer = Answer(number, found.targets, scope, found.second_opinion, found.is_file)
        tail = _encode(replace(found, targets=NO_LINKS, text=""))
    answer.seconds = seconds
    head = _encode(answer)
    return b"".join((SIZE.pack(len(head)), head, tail))


def main(orders_file: int, status_file: int, crawl_process: int) -> None:
    """Read pages until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the crawl
    end_with(crawl_process)
    # Otherwise messages of lxml and trafilatura would end up on the crawl's standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    crawl, status = Parent(orders_file), Status(status_file)
    _warm_up()
    bound = MemoryBound()
    answers = [READY]
    with suppress(EOFError, ConnectionError):
        while True:
            crawl.send(answers)
            answers.clear()
            sent = time.monotonic()
            pages = unpack_orders(crawl.get())
            while pages:
                answers.append(_answer(pages.pop(0), status, bound))
                if pages and time.monotonic() - sent > _ANSWERING_SECONDS:
                    crawl.send(answers)
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
        return pack_answer(number, NotJudgedError("out_of_memory", f"{memory_bytes} bytes"))


def work(
    order: Order,
    loading: Callable[[], AbstractContextManager[None]] = nullcontext,
    spent: Callable[[], float] = lambda: 0.0,
) -> bytes:
    """Read a page in this process, and make its answer; raises MemoryError, nothing else."""
    number, scope = order.number, ""
    try:
        found = _work(order, loading)
        if isinstance(found, PageFingerprint):
            scope = _find_scope(order.scope, order.url, found, loading)
        return pack_answer(number, found, scope, spent())
    except NotJudgedError as error:
        return pack_answer(number, error, seconds=spent())
    except UnicodeEncodeError as error:  # a lone surrogate
        return pack_answer(number, NotJudgedError("failed", describe_error(error)))


def _work(
    order: Order, loading: Callable[[], AbstractContextManager[None]]
) -> PageFingerprint | str:
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
    return made


def _find_scope(
    name: str, url: str, made: PageFingerprint, loading: Callable[[], AbstractContextManager[None]]
) -> str:
    if name == "global":
        return ""
    from scrapy_simhash.detector import scopes  # noqa: PLC0415 - loads tldextract

    with _load(f"scope {name}", partial(scopes.prepare_scope, name), loading, "scope_failed"):
        return scopes.find_scope(name, url, made)


def read_file(number: int, body: bytes, seed: int, url: str, scope: str) -> bytes:
    """Make the answer for a file that is no HTML page."""
    made = fingerprint_file(body, seed)
    try:
        return pack_answer(number, made, _find_scope(scope, url, made, nullcontext))
    except NotJudgedError as error:
        return pack_answer(number, error)


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
