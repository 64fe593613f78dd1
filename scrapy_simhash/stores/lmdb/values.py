"""The rows of a store in LMDB: one transaction, and the databases that it uses.

Each table of `keyvalues` is a database of its name; those of sets are DUPSORT. The header's also
has the number of the next document, and which databases the permuted tables use, see `tables`.
"""

from __future__ import annotations

from itertools import chain, islice, product, takewhile
from secrets import token_bytes
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.stores.keyvalues import (
    ADDRESSES,
    DOCUMENTS,
    HEADER,
    NAMES,
    SETS,
    TABLES,
    VALUES,
    KeyValues,
)
from scrapy_simhash.stores.lmdb.tables import TableDatabases, Tables
from scrapy_simhash.stores.records import number_of, octets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import lmdb

    from scrapy_simhash.tables.permutation import Design
    from scrapy_simhash.tables.probing import Sets

_NEXT, _STATE = b"next", b"tables"
# Sets of these tables are many and small. In LMDB they are one set of whole rows, key and member:
# of ADDRESSES 8 bytes a row in place of some 45.
_SMALL = (ADDRESSES, NAMES)
_TOGETHER = b"all"
_ROWS_PER_SLICE = 65_536
# By the name of the database: whether it has several values a key, and whether of one width.
DATABASES = {
    **dict.fromkeys(VALUES, (False, False)),
    **{name: (True, width > 0) for name, width in SETS.items() if name != TABLES},
    **dict.fromkeys(("base0", "base1"), (False, False)),
    **dict.fromkeys(("added0", "added1", "hot"), (True, True)),
}


class State(NamedTuple):
    """Which of two databases of each kind the tables use; `compacting` fills the other base."""

    base: int = 0
    added: int = 0
    compacting: int = 0


def _seal(state: State) -> bytes:
    """Pack a state behind which its checksum stands."""
    return bytes(state) + xxhash.xxh3_64_digest(_STATE + bytes(state))


_FIRST = _seal(State())


class Databases:
    """The databases of a store, by their names, and those that the tables use in each state."""

    def __init__(self, handles: dict[str, lmdb._Database]) -> None:
        self.handles = handles
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
        sealed = transaction.get(_STATE, _FIRST, self.handles[HEADER])
        try:
            return self._tables[sealed]
        except KeyError:
            raise StoreUnusableError(
                f"the row that says which tables are in use is damaged: {sealed.hex()}; restore "
                "the store from a backup"
            ) from None


class LmdbValues(KeyValues):
    """A transaction of LMDB, see `KeyValues`."""

    def __init__(self, transaction: lmdb.Transaction[bytes], databases: Databases) -> None:
        self.transaction = transaction
        self.databases = databases.handles
        self._all = databases
        self.tables = Tables(transaction, databases.of_tables(transaction))

    @property
    def state(self) -> State:
        """Which databases the tables use; other transactions see a change when this one ends."""
        sealed = self.transaction.get(_STATE, _FIRST, self.databases[HEADER])
        return State(*sealed[: len(State._fields)])

    @state.setter
    def state(self, state: State) -> None:
        self.transaction.put(_STATE, _seal(state), db=self.databases[HEADER])
        self.tables = Tables(self.transaction, self._all.of_tables(self.transaction))

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
            found = self.tables.members(key)
            return [rest for rest in found if rest.startswith(prefix)][:most]
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
        while some := b"".join(chain.from_iterable(islice(rows, _ROWS_PER_SLICE))):
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
