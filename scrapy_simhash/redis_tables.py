"""The permuted tables in Redis: which bucket is where, and what a probe reads of them."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from scrapy_simhash.buckets import find_in_buckets, unpack_buckets
from scrapy_simhash.permutation import ROW_BYTES, check_fingerprint
from scrapy_simhash.probing import Prober
from scrapy_simhash.redis_writes import Code
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.permutation import Design
    from scrapy_simhash.redis_keys import Keys
    from scrapy_simhash.redis_snapshot import Snapshot
    from scrapy_simhash.stored import Probe

# As in `lmdb_tables`: probes pass over a bucket of more rows.
MOST_IN_BUCKET = 16_384


class RedisTables:
    """The tables of one design and generation.

    Args:
        keys: of the store.
        design: which permutations, and how wide the keys are.
        generation: tables that are written anew have another one.
    """

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
        return self._prober.keys(self.design.rows(fingerprint), distance)

    def locate(self, snapshot: Snapshot, keys: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        """Say in which hash each bucket is that was not read yet."""
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

        def read(
            keys: tuple[bytes, ...], rows: bytes, distance: int, *, bounded: bool
        ) -> tuple[list[NDArray[np.void]], list[bytes]]:
            return self._read(snapshot, keys, rows, distance, bounded=bounded)

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
        # What comes into a bucket meanwhile is told by its fingerprint, see `redis_commit`.
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

    def add(self, snapshot: Snapshot, fingerprint: int) -> None:
        """Put a fingerprint into every table; harmless when it is there."""
        self._write(snapshot, Code.BUCKET_ROW, fingerprint)

    def remove(self, snapshot: Snapshot, fingerprint: int) -> None:
        """Take a fingerprint out of every table; harmless when it is not there."""
        self._write(snapshot, Code.NO_BUCKET_ROW, fingerprint)

    def _write(self, snapshot: Snapshot, code: Code, fingerprint: int) -> None:
        rows = self.design.rows(check_fingerprint(fingerprint))
        for key, rest in self._items.iter_unpack(rows):
            snapshot.writes.add(code, self._hash_of(key), key[-1:], rest)
