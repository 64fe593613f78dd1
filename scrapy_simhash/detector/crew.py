"""The worker processes: started by a thread of theirs, lent to crawls, replaced when they die.

All crawls of a process that want equally many share them, whatever their event loops.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import multiprocessing
import signal
import socket
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_simhash._printable import describe_error
from scrapy_simhash._shared import SharedByKey
from scrapy_simhash.detector.channel import Channel, Desk
from scrapy_simhash.detector.wire import Place, load_pages
from scrapy_simhash.detector.worker import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

# How long no process is started after several in a row that did not come up: twice as long each
# time, up to a minute.
_RESTING_SECONDS = 1.0
_LONGEST_REST_SECONDS = 60.0


class Waiting(Desk, Protocol):
    """A desk that waits for a process."""

    loop: asyncio.AbstractEventLoop

    def wake(self) -> None:
        """Ask again; a RuntimeError says that its event loop is closed. From any thread."""


class Crew:
    """So many worker processes; thread-safe."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.Lock()
        self._idle: deque[Channel] = deque()
        self._all: set[Channel] = set()
        self._young: set[Channel] = set()  # not ready yet
        self._hungry: dict[Waiting, None] = {}
        self._starting = 0
        self._failures = 0
        self._rests_until = 0.0
        self._stopped = False
        self._came = threading.Event()
        # Processes end with the thread that started them (see `worker`), and a crawl's thread may
        # end before the crawls that share its crew.
        self._launcher = ThreadPoolExecutor(1, "scrapy_simhash-launcher", _block_interrupts)
        # Before multiprocessing's own, which asks politely and then waits.
        atexit.register(self.stop)
        with self._lock:
            self._start_missing()
        load_pages()

    def wait(self) -> None:
        """Block until a first process is ready; a RuntimeError if none comes up."""
        with self._lock:
            if self.is_hopeless:  # the last ones died: not everything has to be as it was then
                self._start_missing()
                if self._starting:
                    self._came.clear()
        self._came.wait()
        # Not if there is none at this moment, because the last one is being replaced.
        if self.is_hopeless:
            raise RuntimeError(
                "no worker process came up; its own message stands above. SIMHASH_WORKERS = 0 "
                "does without, for debugging"
            )

    def hire(self, desk: Waiting) -> Channel | None:
        """Lend an idle process; if there is none, the desk is woken when there may be one.

        In the thread of the desk's event loop. A crew that was stopped has none, though a process
        may have come up at that moment.
        """
        with self._lock:
            if self._stopped:
                return None
            self._start_missing()
            while self._idle:
                channel = self._idle.popleft()
                if channel.process.is_alive():
                    channel.attach(desk.loop, desk)
                    return channel
                self._discard(channel)  # killed by the system, for instance
            for channel in [each for each in self._all if _is_orphaned(each)]:
                self._discard(channel)
            self._hungry[desk] = None
            return None

    @property
    def is_hopeless(self) -> bool:
        """Whether there is no process, nor one about to come."""
        return self._stopped or not (self._all or self._starting)

    def is_wanted_by_others(self, desk: Waiting) -> bool:
        """Whether another desk waits for a process."""
        return len(self._hungry) > (desk in self._hungry)

    def give_back(self, channel: Channel, desk: Waiting) -> None:
        """Take a process back that is idle again."""
        with self._lock:
            self._idle.append(channel)
            self._hungry.pop(desk, None)
            self._wake_hungry()

    def replace(self, channel: Channel) -> None:
        """Start another process instead of this one, which was killed or died."""
        with self._lock:
            if not self._stopped:
                self._discard(channel)

    def _discard(self, channel: Channel) -> None:
        """Have a process buried, and another one started; under the lock."""
        self._all.discard(channel)
        if channel.loop is not None:
            channel.detach()
        channel.close()
        channel.process.kill()
        # Not here: to end with much memory takes long, and this may be the event loop.
        self._launcher.submit(channel.process.join)
        self._start_missing()

    def _start_missing(self) -> None:
        """Have the missing processes started, unless several in a row failed; under the lock."""
        missing = self.count - len(self._all) - self._starting
        if missing > 0 and not self._stopped and time.monotonic() >= self._rests_until:
            self._starting += missing
            self._launcher.submit(self._launch, missing)

    def _wake_hungry(self) -> None:
        """Have all that wait ask again, the first one first; under the lock."""
        hungry, self._hungry = self._hungry, {}
        for desk in hungry:
            with suppress(RuntimeError):
                desk.wake()

    def _launch(self, count: int) -> None:
        """Start processes, and lend each once it is ready; in the launcher's thread."""
        started: list[Channel] = []
        problem = ""
        for _ in range(count):
            try:
                started.append(_start_process())
            except Exception as error:  # noqa: BLE001 - somebody waits for the answer
                problem = describe_error(error)
        with self._lock:
            self._young.update(started)
            stopped = self._stopped
        for channel in started:
            if stopped or not channel.greet():
                channel.process.kill()
                channel.process.join()
                channel.close()
                problem = problem or f"exit code {channel.process.exitcode}"
            else:
                self._lend(channel)
                count -= 1
        with self._lock:
            self._young.difference_update(started)
            self._starting -= count
            if count and not self._stopped:
                self._failed(count, problem)
            if self.is_hopeless:
                self._came.set()
            self._wake_hungry()

    def _failed(self, count: int, problem: str) -> None:
        """Try once more, then rest for a while; under the lock."""
        if not self._failures:
            logger.warning("%d worker processes did not come up: %s", count, problem)
        else:
            rest = min(_LONGEST_REST_SECONDS, _RESTING_SECONDS * 2**self._failures)
            self._rests_until = time.monotonic() + rest
        self._failures += 1
        self._start_missing()

    def _lend(self, channel: Channel) -> None:
        """Lend a process that is ready."""
        with self._lock:
            self._starting -= 1
            self._failures = 0
            self._all.add(channel)
            self._idle.append(channel)
            self._came.set()
            self._wake_hungry()

    def stop(self) -> None:
        """End all processes; blocks."""
        atexit.unregister(self.stop)
        with self._lock:
            self._stopped = True
            for channel in self._all | self._young:
                channel.process.kill()
            self._wake_hungry()
        self._launcher.shutdown()
        for channel in self._all:
            channel.process.kill()
            channel.process.join()
            _release(channel)


