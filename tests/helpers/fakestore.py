"""A store in memory that waits and fails on command, and keeps a list of what it was told."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from scrapy_simhash.judging.documents import Document, Verdict
from scrapy_simhash.stores.memory import MemoryEngine
from scrapy_simhash.stores.store import Store
from tests.helpers.processes import PATIENCE_SECONDS


class Group(NamedTuple):
    """One call of `find_and_add`."""

    documents: list[bytes]
    crawl: str
    done: list[int]
    withdrawn: list[int]


class _Engine(MemoryEngine):
    """A store in memory that nobody warns of."""

    durable = True


class FakeStore(Store):
    """Takes only pages for near-duplicates that have one fingerprint.

    Attributes:
        groups: what was written, in order.
        failures: raised by the next writes, one each; None lets one pass.
        attempts: writes begun, failed ones included.
        open_gate: while this is not set, writes wait.
        stops_at: the number of the attempt that closes it.
    """

    def __init__(self) -> None:
        super().__init__(_Engine(), distance=0)
        self.groups: list[Group] = []
        self.failures: deque[BaseException | None] = deque()
        self.attempts = self.stops_at = 0
        self.open_gate = threading.Event()
        self.open_gate.set()

    def find_and_add(
        self,
        documents: Sequence[Document],
        *,
        crawl: str = "",
        done: Sequence[Any] = (),
        withdrawn: Sequence[Any] = (),
        **more: Any,
    ) -> list[Verdict]:
        self.attempts += 1
        if self.attempts == self.stops_at:
            self.open_gate.clear()
        assert self.open_gate.wait(PATIENCE_SECONDS)
        if self.failures and (failure := self.failures.popleft()):
            raise failure
        names = [document.facts.identity for document in documents]
        self.groups.append(Group(names, crawl, list(done), list(withdrawn)))
        return super().find_and_add(documents, crawl=crawl, done=done, withdrawn=withdrawn, **more)
