"""A store that waits and fails on command, and keeps a list of what it was told."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from scrapy_simhash.judging.documents import Document, Verdict
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.memory import MemoryValues
from scrapy_simhash.tables.designs import parse_design
from scrapy_simhash.tables.probing import Prober
from scrapy_simhash.urls.rules import ActingRule
from tests.helpers.processes import PATIENCE_SECONDS


class Group(NamedTuple):
    """One call of `find_and_add`."""

    documents: list[bytes]
    crawl: str
    done: list[int]
    withdrawn: list[int]


class FakeStore:
    """Judges every document new; what it lacks, its users do not touch.

    Attributes:
        groups: what was written, in order.
        failures: raised by the next writes, one each; None lets one pass.
        attempts: writes begun, failed ones included.
        open_gate: while this is not set, writes wait.
    """

    def __init__(self, *, readonly: bool = False) -> None:
        self.readonly = readonly
        self.distance, self.confirm = 7, None
        self.groups: list[Group] = []
        self.failures: deque[BaseException | None] = deque()
        self.attempts = 0
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.seed = 0
        self.recipe = Recipe("html2txt")
        self.libraries: dict[str, str] = {}
        self.closed = 0
        self.judged_again = 0
        self.rules_version = -1
        self.engine = SimpleNamespace(durable=True)
        self._number = 0
        self.owed = self
        values = MemoryValues()
        self.documents = Documents(values, Prober(parse_design("4")), 0, bool)

    def measure_growth(self) -> tuple[int, int]:
        """Say that nothing was learned, and that there is nothing to learn from."""
        return 0, 0

    def start_crawl(self, crawl: str, spider: str) -> None:
        pass

    def end_crawl(self, crawl: str) -> None:
        pass

    def close(self) -> None:
        self.closed += 1

    def read(self, work: Callable[[Any], object]) -> int:
        """Give the only number that is asked for: the version of the acting rules."""
        del work
        return self.rules_version

    def list_acting_rules(self) -> tuple[int, list[ActingRule]]:
        return 0, []

    def count(self) -> int:
        """Count what is owed: nothing, unless it fails."""
        if self.failures and (failure := self.failures.popleft()):
            raise failure
        return 0

    def find_and_add(  # those of a store
        self,
        documents: Sequence[Document],
        *,
        crawl: str = "",
        done: Sequence[int] = (),
        withdrawn: Sequence[int] = (),
        works: Sequence[Callable[[Documents], object]] = (),
    ) -> list[Verdict]:
        self.attempts += 1
        assert self.open_gate.wait(PATIENCE_SECONDS)
        if self.failures and (failure := self.failures.popleft()):
            raise failure
        names = [document.identity for document in documents]
        self.groups.append(Group(names, crawl, list(done), list(withdrawn)))
        for work in works:
            work(self.documents)
        first, self._number = self._number + 1, self._number + len(names)
        return [Verdict("new", "", number) for number in range(first, self._number + 1)]
