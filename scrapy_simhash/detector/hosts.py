"""Where a judge runs: in a process of its own, or in a thread of this one."""

from __future__ import annotations

import asyncio
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import msgspec

from scrapy_simhash.detector.messages import unpack_from_judge
from scrapy_simhash.detector.process import Child

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_simhash.detector.messages import FromJudge


class Hearing(Protocol):
    """Who hears a judge."""

    def take(self, judge: JudgeProcess | JudgeThread, messages: list[FromJudge]) -> None:
        """Act on messages of a judge."""

    def ended(self, judge: JudgeProcess | JudgeThread | None, why: str) -> None:
        """Act when it has ended."""


class JudgeProcess(Child):
    """A judge in a process of its own."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing
        module = "scrapy_simhash.detector.judge"
        # The judge hashes words by Python's hash, whose key nobody else may know.
        super().__init__(asyncio.get_running_loop(), module, PYTHONHASHSEED="random")

    def give(self, messages: list[bytes]) -> None:
        """Send messages, without waiting."""
        self.send([[message] for message in messages])

    def take(self, messages: list[bytes]) -> bool:
        """Pass messages on; return False if one is none."""
        try:
            read = list(map(unpack_from_judge, messages))
        except msgspec.MsgspecError:
            return False
        self._hearing.take(self, read)
        return True

    def broken(self) -> None:
        """Say that it has ended."""
        self.end()
        self._hearing.ended(self, f"exit code {self.process.returncode}")

    def kill(self) -> None:
        """Kill the process; its end is seen when its socket is read."""
        self.process.kill()

    def join(self) -> None:
        """Wait until it is gone; blocks."""
        self.process.wait()


class JudgeThread:
    """A judge in a thread of this process."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing
        self._loop = asyncio.get_running_loop()
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._brought: list[bytes] = []
        self._thread = threading.Thread(
            target=self._run, name=f"scrapy_simhash-judge-{id(self):x}", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        from scrapy_simhash.detector.judge import GroupJudge  # noqa: PLC0415 - loads numpy

        try:
            GroupJudge(self._get, self._bring).run()
        finally:
            self._call(lambda: self._hearing.ended(self, "its thread ended"))

    def _get(self, timeout: float | None) -> bytes:
        message = self._inbox.get(timeout=timeout)
        if message is None:
            raise EOFError
        return message

    def _bring(self, messages: list[bytes]) -> None:
        """Bring messages to the event loop, all of a moment in one call."""
        with self._lock:
            if not self._brought:
                self._call(self._deliver)
            self._brought += messages

    def _call(self, work: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(work)

    def _deliver(self) -> None:
        with self._lock:
            brought, self._brought = self._brought, []
        self._hearing.take(self, list(map(unpack_from_judge, brought)))

    def give(self, messages: list[bytes]) -> None:
        """Hand messages over."""
        for message in messages:
            self._inbox.put(message)

    def kill(self) -> None:
        """Do nothing: a thread cannot be killed."""

    def end(self) -> None:
        """Have the thread end."""
        self._inbox.put(None)

    def join(self) -> None:
        """Wait until it has ended; blocks."""
        self._thread.join()
