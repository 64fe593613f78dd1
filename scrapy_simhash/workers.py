"""Worker processes for extraction: killed one by one at a page's deadline, shared in a process.

Extraction may hang (a 10 kB page with huge colspans holds trafilatura for 15 s) and may crash
natively, so threads will not do; `concurrent.futures.ProcessPoolExecutor` cannot kill one worker.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import signal
import threading
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any

from pebble import ProcessExpired, ProcessPool

from scrapy_simhash.config import PAGE_MEMORY_BYTES
from scrapy_simhash.confinement import OUT_OF_MEMORY_EXIT_CODE, MemoryBound, end_with_parent
from scrapy_simhash.shared import SharedByKey
from scrapy_simhash.untrusted import describe_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.config import Config
    from scrapy_simhash.fingerprint import PageFingerprint
    from scrapy_simhash.recipe import Recipe


# A page that ends its worker shows as ProcessExpired. When the whole pool broke instead, a worker
# was killed while idle, and the page is tried again in a new pool.
_TRIES = 2
# Fewer than some hundred are summed up without OpenBLAS's buffers.
_WARMING_WORDS = 5_000


class WorkerDiedError(Exception):
    """The worker process ended while it had the page."""


class ExtractionError(Exception):
    """The extractor or feature set raised; the text is the worker's traceback in a line."""


@contextmanager
def naming_reasons(config: Config) -> Iterator[None]:
    """Name what keeps a page from having a fingerprint.

    Args:
        config: the settings of the workers.

    Raises:
        UnjudgedError: whatever the block raised, as reason and detail.
    """
    from scrapy_simhash.text import UnjudgedError  # noqa: PLC0415 - loads trafilatura

    try:
        yield
    except UnjudgedError:
        raise
    except TimeoutError:
        raise UnjudgedError("timed_out", f"{config.page_timeout} seconds") from None
    except MemoryError:
        raise UnjudgedError("out_of_memory", f"{config.page_memory} bytes") from None
    except WorkerDiedError as error:
        raise UnjudgedError("worker_died", str(error)) from error
    except ExtractionError as error:
        raise UnjudgedError("failed", str(error)) from error
    except Exception as error:
        raise UnjudgedError("failed", describe_error(error)) from error


