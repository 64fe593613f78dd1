"""Worker processes for extraction: killed one by one at a page's deadline, shared in a process.

Extraction may hang (a 10 kB page with huge colspans holds trafilatura for 15 s) and may crash
natively, so threads will not do; `concurrent.futures.ProcessPoolExecutor` cannot kill one worker.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any

from pebble import ProcessExpired, ProcessPool

from scrapy_simhash.shared import SharedByKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.fingerprint import PageFingerprint
    from scrapy_simhash.recipe import Recipe


# A page that ends its worker shows as ProcessExpired. When the whole pool broke instead, a worker
# was killed while idle, and the page is tried again in a new pool.
_TRIES = 2


class WorkerDiedError(Exception):
    """The worker process ended while it had the page."""


class ExtractionError(Exception):
    """The extractor or feature set raised; the text is the traceback of the worker."""


class Workers:
    """Fingerprints pages in worker processes; crawls of one process share them.

    Args:
        count: of processes; 0 works in the caller's thread, for debugging.
        page_timeout_seconds: a page's deadline, from the start of its work.
    """

    def __init__(self, count: int, page_timeout_seconds: float) -> None:
        self._count = count
        self._page_timeout_seconds = page_timeout_seconds
        self._pool: _Pool | None = None

    def start(self) -> None:
        """Start the processes and wait for the first to be ready; blocks."""
        if self._count:
            self._pool = _pools.acquire(self._count, lambda: _Pool(self._count))
            self._pool.wait()

    def stop(self) -> None:
        """End the processes with their last user; blocks. Harmless when not started."""
        if self._pool is not None:
            self._pool = None
            _pools.release(self._count)

    async def fingerprint(
        self,
        body: bytes,
        encoding: str | None,
        recipe: Recipe,
        seed: int,
        url: str = "",
        *,
        keep_text: bool,
    ) -> PageFingerprint:
        """Make the fingerprint of a page.

        Raises:
            UnjudgedError: the page has no text that could be judged.
            TimeoutError: the page was not ready at its deadline; its worker was killed.
            WorkerDiedError: the worker crashed.
            ExtractionError: the extractor or feature set raised.
        """
        if self._pool is None:
            return work(body, encoding, recipe, seed, url, keep_text)
        page = (body, encoding, recipe, seed, url, keep_text)
        for _ in range(_TRIES):
            future = self._pool.schedule(work, page, self._page_timeout_seconds)
            try:
                made: PageFingerprint = await asyncio.wrap_future(future)
            except ProcessExpired as error:
                raise WorkerDiedError(f"exit code {error.exitcode}") from error
            except BrokenExecutor:
                continue
            return made
        raise WorkerDiedError("all worker processes ended, twice")


def work(
    body: bytes, encoding: str | None, recipe: Recipe, seed: int, url: str, keep_text: bool
) -> PageFingerprint:
    """Fingerprint a page; runs in a worker."""
    from scrapy_simhash.fingerprint import fingerprint_page  # noqa: PLC0415 - loads trafilatura
    from scrapy_simhash.text import UnjudgedError  # noqa: PLC0415

    try:
        made = fingerprint_page(body, encoding, recipe, seed, url)
    except UnjudgedError:
        raise
    except (Exception, SystemExit):  # noqa: BLE001 - whatever a page does, the worker goes on
        # Not the exception itself: it may not survive pickling, and SystemExit would end us.
        raise ExtractionError(traceback.format_exc()) from None
    return made if keep_text else replace(made, text="")


class _Pool:
    """A process pool that is made anew when it breaks.

    pebble gives a pool up when its last process ends while idle, for instance killed by the
    system for memory.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._pool = self._make()

    def _make(self) -> ProcessPool:
        return ProcessPool(self._count, initializer=_prepare_worker, context=_CONTEXT)

    def wait(self) -> None:
        """Block until a process is ready: the pool starts them with its first task."""
        self._pool.schedule(_prepare_worker).result()

    def schedule(self, function: Any, arguments: Any, timeout_seconds: float) -> Future[Any]:
        """Run a function in a process."""
        with self._lock:
            if not self._pool.active:
                # Ends what is left of it; in a thread, because that takes a while.
                threading.Thread(target=_end_pool, args=(self._pool,), daemon=True).start()
                self._pool = self._make()
            future: Future[Any] = self._pool.schedule(
                function, args=arguments, timeout=timeout_seconds
            )
            return future

    def stop(self) -> None:
        """End the processes; blocks."""
        with self._lock:
            _end_pool(self._pool)


def _end_pool(pool: ProcessPool) -> None:
    pool.stop()  # type: ignore[no-untyped-call]
    pool.join()


_pools: SharedByKey[int, _Pool] = SharedByKey(_Pool.stop)


def _prepare_worker() -> None:
    """Load everything once; leave Ctrl-C to the parent, and end when it is gone."""
    import scrapy_simhash.fingerprint  # noqa: PLC0415, F401 - loads trafilatura

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What lxml and trafilatura have to say of a page would end up on the crawl's standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    parent = multiprocessing.parent_process()
    if parent is not None and not any(thread.name == _WATCHER for thread in threading.enumerate()):
        threading.Thread(target=_end_with, args=(parent,), name=_WATCHER, daemon=True).start()


_WATCHER = "scrapy_simhash-parent-watcher"


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(0)


class _Process(multiprocessing.context.SpawnProcess):
    """A spawned process that does not import the user's main module.

    A crawl script then needs no main guard, and a worker takes 22 MB and 0.06 s to start instead
    of 61 MB and 0.31 s (Scrapy and Twisted are not loaded).
    """

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - multiprocessing's name
        with _without_main():
            return multiprocessing.context.SpawnProcess._Popen(process_obj)  # noqa: SLF001


class _Context(multiprocessing.context.SpawnContext):
    Process = _Process


_CONTEXT = _Context()
_launching = threading.Lock()


@contextmanager
def _without_main() -> Iterator[None]:
    """Leave the main module out of what a process started by this thread gets told.

    multiprocessing has no switch for it. Other threads' processes are not affected.
    """
    launcher, original = threading.get_ident(), spawn.get_preparation_data

    def preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = original(name)
        if threading.get_ident() == launcher:
            data.pop("init_main_from_path", None)
            data.pop("init_main_from_name", None)
        return data

    with _launching:
        spawn.get_preparation_data = preparation_data
        try:
            yield
        finally:
            spawn.get_preparation_data = original
