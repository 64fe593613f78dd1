"""The permuted, sorted tables in LMDB (paper, section 3.1).

All tables of a design share these databases; keys begin with the table's number, so that each
table is one sorted run::

    base      buckets, see `tables.probing`: most fingerprints, written by `compact` and `bulk_load`
    added     key -> rests of single fingerprints (DUPSORT + DUPFIXED) that were added since
    frozen    the same, while `compact` merges it into a new base
    hot       the same, for buckets beyond `MOST_IN_BUCKET`, which the base marks by an empty value

For each table, a fingerprint is in exactly one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import itemgetter
from struct import iter_unpack
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scrapy_simhash.errors import StoreError
from scrapy_simhash.tables.permutation import check_fingerprint
from scrapy_simhash.tables.probing import (
    MOST_IN_BUCKET,
    ROW,
    ROW_BYTES,
    Prober,
    find_in_buckets,
    pack_buckets,
    permuted_of,
    unpack_buckets,
)
from scrapy_simhash.tables.sets import sort_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.tables import Design


# A write transaction of `compact` merges this number of rows; other writers wait meanwhile.
_ROWS_PER_SLICE = 1_048_576
# This number of single rows with the same key is packed, because probes read packed rows faster.
_MOST_SINGLE = 1_024


class TableDatabases(NamedTuple):
    """Handles of the databases that hold the tables; `building` is the base `compact` writes."""

    base: lmdb._Database
    added: lmdb._Database
    frozen: lmdb._Database | None
    hot: lmdb._Database
    building: lmdb._Database | None


class Layout:
    """The databases of a design's tables and the format of their rows, for any transaction."""

    def __init__(self, design: Design, databases: TableDatabases) -> None:
        self.design = design
        self.databases = databases
        self.prober = Prober(design)
        # The databases in which each row is a value of its own, except for `hot`.
        self.single = tuple(filter(None, (databases.added, databases.frozen)))
        self.key_end = 1 + design.key_bytes
        self.rest_bytes = ROW_BYTES - self.key_end
        self.row_format = f"{self.key_end}s{self.rest_bytes}s"


