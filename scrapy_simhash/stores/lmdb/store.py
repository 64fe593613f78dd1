"""The LMDB store: one folder, any number of processes on one host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import lmdb
import numpy as np

from scrapy_simhash.errors import StoreError
from scrapy_simhash.judging.merging import Row, read_rows
from scrapy_simhash.stores.header import choose_distance
from scrapy_simhash.stores.lmdb.backup import back_up
from scrapy_simhash.stores.lmdb.documents import (
    HEADER_KEY,
    URLS,
    LmdbDocuments,
    NoDatabaseError,
    make_store,
    open_databases,
    open_later,
    table_databases,
    unpack_header,
)
from scrapy_simhash.stores.lmdb.environment import (
    acquire_environment,
    has_data,
    release_environment,
)
from scrapy_simhash.stores.lmdb.guard import Leases, clear_suspect
from scrapy_simhash.stores.lmdb.mending import (
    check_documents,
    compact,
    rebuild,
    rewrite_tables,
    trusted_fingerprints,
)
from scrapy_simhash.stores.lmdb.tables import Layout, Tables
from scrapy_simhash.stores.store import Store
from scrapy_simhash.tables import choose_design, parse_design
from scrapy_simhash.tables.sets import contains, sort_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.pages import Recipe

Result = TypeVar("Result")


class LmdbStore(Store):
    """A store in a folder; `Store` documents the methods."""

    _leases: Leases
    _store_errors = (StoreError, OSError, lmdb.Error, NoDatabaseError)
    # By the number of their document; read once, from all identities.
    _aliases: Mapping[int, Sequence[bytes]] | None = None

    def _find(self, place: Path | str) -> bool:
        self.url = str(place)
        self._place = Path(place)
        return has_data(self._place)

    def _open(self, recipe: Recipe, design: str, seed: int | None) -> bool:
        self._environment = acquire_environment(self._place, readonly=self.readonly)
        self._closing.callback(release_environment, self._environment)
        made = not self.readonly and make_store(self._environment, recipe, design, seed)
        self._databases = open_databases(self._environment)
        self._read(lambda _: None)
        if self._environment.suspect:
            clear_suspect(self._environment.folder, self.check(), readonly=self.readonly)
            self._environment.suspect = False
        self._leases = Leases(self._environment.folder / "leases")
        self._closing.callback(self._leases.give_back_all)
        return made

    def _refresh(self, transaction: lmdb.Transaction[bytes]) -> LmdbDocuments:
        """Read the header first: another process may have changed the table design."""
        packed = transaction.get(HEADER_KEY, db=self._databases.header)
        if packed != self._packed_header:
            self._take_over(unpack_header(packed))
            in_use = table_databases(self._databases, self._header)
            self._layout = Layout(self._design, in_use)
            self._packed_header = packed or b""
        if self._databases.urls is None and transaction.get(URLS.encode()) is not None:
            raise NoDatabaseError(URLS)  # another process made it
        tables = Tables(transaction, self._layout)
        return LmdbDocuments(transaction, self._databases, tables, self._header.addressed)

    def _read(
        self,
        work: Callable[[LmdbDocuments], Result],
        ahead: Callable[[LmdbDocuments], object] | None = None,
    ) -> Result:
        del ahead
        while True:
            try:
                return self._environment.read(lambda txn: work(self._refresh(txn)))
            except NoDatabaseError as missing:
                self._databases = open_later(self._environment, self._databases, missing.name)

    def _commit(
        self,
        work: Callable[[LmdbDocuments], Result],
        ahead: Callable[[LmdbDocuments], object] | None = None,
    ) -> Result:
        del ahead
        while True:
            try:
                return self._environment.write(lambda txn: work(self._refresh(txn)))
            except NoDatabaseError as missing:
                self._databases = open_later(
                    self._environment, self._databases, missing.name, make=True
                )

    def _is_alive(self, crawl: str) -> bool:
        return self._leases.alive(crawl)

    def _has_waiting(self) -> bool:
        return self._read(LmdbDocuments.has_waiting)

    def _measure(self) -> tuple[str, int]:
        return "file_bytes", self._environment.file_bytes

    def table_stats(self) -> dict[str, Any]:
        return {**super().table_stats(), "file_bytes": self._environment.file_bytes}

    def read_rows(self, numbers: Sequence[int]) -> list[Row]:
        if self._aliases is None:
            self._aliases = self._read(LmdbDocuments.list_aliases)
        aliases = self._aliases
        return self._read(lambda stored: read_rows(stored, numbers, aliases))

    def check(self) -> list[str]:
        return self._environment.find_damage() or self._read(check_documents)

    def backup(self, folder: Path, *, check: bool = True) -> dict[str, Any]:
        return back_up(self._environment, folder, check=check)

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        self._require_writable()
        compact(self._environment.folder, self._commit, progress or (lambda *_: None))

    def rebuild(self, tables: str | int | None = None) -> dict[str, int]:
        def work(stored: LmdbDocuments) -> dict[str, int]:
            design = self.design if tables is None else parse_design(tables).name
            choose_distance(self.distance, self.confirm, parse_design(design))
            written = rebuild(stored, design)
            self._refresh(stored.transaction)
            return written

        self._require_writable()
        return self._commit(work)

    def _load(self, fingerprints: NDArray[np.uint64]) -> int:
        def work(stored: LmdbDocuments) -> int:
            design = self.design
            if self._choosing and not stored.tables.count_rows():
                design = choose_design(fingerprints.size, self.distance).name
            indexed = stored.list_indexed()
            for known in indexed[contains(fingerprints, indexed)].tolist():
                stored.note_bulk_loaded(known)
            before = trusted_fingerprints(stored)
            together = sort_distinct(np.concatenate([before, fingerprints]))
            rewrite_tables(stored, design, together)
            self._refresh(stored.transaction)
            return together.size - before.size

        return self._commit(work)