def _block_interrupts() -> None:
    """Keep Ctrl-C from processes that this thread starts, until they ignore it themselves."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _is_orphaned(channel: Channel) -> bool:
    """Whether a process works for an event loop that is closed."""
    return channel.loop is not None and channel.loop.is_closed()


def _release(channel: Channel) -> None:
    """Close a channel, in the thread of the event loop that uses it."""
    loop = channel.loop
    if loop is None:
        channel.close()
    elif loop.is_closed():
        channel.detach()
        channel.close()
    elif loop.is_running() and loop is not _running_loop():
        loop.call_soon_threadsafe(channel.abandon)
    else:
        channel.abandon()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


crews: SharedByKey[int, Crew] = SharedByKey(Crew.stop)


class _Process(multiprocessing.context.SpawnProcess):
    """A spawned process that does not import the user's main module."""

    # So a crawl script needs no main guard, and a worker takes 22 MB and 0.06 s to start instead
    # of 61 MB and 0.31 s (Scrapy and Twisted are not loaded).

    def start(self) -> None:
        """Start the process, also from a daemonic one, as those of multiprocessing's pools are."""
        # They may have no children, lest these outlive them, which workers do not.
        config = multiprocessing.current_process()._config  # type: ignore[attr-defined]  # noqa: SLF001
        daemonic = config.pop("daemon", None)
        try:
            super().start()
        finally:
            if daemonic is not None:
                config["daemon"] = daemonic

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - multiprocessing's name
        with _without_main():
            return multiprocessing.context.SpawnProcess._Popen(process_obj)  # noqa: SLF001


def _start_process() -> Channel:
    """Start a process; its place and this end of its socket are the channel."""
    ours, theirs = socket.socketpair()
    place = Place()
    process = _Process(target=serve, args=(theirs, place), daemon=True)
    try:
        process.start()
    except BaseException:
        ours.close()
        place.close()
        raise
    finally:
        theirs.close()
    return Channel(process, ours, place)


_launching = threading.Lock()


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep processes that this thread starts from importing the main module."""
    # multiprocessing has no switch for it. Other threads' processes are not affected.
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
