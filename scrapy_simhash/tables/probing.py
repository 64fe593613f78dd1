"""Probe all tables at once for the fingerprints near a given one (paper, section 3.1).

A row of a table has 9 octets: the table's number, then the permuted fingerprint. The number and
the leading `key_bytes` octets of the fingerprint are the row's *key*, the others its *rest*. A
*bucket* is all rows with one key.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from itertools import chain, combinations
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scrapy_simhash.simhash import check_fingerprint
from scrapy_simhash.tables.designs import FINGERPRINT_BYTES, Design

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROW_BYTES = 1 + FINGERPRINT_BYTES
# Plain simhash skips a bucket with more rows, so that crafted pages cost less than three times as
# much as others (2.6 times, measured; 8 times with four times as many rows). Ten times as many rows
# as an ordinary bucket of four tables has at 100 million documents.
MOST_IN_PLAIN_BUCKET = 16_384
# Where rare triples propose as well: what shares a prefix with so many is a template's.
MOST_IN_BUCKET = 1_024
ROW = np.dtype([("table", "u1"), ("permuted", ">u8")])
_ROW = Struct(">BQ")
# A probe with numpy costs as much as one of so many rows without it.
_FEW_ROWS = 48


class Probe(NamedTuple):
    """The result of probing the tables."""

    near: list[tuple[int, int]]  # (distance, fingerprint) of each, nearest first
    complete: bool  # no bucket was skipped, and nothing that was found


class Limits(NamedTuple):
    """How far a probe goes.

    Attributes:
        bits: within which fingerprints are near; the design reaches these.
        most: of the near fingerprints; the nearest ones.
        in_bucket: buckets with more rows are skipped; None reads all, however long it takes.
        or_nothing: find nothing where there are more than `most`, if it is much more.
    """

    bits: int
    most: int = sys.maxsize
    in_bucket: int | None = None
    or_nothing: bool = False


class Prober:
    """Probes the tables of a design, wherever they are stored."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self._key_end = 1 + design.key_bytes
        self._keys = Struct(f"{self._key_end}s{ROW_BYTES - self._key_end}x" * len(design.tables))
        self._pairs = Struct(f"{self._key_end}s{ROW_BYTES - self._key_end}s")

    def split(self, fingerprint: int) -> list[tuple[bytes, bytes]]:
        """Split the rows of a fingerprint into key and rest, one pair for each table."""
        return list(self._pairs.iter_unpack(self.design.rows(check_fingerprint(fingerprint))))

    def _list_keys(self, rows: bytes, flips: int) -> tuple[bytes, ...]:
        """List the keys that a probe reads."""
        if not flips:
            return self._keys.unpack(rows)
        keys = np.frombuffer(rows, np.uint8).reshape(-1, 1, ROW_BYTES)[..., : self._key_end]
        octets = (keys ^ _masks(self.design.key_bytes, flips)).tobytes()
        return Struct(f"{self._key_end}s" * (len(octets) // self._key_end)).unpack(octets)

    def probe(
        self,
        read: Callable[[tuple[bytes, ...], int | None], tuple[bytes, list[bytes]]],
        fingerprint: int,
        limits: Limits,
    ) -> Probe:
        """Find every fingerprint within some bits, as far as the limits allow.

        `read` gets keys and `in_bucket`; it returns the rows of the keys, side by side, and those
        of the keys that have more.
        """
        # Cost: for each key one descent of the B-tree, and the candidates with that key, on average
        # documents / 256**key_bytes. Each table has one key, and one more for each combination of
        # bits that the design must flip for this distance.
        distance, most, in_bucket, or_nothing = limits
        flips, rows = self.design.flips_for(distance), self.design.rows(fingerprint)
        found, crowded = read(self._list_keys(rows, flips), in_bucket)
        # Each table may find each fingerprint: of so many rows at least `most` are distinct.
        most_rows = most * len(self.design.tables)
        if len(found) > _FEW_ROWS * ROW_BYTES:
            found = _keep_near(found, rows, distance)
            if or_nothing and len(found) > most_rows * ROW_BYTES:
                return Probe([], complete=False)
        permuted = [own for _, own in _ROW.iter_unpack(rows)]
        near = sorted(
            (bits, number, row)
            for number, row in _ROW.iter_unpack(found)
            if (bits := (row ^ permuted[number]).bit_count()) <= distance
        )
        once = {
            (bits, self.design.tables[number].restore(row))
            for bits, number, row in near[:most_rows]
        }
        return Probe(sorted(once)[:most], not crowded)


def _keep_near(found: bytes, rows: bytes, distance: int) -> bytes:
    """Leave out the rows that are not near to a query's row of their table."""
    # Distances do not depend on the permutation.
    candidates = np.frombuffer(found, ROW)
    query = np.frombuffer(rows, ROW)["permuted"].take(candidates["table"])
    distances = np.bitwise_count(candidates["permuted"] ^ query)
    near: bytes = candidates[distances <= distance].tobytes()
    return near


@lru_cache(maxsize=16)
def _masks(key_bytes: int, most: int) -> NDArray[np.uint8]:
    """Make the masks that flip up to `most` of a key's bits; shape (masks, 1 + key_bytes)."""
    bits = range(8 * key_bytes)
    chosen = chain.from_iterable(combinations(bits, count) for count in range(most + 1))
    masks = [sum(1 << bit for bit in some) for some in chosen]
    # A key begins with the number of its table, which is never flipped.
    return np.ascontiguousarray(
        np.array(masks, ">u4").view(np.uint8).reshape(-1, 4)[:, -(key_bytes + 1) :]
    )