@dataclass(eq=False)
class Tables:
    """The tables of one design in a transaction."""

    transaction: lmdb.Transaction[bytes]
    layout: Layout

    def slices(self) -> Iterator[tuple[int, int, int]]:
        """Cut the tables into slices of some million rows: table, first key, one after the last."""
        rows = max(1, self.count_rows())
        keys = 256**self.layout.design.key_bytes
        pieces = min(keys, 1 + rows // (_ROWS_PER_SLICE * len(self.layout.design.tables)))
        for number in range(len(self.layout.design.tables)):
            for piece in range(pieces):
                yield number, keys * piece // pieces, keys * (piece + 1) // pieces

    def read_slice(
        self,
        keys_of: tuple[int, int, int],
        *,
        tolerant: bool = False,
    ) -> NDArray[np.uint64]:
        """Read a slice, permuted, sorted, distinct, (n,); `tolerant` skips damaged buckets."""
        number, first, end = keys_of
        lowest, past = self._key_of(number, first), self._key_of(number, end)
        cursor = self.transaction.cursor(self.layout.databases.base)
        buckets = []
        if cursor.set_range(lowest):
            for key, value in cursor:
                if key >= past:
                    break
                if len(key) == self.layout.key_end and not len(value) % self.layout.rest_bytes:
                    buckets.append((key, value))
                elif not tolerant:
                    raise StoreError(
                        f"the tables are damaged: key {key.hex()} has {len(value)} octets, not "
                        "whole rows; mend them with `scrapy simhash check --rebuild`"
                    )
        parts = [permuted_of(unpack_buckets(buckets))]
        for database in (*self.layout.single, self.layout.databases.hot):
            cursor = self.transaction.cursor(database)
            if cursor.set_range(lowest):
                keys = cursor.iternext_nodup(keys=True, values=False)
                wanted = [
                    key
                    for key in takewhile(lambda key: key < past, keys)
                    if len(key) == self.layout.key_end
                ]
                parts.append(permuted_of(self._get_rows(database, wanted)))
        return sort_distinct(np.concatenate(parts))

    def _key_of(self, number: int, prefix: int) -> bytes:
        """Make a key; the one past the last key of a table is the first of the next table."""
        return ((number << 8 * self.layout.design.key_bytes) + prefix).to_bytes(
            self.layout.key_end, "big"
        )

    def read_tables(self, *, tolerant: bool = False) -> Iterator[NDArray[np.uint64]]:
        """Read one table after the other: restored, sorted; shape (n,) each; see `read_slice`."""
        for number, pieces in groupby(self.slices(), key=itemgetter(0)):
            parts = [self.read_slice(each, tolerant=tolerant) for each in pieces]
            yield np.sort(self.layout.design.tables[number].restore_array(np.concatenate(parts)))

    def read_all(self) -> NDArray[np.uint64]:
        """Read all distinct fingerprints, sorted; shape (n,)."""
        return next(self.read_tables())

    def read_trusted(self) -> NDArray[np.uint64]:
        """Read the fingerprints that are in two tables or more, as damage affects one; sorted."""
        content = list(self.read_tables(tolerant=True))
        found = np.sort(np.concatenate(content))
        if len(content) > 1:
            found = sort_distinct(found[1:][found[1:] == found[:-1]])
        return found

    def count_fingerprints(self) -> int:
        """Count the fingerprints in the tables; reads the sizes of all buckets."""
        return self.count_rows() // len(self.layout.design.tables)

    def count_rows(self) -> int:
        """Count the rows of all tables; reads the sizes of all buckets."""
        octets = sum(len(value) for _, value in self.transaction.cursor(self.layout.databases.base))
        return octets // self.layout.rest_bytes + sum(
            self.transaction.stat(database)["entries"]
            for database in (*self.layout.single, self.layout.databases.hot)
        )

    def hot_keys(self) -> list[bytes]:
        """List the keys of buckets that are too full."""
        cursor = self.transaction.cursor(self.layout.databases.hot)
        return list(cursor.iternext_nodup(keys=True, values=False))

    def read(
        self,
        keys: tuple[bytes, ...],
        rows: bytes,
        distance: int,
        *,
        bounded: bool,
    ) -> tuple[list[NDArray[np.void]], list[bytes]]:
        """Read the rows that may be near, see `probing.ReadCandidates`."""
        found: list[NDArray[np.void]] = []
        hot: list[bytes] = []
        if buckets := self.transaction.cursor(self.layout.databases.base).getmulti(keys):
            try:
                near = find_in_buckets(buckets, rows, distance)
            except ValueError as error:
                raise StoreError(f"the tables are damaged: {error}; rebuild them") from error
            if near is not None:
                found.append(near)
            hot = [key for key, value in buckets if not value]
            if hot and not bounded:
                found.append(self._get_rows(self.layout.databases.hot, hot))
                hot = []
        for database in self.layout.single:
            # After `compact` this is empty, and testing that is much faster than looking up keys.
            if not self.transaction.cursor(database).first():
                continue
            found.append(self._get_rows(database, keys))
        return found, hot

    def _get_rows(self, database: lmdb._Database, keys: Sequence[bytes]) -> NDArray[np.void]:
        """Get the rows of keys from a database of single rows; shape (n,) of `ROW`."""
        if not keys:
            return np.empty(0, ROW)
        octets = self.transaction.cursor(database).getmulti(
            keys, dupdata=True, dupfixed_bytes=self.layout.rest_bytes, keyfixed=True
        )
        return np.frombuffer(octets, ROW)

    def _split(self, fingerprint: int) -> Iterator[tuple[bytes, bytes]]:
        # The width is checked because a DUPFIXED database accepts any, and then loses values.
        check_fingerprint(fingerprint)
        return iter_unpack(self.layout.row_format, self.layout.prober.rows(fingerprint))

    def add(self, fingerprint: int) -> None:
        """Add a fingerprint to every table, unless it is there already."""
        if self.holds(fingerprint):
            return
        added = self.transaction.cursor(self.layout.databases.added)
        hot = self.transaction.cursor(self.layout.databases.hot)
        for key, rest in self._split(fingerprint):
            if hot.set_key(key):
                hot.put(key, rest)
            elif added.put(key, rest) and added.count() > _MOST_SINGLE:
                self._pack(key)

    def holds(self, fingerprint: int) -> bool:
        """Whether a fingerprint is in the tables; reads one key of one table."""
        key, rest = next(self._split(fingerprint))
        if any(
            self.transaction.cursor(database).set_key_dup(key, rest)
            for database in (*self.layout.single, self.layout.databases.hot)
        ):
            return True
        value = self.transaction.get(key, default=b"", db=self.layout.databases.base)
        at = value.find(rest)
        while at > 0 and at % self.layout.rest_bytes:
            at = value.find(rest, at + 1)
        return at >= 0

    def _cut(self, value: bytes) -> list[bytes]:
        return [
            value[at : at + self.layout.rest_bytes]
            for at in range(0, len(value), self.layout.rest_bytes)
        ]

    def _pack(self, key: bytes) -> None:
        """Pack the single rows of a key into its bucket; mark it hot if it gets too full."""
        value = self.transaction.get(key, default=b"", db=self.layout.databases.base)
        added = self.transaction.cursor(self.layout.databases.added)
        added.set_key(key)
        if len(value) // self.layout.rest_bytes + added.count() > MOST_IN_BUCKET:
            self._mark_hot(key)
        elif self.layout.databases.building is None:
            # During a compaction, the base in use must not gain rows that the new base may lack.
            rests = sorted([*self._cut(value), *added.iternext_dup()])
            self.transaction.put(key, b"".join(rests), db=self.layout.databases.base)
            self.transaction.delete(key, db=self.layout.databases.added)

    def _mark_hot(self, key: bytes) -> None:
        """Move all rows of a key to `hot`, which probes skip."""
        value = self.transaction.get(key, default=b"", db=self.layout.databases.base)
        rows = ((key, rest) for rest in self._cut(value))
        self.transaction.cursor(self.layout.databases.hot).putmulti(rows)
        for database in self.layout.single:
            self._move(database, key)
        self.transaction.put(key, b"", db=self.layout.databases.base)

    def _move(self, database: lmdb._Database, key: bytes) -> None:
        """Move the rows of a key from a database to `hot`."""
        cursor = self.transaction.cursor(database)
        if cursor.set_key(key):
            rests = list(cursor.iternext_dup())
            self.transaction.cursor(self.layout.databases.hot).putmulti(
                (key, rest) for rest in rests
            )
            self.transaction.delete(key, db=database)

    def remove(self, fingerprint: int) -> None:
        """Remove a fingerprint from every table, if it is there."""
        for key, rest in self._split(fingerprint):
            for database in (*self.layout.single, self.layout.databases.hot):
                self.transaction.delete(key, rest, db=database)
            for base in filter(None, (self.layout.databases.base, self.layout.databases.building)):
                self._remove_packed(base, key, rest)

    def _remove_packed(self, base: lmdb._Database, key: bytes, rest: bytes) -> None:
        value = self.transaction.get(key, default=b"", db=base)
        rests = [other for other in self._cut(value) if other != rest]
        # An empty value marks a bucket as too full; that is right as long as `hot` has rows of it.
        if not rests and not self.transaction.cursor(self.layout.databases.hot).set_key(key):
            self.transaction.delete(key, db=base)
        elif len(value) > len(rests) * self.layout.rest_bytes:
            self.transaction.put(key, b"".join(rests), db=base)

    def clear(self) -> None:
        """Empty all tables, those of a running compaction included."""
        for database in self.layout.databases:
            if database is not None:
                self.transaction.drop(database, delete=False)

    def fill(self, fingerprints: NDArray[np.uint64]) -> None:
        """Write distinct fingerprints, shape (n,), into empty tables."""
        for number, table in enumerate(self.layout.design.tables):
            permuted = np.sort(table.permute_array(fingerprints))
            self.append(self.layout.databases.base, number, permuted)

    def append(
        self,
        base: lmdb._Database,
        number: int,
        permuted: NDArray[np.uint64],
    ) -> None:
        """Write buckets at the end of a base, in full pages; `permuted` is (n,), sorted."""
        hot = self.transaction.cursor(self.layout.databases.hot)

        def pack() -> Iterator[tuple[bytes, bytes]]:
            for key, value in pack_buckets(number, permuted, self.layout.design.key_bytes):
                if len(value) <= MOST_IN_BUCKET * self.layout.rest_bytes:
                    yield key, value
                    continue
                hot.putmulti((key, rest) for rest in self._cut(value))
                if base is not self.layout.databases.base:
                    # The base in use must not keep rows that `hot` has now.
                    self._mark_hot(key)
                yield key, b""

        buckets, appended = self.transaction.cursor(base).putmulti(pack(), append=True)
        if appended < buckets:
            # LMDB leaves out keys that are out of order, without an error.
            raise StoreError(f"table {number}: only {appended} of {buckets} buckets were written")

    def settle(self, base: lmdb._Database) -> None:
        """Update a new base with the buckets that became too full while it was built."""
        for key in self.hot_keys():
            for database in self.layout.single:
                self._move(database, key)
            rows = self._get_rows(self.layout.databases.hot, [key])
            if rows.size > MOST_IN_BUCKET // 2:  # otherwise it becomes an ordinary bucket again
                self.transaction.put(key, b"", db=base)
            else:
                ((_, value),) = pack_buckets(
                    key[0], np.sort(permuted_of(rows)), self.layout.design.key_bytes
                )
                self.transaction.put(key, value, db=base)
                self.transaction.delete(key, db=self.layout.databases.hot)

    def find_strays(self) -> list[str]:
        """List rows that no probe would find, and wrong marks, one line each."""
        problems = []
        past = bytes((len(self.layout.design.tables),))
        marked = set()
        for key, value in self.transaction.cursor(self.layout.databases.base):
            if key >= past or len(key) != self.layout.key_end:
                problems.append(f"key {key.hex()} belongs to table {key[0]}, which does not exist")
            elif len(value) % self.layout.rest_bytes:
                problems.append(f"key {key.hex()} has {len(value)} octets, not whole rows")
            elif not value:
                marked.add(key)
        for database in (*self.layout.single, self.layout.databases.hot):
            problems += [
                f"key {key.hex()} belongs to table {key[0]}, which does not exist"
                for key in self.transaction.cursor(database).iternext_nodup(keys=True, values=False)
                if key >= past or len(key) != self.layout.key_end
            ]
        for key in marked.symmetric_difference(self.hot_keys()):
            problems.append(
                f"key {key.hex()} {'is' if key in marked else 'is not'} marked as too full"
            )
        return problems
