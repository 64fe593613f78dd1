"""Reading all of a Redis store: every table, record, identity and list.

The keys are found by looking at all keys of the server (SCAN). Others may write meanwhile: what was
there all the time is read, what came or went may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.buckets import permuted_of, unpack_buckets
from scrapy_simhash.jointables import sort_distinct
from scrapy_simhash.records import DamagedError, Record, unpack
from scrapy_simhash.redis_keys import BULK_LOADED, LEADING_BYTES, NUMBERS_PER_CHUNK
from scrapy_simhash.redis_snapshot import cut_rows
from scrapy_simhash.store_rows import number_of, octets
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.redis_keys import Keys
    from scrapy_simhash.redis_server import Server
    from scrapy_simhash.redis_tables import RedisTables

# Some 250 kB each at ten million documents.
_HASHES_PER_CALL = 64


def scan_packed(server: Server, keys: Keys) -> Iterator[tuple[int, bytes]]:
    """Read every record as it is stored, in the order of their numbers."""
    # A server that failed over may have forgotten that it gave the last ones away.
    given = int(server.call("GET", keys.next) or 0) // NUMBERS_PER_CHUNK
    found = map(keys.read_chunk, server.scan(keys.pattern("d", "}")))
    for chunk in range(max(given, *found, 0) + 1):
        records = server.call("HGETALL", keys.chunk(chunk))
        yield from sorted((int(field), packed) for field, packed in records.items())


def scan_records(server: Server, keys: Keys) -> Iterator[tuple[int, Record | DamagedError]]:
    """Read every record, in the order of their numbers; an error stands for a damaged one."""
    for number, packed in scan_packed(server, keys):
        try:
            yield number, unpack(Record, octets(number), packed)
        except DamagedError as error:
            yield number, error


def scan_hashes(server: Server, pattern: bytes) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
    """Read all hashes whose keys have a pattern; those of other kinds may not be among them."""
    yield from _read_each(server, "HGETALL", list_keys(server, pattern))


def list_keys(server: Server, pattern: bytes) -> list[bytes]:
    """List the keys with a pattern, without those that say which commit was the last in a slot."""
    return sorted(name for name in server.scan(pattern) if not name.endswith(b":seq"))


def _read_each(
    server: Server, command: str, names: Sequence[bytes]
) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
    for start in range(0, len(names), _HASHES_PER_CALL):
        some = names[start : start + _HASHES_PER_CALL]
        yield from zip(some, server.run([(command, name) for name in some]), strict=True)


def scan_identities(server: Server, keys: Keys) -> Iterator[tuple[bytes, bytes]]:
    """Read every identity and alias, with its row."""
    for _, found in scan_hashes(server, keys.pattern("i")):
        yield from found.items()


def list_texts(server: Server, keys: Keys) -> set[int]:
    """List the documents whose texts are kept, by their numbers."""
    hashes = _read_each(server, "HKEYS", list_keys(server, keys.pattern("d", ":text")))
    return {int(field) for _, fields in hashes for field in fields}


def scan_rows(server: Server, keys: Keys) -> Iterator[tuple[int, bytes, list[int]]]:
    """Read every row of a fingerprint: its scope hash, or `BULK_LOADED`, and documents."""
    for name, found in scan_hashes(server, keys.pattern("f")):
        leading = keys.read_leading(name)
        for field, value in found.items():
            cut = 8 - LEADING_BYTES
            fingerprint = number_of(leading + field[:cut])
            yield fingerprint, field[cut:], list(map(number_of, cut_rows(value, 8)))


def list_fingerprints_with_rows(server: Server, keys: Keys) -> NDArray[np.uint64]:
    """List the fingerprints that belong into the tables; sorted, each once; shape (n,)."""
    found = [fingerprint for fingerprint, _, _ in scan_rows(server, keys)]
    return sort_distinct(np.array(found, np.uint64))


def list_bulk_loaded(server: Server, keys: Keys) -> NDArray[np.uint64]:
    """List the fingerprints that were bulk-loaded; sorted; shape (n,)."""
    found = [number for number, scope, _ in scan_rows(server, keys) if scope == BULK_LOADED]
    return sort_distinct(np.array(found, np.uint64))


def scan_links(server: Server, keys: Keys) -> Iterator[tuple[int, int]]:
    """Read every pair of original and near-duplicate."""
    names = [name for name in list_keys(server, keys.pattern("d")) if b":near:" in name]
    for name, members in _read_each(server, "SMEMBERS", names):
        original = int(name.rpartition(b":")[2])
        yield from ((original, int(member)) for member in members)


def read_table(
    server: Server, keys: Keys, tables: RedisTables, number: int
) -> tuple[NDArray[np.uint64], list[str]]:
    """Read one table.

    Returns:
        Its fingerprints, restored, sorted, each once, shape (n,); and what is wrong with its
        buckets, one line each.
    """
    names = list_keys(server, keys.pattern(f"t{tables.generation}.{number}."))
    width = 8 - tables.design.key_bytes
    parts, problems = [np.empty(0, np.uint64)], []
    full = [name for name in names if b":full:" in name]
    for name, found in _read_each(server, "HGETALL", [n for n in names if b":full:" not in n]):
        buckets = []
        for field, value in found.items():
            key = keys.read_bucket(name, field)
            if len(value) % width:
                problems.append(f"key {key.hex()} has {len(value)} octets, no whole rows")
            elif value:
                buckets.append((key, value))
            elif keys.full(name, field) not in full:
                problems.append(f"key {key.hex()} is marked as too full, and has no rows")
        parts.append(permuted_of(unpack_buckets(buckets)))
    for name, members in _read_each(server, "SMEMBERS", full):
        hashed, _, field = name.partition(b":full:")
        key = keys.read_bucket(hashed, bytes.fromhex(field.decode()))
        parts.append(permuted_of(unpack_buckets([(key, b"".join(members))])))
    permuted = np.concatenate(parts)
    return sort_distinct(tables.design.tables[number].restore_array(permuted)), problems


def read_fingerprints(server: Server, keys: Keys, tables: RedisTables) -> NDArray[np.uint64]:
    """Read all fingerprints of the tables: sorted, each once; shape (n,).

    Raises:
        StoreError: a bucket is damaged.
    """
    found, problems = read_table(server, keys, tables, 0)
    if problems:
        raise StoreError(
            f"the tables are damaged: {problems[0]}; mend them with `scrapy simhash rebuild`"
        )
    return found


def list_full(server: Server, pattern: bytes) -> list[bytes]:
    """List the keys of the buckets of tables that are too full."""
    return [name for name in list_keys(server, pattern) if b":full:" in name]


def measure(server: Server, patterns: Sequence[bytes]) -> int:
    """Say how many bytes of memory keys take, as the server estimates (MEMORY USAGE)."""
    names = [name for pattern in patterns for name in server.scan(pattern)]
    return sum(size or 0 for size in server.run([("MEMORY", "USAGE", name) for name in names]))
