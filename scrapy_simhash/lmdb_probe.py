"""Probes of the tables in LMDB."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scrapy_simhash.buckets import find_in_buckets
from scrapy_simhash.lmdb_reading import TableReader, get_rows
from scrapy_simhash.probing import Prober
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    import lmdb
    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_reading import TableDatabases
    from scrapy_simhash.permutation import Design
    from scrapy_simhash.stored import Probe


class ProbedTables(TableReader):
    """Tables that can be probed: one `getmulti` a database hands the candidates of all to numpy.

    Args:
        design: which permutations, and how wide the keys are.
        databases: where the tables are.
    """

    def __init__(self, design: Design, databases: TableDatabases) -> None:
        super().__init__(design, databases)
        self._single = databases.single
        self._prober = Prober(design)

    def probe(
        self,
        transaction: lmdb.Transaction[bytes],
        fingerprint: int,
        distance: int,
        most: int | None = None,
        *,
        bounded: bool = False,
    ) -> Probe:
        """Find every fingerprint within a distance, see `Prober.probe`."""
        read = partial(self._read, transaction)
        return self._prober.probe(read, fingerprint, distance, most, bounded=bounded)

    def _read(
        self,
        transaction: lmdb.Transaction[bytes],
        keys: tuple[bytes, ...],
        rows: bytes,
        distance: int,
        *,
        bounded: bool,
    ) -> tuple[list[NDArray[np.void]], list[bytes]]:
        """Read the candidates of keys.

        Returns:
            Rows that may be near, and the keys whose buckets are too full.
        """
        found: list[NDArray[np.void]] = []
        hot: list[bytes] = []
        if buckets := transaction.cursor(self._databases.base).getmulti(keys):
            try:
                near = find_in_buckets(buckets, rows, distance)
            except ValueError as error:
                raise StoreError(f"the tables are damaged: {error}; rebuild them") from error
            if near is not None:
                found.append(near)
            hot = [key for key, value in buckets if not value]
            if hot and not bounded:
                found.append(get_rows(transaction, self._databases.hot, hot))
                hot = []
        for database in self._single:
            # After `compact` there are none, and knowing that is much quicker than looking.
            if not transaction.cursor(database).first():
                continue
            found.append(get_rows(transaction, database, keys))
        return found, hot
