"""The rows of a store in LMDB: one transaction, and the databases that it uses.

Each table of `keyvalues` is a database of its name; those of sets are DUPSORT. The header's also
has the number of the next document. In TABLES, keys begin with the table's number, so that each
permuted table (paper, section 3.1) is one sorted run. Long values are cut into parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, takewhile
from struct import Struct
from typing import TYPE_CHECKING, Any

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    HEADER,
    SETS,
    TABLES,
    TEXTS,
    VALUES,
    KeyValues,
    number_of,
    octets,
)
from scrapy_simhash.tables.probing import ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import lmdb

_NEXT = b"next"
# LMDB gives a value of more than 2 kB whole pages of 4 kB, and puts one or two of 1 to 2 kB into a
# page; of these parts four fill one. All but the first are in a database of their own, by the key
# and a number.
_PART_BYTES = 1_000
_REST = {name: f"{name}_rest" for name in (DOCUMENTS, TEXTS)}
# By the name of the database: how LMDB opens it.
DATABASES: dict[str, dict[str, bool]] = {
    **{name: {} for name in (*VALUES, *_REST.values())},
    **{name: {"dupsort": True, "dupfixed": width != 0} for name, width in SETS.items()},
}


@dataclass(eq=False)
class LmdbValues(KeyValues):
    """A transaction of LMDB, see `KeyValues`."""

    transaction: lmdb.Transaction[bytes]
    databases: Mapping[str, lmdb._Database]

    def get(self, table: str, key: bytes) -> bytes | None:
        value = self.transaction.get(key, db=self.databases[table])
        return value if value is None else self._complete(table, key, value)

    def _complete(self, table: str, key: bytes, value: bytes) -> bytes:
        """Complete a value by what was cut off."""
        if len(value) < _PART_BYTES or table not in _REST:
            return value
        parts, database = [value], self.databases[_REST[table]]
        while len(parts[-1]) == _PART_BYTES:  # a cursor takes twice as long
            place = key + (len(parts) - 1).to_bytes(2, "big")
            parts.append(self.transaction.get(place, default=b"", db=database))
        return b"".join(parts)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        if table not in _REST:
            self._append(table, key, value)
            return
        self._delete_rest(table, key)
        self._append(table, key, value[:_PART_BYTES])
        for number, start in enumerate(range(_PART_BYTES, len(value), _PART_BYTES)):
            part = value[start : start + _PART_BYTES]
            self._append(_REST[table], key + number.to_bytes(2, "big"), part)

    def _delete_rest(self, table: str, key: bytes) -> None:
        for part_key, _ in list(self.scan(_REST[table], key)):
            self.transaction.delete(part_key, db=self.databases[_REST[table]])

    def _append(self, table: str, key: bytes, value: bytes) -> None:
        """Write a value; if the key is the last one of its table, fill pages whole."""
        # LMDB halves full pages otherwise, and of large values half of each page stays empty.
        database = self.databases[table]
        if not self.transaction.put(key, value, append=True, db=database):
            self.transaction.put(key, value, db=database)

    def delete(self, table: str, key: bytes) -> None:
        if table in _REST:
            self._delete_rest(table, key)
        self.transaction.delete(key, db=self.databases[table])

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        cursor = self.transaction.cursor(self.databases[table])
        if cursor.set_range(prefix):
            for key, value in takewhile(lambda row: row[0].startswith(prefix), cursor):
                yield key, self._complete(table, key, value)

    def count(self, table: str) -> int:
        entries: int = self.transaction.stat(self.databases[table])["entries"]
        return entries

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        cursor = self.transaction.cursor(self.databases[table])
        if not (cursor.set_range_dup(key, prefix) if prefix else cursor.set_key(key)):
            return []
        members = takewhile(lambda member: member.startswith(prefix), cursor.iternext_dup())
        return list(islice(members, most))

    def has(self, table: str, key: bytes, member: bytes) -> bool:
        return self.transaction.cursor(self.databases[table]).set_key_dup(key, member)

    def add(self, table: str, key: bytes, member: bytes) -> None:
        # In a database of members of one width, LMDB takes any, and then loses some.
        assert table == TABLES or SETS[table] in {0, len(member)}  # noqa: S101
        self.transaction.put(key, member, db=self.databases[table])

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        self.transaction.delete(key, member, db=self.databases[table])

    def read_sets(self, table: str, keys: Sequence[bytes]) -> list[list[bytes]]:
        if not SETS[table] or not keys:
            return super().read_sets(table, keys)
        found: dict[bytes, list[bytes]] = {key: [] for key in keys}
        rows = Struct(f"{len(keys[0])}s{SETS[table]}s").iter_unpack(
            self._read_rows(table, keys, SETS[table])
        )
        for key, member in rows:
            found[key].append(member)
        return [found[key] for key in keys]

    def _read_rows(self, table: str, keys: Sequence[bytes], member_bytes: int) -> bytes:
        """Read the sets of keys of one length: each member behind its key, side by side."""
        cursor = self.transaction.cursor(self.databases[table])
        rows: Any = cursor.getmulti(keys, dupdata=True, dupfixed_bytes=member_bytes, keyfixed=True)
        return bytes(rows)

    def many(self, keys: Sequence[bytes], in_bucket: int | None) -> tuple[bytes, list[bytes]]:
        crowded: list[bytes] = []
        if in_bucket is not None:
            cursor = self.transaction.cursor(self.databases[TABLES])
            crowded = [key for key in keys if cursor.set_key(key) and cursor.count() > in_bucket]
            keys = [key for key in keys if key not in crowded]
        return self._read_rows(TABLES, keys, ROW_BYTES - len(keys[0])) if keys else b"", crowded

    def clear_tables(self) -> None:
        self.transaction.drop(self.databases[TABLES], delete=False)

    def fill(self, sets: Iterable[tuple[bytes, bytes]]) -> None:
        found = 0

        def cut_rows() -> Iterator[tuple[bytes, bytes]]:
            nonlocal found
            for key, joined in sets:
                width = ROW_BYTES - len(key)
                for at in range(0, len(joined), width):
                    found += 1
                    yield key, joined[at : at + width]

        cursor = self.transaction.cursor(self.databases[TABLES])
        _, written = cursor.putmulti(cut_rows(), append=True)
        if written < found:
            # LMDB leaves out rows that are out of order, without an error.
            raise StoreError(f"only {written} of {found} rows of tables were written")

    def take_number(self) -> int:
        packed = self.get(HEADER, _NEXT)
        number = 1 if packed is None else number_of(packed)
        self.put(HEADER, _NEXT, octets(number + 1))
        return number
