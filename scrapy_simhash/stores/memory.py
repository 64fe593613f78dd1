"""The kind of store in memory: for what-if, evaluation and tests; nothing is kept."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.header import check_crawl_id
from scrapy_simhash.stores.keyvalues import HEADER, Engine, KeyValues, Leases
from scrapy_simhash.stores.urls import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Result = TypeVar("Result")


class MemoryValues(KeyValues):
    """All rows; `undo` has what takes back the writes of this transaction, the first one first."""

    def __init__(self) -> None:
        self._values: defaultdict[str, dict[bytes, bytes]] = defaultdict(dict)
        self._sets: defaultdict[str, dict[bytes, list[bytes]]] = defaultdict(dict)
        self._last = 0
        self.undo: list[Callable[[], object]] = []

    def get(self, table: str, key: bytes) -> bytes | None:
        return self._values[table].get(key)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        rows, before = self._values[table], self._values[table].get(key)
        rows[key] = value
        if before is None:
            self.undo.append(lambda: rows.pop(key))
        else:
            self.undo.append(lambda: rows.update({key: before}))

    def delete(self, table: str, key: bytes) -> None:
        value, members = self._values[table].pop(key, None), self._sets[table].pop(key, None)
        if value is not None:
            self.undo.append(lambda: self._values[table].update({key: value}))
        if members is not None:
            self.undo.append(lambda: self._sets[table].update({key: members}))

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        for key, value in sorted(self._values[table].items()):
            if key.startswith(prefix):
                yield key, value
        for key, members in self._sets[table].items():
            if key.startswith(prefix):
                yield from ((key, member) for member in members)

    def count(self, table: str) -> int:
        return len(self._values[table])

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        members = self._sets[table].get(key, [])
        if prefix:
            members = [member for member in members if member.startswith(prefix)]
        return members[:most]

    def has(self, table: str, key: bytes, member: bytes) -> bool:
        members = self._sets[table].get(key, [])
        at = bisect_left(members, member)
        return at < len(members) and members[at] == member

    def add(self, table: str, key: bytes, member: bytes) -> None:
        if not self.has(table, key, member):
            insort(self._sets[table].setdefault(key, []), member)
            self.undo.append(lambda: self.discard(table, key, member))

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        if self.has(table, key, member):
            members = self._sets[table][key]
            members.remove(member)
            if not members:
                del self._sets[table][key]
            self.undo.append(lambda: self.add(table, key, member))

    def measure(self) -> int:
        """Measure the bytes of all keys, values and members."""
        octets = sum(len(k) + len(v) for rows in self._values.values() for k, v in rows.items())
        return octets + sum(
            len(key) + sum(map(len, members))
            for sets in self._sets.values()
            for key, members in sets.items()
        )

    def take_number(self, above: int = 0) -> int:
        self._last = max(self._last, above) + 1
        return self._last


class MemoryEngine(Engine):
    """A store in the memory of this process; `Engine` documents the methods."""

    kind = "memory"
    durable = False

    def __init__(self, place: Path | str = MEMORY, *, readonly: bool = False) -> None:
        self.url = str(place)
        self.readonly = readonly
        self.leases = _Leases()
        self._values = MemoryValues()
        self._lock = threading.RLock()

    def exists(self) -> bool:
        return bool(self._values.count(HEADER))

    def open(self) -> None:
        if self.readonly:
            raise StoreUnusableError(
                f"the store at {self.url} begins empty, so it cannot be opened read-only; name "
                "the folder or server of an existing one"
            )

    def read(self, work: Callable[[KeyValues], Result]) -> Result:
        with self._lock:
            return work(self._values)

    def write(self, work: Callable[[KeyValues], Result], *, alone: bool = False) -> Result:
        del alone
        with self._lock:
            self._values.undo = []
            try:
                return work(self._values)
            except BaseException:
                for step in self._values.undo[::-1]:
                    step()
                raise
            finally:
                self._values.undo = []

    def measure(self) -> tuple[str, int]:
        return "memory_bytes", self._values.measure()

    def close(self) -> None:
        self.leases = _Leases()


class _Leases(Leases):
    """The leases of crawls in this process."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    def take(self, crawl: str) -> None:
        check_crawl_id(crawl)
        if crawl in self._held:
            raise ValueError(f"crawl id {crawl!r}: a crawl with this id is running")
        self._held.add(crawl)

    def give_back(self, crawl: str) -> None:
        self._held.discard(crawl)

    def alive(self, crawl: str) -> bool:
        return crawl in self._held
