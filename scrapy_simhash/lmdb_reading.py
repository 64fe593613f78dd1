"""Reading whole tables, a range of keys at a time."""

from __future__ import annotations

from itertools import groupby, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scrapy_simhash.buckets import ROW, permuted_of, unpack_buckets
from scrapy_simhash.jointables import sort_distinct
from scrapy_simhash.permutation import ROW_BYTES, Design
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import lmdb
    from numpy.typing import NDArray

# A write transaction of `compact` merges so many at once, and holds the store meanwhile.
_ROWS_PER_SLICE = 1_048_576


class TableDatabases(NamedTuple):
    """Handles of the databases that hold the tables.

    Attributes:
        base: of buckets.
        added: where new fingerprints go.
        frozen: what is being compacted, or None.
        hot: of buckets that are too full.
        building: the base that `compact` is writing, or None.
        removed: what does not count of the archive beneath.
    """

    base: lmdb._Database
    added: lmdb._Database
    frozen: lmdb._Database | None
    hot: lmdb._Database
    building: lmdb._Database | None
    removed: lmdb._Database

    @property
    def single(self) -> tuple[lmdb._Database, ...]:
        """Those where each row is a value of its own, except for buckets that are too full."""
        return (self.added,) if self.frozen is None else (self.added, self.frozen)


class TableReader:
    """Reads the tables of one design, see `lmdb_tables`.

    Args:
        design: which permutations, and how wide the keys are.
        databases: where they are.
    """

    def __init__(self, design: Design, databases: TableDatabases) -> None:
        self.design = design
        self._databases = databases
        self._key_end = 1 + design.key_bytes
        self._rest_bytes = ROW_BYTES - self._key_end

    def slices(self, transaction: lmdb.Transaction[bytes]) -> Iterator[tuple[int, int, int]]:
        """Cut the tables into ranges of keys of some million rows; (table, first key, end)."""
        rows = max(1, self.count_rows(transaction))
        keys = 256**self.design.key_bytes
        pieces = min(keys, 1 + rows // (_ROWS_PER_SLICE * len(self.design.tables)))
        for number in range(len(self.design.tables)):
            for piece in range(pieces):
                yield number, keys * piece // pieces, keys * (piece + 1) // pieces

    def read_slice(
        self,
        transaction: lmdb.Transaction[bytes],
        keys_of: tuple[int, int, int],
        *,
        tolerant: bool = False,
    ) -> NDArray[np.uint64]:
        """Read the permuted fingerprints of a range of keys; sorted, each once; shape (n,).

        Args:
            transaction: any.
            keys_of: the table, the first key, and the one after the last, as `slices` says.
            tolerant: leave out buckets that are damaged, see `find_strays`.

        Raises:
            StoreError: a bucket is damaged.
        """
        number, first, end = keys_of
        lowest, past = self._key_of(number, first), self._key_of(number, end)
        cursor = transaction.cursor(self._databases.base)
        buckets = []
        if cursor.set_range(lowest):
            for key, value in cursor:
                if key >= past:
                    break
                if len(key) == self._key_end and not len(value) % self._rest_bytes:
                    buckets.append((key, value))
                elif not tolerant:
                    raise StoreError(
                        f"the tables are damaged: key {key.hex()} has {len(value)} octets, no "
                        "whole rows; mend them with `scrapy simhash rebuild`"
                    )
        parts = [permuted_of(unpack_buckets(buckets))]
        for database in (*self._databases.single, self._databases.hot):
            cursor = transaction.cursor(database)
            if cursor.set_range(lowest):
                keys = cursor.iternext_nodup(keys=True, values=False)
                wanted = [
                    key
                    for key in takewhile(lambda key: key < past, keys)
                    if len(key) == self._key_end
                ]
                parts.append(permuted_of(get_rows(transaction, database, wanted)))
        return sort_distinct(np.concatenate(parts))

    def _key_of(self, number: int, prefix: int) -> bytes:
        """Make a key; the one past the last of a table is the first of the next."""
        return ((number << 8 * self.design.key_bytes) + prefix).to_bytes(self._key_end, "big")

    def read_tables(
        self, transaction: lmdb.Transaction[bytes], *, tolerant: bool = False
    ) -> Iterator[NDArray[np.uint64]]:
        """Read table after table: restored, sorted; shape (n,) each; see `read_slice`."""
        for number, pieces in groupby(self.slices(transaction), key=itemgetter(0)):
            parts = [self.read_slice(transaction, each, tolerant=tolerant) for each in pieces]
            yield np.sort(self.design.tables[number].restore_array(np.concatenate(parts)))

    def read_all(
        self, transaction: lmdb.Transaction[bytes], *, tolerant: bool = False
    ) -> NDArray[np.uint64]:
        """Read all fingerprints: sorted, each once; shape (n,); see `read_slice`."""
        found = next(self.read_tables(transaction, tolerant=tolerant))
        return self.with_archived(transaction, found, tolerant=tolerant)

    def read_trusted(self, transaction: lmdb.Transaction[bytes]) -> NDArray[np.uint64]:
        """Read the fingerprints that two tables agree on; of one table, all; sorted, each once.

        Damage is in one of them. Reads every table.
        """
        content = list(self.read_tables(transaction, tolerant=True))
        found = np.sort(np.concatenate(content))
        if len(content) > 1:
            found = sort_distinct(found[1:][found[1:] == found[:-1]])
        return self.with_archived(transaction, found, tolerant=True)

    def with_archived(
        self, transaction: lmdb.Transaction[bytes], found: NDArray[np.uint64], *, tolerant: bool
    ) -> NDArray[np.uint64]:
        """Add what is in the archive beneath the tables; here there is none.

        Args:
            transaction: any.
            found: sorted, each once; shape (n,).
            tolerant: leave out blocks that are damaged.
        """
        del transaction, tolerant
        return found

    def count_fingerprints(self, transaction: lmdb.Transaction[bytes]) -> int:
        """Count what is in the tables; reads the sizes of all buckets."""
        return self.count_rows(transaction) // len(self.design.tables)

    @property
    def archive_bytes(self) -> int:
        """Size of the archive beneath the tables; 0 for none."""
        return 0

    def count_rows(self, transaction: lmdb.Transaction[bytes]) -> int:
        """Count the rows of all tables; reads the sizes of all buckets."""
        octets = sum(len(value) for _, value in transaction.cursor(self._databases.base))
        return octets // self._rest_bytes + sum(
            transaction.stat(database)["entries"]
            for database in (*self._databases.single, self._databases.hot)
        )

    def hot_keys(self, transaction: lmdb.Transaction[bytes]) -> list[bytes]:
        """List the keys of buckets that are too full."""
        cursor = transaction.cursor(self._databases.hot)
        return list(cursor.iternext_nodup(keys=True, values=False))


def get_rows(
    transaction: lmdb.Transaction[bytes], database: lmdb._Database, keys: Sequence[bytes]
) -> NDArray[np.void]:
    """Get the rows of keys where each row is a value of its own; shape (n,) of `ROW`."""
    if not keys:
        return np.empty(0, ROW)
    octets = transaction.cursor(database).getmulti(
        keys, dupdata=True, dupfixed_bytes=ROW_BYTES - len(keys[0]), keyfixed=True
    )
    return np.frombuffer(octets, ROW)
