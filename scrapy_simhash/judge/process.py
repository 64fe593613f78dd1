"""The process of a judge: frames from its crawl and back, and how it reads pages within bounds.

A frame is its length, 4 bytes, and so many bytes, as `multiprocessing` has it. The crawl bounds the
time of a page, see `messages`; the kernel bounds its memory, on Linux.
"""

from __future__ import annotations

import ctypes
import fcntl
import logging
import os
import re
import resource
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from scrapy_simhash._printable import describe_error
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.judge.messages import OUT_OF_MEMORY_EXIT_CODE, FromJudge, Told, pack
from scrapy_simhash.judging.documents import MIN_FEATURES
from scrapy_simhash.pages import scopes
from scrapy_simhash.pages.facts import WHOLE_TEXT
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.main_text import load_text_reader, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.config import Config
    from scrapy_simhash.pages.facts import Fetched, PageFingerprint

_PIPE_BYTES = 1 << 20
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WATCHING_SECONDS = 0.2


class Pipe(logging.Handler):
    """The way to the crawl and back, which also logs what is logged here.

    Otherwise messages of a user's reader would end up on the crawl's standard error.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._in = Connection(os.dup(0), writable=False)
        self._out, self._sending = Connection(os.dup(1), readable=False), threading.Lock()
        os.dup2(2, 1)  # whatever else prints goes where errors go
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # and reads nothing
        # On Linux. With less it waits in the midst of a page while the crawl runs callbacks.
        with suppress(AttributeError, OSError):
            fcntl.fcntl(self._in.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.register_at_fork(after_in_child=self._leave)

    def _leave(self) -> None:
        """Let go of both in a process that a user's code forked, or the crawl would see no end."""
        logging.getLogger().removeHandler(self)
        self._in.close()
        self._out.close()

    def get(self, timeout_seconds: float | None = None) -> bytes | None:
        """Wait for a frame; return None if none begins in time. EOFError if none will."""
        is_there = timeout_seconds is None or self._in.poll(timeout_seconds)
        return self._in.recv_bytes() if is_there else None

    def say(self, message: FromJudge) -> None:
        """Send a message."""
        with self._sending:  # a thread of a user's may log meanwhile
            self._out.send_bytes(pack(message))

    def emit(self, record: logging.LogRecord) -> None:
        """Have the crawl log a record."""
        with suppress(Exception):
            self.say(Told(record.name, record.levelno, self.format(record)))


def end_with(process: int) -> None:
    """End this process with the one that started it: by the kernel, or by a thread if not Linux."""
    # On Linux the kernel sends SIGKILL: while native code holds the interpreter no other thread
    # runs, and a hanging judge would outlive a killed crawl for ever. SIGTERM may be blocked. It
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


# Beyond what is loaded. The hostile pages that meet the time limit take at most 190 MB.
PAGE_MEMORY_BYTES = 512 * 2**20
# An extractor may swallow a MemoryError and return half a text. Below this share of the bound at
# peak, the allocation that failed was larger than all the rest, and no page needs such a one.
_TOO_CLOSE = 0.75
# Fewer than some hundred would not set up OpenBLAS's buffers.
_WARMING_WORDS = 5_000
_KIB = 1_024
_MEMORY = re.compile(rb"^Vm(?:HWM|Data):\s+(\d+)", re.MULTILINE)


class PageReader:
    """Reads the pages of one crawl.

    Args:
        config: its settings.
        status: where the page that is read is recorded, in a process that may be killed for it,
            see `map_status`; None in the crawl's own, where nothing is bounded.
    """

    def __init__(self, config: Config, status: memoryview[float] | None = None) -> None:
        self._config, self._status = config, status
        with suppress(Exception):  # of a user's, which may take a second; reported with a page
            scopes.load_scope(config.scope)
            load_text_reader(config.text_reader or WHOLE_TEXT)
        if status is not None:
            # OpenBLAS sets up 32 MB, which do not count as the first page's.
            fingerprint_page(
                f"<html><body><p>{' '.join(map(str, range(_WARMING_WORDS)))}</p></body></html>"
            )

    def read(
        self, number: int, page: Fetched, body: bytes, seed: int
    ) -> tuple[PageFingerprint, str]:
        """Read a page; return its fingerprint and its scope.

        Raises:
            NotJudgedError: it cannot be read.
        """
        with self._bound(number):
            made = fingerprint_page(
                body,
                page.encoding,
                seed=seed,
                url=page.url,
                min_features=MIN_FEATURES,
                ignore=self._config.ignore,
            )
        scope = self._config.scope
        if scope == "global":
            return made, ""
        with self._bound(number, "scope_failed"):
            return made, scopes.find_scope(scope, page.url, made)

    def read_text(self, number: int, page: Fetched, body: bytes, reader: str) -> str:
        """Read the main text of a page by a reader; `NotJudgedError` if that fails."""
        with self._bound(number):
            return read_text(body, page.encoding, reader)

    def begin(self, number: int, *, loading: bool = False) -> None:
        """Record that a page begins now, or with number 0 that none is read."""
        if self._status is not None:
            # In this order: who reads meanwhile takes the page before for one that began later.
            self._status[1], self._status[2], self._status[0] = time.monotonic(), loading, number

    @contextmanager
    def _bound(self, number: int, reason: str = "failed") -> Iterator[None]:
        """Bound time and memory of the block; whatever a page does there is a `NotJudgedError`."""
        status = self._status
        self.begin(number)
        if status is not None:
            data_bytes, most_bytes = _read_memory()
            _limit_data(data_bytes + PAGE_MEMORY_BYTES if data_bytes else None)
        try:
            yield
        except NotJudgedError:
            raise
        except MemoryError:
            if status is None:
                raise
            # The whole process, so that the next page finds a fresh one and nothing that swallowed
            # the MemoryError goes on with half a page.
            os._exit(OUT_OF_MEMORY_EXIT_CODE)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - SystemExit would end the process
            raise NotJudgedError(reason, describe_error(error)) from None
        finally:
            if status is not None:
                most_bytes += int(_TOO_CLOSE * PAGE_MEMORY_BYTES)
                # This one is never less, but may be that of the parent at the time of the fork.
                peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
                if peak_bytes > most_bytes < _read_memory()[1]:
                    os._exit(OUT_OF_MEMORY_EXIT_CODE)
                _limit_data(None)
            # A store that does not answer may take as long as to load, and is no page's fault.
            self.begin(number, loading=True)


def _read_memory() -> tuple[int, int]:
    """Return data, as RLIMIT_DATA counts it, and the most in use at a time; zeros if unknown."""
    try:
        with open("/proc/self/status", "rb", 0) as status:  # noqa: PTH123 - a page's cost
            peak, data = _MEMORY.findall(status.read())
        return int(data) * _KIB, int(peak) * _KIB
    except (OSError, ValueError):
        return 0, 0


def _limit_data(most_bytes: int | None) -> None:
    """Bound the data of this process, below what the system allows it; None lifts the bound."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if most_bytes is None:
        soft = hard
    else:
        soft = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
