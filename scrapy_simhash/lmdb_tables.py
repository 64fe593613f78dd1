"""The permuted, sorted tables in LMDB (paper, section 3.1).

All tables of a design share these databases; keys begin with the table's number, so that each
table is one sorted run::

    base      buckets, see `buckets`: most fingerprints, written by `compact` and `bulk_load`
    added     key -> rests of single fingerprints (DUPSORT + DUPFIXED); what came since
    frozen    the same, while `compact` turns it into a new base
    hot       the same, for buckets beyond `MOST_IN_BUCKET`, which the base marks by an empty value

Each fingerprint is in one of them for each table.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.buckets import pack_buckets, permuted_of
from scrapy_simhash.jointables import contains
from scrapy_simhash.lmdb_probe import ProbedTables
from scrapy_simhash.lmdb_reading import get_rows
from scrapy_simhash.permutation import check_fingerprint
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_reading import TableDatabases
    from scrapy_simhash.permutation import Design

# Probes pass over a bucket of more rows, so that crafted pages cost less than three times as much
# as others (benchmarks/bench_skew.py; 8 times with four times as many rows). Ten times what an
# ordinary bucket of four tables holds at 100 million.
MOST_IN_BUCKET = 16_384
# So many single rows of a key are packed, because a probe reads packed ones faster.
_MOST_SINGLE = 1_024


class Tables(ProbedTables):
    """The tables of one design.

    Args:
        design: which permutations, and how wide the keys are.
        databases: where they are.
    """

    def __init__(self, design: Design, databases: TableDatabases) -> None:
        super().__init__(design, databases)
        self._items = Struct(f"{self._key_end}s{self._rest_bytes}s")

    def _split(self, fingerprint: int) -> Iterator[tuple[bytes, bytes]]:
        # The width is checked here because a DUPFIXED table takes any and then loses values.
        check_fingerprint(fingerprint)
        return self._items.iter_unpack(self.design.rows(fingerprint))

    def add(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> None:
        """Put a fingerprint into every table; harmless when it is there."""
        if not self.holds(transaction, fingerprint):
            self._put(transaction, fingerprint)

    def _put(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> None:
        added = transaction.cursor(self._databases.added)
        hot = transaction.cursor(self._databases.hot)
        for key, rest in self._split(fingerprint):
            if hot.set_key(key):
                hot.put(key, rest)
            elif added.put(key, rest) and added.count() > _MOST_SINGLE:
                self._pack(transaction, key)

    def holds(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> bool:
        """Say whether a fingerprint is in the tables; cost as of one key of one table."""
        key, rest = next(self._split(fingerprint))
        if any(
            transaction.cursor(database).set_key_dup(key, rest)
            for database in (*self._databases.single, self._databases.hot)
        ):
            return True
        value = transaction.get(key, default=b"", db=self._databases.base)
        at = value.find(rest)
        while at > 0 and at % self._rest_bytes:
            at = value.find(rest, at + 1)
        return at >= 0

    def _cut(self, value: bytes) -> list[bytes]:
        return [value[at : at + self._rest_bytes] for at in range(0, len(value), self._rest_bytes)]

    def _pack(self, transaction: lmdb.Transaction[bytes], key: bytes) -> None:
        """Pack the single rows of a key, or move a bucket to where probes pass over it."""
        value = transaction.get(key, default=b"", db=self._databases.base)
        added = transaction.cursor(self._databases.added)
        added.set_key(key)
        if len(value) // self._rest_bytes + added.count() > MOST_IN_BUCKET:
            self._mark_hot(transaction, key)
        elif self._databases.building is None:
            # While a base is being built, the one in use is not to gain rows that it may not have.
            rests = sorted([*self._cut(value), *added.iternext_dup()])
            transaction.put(key, b"".join(rests), db=self._databases.base)
            transaction.delete(key, db=self._databases.added)

    def _mark_hot(self, transaction: lmdb.Transaction[bytes], key: bytes) -> None:
        """Move all rows of a key to where probes pass over them."""
        value = transaction.get(key, default=b"", db=self._databases.base)
        rows = ((key, rest) for rest in self._cut(value))
        transaction.cursor(self._databases.hot).putmulti(rows)
        for database in self._databases.single:
            self._move(transaction, database, key)
        transaction.put(key, b"", db=self._databases.base)

    def _move(
        self, transaction: lmdb.Transaction[bytes], database: lmdb._Database, key: bytes
    ) -> None:
        """Move the rows of a key among those of buckets that are too full."""
        cursor = transaction.cursor(database)
        if cursor.set_key(key):
            rests = list(cursor.iternext_dup())
            transaction.cursor(self._databases.hot).putmulti((key, rest) for rest in rests)
            transaction.delete(key, db=database)

    def remove(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> None:
        """Take a fingerprint out of every table; harmless when it is not there."""
        for key, rest in self._split(fingerprint):
            for database in (*self._databases.single, self._databases.hot):
                transaction.delete(key, rest, db=database)
            for base in filter(None, (self._databases.base, self._databases.building)):
                self._remove_packed(transaction, base, key, rest)

    def _remove_packed(
        self, transaction: lmdb.Transaction[bytes], base: lmdb._Database, key: bytes, rest: bytes
    ) -> None:
        value = transaction.get(key, default=b"", db=base)
        rests = [other for other in self._cut(value) if other != rest]
        # An empty value would mark a bucket as too full, which it is while it has rows in `hot`.
        if not rests and not transaction.cursor(self._databases.hot).set_key(key):
            transaction.delete(key, db=base)
        elif len(value) > len(rests) * self._rest_bytes:
            transaction.put(key, b"".join(rests), db=base)

    def clear(self, transaction: lmdb.Transaction[bytes]) -> None:
        """Empty all tables, and what is being compacted."""
        for database in self._databases:
            if database is not None:
                transaction.drop(database, delete=False)

    def fill(self, transaction: lmdb.Transaction[bytes], fingerprints: NDArray[np.uint64]) -> None:
        """Write empty tables.

        Args:
            transaction: a write transaction.
            fingerprints: each once; shape (n,).
        """
        for number, table in enumerate(self.design.tables):
            permuted = np.sort(table.permute_array(fingerprints))
            self.append(transaction, self._databases.base, number, permuted)

    def append(
        self,
        transaction: lmdb.Transaction[bytes],
        base: lmdb._Database,
        number: int,
        permuted: NDArray[np.uint64],
    ) -> None:
        """Write buckets at the end of a base: full pages, in the order of their keys.

        Args:
            transaction: a write transaction.
            base: the one in use, or the one that is being built.
            number: of the table.
            permuted: of whole buckets, sorted, each once; shape (n,).
        """
        hot = transaction.cursor(self._databases.hot)

        def pack() -> Iterator[tuple[bytes, bytes]]:
            for key, value in pack_buckets(number, permuted, self.design.key_bytes):
                if len(value) <= MOST_IN_BUCKET * self._rest_bytes:
                    yield key, value
                    continue
                hot.putmulti((key, rest) for rest in self._cut(value))
                if base is not self._databases.base:
                    # The base in use must not keep what `hot` has now.
                    self._mark_hot(transaction, key)
                yield key, b""

        buckets, appended = transaction.cursor(base).putmulti(pack(), append=True)
        if appended < buckets:
            # LMDB leaves out what is not in order, and says so nowhere else.
            raise StoreError(f"table {number}: only {appended} of {buckets} buckets were written")

    def forget_hot(
        self, transaction: lmdb.Transaction[bytes], fingerprints: NDArray[np.uint64]
    ) -> None:
        """Take fingerprints out of the buckets that are too full; sorted, shape (n,)."""
        for key in self.hot_keys(transaction):
            permuted = permuted_of(get_rows(transaction, self._databases.hot, [key]))
            known = contains(fingerprints, self.design.tables[key[0]].restore_array(permuted))
            transaction.delete(key, db=self._databases.hot)
            hot = transaction.cursor(self._databases.hot)
            for _, value in pack_buckets(key[0], np.sort(permuted[~known]), self.design.key_bytes):
                hot.putmulti((key, rest) for rest in self._cut(value))

    def settle(self, transaction: lmdb.Transaction[bytes], base: lmdb._Database) -> None:
        """Bring a base that was built meanwhile up to date with the buckets that are too full.

        A bucket that lost half its rows since it became too full is an ordinary one again.
        """
        for key in self.hot_keys(transaction):
            for database in self._databases.single:
                self._move(transaction, database, key)
            rows = get_rows(transaction, self._databases.hot, [key])
            if rows.size > MOST_IN_BUCKET // 2:
                transaction.put(key, b"", db=base)
            else:
                ((_, value),) = pack_buckets(
                    key[0], np.sort(permuted_of(rows)), self.design.key_bytes
                )
                transaction.put(key, value, db=base)
                transaction.delete(key, db=self._databases.hot)

    def find_strays(self, transaction: lmdb.Transaction[bytes]) -> list[str]:
        """List what no probe would find or expect, one line each."""
        problems = []
        past = bytes((len(self.design.tables),))
        marked = set()
        for key, value in transaction.cursor(self._databases.base):
            if key >= past or len(key) != self._key_end:
                problems.append(f"key {key.hex()} belongs to table {key[0]}, which is not there")
            elif len(value) % self._rest_bytes:
                problems.append(f"key {key.hex()} has {len(value)} octets, no whole rows")
            elif not value:
                marked.add(key)
        for database in (*self._databases.single, self._databases.hot):
            problems += [
                f"key {key.hex()} belongs to table {key[0]}, which is not there"
                for key in transaction.cursor(database).iternext_nodup(keys=True, values=False)
                if key >= past or len(key) != self._key_end
            ]
        for key in marked.symmetric_difference(self.hot_keys(transaction)):
            problems.append(
                f"key {key.hex()} {'is' if key in marked else 'is not'} marked as too full"
            )
        return problems
