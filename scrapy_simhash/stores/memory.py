"""The kind of store in memory: nothing is kept."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.keyvalues import HEADER, Engine, KeyValues
from scrapy_simhash.stores.opening import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Result = TypeVar("Result")


class MemoryValues(KeyValues):
    """All rows: by key the members of a set, or a value; `before` has what they were."""

    def __init__(self) -> None:
        self._rows: defaultdict[str, dict[bytes, list[bytes]]] = defaultdict(dict)
        self.before: dict[tuple[str, bytes], list[bytes] | None] = {}

    def get(self, table: str, key: bytes) -> bytes | None:
        found = self._rows[table].get(key)
        return found[0] if found else None

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._keep(table, key)
        self._rows[table][key] = [value]

    def delete(self, table: str, key: bytes) -> None:
        self._keep(table, key)
        self._rows[table].pop(key, None)

    def _keep(self, table: str, key: bytes) -> None:
        """Keep what a key has before it is written first."""
        if (table, key) not in self.before:
            found = self._rows[table].get(key)
            self.before[table, key] = None if found is None else found.copy()

    def undo(self) -> None:
        """Take back all that was written since `before` was empty."""
        for (table, key), before in self.before.items():
            self._rows[table].pop(key, None)
            if before is not None:
                self._rows[table][key] = before

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        for key, found in sorted(self._rows[table].items()):
            if key.startswith(prefix):
                yield from ((key, each) for each in found)

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        members = self._rows[table].get(key, [])
        if prefix:
            members = [member for member in members if member.startswith(prefix)]
        return members[:most]

    def has(self, table: str, key: bytes, member: bytes) -> bool:
        members = self._rows[table].get(key, [])
        at = bisect_left(members, member)
        return at < len(members) and members[at] == member

    def add(self, table: str, key: bytes, member: bytes) -> None:
        if not self.has(table, key, member):
            self._keep(table, key)
            insort(self._rows[table].setdefault(key, []), member)

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        if self.has(table, key, member):
            self._keep(table, key)
            members = self._rows[table][key]
            members.remove(member)
            if not members:
                del self._rows[table][key]

    def measure(self) -> int:
        """Measure the bytes of all keys, values and members."""
        rows = (row for table in self._rows.values() for row in table.items())
        return sum(len(key) + sum(map(len, found)) for key, found in rows)


class MemoryEngine(Engine):
    """A store in the memory of this process; `Engine` documents the methods."""

    def __init__(self, place: Path | str = MEMORY, *, readonly: bool = False) -> None:
        self.url = str(place)
        self.readonly = readonly
        self._values = MemoryValues()
        self._last = 0
        self._lock = threading.RLock()

    def exists(self) -> bool:
        return any(self._values.scan(HEADER))

    def open(self) -> None:
        if self.readonly:
            raise StoreUnusableError(
                f"the store at {self.url} begins empty, so it cannot be opened read-only; name "
                "the folder or server of an existing one"
            )

    def read(self, work: Callable[[KeyValues], Result]) -> Result:
        with self._lock:
            return work(self._values)

    def write(self, work: Callable[[KeyValues], Result]) -> Result:
        with self._lock:
            self._values.before = {}
            try:
                return work(self._values)
            except BaseException:
                self._values.undo()
                raise

    def take_numbers(self, count: int) -> int:
        with self._lock:
            self._last += count
            return self._last - count + 1

    def measure(self) -> tuple[str, int]:
        return "memory_bytes", self._values.measure()

    def close(self) -> None:
        """Keep the rows: who made the engine may look at them."""
