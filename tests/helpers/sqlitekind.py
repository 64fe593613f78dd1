"""A kind of store in SQLite, which several processes may use: all that a kind has to write."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.keyvalues import Engine, KeyValues
from scrapy_simhash.stores.leases import FileLeases

Result = TypeVar("Result")
# Of a set, each member has a row; of a value there is one.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (name, key, value, PRIMARY KEY (name, key, value)) WITHOUT ROWID
"""


class SqliteValues(KeyValues):
    def __init__(self, database: sqlite3.Connection) -> None:
        self._ask = database.execute

    def get(self, table: str, key: bytes) -> bytes | None:
        return next(iter(self.members(table, key)), None)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self.delete(table, key)
        self.add(table, key, value)

    def delete(self, table: str, key: bytes) -> None:
        self._ask("DELETE FROM rows WHERE name = ? AND key = ?", (table, key))

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        wanted = "SELECT key, value FROM rows WHERE name = ? AND key >= ? ORDER BY key"
        return takewhile(lambda row: row[0].startswith(prefix), self._ask(wanted, (table, prefix)))

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        wanted = "SELECT value FROM rows WHERE name = ? AND key = ? ORDER BY value"
        found = (member for (member,) in self._ask(wanted, (table, key)))
        return [member for member in found if member.startswith(prefix)][:most]

    def add(self, table: str, key: bytes, member: bytes) -> None:
        self._ask("INSERT OR IGNORE INTO rows VALUES (?, ?, ?)", (table, key, member))

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        gone = "DELETE FROM rows WHERE name = ? AND key = ? AND value = ?"
        self._ask(gone, (table, key, member))

    def take_number(self) -> int:
        number = int.from_bytes(self.get("last", b"number") or b"", "big") + 1
        self.put("last", b"number", number.to_bytes(8, "big"))
        return number


class SqliteEngine(Engine):
    values = SqliteValues
    leases: FileLeases

    def __init__(self, url: Path | str, *, readonly: bool = False) -> None:
        self.url, self.readonly = str(url), readonly
        self._path = Path(self.url.removeprefix("sqlite://"))
        self.leases = FileLeases(self._path.with_name(f"{self._path.name}-leases"))
        self._lock = threading.RLock()
        self._database = sqlite3.connect(":memory:")
        self._database.close()  # until there is the file

    def exists(self) -> bool:
        return self._path.exists()

    def open(self) -> None:
        url = f"{self._path.resolve().as_uri()}?mode={'ro' if self.readonly else 'rwc'}"
        try:
            self._database = sqlite3.connect(
                url, uri=True, isolation_level=None, check_same_thread=False
            )
            if not self.readonly:
                self._database.execute(_SCHEMA)
        except sqlite3.Error as error:
            raise StoreUnusableError(f"no store can be opened at {self.url}: {error}") from error

    def read(self, work: Callable[[KeyValues], Result]) -> Result:
        return self._run("BEGIN", work)

    def write(self, work: Callable[[KeyValues], Result]) -> Result:
        return self._run("BEGIN IMMEDIATE", work)

    def _run(self, begin: str, work: Callable[[KeyValues], Result]) -> Result:
        try:
            with self._lock, self._database:
                self._database.execute(begin)
                return work(self.values(self._database))
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"the store at {self.url} failed: {error}") from error

    def measure(self) -> tuple[str, int]:
        return "file_bytes", self._path.stat().st_size

    def close(self) -> None:
        self.leases.close()
        self._database.close()
