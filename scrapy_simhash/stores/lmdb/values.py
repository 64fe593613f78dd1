"""The rows of a store in LMDB: one transaction, and the databases that it uses.

Each table of `keyvalues` is a database of its name; those of sets are DUPSORT. The header's also
has the number of the next document, and which databases the permuted tables use (paper, section
3.1). All tables of a design share these databases; keys begin with the table's number, so that each
table is one sorted run::

    base      buckets, see `tables.probing`: most fingerprints, written by `compact` and `bulk_load`
    added     key -> rests of single fingerprints (DUPSORT + DUPFIXED) that were added since
    frozen    the same, while `compact` merges it into a new base
    hot       the same, for buckets beyond `MOST_IN_BUCKET`, which the base marks by an empty value

For each table, a fingerprint is in exactly one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice, pairwise, product, takewhile
from secrets import token_bytes
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xxhash

from scrapy_simhash.errors import StoreError, StoreUnusableError
from scrapy_simhash.stores.keyvalues import (
    ADDRESSES,
    DOCUMENTS,
    HEADER,
    NAMES,
    SETS,
    TABLES,
    VALUES,
    KeyValues,
    number_of,
    octets,
)
from scrapy_simhash.tables.permutation import sort_distinct
from scrapy_simhash.tables.probing import (
    MOST_IN_BUCKET,
    ROW,
    ROW_BYTES,
    pack_buckets,
    permuted_of,
    unpack_buckets,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.tables.permutation import Design
    from scrapy_simhash.tables.probing import Sets

_NEXT, _STATE = b"next", b"tables"
# Sets of these tables are many and small. In LMDB they are one set of whole rows, key and member:
# of ADDRESSES 8 bytes a row in place of some 45.
_SMALL = (ADDRESSES, NAMES)
_TOGETHER = b"all"
# By the name of the database: whether it has several values a key, and whether of one width.
DATABASES = {
    **dict.fromkeys(VALUES, (False, False)),
    **{name: (True, width > 0) for name, width in SETS.items() if name != TABLES},
    **dict.fromkeys(("base0", "base1"), (False, False)),
    **dict.fromkeys(("added0", "added1", "hot"), (True, True)),
}
_ROWS_AT_ONCE = 65_536
# A write transaction of `compact` merges this number of rows; other writers wait meanwhile.
_ROWS_PER_SLICE = 1_048_576
# This number of single rows with the same key is packed, because probes read packed rows faster.
_MOST_SINGLE = 1_024
_CURE = "mend them with `scrapy simhash check --rebuild`"


class TableDatabases(NamedTuple):
    """Handles of the databases that hold the tables; `building` is the base `compact` writes."""

    base: lmdb._Database
    added: lmdb._Database
    hot: lmdb._Database
    frozen: lmdb._Database | None = None
    building: lmdb._Database | None = None

    @property
    def single(self) -> tuple[lmdb._Database, ...]:
        """Those in which each row is a value of its own, except for `hot`."""
        return (self.added,) if self.frozen is None else (self.added, self.frozen)


class Tables:
    """The tables in a transaction; the sets of `keyvalues.TABLES`."""

    def __init__(self, transaction: lmdb.Transaction[bytes], databases: TableDatabases) -> None:
        self.transaction = transaction
        self.databases = databases

    def many(self, keys: Sequence[bytes], *, bounded: bool) -> Sets:
        """Read buckets, see `KeyValues.many`."""
        cursor, single = self.transaction.cursor, b""
        joined = cursor(self.databases.base).getmulti(keys)
        crowded = [key for key, value in joined if not value]
        if crowded and not bounded:
            single, crowded = self._get_rows(self.databases.hot, crowded), []
        for database in self.databases.single:
            # After `compact` this is empty, and testing that is much faster than looking up keys.
            if cursor(database).first():
                rows = self._get_rows(database, keys)
                single = b"".join((single, rows)) if single else rows
        return joined, single, crowded

    def _get_rows(self, database: lmdb._Database, keys: Sequence[bytes]) -> bytes:
        """Get the rows of keys from a database of single rows."""
        if not keys:
            return b""
        rows: bytes = self.transaction.cursor(database).getmulti(  # type: ignore[assignment]
            keys, dupdata=True, dupfixed_bytes=ROW_BYTES - len(keys[0]), keyfixed=True
        )
        return rows

    def has(self, key: bytes, rest: bytes) -> bool:
        """Whether a row is in its table."""
        if any(
            self.transaction.cursor(database).set_key_dup(key, rest)
            for database in (*self.databases.single, self.databases.hot)
        ):
            return True
        value = self.transaction.get(key, default=b"", db=self.databases.base)
        at = value.find(rest)
        while at > 0 and at % len(rest):
            at = value.find(rest, at + 1)
        return at >= 0

    def add(self, key: bytes, rest: bytes) -> None:
        """Add a row that is not there."""
        hot = self.transaction.cursor(self.databases.hot)
        if hot.set_key(key):
            hot.put(key, rest)
            return
        added = self.transaction.cursor(self.databases.added)
        if added.put(key, rest) and added.count() > _MOST_SINGLE:
            self._pack(key)

    def _pack(self, key: bytes) -> None:
        """Pack the single rows of a key into its bucket; mark it hot if it gets too full."""
        value = self.transaction.get(key, default=b"", db=self.databases.base)
        rest_bytes = ROW_BYTES - len(key)
        added = self.transaction.cursor(self.databases.added)
        added.set_key(key)
        if len(value) // rest_bytes + added.count() > MOST_IN_BUCKET:
            self._mark_hot(key)
        elif self.databases.building is None:
            # During a compaction, the base in use must not gain rows that the new base may lack.
            rests = sorted([*_cut(key, value), *added.iternext_dup()])
            self.transaction.put(key, b"".join(rests), db=self.databases.base)
            self.transaction.delete(key, db=self.databases.added)

    def _mark_hot(self, key: bytes) -> None:
        """Move all rows of a key to `hot`, which probes skip."""
        value = self.transaction.get(key, default=b"", db=self.databases.base)
        self._heat(key, _cut(key, value))
        for database in self.databases.single:
            self._move(database, key)
        self.transaction.put(key, b"", db=self.databases.base)

    def _move(self, database: lmdb._Database, key: bytes) -> None:
        """Move the rows of a key from a database to `hot`."""
        cursor = self.transaction.cursor(database)
        if cursor.set_key(key):
            self._heat(key, list(cursor.iternext_dup()))
            self.transaction.delete(key, db=database)

    def _heat(self, key: bytes, rests: Iterable[bytes]) -> None:
        self.transaction.cursor(self.databases.hot).putmulti((key, rest) for rest in rests)

    def discard(self, key: bytes, rest: bytes) -> None:
        """Remove a row, if it is there."""
        for database in (*self.databases.single, self.databases.hot):
            self.transaction.delete(key, rest, db=database)
        for base in filter(None, (self.databases.base, self.databases.building)):
            value = self.transaction.get(key, default=b"", db=base)
            rests = [other for other in _cut(key, value) if other != rest]
            # An empty value marks a bucket as too full; it is right while `hot` has rows of it.
            if not rests and not self.transaction.cursor(self.databases.hot).set_key(key):
                self.transaction.delete(key, db=base)
            elif len(value) > len(rests) * len(rest):
                self.transaction.put(key, b"".join(rests), db=base)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Read the rows whose keys begin so: key and rest."""
        databases = self.databases
        for database in (databases.base, *self.databases.single, databases.hot):
            cursor = self.transaction.cursor(database)
            if cursor.set_range(prefix):
                for key, value in takewhile(lambda row: row[0].startswith(prefix), cursor):
                    yield from ((key, rest) for rest in _cut(key, value))

    def rows(self, prefix: bytes, key_bytes: int, *, tolerant: bool) -> Iterator[bytes]:
        """Read whole rows whose keys begin so, see `KeyValues.rows`."""
        past = prefix + b"\xff" * (ROW_BYTES - len(prefix))
        yield from self._read_base(prefix, past, key_bytes, tolerant=tolerant)
        yield from self._read_single(prefix, past, key_bytes, tolerant=True)

    def _read_single(
        self, first: bytes, past: bytes, key_bytes: int, *, tolerant: bool
    ) -> Iterator[bytes]:
        """Read the single rows of a range of keys."""
        for database in (*self.databases.single, self.databases.hot):
            cursor = self.transaction.cursor(database)
            if cursor.set_range(first):
                keys = list(takewhile(past.__gt__, cursor.iternext_nodup(keys=True, values=False)))
                whole = [key for key in keys if len(key) == key_bytes]
                if len(whole) < len(keys) and not tolerant:
                    raise StoreError(f"the tables are damaged: keys of two lengths; {_CURE}")
                yield self._get_rows(database, whole)

    def _read_base(
        self, first: bytes, past: bytes, key_bytes: int, *, tolerant: bool
    ) -> Iterator[bytes]:
        """Read the rows of a range of keys from the base, some hundred thousand at a time."""
        cursor = self.transaction.cursor(self.databases.base)
        if not cursor.set_range(first):
            return
        size = 0
        buckets: list[tuple[bytes, bytes]] = []
        for key, value in cursor:
            if key >= past:
                break
            if len(key) == key_bytes and not len(value) % (ROW_BYTES - key_bytes):
                buckets.append((key, value))
                size += len(value)
            elif not tolerant:
                raise StoreError(
                    f"the tables are damaged: key {key.hex()} has {len(value)} octets, not whole "
                    f"rows; {_CURE}"
                )
            if size > _ROWS_PER_SLICE:
                yield unpack_buckets(buckets).tobytes()
                buckets, size = [], 0
        yield unpack_buckets(buckets).tobytes()

    def clear(self) -> None:
        """Empty all tables, those of a running compaction included."""
        for database in filter(None, self.databases):
            self.transaction.drop(database, delete=False)

    def append(self, base: lmdb._Database, buckets: Iterable[tuple[bytes, bytes]]) -> None:
        """Write buckets at the end of a base, in full pages, in the order of their keys."""
        found = 0

        def pack() -> Iterator[tuple[bytes, bytes]]:
            nonlocal found
            for key, value in buckets:
                found += 1
                if len(value) <= MOST_IN_BUCKET * (ROW_BYTES - len(key)):
                    yield key, value
                    continue
                self._heat(key, _cut(key, value))
                if base is not self.databases.base:
                    # The base in use must not keep rows that `hot` has now.
                    self._mark_hot(key)
                yield key, b""

        _, appended = self.transaction.cursor(base).putmulti(pack(), append=True)
        if appended < found:
            # LMDB leaves out keys that are out of order, without an error.
            raise StoreError(f"only {appended} of {found} buckets were written")

    def measure(self) -> tuple[int, int]:
        """Measure the bytes of the tables, and count the buckets that are too full."""
        octets = 0
        for database in filter(None, self.databases):
            stat = self.transaction.stat(database)
            pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
            octets += stat["psize"] * pages
        return octets, len(self._hot_keys())

    def _hot_keys(self) -> list[bytes]:
        """List the keys of buckets that are too full."""
        cursor = self.transaction.cursor(self.databases.hot)
        return list(cursor.iternext_nodup(keys=True, values=False))

    def find_strays(self, design: Design) -> list[str]:
        """List rows that no probe would find, and wrong marks, one line each."""
        problems = []
        past, key_end = bytes((len(design.tables),)), 1 + design.key_bytes
        marked = set()
        for key, value in self.transaction.cursor(self.databases.base):
            if not value:
                marked.add(key)
            elif len(key) == key_end and len(value) % (ROW_BYTES - key_end):
                problems.append(f"key {key.hex()} has {len(value)} octets, not whole rows")
        for database in (self.databases.base, *self.databases.single, self.databases.hot):
            problems += [
                f"key {key.hex()} belongs to table {key[0]}, which does not exist"
                for key in self.transaction.cursor(database).iternext_nodup(keys=True, values=False)
                if key >= past or len(key) != key_end
            ]
        for key in marked.symmetric_difference(self._hot_keys()):
            problems.append(
                f"key {key.hex()} {'is' if key in marked else 'is not'} marked as too full"
            )
        return problems

    # For compaction

    def slices(self, design: Design) -> Iterator[tuple[bytes, bytes]]:
        """Cut the tables into slices of some million rows: first key, and one after the last."""
        rows = self.rows(bytes(1), 1 + design.key_bytes, tolerant=False)
        fingerprints = sum(map(len, rows)) // ROW_BYTES
        keys = 256**design.key_bytes
        pieces = min(keys, 1 + fingerprints // _ROWS_PER_SLICE)
        bounds = [keys * piece // pieces for piece in range(pieces + 1)]
        for number in range(len(design.tables)):
            # The one past the last key of a table is the first of the next table.
            named = [
                (number * keys + bound).to_bytes(1 + design.key_bytes, "big") for bound in bounds
            ]
            yield from pairwise(named)

    def read_slice(self, piece: tuple[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Read a slice as full buckets."""
        parts = [
            *self._read_base(*piece, len(piece[0]), tolerant=False),
            *self._read_single(*piece, len(piece[0]), tolerant=False),
        ]
        return self._pack_rows(piece[0], parts)

    @staticmethod
    def _pack_rows(key: bytes, parts: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Pack rows of one table, that of a key, into buckets."""
        rows = np.frombuffer(b"".join(parts), ROW)
        permuted: NDArray[np.uint64] = sort_distinct(permuted_of(rows))
        return pack_buckets(key[0], permuted, len(key) - 1)

    def settle(self, base: lmdb._Database) -> None:
        """Update a new base with the buckets that became too full while it was built."""
        for key in self._hot_keys():
            for database in self.databases.single:
                self._move(database, key)
            rows = self._get_rows(self.databases.hot, [key])
            if len(rows) > ROW_BYTES * MOST_IN_BUCKET // 2:
                self.transaction.put(key, b"", db=base)
            else:  # it becomes an ordinary bucket again
                ((_, value),) = self._pack_rows(key, [rows])
                self.transaction.put(key, value, db=base)
                self.transaction.delete(key, db=self.databases.hot)


def _cut(key: bytes, value: bytes) -> list[bytes]:
    """Cut the bucket of a key into its rests."""
    rest_bytes = ROW_BYTES - len(key)
    return [value[at : at + rest_bytes] for at in range(0, len(value), rest_bytes)]


class State(NamedTuple):
    """Which of two databases of each kind the tables use; `compacting` fills the other base."""

    base: int = 0
    added: int = 0
    compacting: int = 0


def _seal(state: State) -> bytes:
    """Pack a state behind which its checksum stands."""
    return bytes(state) + xxhash.xxh3_64_digest(_STATE + bytes(state))


_FIRST = _seal(State())


class Databases(dict[str, "lmdb._Database"]):  # noqa: SLF001 - its only name
    """The databases of a store, by their names, and those that the tables use in each state."""

    def __init__(self, handles: dict[str, lmdb._Database]) -> None:
        super().__init__(handles)
        self._tables = {
            _seal(State(base, added, compacting)): TableDatabases(
                handles[f"base{base}"],
                handles[f"added{added}"],
                handles["hot"],
                handles[f"added{1 - added}"] if compacting else None,
                handles[f"base{1 - base}"] if compacting else None,
            )
            for base, added, compacting in product((0, 1), repeat=3)
        }

    def of_tables(self, transaction: lmdb.Transaction[bytes]) -> TableDatabases:
        """Get the databases of the tables in their present state."""
        sealed = transaction.get(_STATE, _FIRST, self[HEADER])
        try:
            return self._tables[sealed]
        except KeyError:
            raise StoreUnusableError(
                f"the row that says which tables are in use is damaged: {sealed.hex()}; restore "
                "the store from a backup"
            ) from None


@dataclass(eq=False)
class LmdbValues(KeyValues):
    """A transaction of LMDB, see `KeyValues`."""

    transaction: lmdb.Transaction[bytes]
    databases: Databases
    _tables: Tables | None = None

    @property
    def tables(self) -> Tables:
        """The tables in their present state."""
        if self._tables is None:
            self._tables = Tables(self.transaction, self.databases.of_tables(self.transaction))
        return self._tables

    @property
    def state(self) -> State:
        """Which databases the tables use; other transactions see a change when this one ends."""
        sealed = self.transaction.get(_STATE, _FIRST, self.databases[HEADER])
        return State(*sealed[: len(State._fields)])

    @state.setter
    def state(self, state: State) -> None:
        self.transaction.put(_STATE, _seal(state), db=self.databases[HEADER])
        self._tables = None

    def get(self, table: str, key: bytes) -> bytes | None:
        return self.transaction.get(key, db=self.databases[table])

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self.transaction.put(key, value, db=self.databases[table])

    def delete(self, table: str, key: bytes) -> None:
        if table in _SMALL:
            for member in self.members(table, key):
                self.discard(table, key, member)
        else:
            self.transaction.delete(key, db=self.databases[table])

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        if table == TABLES:
            yield from self.tables.scan(prefix)
            return
        cursor = self.transaction.cursor(self.databases[table])
        if table in _SMALL:
            if cursor.set_range_dup(_TOGETHER, prefix or bytes(1)):
                rows = takewhile(lambda row: row.startswith(prefix), cursor.iternext_dup())
                yield from ((row[: -SETS[table]], row[-SETS[table] :]) for row in rows)
        elif cursor.set_range(prefix):
            for key, value in cursor:
                if not key.startswith(prefix):
                    break
                yield key, value

    def count(self, table: str) -> int:
        entries: int = self.transaction.stat(self.databases[table])["entries"]
        return entries

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        if table == TABLES:
            found = (rest for row_key, rest in self.tables.scan(key) if row_key == key)
            return sorted(rest for rest in found if rest.startswith(prefix))[:most]
        cursor = self.transaction.cursor(self.databases[table])
        if not prefix and table not in _SMALL:
            if not cursor.set_key(key):
                return []
            members = cursor.iternext_dup()
            return list(members if most is None else islice(members, most))
        row_key, wanted = _place(table, key, prefix)
        if not cursor.set_range_dup(row_key, wanted):
            return []
        rows = takewhile(lambda row: row.startswith(wanted), cursor.iternext_dup())
        start = len(wanted) - len(prefix)
        return [row[start:] for row in islice(rows, most)]

    def has(self, table: str, key: bytes, member: bytes) -> bool:
        if table == TABLES:
            return self.tables.has(key, member)
        cursor = self.transaction.cursor(self.databases[table])
        return cursor.set_key_dup(*_place(table, key, member))

    def add(self, table: str, key: bytes, member: bytes) -> None:
        if table == TABLES:
            self.tables.add(key, member)
        else:
            # In a database of members of one width, LMDB takes any, and then loses some.
            assert SETS[table] in {0, len(member)}  # noqa: S101
            self.transaction.put(*_place(table, key, member), db=self.databases[table])

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        if table == TABLES:
            self.tables.discard(key, member)
        else:
            self.transaction.delete(*_place(table, key, member), db=self.databases[table])

    def many(self, keys: Sequence[bytes], near: tuple[int, int], *, bounded: bool) -> Sets:
        del near
        return self.tables.many(keys, bounded=bounded)

    def take_number(self, above: int = 0) -> int:
        packed = self.transaction.get(_NEXT, db=self.databases[HEADER])
        number = max(1 if packed is None else number_of(packed), above + 1)
        self.transaction.put(_NEXT, octets(number + 1), db=self.databases[HEADER])
        return number

    def rows(
        self, table: str, prefix: bytes = b"", *, key_bytes: int = 8, tolerant: bool = False
    ) -> Iterator[bytes]:
        if table == TABLES:
            yield from self.tables.rows(prefix, key_bytes, tolerant=tolerant)
            return
        rows = self.scan(table, prefix)
        while some := b"".join(chain.from_iterable(islice(rows, _ROWS_AT_ONCE))):
            yield some

    def find_last(self) -> int:
        cursor = self.transaction.cursor(self.databases[DOCUMENTS])
        return number_of(cursor.key()) if cursor.last() else 0

    def clear_tables(self) -> None:
        self.tables.clear()
        self.state = self.state._replace(compacting=0)

    def fill(self, table: str, sets: Iterable[tuple[bytes, bytes]]) -> None:
        if table == TABLES:
            self.tables.append(self.tables.databases.base, sets)
        else:
            super().fill(table, sets)

    def draw(self, table: str, prefix: bytes, most: int) -> list[bytes]:
        # Keys are digests: those from a random place on, then the first ones.
        cursor = self.transaction.cursor(self.databases[table])
        place = prefix + token_bytes(8)
        keys: list[bytes] = []
        for first, end in ((place, None), (prefix, place)):
            if not cursor.set_range(first):
                continue
            for key in cursor.iternext(values=False):
                ended = not key.startswith(prefix) or (end is not None and key >= end)
                if ended or len(keys) == most:
                    break
                keys.append(key)
        return keys

    def measure_tables(self) -> tuple[int, int]:
        return self.tables.measure()

    def find_strays(self, design: Design) -> list[str]:
        return self.tables.find_strays(design)


def _place(table: str, key: bytes, member: bytes) -> tuple[bytes, bytes]:
    """Find where the database of a set has a member."""
    return (_TOGETHER, key + member) if table in _SMALL else (key, member)
