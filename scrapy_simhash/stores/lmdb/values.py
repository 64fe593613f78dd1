"""The rows of a store in LMDB: one transaction, and the databases that it uses.

Each table of `keyvalues` is a database of its name; those of sets are DUPSORT. The header's also
has the number of the next document. All permuted tables of a design (paper, section 3.1) are in
three databases; keys begin with the table's number, so that each table is one sorted run::

    base      packed buckets, see `tables.probing`: written by `fill`
    added     key -> rests of single fingerprints (DUPSORT + DUPFIXED) that were added since
    crowded   keys with more than `MOST_IN_BUCKET` rows in both, which probes may pass over

For each table, a fingerprint is in one of the first two. Long values are cut into parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice, takewhile
from struct import Struct
from typing import TYPE_CHECKING

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.keyvalues import (
    ADDRESSES,
    DOCUMENTS,
    HEADER,
    NAMES,
    SETS,
    TABLES,
    TEXTS,
    VALUES,
    KeyValues,
    number_of,
    octets,
)
from scrapy_simhash.tables.probing import MOST_IN_BUCKET, ROW_BYTES, unpack_buckets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import lmdb

    from scrapy_simhash.tables.probing import Sets

_NEXT = b"next"
OF_TABLES = BASE, ADDED, CROWDED = ("base", "added", "crowded")
# Sets of these tables are many and small. In LMDB they are one set of whole rows, key and member:
# of ADDRESSES 8 bytes a row in place of some 45.
_SMALL = (ADDRESSES, NAMES)
_TOGETHER = b"all"
# LMDB gives a value of more than 2 kB whole pages of 4 kB, and puts one or two of 1 to 2 kB into a
# page; of these parts four fill one. All but the first are in a database of their own, by the key
# and a number.
_PART_BYTES = 1_000
_REST = {name: f"{name}_rest" for name in (DOCUMENTS, TEXTS)}
# By the name of the database: how LMDB opens it.
DATABASES: dict[str, dict[str, bool]] = {
    **{name: {} for name in (*VALUES, *_REST.values(), BASE, CROWDED)},
    **{name: {"dupsort": True, "dupfixed": width > 0} for name, width in SETS.items()},
    ADDED: {"dupsort": True, "dupfixed": True},
}
del DATABASES[TABLES]
_BUCKET_BYTES_AT_ONCE = 2**20
# A key is counted as a whole only if it has more single rows than one in so many of the bound.
_UNCOUNTED = 4
_CURE = "mend them with `scrapy simhash check --rebuild`"


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
        for part_key, _ in list(self._range(_REST[table], key)):
            self.transaction.delete(part_key, db=self.databases[_REST[table]])

    def _append(self, table: str, key: bytes, value: bytes) -> None:
        """Write a value; if the key is the last one of its table, fill pages whole."""
        # LMDB halves full pages otherwise, and of large values half of each page stays empty.
        database = self.databases[table]
        if not self.transaction.put(key, value, append=True, db=database):
            self.transaction.put(key, value, db=database)

    def delete(self, table: str, key: bytes) -> None:
        if table in _SMALL:
            for member in self.members(table, key):
                self.discard(table, key, member)
            return
        if table in _REST:
            self._delete_rest(table, key)
        self.transaction.delete(key, db=self.databases[table])

    def _range(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Read the rows of a database whose keys begin so."""
        cursor = self.transaction.cursor(self.databases[database])
        if cursor.set_range(prefix):
            yield from takewhile(lambda row: row[0].startswith(prefix), cursor)

    def scan(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        if table == TABLES:
            for key, value in chain(self._range(BASE, prefix), self._range(ADDED, prefix)):
                yield from ((key, rest) for rest in _cut(key, value))
        elif table not in _SMALL:
            for key, value in self._range(table, prefix):
                yield key, self._complete(table, key, value)
        else:
            cursor = self.transaction.cursor(self.databases[table])
            if cursor.set_range_dup(_TOGETHER, prefix or bytes(1)):
                rows = takewhile(lambda row: row.startswith(prefix), cursor.iternext_dup())
                yield from ((row[: -SETS[table]], row[-SETS[table] :]) for row in rows)

    def count(self, table: str) -> int:
        entries: int = self.transaction.stat(self.databases[table])["entries"]
        return entries

    def members(
        self, table: str, key: bytes, prefix: bytes = b"", most: int | None = None
    ) -> list[bytes]:
        if table == TABLES:
            found = (rest for row_key, rest in self.scan(TABLES, key) if row_key == key)
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
        if table != TABLES:
            cursor = self.transaction.cursor(self.databases[table])
            return cursor.set_key_dup(*_place(table, key, member))
        if self.transaction.cursor(self.databases[ADDED]).set_key_dup(key, member):
            return True
        bucket = self._bucket(key)
        at = bucket.find(member)
        while at > 0 and at % len(member):
            at = bucket.find(member, at + 1)
        return at >= 0

    def add(self, table: str, key: bytes, member: bytes) -> None:
        if table != TABLES:
            # In a database of members of one width, LMDB takes any, and then loses some.
            assert SETS[table] in {0, len(member)}  # noqa: S101
            self.transaction.put(*_place(table, key, member), db=self.databases[table])
            return
        cursor = self.transaction.cursor(self.databases[ADDED])
        added = cursor.put(key, member)
        if added and cursor.count() > MOST_IN_BUCKET // _UNCOUNTED:
            self._mark(key)

    def discard(self, table: str, key: bytes, member: bytes) -> None:
        if table != TABLES:
            self.transaction.delete(*_place(table, key, member), db=self.databases[table])
            return
        self.transaction.delete(key, member, db=self.databases[ADDED])
        bucket = self._bucket(key)
        rests = [rest for rest in _cut(key, bucket) if rest != member]
        if not rests:
            self.delete(BASE, key)
        elif len(bucket) > len(rests) * len(member):
            self.put(BASE, key, b"".join(rests))
        self._mark(key)

    def _bucket(self, key: bytes) -> bytes:
        """Get the packed rests of a key."""
        return self.transaction.get(key, default=b"", db=self.databases[BASE])

    def _count_rows(self, key: bytes) -> int:
        """Count the rows of a key, packed and single ones."""
        cursor = self.transaction.cursor(self.databases[ADDED])
        single = cursor.count() if cursor.set_key(key) else 0
        return single + len(self._bucket(key)) // (ROW_BYTES - len(key))

    def _mark(self, key: bytes) -> None:
        """Mark a key as crowded, or not, by the number of its rows."""
        marked = self.get(CROWDED, key) is not None
        # Not at the same number, or rows that come and go would change the mark each time.
        if marked and 2 * self._count_rows(key) <= MOST_IN_BUCKET:
            self.delete(CROWDED, key)
        elif not marked and self._count_rows(key) > MOST_IN_BUCKET:
            self.put(CROWDED, key, b"")

    def read_sets(self, table: str, keys: Sequence[bytes]) -> list[list[bytes]]:
        if table in _SMALL or not SETS[table] or not keys:
            return super().read_sets(table, keys)
        rows: bytes = self.transaction.cursor(self.databases[table]).getmulti(  # type: ignore[assignment]
            keys, dupdata=True, dupfixed_bytes=SETS[table], keyfixed=True
        )
        found: dict[bytes, list[bytes]] = {key: [] for key in keys}
        for key, member in Struct(f"{len(keys[0])}s{SETS[table]}s").iter_unpack(rows):
            found[key].append(member)
        return [found[key] for key in keys]

    def many(self, keys: Sequence[bytes], in_bucket: int | None) -> Sets:
        cursor, databases = self.transaction.cursor, self.databases
        crowded: list[bytes] = []
        if in_bucket is not None and (marks := cursor(databases[CROWDED])).first():
            crowded = [key for key, _ in marks.getmulti(keys)]
            if in_bucket > MOST_IN_BUCKET:
                crowded = [key for key in crowded if self._count_rows(key) > in_bucket]
            keys = [key for key in keys if key not in crowded]
        joined = cursor(databases[BASE]).getmulti(keys)
        # When all is packed this is empty, and testing that is much faster than looking up keys.
        return joined, self._get_single(keys) if cursor(databases[ADDED]).first() else b"", crowded

    def _get_single(self, keys: Sequence[bytes]) -> bytes:
        """Get the single rows of keys, side by side."""
        if not keys:
            return b""
        rows: bytes = self.transaction.cursor(self.databases[ADDED]).getmulti(  # type: ignore[assignment]
            keys, dupdata=True, dupfixed_bytes=ROW_BYTES - len(keys[0]), keyfixed=True
        )
        return rows

    def rows(self, prefix: bytes, *, key_bytes: int, tolerant: bool = False) -> Iterator[bytes]:
        size = 0
        buckets: list[tuple[bytes, bytes]] = []
        for key, value in self._range(BASE, prefix):
            if len(key) == key_bytes and not len(value) % (ROW_BYTES - key_bytes):
                buckets.append((key, value))
                size += len(value)
            elif not tolerant:
                raise StoreError(
                    f"the tables are damaged: key {key.hex()} has {len(value)} octets, not whole "
                    f"rows; {_CURE}"
                )
            if size > _BUCKET_BYTES_AT_ONCE:
                yield unpack_buckets(buckets).tobytes()
                buckets, size = [], 0
        yield unpack_buckets(buckets).tobytes()
        cursor = self.transaction.cursor(self.databases[ADDED])
        if cursor.set_range(prefix):
            each = cursor.iternext_nodup(keys=True, values=False)
            keys = list(takewhile(lambda key: key.startswith(prefix), each))
            whole = [key for key in keys if len(key) == key_bytes]
            if len(whole) < len(keys) and not tolerant:
                raise StoreError(f"the tables are damaged: keys of two lengths; {_CURE}")
            yield self._get_single(whole)

    def clear_tables(self) -> None:
        for name in OF_TABLES:
            self.transaction.drop(self.databases[name], delete=False)

    def fill(self, sets: Iterable[tuple[bytes, bytes]]) -> None:
        found = 0

        def watch() -> Iterator[tuple[bytes, bytes]]:
            nonlocal found
            for key, value in sets:
                found += 1
                if len(value) > MOST_IN_BUCKET * (ROW_BYTES - len(key)):
                    self.put(CROWDED, key, b"")
                yield key, value

        _, written = self.transaction.cursor(self.databases[BASE]).putmulti(watch(), append=True)
        if written < found:
            # LMDB leaves out keys that are out of order, without an error.
            raise StoreError(f"only {written} of {found} buckets were written")

    def measure_tables(self) -> tuple[int, int]:
        stats = [self.transaction.stat(self.databases[name]) for name in OF_TABLES]
        pages = (s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"] for s in stats)
        return stats[0]["psize"] * sum(pages), self.count(CROWDED)

    def find_strays(self) -> list[str]:
        keys = [key for key, _ in self._range(CROWDED, b"")]
        empty = [key for key in keys if 2 * self._count_rows(key) <= MOST_IN_BUCKET]
        return [f"key {key.hex()} is marked as full, but is not" for key in empty]

    def take_number(self) -> int:
        packed = self.get(HEADER, _NEXT)
        number = 1 if packed is None else number_of(packed)
        self.put(HEADER, _NEXT, octets(number + 1))
        return number


def _place(table: str, key: bytes, member: bytes) -> tuple[bytes, bytes]:
    """Find where the database of a set has a member."""
    return (_TOGETHER, key + member) if table in _SMALL else (key, member)


def _cut(key: bytes, value: bytes) -> list[bytes]:
    """Cut the bucket of a key into its rests."""
    rest_bytes = ROW_BYTES - len(key)
    return [value[at : at + rest_bytes] for at in range(0, len(value), rest_bytes)]
