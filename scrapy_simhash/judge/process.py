"""A judge as a process: frames from its crawl on standard input, answers on standard output.

A frame is its length, 4 bytes, and so many bytes.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import logging
import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress

from msgspec.msgpack import decode

from scrapy_simhash._printable import describe_error
from scrapy_simhash.errors import StoreError, StoreUnusableError
from scrapy_simhash.judge.judge import CrawlJudge
from scrapy_simhash.judge.messages import (
    Close,
    Failed,
    FromJudge,
    Open,
    Told,
    map_status,
    pack,
    unpack_to_judge,
)

_LENGTH_BYTES, _PIPE_BYTES = 4, 1 << 20
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WATCHING_SECONDS = 0.2


class Pipe(logging.Handler):
    """The way to the crawl and back, which also logs what is logged here.

    Otherwise messages of a user's reader would end up on the crawl's standard error.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._in, self._out, self._sending = os.dup(0), os.dup(1), threading.Lock()
        os.dup2(2, 1)  # whatever else prints goes where errors go
        # On Linux. With less it waits in the midst of a page while the crawl runs callbacks.
        with suppress(AttributeError, OSError):
            fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._readable = select.poll()  # `select` takes no file beyond the 1,024th
        self._readable.register(self._in, select.POLLIN | select.POLLHUP)

    def get(self, timeout_seconds: float | None = None) -> bytes | None:
        """Wait for a frame; return None if none begins in time. EOFError if none will."""
        if timeout_seconds is not None and not self._readable.poll(1_000 * timeout_seconds):
            return None
        return self._take(int.from_bytes(self._take(_LENGTH_BYTES)))

    def _take(self, count: int) -> bytes:
        taken = bytearray()
        while len(taken) < count:
            if not (part := os.read(self._in, count - len(taken))):
                raise EOFError
            taken += part
        return bytes(taken)

    def say(self, message: FromJudge) -> None:
        """Send a message."""
        packed = pack(message)
        left = len(packed).to_bytes(_LENGTH_BYTES) + packed
        with self._sending:  # a thread of a user's may log meanwhile
            while left:
                left = left[os.write(self._out, left) :]

    def emit(self, record: logging.LogRecord) -> None:
        """Have the crawl log a record."""
        with suppress(Exception):
            self.say(Told(record.name, record.levelno, self.format(record)))


def main(status_file: int, crawl_process: int) -> None:
    """Judge what comes from the crawl until that closes or ends."""
    # Ctrl-C is for the crawl, and what ends a service tells all its processes at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with(crawl_process)
    pipe = Pipe()
    logging.getLogger().addHandler(pipe)
    with suppress(EOFError, ConnectionError):
        try:
            _run(pipe, map_status(status_file))
        except (EOFError, ConnectionError):
            raise
        except StoreError as error:
            pipe.say(Failed(str(error), isinstance(error, StoreUnusableError)))
        except Exception as error:
            logging.getLogger(__name__).exception("The judge of the crawl failed")
            pipe.say(Failed(describe_error(error)))


def _run(pipe: Pipe, status: memoryview[float]) -> None:
    judge = CrawlJudge(decode(pipe.get() or b"", type=Open), pipe.say, status)
    # The collector passes over what stays, and comes more seldom: a page leaves few cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)
    closing, timeout_seconds = False, None
    while not closing:
        if (frame := pipe.get(timeout_seconds)) is not None:
            message = unpack_to_judge(frame)
            closing = isinstance(message, Close)
            judge.take(message)
        timeout_seconds = judge.tick()


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
