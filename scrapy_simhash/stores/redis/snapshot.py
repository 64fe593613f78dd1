"""Read a Redis store: in a commit, which reads each value only once, or as a whole."""

from __future__ import annotations

import re
import secrets
from functools import partial
from struct import Struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.records import number_of
from scrapy_simhash.stores.redis.keys import LEADING_BYTES, Keys
from scrapy_simhash.stores.redis.scripts import Code, Writes, token_of
from scrapy_simhash.tables.permutation import check_fingerprint
from scrapy_simhash.tables.probing import (
    ROW_BYTES,
    Prober,
    find_in_buckets,
    permuted_of,
    unpack_buckets,
)
from scrapy_simhash.tables.sets import sort_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.stores.redis.server import Server
    from scrapy_simhash.tables import Design
    from scrapy_simhash.tables.probing import Probe


_GLOB = re.compile(rb"[][*?\\]")
# A row has up to some kilobytes.
_FIELDS_PER_CALL = 4_096
# Without their values.
_FIELDS_DRAWN = 2**14


class Snapshot:
    """A view of hashes and sets that includes the writes of this commit."""

    # `read` has the tokens (`token_of`) of all that was read. `buckets` has the buckets of tables
    # that were read, and `lengths` how many fields hashes have, both without this commit's writes.
    # `begin` runs commands when reading has not begun yet.

    def __init__(
        self, server: Server, begin: Callable[[list[tuple[object, ...]]], list[Any]]
    ) -> None:
        self.server = server
        self._run = begin
        self.read: set[bytes] = set()
        self.buckets: dict[bytes, bytes | None] = {}
        self.lengths: dict[bytes, int] = {}
        self.writes = Writes()
        self._hashes: dict[bytes, dict[bytes, bytes | None]] = {}
        self._whole: set[bytes] = set()
        self._sets: dict[bytes, set[bytes]] = {}
        self._drawn: dict[bytes, list[bytes]] = {}

    def fetch(
        self,
        fields: Iterable[tuple[bytes, bytes]] = (),
        sets: Iterable[bytes] = (),
        buckets: Mapping[bytes, Sequence[bytes]] = MappingProxyType({}),
        lengths: Iterable[bytes] = (),
        others: Sequence[tuple[object, ...]] = (),
    ) -> list[Any]:
        """Read unknown fields, sets, buckets (by hash), and lengths of hashes in one round trip.

        Returns the answers to `others`, which are commands.
        """
        wanted: dict[bytes, list[bytes]] = {}
        for key, field in dict.fromkeys(fields):
            if key not in self._whole and field not in self._hashes.get(key, ()):
                wanted.setdefault(key, []).append(field)
        missing = [key for key in dict.fromkeys(sets) if key not in self._sets]
        unknown = [key for key in lengths if key not in self.lengths]
        if not (wanted or missing or buckets or unknown or others):
            return []
        commands: list[tuple[object, ...]] = [
            ("HMGET", key, *names) for key, names in wanted.items()
        ]
        commands += [("SMEMBERS", key) for key in missing]
        commands += [
            ("HMGET", key, *[bucket[-1:] for bucket in some]) for key, some in buckets.items()
        ]
        commands += [("HLEN", key) for key in unknown]
        answers = iter(self.run([*commands, *others]))
        for key, names in wanted.items():
            self._hashes.setdefault(key, {}).update(zip(names, next(answers), strict=True))
        for key in missing:
            self._sets[key] = set(next(answers))
        for some in buckets.values():
            self.buckets.update(zip(some, next(answers), strict=True))
        for key in unknown:
            self.lengths[key] = next(answers)
        return list(answers)

    def run(self, commands: list[tuple[object, ...]]) -> list[Any]:
        """Run commands; the first ones in the round trip that begins to read."""
        run, self._run = self._run, self.server.run
        return run(commands)

    def keep(self, key: bytes, field: bytes, value: bytes | None) -> None:
        """Keep a value that was read in another way, unless it is known already."""
        if key not in self._whole:
            self._hashes.setdefault(key, {}).setdefault(field, value)

    def get(self, key: bytes, field: bytes, *, noted: bool = True) -> bytes | None:
        """Get a value or None; if `noted`, this commit starts over when others write to it."""
        if noted:
            self.read.add(token_of(key, field))
        known = self._hashes.get(key)
        if known is None or (field not in known and key not in self._whole):
            self.fetch([(key, field)])
            known = self._hashes[key]
        return known.get(field)

    def get_all(self, key: bytes) -> dict[bytes, bytes]:
        """Get a whole hash; everything that writes to it must touch the token of its key."""
        self.read.add(token_of(key))
        if key not in self._whole:
            found: dict[bytes, bytes | None] = {**self.server.call("HGETALL", key)}
            self._hashes[key] = found | self._hashes.get(key, {})
            self._whole.add(key)
        return {field: value for field, value in self._hashes[key].items() if value is not None}

    def scan(self, key: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Read the fields of a hash that begin so, in any order; others may change meanwhile."""
        pattern = _GLOB.sub(rb"\\\g<0>", prefix) + b"*"
        seen: set[bytes] = set()
        cursor = None
        while cursor != 0:
            command = ("HSCAN", key, cursor or 0, "MATCH", pattern, "COUNT", _FIELDS_PER_CALL)
            cursor, found = self.server.call(*command)
            for field in found.keys() - seen:
                value = self._hashes.get(key, {}).get(field, found[field])
                if value is not None:
                    yield field, value
            seen.update(found)
        for field, value in list(self._hashes.get(key, {}).items()):
            if value is not None and field.startswith(prefix) and field not in seen:
                yield field, value

    def draw(self, key: bytes) -> list[bytes]:
        """Draw fields of a hash, in a random order; the same ones as long as this commit lasts."""
        if key not in self._drawn:
            found = self.server.call("HRANDFIELD", key, _FIELDS_DRAWN)
            self._drawn[key] = sorted(found, key=lambda _: secrets.randbits(32))
        return self._drawn[key]

    def members(self, key: bytes) -> set[bytes]:
        """Get the members of a set."""
        self.read.add(token_of(key))
        self.fetch(sets=[key])
        return self._sets[key]

    def put(self, key: bytes, field: bytes, value: bytes) -> None:
        """Write a field."""
        self._note(key, field, value)
        self.writes.add(Code.FIELD, key, field, value)

    def delete(self, key: bytes, field: bytes) -> None:
        """Delete a field, if it exists."""
        self._note(key, field, None)
        self.writes.add(Code.NO_FIELD, key, field)

    def _note(self, key: bytes, field: bytes, value: bytes | None) -> None:
        self._hashes.setdefault(key, {})[field] = value
        self.writes.touched.add(token_of(key, field))

    def add_member(self, key: bytes, member: bytes) -> None:
        """Add a member to a set."""
        if key in self._sets:
            self._sets[key].add(member)
        self.writes.touched.add(token_of(key))
        self.writes.add(Code.MEMBER, key, value=member)

    def drop_member(self, key: bytes, member: bytes) -> None:
        """Remove a member from a set, if it is there."""
        if key in self._sets:
            self._sets[key].discard(member)
        self.writes.touched.add(token_of(key))
        self.writes.add(Code.NO_MEMBER, key, value=member)

    def drop_key(self, key: bytes) -> None:
        """Delete a whole set."""
        self._sets[key] = set()
        self.writes.touched.add(token_of(key))
        self.writes.add(Code.NO_KEY, key)

    def add_row(self, key: bytes, field: bytes, row: bytes) -> None:
        """Add a row to a field, unless it is there already."""
        rows = cut_rows(self.get(key, field, noted=False) or b"", len(row))
        if row not in rows:
            self._hashes[key][field] = b"".join([*rows, row])
        self.writes.add(Code.ROW, key, field, row)

    def drop_row(self, key: bytes, field: bytes, row: bytes) -> bool:
        """Remove a row from a field; returns whether it was there."""
        rows = cut_rows(self.get(key, field, noted=False) or b"", len(row))
        if row not in rows:
            return False
        rows.remove(row)
        self._hashes[key][field] = b"".join(rows) or None
        self.writes.add(Code.NO_ROW, key, field, row)
        return True


def cut_rows(value: bytes, width: int) -> list[bytes]:
    """Cut a value into its rows."""
    return [value[at : at + width] for at in range(0, len(value), width)]


class RedisTables:
    """The tables of one design; each rewrite gives them a new generation."""

    def __init__(self, keys: Keys, design: Design, generation: int) -> None:
        self.design = design
        self.generation = generation
        self._keys = keys
        self._prober = Prober(design)
        self._hashes: dict[bytes, bytes] = {}
        width = 1 + design.key_bytes
        self._items = Struct(f"{width}s{ROW_BYTES - width}s")

    def list_keys(self, fingerprint: int, distance: int) -> tuple[bytes, ...]:
        """List the keys of all buckets that a probe reads."""
        return self._prober.keys(self._prober.rows(fingerprint), distance)

    def locate(self, snapshot: Snapshot, keys: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        """Find the hashes of buckets that were not read yet."""
        known, hashes = snapshot.buckets, self._hashes
        found: dict[bytes, list[bytes]] = {}
        for key in set(keys):
            if key not in known:
                name = hashes.get(key[:-1]) or self._hash_of(key)
                found.setdefault(name, []).append(key)
        return found

    def _hash_of(self, key: bytes) -> bytes:
        lead = key[:-1]
        if lead not in self._hashes:
            self._hashes[lead] = self._keys.bucket(self.generation, key)[0]
        return self._hashes[lead]

    def probe(
        self,
        snapshot: Snapshot,
        fingerprint: int,
        distance: int,
        most: int | None = None,
        *,
        bounded: bool = False,
    ) -> Probe:
        """Find every fingerprint within a distance, see `Prober.probe`."""
        read = partial(self._read, snapshot)
        return self._prober.probe(read, fingerprint, distance, most, bounded=bounded)

    def _read(
        self,
        snapshot: Snapshot,
        keys: tuple[bytes, ...],
        rows: bytes,
        distance: int,
        *,
        bounded: bool,
    ) -> tuple[list[NDArray[np.void]], list[bytes]]:
        """Read the candidates of keys, see `probing.ReadCandidates`."""
        # `commits` notices rows that others add to a bucket meanwhile, by their fingerprints.
        if not snapshot.buckets.keys() >= set(keys):
            snapshot.fetch(buckets=self.locate(snapshot, keys))
        buckets, hot = [], []
        for key in keys:
            value = snapshot.buckets[key]
            if value:
                buckets.append((key, value))
            elif value is not None:
                hot.append((key, self._keys.full(self._hash_of(key), key[-1:])))
        found: list[NDArray[np.void]] = []
        try:
            near = find_in_buckets(buckets, rows, distance) if buckets else None
        except ValueError as error:
            raise StoreError(f"the tables are damaged: {error}; rebuild them") from error
        if near is not None:
            found.append(near)
        if not hot or bounded:
            return found, [key for key, _ in hot]
        snapshot.fetch(sets=[full for _, full in hot])
        found += [unpack_buckets([(key, b"".join(snapshot.members(full)))]) for key, full in hot]
        return found, []

    def write(self, snapshot: Snapshot, code: Code, fingerprint: int) -> None:
        """Add a fingerprint to every table, or remove it, unless that is already done."""
        rows = self._prober.rows(check_fingerprint(fingerprint))
        for key, rest in self._items.iter_unpack(rows):
            snapshot.writes.add(code, self._hash_of(key), key[-1:], rest)


# A hash has about 250 kB at ten million documents.
_HASHES_PER_CALL = 64


# SCAN goes through all keys of the server. Others may write meanwhile: keys that exist all the time
# are read; keys added or deleted meanwhile may be.
def scan_hashes(server: Server, pattern: bytes) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
    """Read all hashes whose keys match a pattern; no key of another type may match it."""
    yield from read_each(server, "HGETALL", list_keys(server, pattern))


def list_keys(server: Server, pattern: bytes) -> list[bytes]:
    """List the keys that match a pattern, except for the `seq` keys of slots."""
    return sorted(name for name in server.scan(pattern) if not name.endswith(b":seq"))


def read_each(
    server: Server, command: str, names: Sequence[bytes]
) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
    """Read keys with a command such as HGETALL; yields each with its answer."""
    for start in range(0, len(names), _HASHES_PER_CALL):
        some = names[start : start + _HASHES_PER_CALL]
        yield from zip(some, server.run([(command, name) for name in some]), strict=True)


def scan_rows(server: Server) -> Iterator[tuple[int, bytes, list[int]]]:
    """Read all rows: (fingerprint, hash of the scope or `BULK_LOADED`, documents)."""
    for name, found in scan_hashes(server, server.keys.pattern("f")):
        leading = server.keys.read_leading(name)
        cut = 8 - LEADING_BYTES
        for field, value in found.items():
            numbers = list(map(number_of, cut_rows(value, 8)))
            yield number_of(leading + field[:cut]), field[cut:], numbers


def list_fingerprints_with_rows(
    server: Server, wanted: Callable[[bytes], bool] = lambda _scope: True
) -> NDArray[np.uint64]:
    """List the distinct fingerprints that belong in the tables, sorted; shape (n,)."""
    found = [fingerprint for fingerprint, scope, _ in scan_rows(server) if wanted(scope)]
    return sort_distinct(np.array(found, np.uint64))


def scan_links(server: Server) -> Iterator[tuple[int, int]]:
    """Read every pair of original and near-duplicate."""
    names = [name for name in list_keys(server, server.keys.pattern("d")) if b":near:" in name]
    for name, members in read_each(server, "SMEMBERS", names):
        original = int(name.rpartition(b":")[2])
        yield from ((original, int(member)) for member in members)


def read_addresses(server: Server) -> NDArray[np.uint64]:
    """Read all rows of the index of URLs, sorted; shape (n,)."""
    keys = server.keys
    answers = read_each(server, "SMEMBERS", list_keys(server, keys.pattern("u")))
    rows = (keys.read_address(name, member) for name, members in answers for member in members)
    return np.sort(np.fromiter(rows, np.uint64))


def read_table(
    server: Server, tables: RedisTables, number: int
) -> tuple[NDArray[np.uint64], list[str]]:
    """Read one table. Returns its distinct fingerprints, sorted, shape (n,), and its problems."""
    names = list_keys(server, server.keys.pattern(f"t{tables.generation}.{number}."))
    width = 8 - tables.design.key_bytes
    parts, problems = [np.empty(0, np.uint64)], []
    full = [name for name in names if b":full:" in name]
    for name, found in read_each(server, "HGETALL", [n for n in names if b":full:" not in n]):
        buckets = []
        for field, value in found.items():
            key = server.keys.read_bucket(name, field)
            if len(value) % width:
                problems.append(f"key {key.hex()} has {len(value)} octets, not whole rows")
            elif value:
                buckets.append((key, value))
            elif server.keys.full(name, field) not in full:
                problems.append(f"key {key.hex()} is marked as too full, but has no rows")
        parts.append(permuted_of(unpack_buckets(buckets)))
    for name, members in read_each(server, "SMEMBERS", full):
        hashed, _, field = name.partition(b":full:")
        key = server.keys.read_bucket(hashed, bytes.fromhex(field.decode()))
        parts.append(permuted_of(unpack_buckets([(key, b"".join(members))])))
    permuted = np.concatenate(parts)
    return sort_distinct(tables.design.tables[number].restore_array(permuted)), problems


def read_fingerprints(server: Server, tables: RedisTables) -> NDArray[np.uint64]:
    """Read the distinct fingerprints of the tables, sorted; shape (n,)."""
    found, problems = read_table(server, tables, 0)
    if problems:
        raise StoreError(
            f"the tables are damaged: {problems[0]}; mend them with "
            "`scrapy simhash check --rebuild`"
        )
    return found


def measure(server: Server, patterns: Sequence[bytes]) -> int:
    """Return the server's estimate of the memory that keys take, in bytes (MEMORY USAGE)."""
    names = [name for pattern in patterns for name in server.scan(pattern)]
    return sum(size or 0 for size in server.run([("MEMORY", "USAGE", name) for name in names]))
