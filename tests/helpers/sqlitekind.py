"""A kind of store in SQLite: the least that a kind has to write, for the tests of the interface."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from scrapy_simhash.stores.keyvalues import TABLES, Engine, KeyValues
from scrapy_simhash.tables.probing import MOST_IN_BUCKET, Sets

Result = TypeVar("Result")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vals (t, k, v, PRIMARY KEY (t, k)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sets (t, k, m, PRIMARY KEY (t, k, m)) WITHOUT ROWID;
"""


class SqliteValues(KeyValues):
    def __init__(self, database: sqlite3.Connection) -> None:
        self._ask = database.execute

    def get(self, table: str, key: bytes) -> bytes | None:
        row = self._ask("SELECT v FROM vals WHERE t = ? AND k = ?", (table, key)).fetchone()
        return None if row is None else bytes(row[0])

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self._ask("REPLACE INTO vals VALUES (?, ?, ?)", (table, key, value))

    def delete(self, table: str, key: bytes) -> None:
        for name in ("vals", "sets"):
            self._ask(f"DELETE FROM {name} WHERE t = ? AND k = ?", (table, key))  # noqa: S608

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        for name in ("vals", "sets"):
            wanted = f"SELECT * FROM {name} WHERE t = ? AND k >= ? ORDER BY k"  # noqa: S608
            for _, key, value in self._ask(wanted, (table, prefix)):
                if not key.startswith(prefix):
                    break
                yield key, value

    def count(self, table: str) -> int:
        (number,) = self._ask("SELECT count(*) FROM vals WHERE t = ?", (table,)).fetchone()
        return int(number)

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        wanted = "SELECT m FROM sets WHERE t = ? AND k = ? ORDER BY m"
        found = [member for (member,) in self._ask(wanted, (table, key))]
        return [member for member in found if member.startswith(prefix)][:most]

    def has(self, table: str, key: bytes, member: bytes) -> bool:
        return member in self.members(table, key)

    def add(self, table: str, key: bytes, member: bytes) -> None:
        self._ask("INSERT OR IGNORE INTO sets VALUES (?, ?, ?)", (table, key, member))

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        self._ask("DELETE FROM sets WHERE t = ? AND k = ? AND m = ?", (table, key, member))

    def many(self, keys: Sequence[bytes], near: tuple[int, int], *, bounded: bool) -> Sets:
        del near
        found = [(key, members) for key in keys if (members := self.members(TABLES, key))]
        crowded = [key for key, members in found if bounded and len(members) > MOST_IN_BUCKET]
        joined = [(key, b"".join(members)) for key, members in found if key not in crowded]
        return joined, b"", crowded

    def take_number(self, above: int = 0) -> int:
        number = max(int.from_bytes(self.get("last", b"number") or b"", "big"), above) + 1
        self.put("last", b"number", number.to_bytes(8, "big"))
        return number


class ProcessLeases(set[str]):
    """Leases of this process only."""

    take = set.add
    give_back = set.discard
    alive = set.__contains__


class SqliteEngine(Engine):
    kind = "sqlite"
    errors = (sqlite3.Error,)
    values = SqliteValues

    def __init__(self, url: Path | str, *, readonly: bool = False) -> None:
        self.url, self.readonly = str(url), readonly
        self._path = Path(self.url.removeprefix("sqlite://"))
        self.leases = ProcessLeases()
        self._lock = threading.RLock()

    def exists(self) -> bool:
        return self._path.exists()

    def open(self) -> None:
        self._database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._database.executescript(_SCHEMA)

    def read(self, work: Callable[[KeyValues], Result]) -> Result:
        return self.write(work)

    def write(self, work: Callable[[KeyValues], Result], *, alone: bool = False) -> Result:
        del alone
        with self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            return work(self.values(self._database))

    def measure(self) -> tuple[str, int]:
        return "file_bytes", self._path.stat().st_size

    def close(self) -> None:
        self._database.close()
