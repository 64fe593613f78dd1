"""Opening and closing an LMDB store, and its transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from scrapy_simhash.checks import check_confirm, choose_distance
from scrapy_simhash.designs import parse_design
from scrapy_simhash.lease import Leases
from scrapy_simhash.lmdb_archived import open_tables
from scrapy_simhash.lmdb_check import check_documents
from scrapy_simhash.lmdb_documents import Documents
from scrapy_simhash.lmdb_environment import (
    acquire_environment,
    has_data,
    release_environment,
)
from scrapy_simhash.lmdb_header import (
    make_store,
    open_databases,
    read_packed_header,
    unpack_header,
)
from scrapy_simhash.planner import choose_design
from scrapy_simhash.recipe import Recipe
from scrapy_simhash.store_header import (
    check_design,
    check_recipe,
    check_seed,
    require_reach,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import lmdb

    from scrapy_simhash.lmdb_tables import Tables

Result = TypeVar("Result")


class LmdbConnection:
    """An open store: its environment, its header, and transactions that know both.

    The arguments are those of `stores.open_store`; a new store takes the `seed` of its token hash,
    0 to 2**64 - 1, or draws one; one that is there must have it.
    """

    distance: int
    _tables: Tables

    def __init__(  # noqa: PLR0913  # those of `open_store`, and the seed
        self,
        path: Path,
        distance: int | None = 3,
        tables: str | int = "auto",
        recipe: Recipe | None = None,
        confirm: float | None = None,
        *,
        readonly: bool = False,
        seed: int | None = None,
    ) -> None:
        check_confirm(confirm)
        automatic = tables == "auto"
        design = choose_design(0) if automatic else parse_design(tables)
        self.url = str(path)
        self.confirm = confirm
        self.readonly = readonly
        if not has_data(path):
            choose_distance(distance, confirm, design)  # before anything is made
        self._environment = acquire_environment(path, readonly=readonly)
        try:
            made = not readonly and make_store(
                self._environment, recipe or Recipe(), design.name, seed
            )
            # Only its maker may choose again: others may rely on the design as it is.
            self._choosing = made and automatic
            self._databases = open_databases(self._environment)
            self._packed_header = b""
            self._environment.read(self._refresh)
            self._environment.settle_suspicion(self.check)
            check_seed(self._header, seed)
            self.recipe = check_recipe(self._header, recipe)
            check_design(self._header, None if automatic else design.name)
            self.distance = choose_distance(distance, confirm, self._tables.design)
        except BaseException:
            release_environment(self._environment)
            raise
        self.seed = self._header.seed
        self._leases = Leases(self._environment.folder / "leases")
        self._closed = False

    def _refresh(self, transaction: lmdb.Transaction[bytes]) -> Documents:
        """Begin with the header: another process may have changed the tables' design."""
        packed = read_packed_header(transaction, self._databases)
        if packed != self._packed_header:
            self._header = unpack_header(packed)
            if self._packed_header:
                require_reach(self._header, self.distance)
            self._tables = open_tables(self._environment.folder, self._databases, self._header)
            self._packed_header = packed
        return Documents(transaction, self._databases, self._tables)

    def _read(self, work: Callable[[Documents, lmdb.Transaction[bytes]], Result]) -> Result:
        return self._environment.read(lambda txn: work(self._refresh(txn), txn))

    def _write(self, work: Callable[[Documents, lmdb.Transaction[bytes]], Result]) -> Result:
        self._require_writable()
        return self._environment.write(lambda txn: work(self._refresh(txn), txn))

    def _require_writable(self) -> None:
        if self.readonly:
            raise ValueError(f"the store at {self.url} was opened read-only")

    def check(self) -> list[str]:
        return self._environment.find_damage() or self._read(
            lambda _, txn: check_documents(txn, self._databases, self._tables)
        )

    @property
    def design(self) -> str:
        return self._header.design

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._leases.give_back_all()
            release_environment(self._environment)