class Workers:
    """Fingerprints pages in worker processes; crawls of one process share them.

    Args:
        count: of processes; 0 works in the caller's thread, for debugging.
        page_timeout_seconds: a page's deadline, from the start of its work.
        page_memory_bytes: what a page may take beyond what a worker has loaded; Linux only.
    """

    def __init__(
        self,
        count: int,
        page_timeout_seconds: float,
        page_memory_bytes: int = PAGE_MEMORY_BYTES,
    ) -> None:
        self._count = count
        self._page_timeout_seconds = page_timeout_seconds
        self._page_memory_bytes = page_memory_bytes
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
            MemoryError: the page took too much memory; its worker ended.
            WorkerDiedError: the worker crashed.
            ExtractionError: the extractor or feature set raised.
        """
        if self._pool is None:
            return work(body, encoding, recipe, seed, url, keep_text)
        page = (self._page_memory_bytes, body, encoding, recipe, seed, url, keep_text)
        for _ in range(_TRIES):
            future = self._pool.schedule(_work_confined, page, self._page_timeout_seconds)
            try:
                made: PageFingerprint = await asyncio.wrap_future(future)
            except ProcessExpired as error:
                if error.exitcode == OUT_OF_MEMORY_EXIT_CODE:
                    raise MemoryError(f"over {self._page_memory_bytes} bytes") from error
                raise WorkerDiedError(f"exit code {error.exitcode}") from error
            except BrokenExecutor:
                continue
            return made
        raise WorkerDiedError("all worker processes ended, twice")


def _work_confined(page_memory_bytes: int, *page: Any) -> PageFingerprint:
    assert _memory_bound is not None  # noqa: S101 - made when the worker started
    with _memory_bound.apply(page_memory_bytes):
        return work(*page)


def work(
    body: bytes, encoding: str | None, recipe: Recipe, seed: int, url: str, keep_text: bool
) -> PageFingerprint:
    """Fingerprint a page; runs in a worker."""
    from scrapy_simhash.fingerprint import fingerprint_page  # noqa: PLC0415 - loads trafilatura
    from scrapy_simhash.text import UnjudgedError  # noqa: PLC0415

    try:
        made = fingerprint_page(body, encoding, recipe, seed, url)
    except (UnjudgedError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a page does, the worker goes on
        # Not the exception itself: it may not survive pickling, and SystemExit would end us.
        raise ExtractionError(describe_error(error)) from None
    return made if keep_text else replace(made, text="")


class _Pool:
    """A process pool that is made anew when it breaks.

    pebble gives a pool up when its last process ends while idle, for instance killed by the
    system for memory.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        # Processes end with the thread that started them (`confinement`), and a crawl's thread may
        # end before the crawls that share its pool. Those that replace others are started by a
        # thread of pebble's that lives as long as the pool.
        self._launcher = ThreadPoolExecutor(1, "scrapy_simhash-launcher")
        self._pool, self._first = self._make()

    def _make(self) -> tuple[ProcessPool, Future[Any]]:
        pool = ProcessPool(self._count, initializer=_prepare_worker, context=_CONTEXT)
        # The pool starts its processes with its first task.
        return pool, self._launcher.submit(pool.schedule, _prepare_worker).result()

    def wait(self) -> None:
        """Block until a process is ready."""
        self._first.result()

    def schedule(self, function: Any, arguments: Any, timeout_seconds: float) -> Future[Any]:
        """Run a function in a process."""
        with self._lock:
            if not self._pool.active:
                # Ends what is left of it; in a thread, because that takes a while.
                threading.Thread(target=_end_pool, args=(self._pool,), daemon=True).start()
                self._pool, self._first = self._make()
            future: Future[Any] = self._pool.schedule(
                function, args=arguments, timeout=timeout_seconds
            )
            return future

    def stop(self) -> None:
        """End the processes; blocks."""
        with self._lock:
            _end_pool(self._pool)
            self._launcher.shutdown()


def _end_pool(pool: ProcessPool) -> None:
    pool.stop()  # type: ignore[no-untyped-call]
    pool.join()


_pools: SharedByKey[int, _Pool] = SharedByKey(_Pool.stop)
# Of this process, where it is a worker.
_memory_bound: MemoryBound | None = None


def _prepare_worker() -> None:
    """Load everything once; leave Ctrl-C to the parent, and end when it is gone."""
    global _memory_bound  # noqa: PLW0603 - pebble hands nothing from here to the tasks
    if _memory_bound is not None:
        return
    end_with_parent()
    from scrapy_simhash.fingerprint import fingerprint_page  # noqa: PLC0415 - loads trafilatura

    # What is set up with the first page, such as OpenBLAS's 32 MB, is no page's doing.
    fingerprint_page(
        f"<html><body><p>{' '.join(map(str, range(_WARMING_WORDS)))}</p></body></html>"
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What lxml and trafilatura have to say of a page would end up on the crawl's standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    _memory_bound = MemoryBound()


class _Process(multiprocessing.context.SpawnProcess):
    """A spawned process that does not import the user's main module.

    A crawl script then needs no main guard, and a worker takes 22 MB and 0.06 s to start instead
    of 61 MB and 0.31 s (Scrapy and Twisted are not loaded).
    """

    def terminate(self) -> None:
        """Kill it: there is nothing in it to be saved.

        pebble asks first, by SIGTERM, and waits 3 seconds for what hangs in native code or blocks
        signals. Meanwhile it holds the lock behind which the other workers get their pages.
        """
        self.kill()

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
