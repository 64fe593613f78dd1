"""The LMDB kind of store: one folder, any number of processes on one host."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import lmdb

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.header import HEADER_KEY, unpack_header
from scrapy_simhash.stores.keyvalues import HEADER, Engine, KeyValues
from scrapy_simhash.stores.lmdb.compacting import compact
from scrapy_simhash.stores.lmdb.copying import back_up
from scrapy_simhash.stores.lmdb.environment import (
    acquire_environment,
    has_data,
    release_environment,
)
from scrapy_simhash.stores.lmdb.guard import FileLeases, clear_suspect, require_ours
from scrapy_simhash.stores.lmdb.values import DATABASES, Databases, LmdbValues

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_simhash.stores.keyvalues import Inspect
    from scrapy_simhash.stores.lmdb.environment import Environment

Result = TypeVar("Result")


class LmdbEngine(Engine):
    """A store in a folder; `Engine` documents the methods."""

    kind = "lmdb"
    client = "lmdb"
    errors = (lmdb.Error,)

    def __init__(self, place: Path | str, *, readonly: bool) -> None:
        self.url = str(place)
        self.readonly = readonly
        self._place = Path(place)
        self._closing = ExitStack()

    def exists(self) -> bool:
        return has_data(self._place)

    def open(self) -> None:
        with ExitStack() as closing:
            self._environment = acquire_environment(self._place, readonly=self.readonly)
            closing.callback(release_environment, self._environment)
            self._databases = _open_databases(self._environment)
            self.leases = FileLeases(self._environment.folder / "leases")
            closing.callback(self.leases.close)
            self._closing = closing.pop_all()

    def read(self, work: Callable[[KeyValues], Result]) -> Result:
        return self._environment.read(lambda txn: work(LmdbValues(txn, self._databases)))

    def write(self, work: Callable[[LmdbValues], Result], *, alone: bool = False) -> Result:
        del alone  # a writing transaction always is
        return self._environment.write(lambda txn: work(LmdbValues(txn, self._databases)))

    def measure(self) -> tuple[str, int]:
        return "file_bytes", self._environment.file_bytes

    def find_damage(self) -> list[str]:
        return self._environment.find_damage()

    def settle(self, check: Callable[[], list[str]]) -> None:
        if self._environment.suspect:
            clear_suspect(self._environment.folder, check(), readonly=self.readonly)
            self._environment.suspect = False

    def compact(self, progress: Callable[[int, int], object]) -> None:
        compact(self._environment.folder, self.write, progress)

    def backup(self, folder: Path, inspect: Inspect, *, check: bool) -> dict[str, Any]:
        def open_copy(copy: Path) -> tuple[dict[str, Any], list[str]]:
            return inspect(LmdbEngine(copy, readonly=True))

        return back_up(self._environment, folder, open_copy, check=check)

    def close(self) -> None:
        self._closing.close()


def _open_databases(environment: Environment) -> Databases:
    """Open the databases of a store, and make them in an empty file, in one transaction."""

    def make(transaction: lmdb.Transaction[bytes]) -> None:
        if not transaction.stat()["entries"]:
            for name, (several, fixed) in DATABASES.items():
                environment.open_database(name, transaction, dupsort=several, dupfixed=fixed)

    if not environment.readonly:
        environment.write(make)
    found = environment.read(lambda txn: {bytes(key) for key, _ in txn.cursor()})
    # Check the header first: another format may have other databases.
    if HEADER.encode() in found:
        header = environment.open_database(HEADER)
        packed = environment.read(lambda txn: txn.get(HEADER_KEY, db=header))
        if packed is not None:
            unpack_header(packed)
    require_ours(environment.folder, found)
    if others := found ^ {name.encode() for name in DATABASES}:
        raise StoreUnusableError(
            f"the store at {environment.folder} was made by another version: it "
            f"{'has' if others & found else 'lacks'} the database {min(others & found or others)!r}"
            "; name another SIMHASH_STORE and crawl again, or use the scrapy-simhash that made it"
        )
    return Databases(
        {
            name: environment.open_database(name, dupsort=several, dupfixed=fixed)
            for name, (several, fixed) in DATABASES.items()
        }
    )
