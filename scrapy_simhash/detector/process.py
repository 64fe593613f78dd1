"""Processes of a crawl: started, talked to by frames over a socket, and ended with the crawl.

A frame is its length, 4 bytes, and so many bytes. The crawl's side never waits; the other side
does nothing else.
"""

from __future__ import annotations

import ctypes
import os
import queue
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

_LENGTH = struct.Struct("<I")
_RECEIVED_BYTES = 1 << 18
_PARTS_PER_CALL = 64  # of a message; the system takes 1,024 at most
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WATCHING_SECONDS = 0.2
# A process that is dead or dying is gone within this, as its sockets are closed last.
_DYING_SECONDS = 1.0


def _frame(messages: Iterable[bytes]) -> list[bytes]:
    """Make the parts of the frames of messages; none is empty."""
    parts = [part for message in messages for part in (_LENGTH.pack(len(message)), message)]
    return list(filter(None, parts))


def _take_frame(received: bytearray) -> bytes | None:
    """Take the first frame from what was received, or return None if it is not whole yet."""
    if len(received) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
    if len(received) < end:
        return None
    taken = bytes(received[_LENGTH.size : end])
    del received[:end]
    return taken


class Child:
    """A process that the crawl started. A subclass takes its frames and hears of its end.

    Args:
        loop: runs in this thread, with which the process ends.
        module: of this package; its `main` gets the numbers of a socket and of the other files,
            and that of this process.
        files: numbers of other files that the process gets.
        environment: variables that the process has beside those of this one.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, module: str, *files: int, **environment: str
    ) -> None:
        self._loop = loop
        with ExitStack() as undone:
            self._socket, theirs = socket.socketpair()
            undone.enter_context(self._socket)
            with theirs:
                passed = theirs.fileno(), *files
                self.process = start_python(
                    f"from {module} import main; main{(*passed, os.getpid())}",
                    stdin=subprocess.DEVNULL,
                    pass_fds=passed,
                    env=os.environ | environment,
                )
            undone.pop_all()
        self._outgoing: deque[bytes | memoryview] = deque()
        self._received = bytearray()
        self._socket.settimeout(0.0)
        loop.add_reader(self._socket, self._receive)

    def take(self, messages: list[bytes]) -> bool:
        """Take messages; return False if one makes no sense, which ends the process."""
        raise NotImplementedError

    def broken(self) -> None:
        """Act when the process has exited, or sent what makes no sense."""
        raise NotImplementedError

    def send(self, messages: Iterable[bytes]) -> None:
        """Send messages, without waiting and without copying them."""
        waiting = bool(self._outgoing)
        self._outgoing += _frame(messages)
        if not waiting:
            self._flush()

    def _flush(self) -> None:
        """Send what the socket takes now, and the rest later."""
        try:
            while self._outgoing:
                self._drop(self._socket.sendmsg(list(islice(self._outgoing, _PARTS_PER_CALL))))
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._socket, self._flush)
            return
        except OSError:  # the process is gone; that is seen when its frames are read
            self._outgoing.clear()
        self._loop.remove_writer(self._socket)

    def _drop(self, sent: int) -> None:
        """Forget bytes that were sent."""
        while sent:
            part = self._outgoing.popleft()
            if sent < len(part):
                self._outgoing.appendleft(memoryview(part)[sent:])
            sent = max(0, sent - len(part))

    def _receive(self) -> None:
        """Take the frames that are there."""
        try:
            received = self._socket.recv(_RECEIVED_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            received = b""
        self._received += received
        messages = []
        while (message := _take_frame(self._received)) is not None:
            messages.append(message)
        is_sane = bool(received) and (not messages or self.take(messages))
        if not is_sane and not self.has_ended:
            self.process.kill()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_DYING_SECONDS)
            self.broken()

    @property
    def has_ended(self) -> bool:
        """Whether the socket is closed."""
        return self._socket.fileno() < 0

    def end(self) -> None:
        """End the process, if it runs; harmless if called twice."""
        if not self.has_ended:
            self.process.kill()
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()


class Parent:
    """The crawl, as a process of it sees it."""

    def __init__(self, file: int) -> None:
        self._socket = socket.socket(fileno=file)
        self._received = bytearray()
        self._sending = threading.Lock()
        self._readable = select.poll()  # `select` takes no file beyond the 1,024th
        self._readable.register(self._socket, select.POLLIN)

    def has_sent(self, frames: int) -> bool:
        """Whether so many whole frames are there: the rest of another may be late."""
        with suppress(BlockingIOError):
            while received := self._socket.recv(_RECEIVED_BYTES, socket.MSG_DONTWAIT):
                self._received += received
        end = 0
        for _ in range(frames):
            if len(self._received) < end + _LENGTH.size:
                return False
            end += _LENGTH.size + _LENGTH.unpack_from(self._received, end)[0]
        return len(self._received) >= end

    def get(self, timeout: float | None = None) -> bytes:
        """Wait for a frame; `queue.Empty` if none comes in time, EOFError if none will."""
        while (message := _take_frame(self._received)) is None:
            if timeout is not None and not self._readable.poll(1_000 * timeout):
                raise queue.Empty
            received = self._socket.recv(_RECEIVED_BYTES)
            if not received:
                raise EOFError
            self._received += received
        return message

    def send(self, messages: Iterable[bytes]) -> None:
        """Send messages."""
        with self._sending:
            self._socket.sendall(b"".join(_frame(messages)))


def start_python(program: str, **files: Any) -> subprocess.Popen[bytes]:
    """Start a process that runs a program, and finds the modules that this one finds."""
    # Not by multiprocessing, which imports the crawl's main module: a script would need a main
    # guard, and a worker 61 MB instead of 22. And it lets a daemonic process have no children.
    # A process group of its own: a Ctrl-C in the terminal is for the crawl.
    path = [str(folder) for folder in sys.path]
    program = f"import sys; sys.path[:] = {path}; {program}"
    return subprocess.Popen([sys.executable, "-c", program], process_group=0, **files)  # noqa: S603


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
