"""The permuted, sorted tables in LMDB (paper, section 3.1).

All tables of a design share one database; its order keeps each of them one sorted run::

    key    table number (1 byte) | leading key_bytes of the permuted fingerprint
    value  the other 8 - key_bytes bytes; all values of a key, sorted   (DUPSORT + DUPFIXED)

One `getmulti` hands the candidates of every table to numpy at once: rows of 9 bytes, each a
table number and a whole permuted fingerprint. The distance does not depend on the permutation, so
only matches are restored.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.permutation import FINGERPRINT_BYTES, ROW_BYTES, Design, check_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lmdb
    from numpy.typing import NDArray

# Bytes are compared as little-endian numbers on both sides: the count of differing bits is the
# same in any byte order, and no row has to be turned round.
_ROW = np.dtype([("table", "u1"), ("permuted", "<u8")])
_ROWS_PER_PUT = 65_536


class Tables:
    """The tables of one design in one database.

    Args:
        design: which permutations, and how wide the keys are.
        database: a DUPSORT + DUPFIXED database.
    """

    def __init__(self, design: Design, database: lmdb._Database) -> None:
        self.design = design
        self._database = database
        self._key_end = 1 + design.key_bytes
        self._value_bytes = ROW_BYTES - self._key_end
        self._keys = Struct(f"{self._key_end}s{self._value_bytes}x" * len(design.tables))
        self._flips = _one_bit_flips(design.key_bytes)
        self._flipped_keys = Struct(f"{self._key_end}s" * (len(self._flips) * len(design.tables)))
        self._items = Struct(f"{self._key_end}s{self._value_bytes}s")

    def probe(
        self,
        transaction: lmdb.Transaction[bytes],
        fingerprint: int,
        distance: int,
        most: int | None = None,
    ) -> list[tuple[int, int]]:
        """Find every fingerprint within a distance.

        Args:
            transaction: any.
            fingerprint: the query.
            distance: bits; not more than the design reaches.
            most: only so many, the nearest; None for all.

        Returns:
            (distance, fingerprint) of each, nearest first. Cost: one descent a table, and the
            candidates that share its key, on average documents / 256**key_bytes; 1 + 8 *
            key_bytes times as much beyond the distance that needs no flipped bit.
        """
        queries = self.design.rows(fingerprint)
        found = transaction.cursor(self._database).getmulti(
            self._choose_keys(queries, distance),
            dupdata=True,
            dupfixed_bytes=self._value_bytes,
            keyfixed=True,
        )
        rows = np.frombuffer(found, _ROW)
        query = np.frombuffer(queries, _ROW)["permuted"].take(rows["table"])
        distances = np.bitwise_count(rows["permuted"] ^ query)
        (near,) = (distances <= distance).nonzero()
        if not near.size:
            return []
        if most is not None and near.size > most:
            # Each may be found by every table; what is left over is cut below.
            order = np.argsort(distances[near], kind="stable")
            near = near[order[: most * len(self.design.tables)]]
        # One fingerprint is often found by several tables.
        found_once = sorted(
            {
                (found_bits, self.design.tables[number].restore(permuted))
                for found_bits, number, permuted in zip(
                    distances[near].tolist(),
                    rows["table"][near].tolist(),
                    rows["permuted"][near].byteswap().tolist(),
                    strict=True,
                )
            }
        )
        return found_once if most is None else found_once[:most]

    def _choose_keys(self, queries: bytes, distance: int) -> tuple[bytes, ...]:
        if distance <= self.design.distance_bits:
            return self._keys.unpack(queries)
        rows = np.frombuffer(queries, np.uint8).reshape(-1, 1, ROW_BYTES)
        return self._flipped_keys.unpack((rows[..., : self._key_end] ^ self._flips).tobytes())

    def _split(self, fingerprint: int) -> Iterator[tuple[bytes, bytes]]:
        # The width is checked here because a DUPFIXED table takes any and then loses values.
        check_fingerprint(fingerprint)
        return self._items.iter_unpack(self.design.rows(fingerprint))

    def add(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> None:
        """Put a fingerprint into every table; harmless when it is there."""
        transaction.cursor(self._database).putmulti(self._split(fingerprint))

    def remove(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> None:
        """Take a fingerprint out of every table; harmless when it is not there."""
        for key, value in self._split(fingerprint):
            transaction.delete(key, value, db=self._database)

    def load(self, transaction: lmdb.Transaction[bytes], fingerprints: NDArray[np.uint64]) -> int:
        """Add many fingerprints, table by table in sorted order; returns how many were new."""
        fingerprints = np.unique(fingerprints)
        cursor = transaction.cursor(self._database)
        added = 0
        for number, table in enumerate(self.design.tables):
            permuted = np.sort(table.permute_array(fingerprints))
            added = 0
            for start in range(0, len(permuted), _ROWS_PER_PUT):
                items = self._rows(number, permuted[start : start + _ROWS_PER_PUT])
                added += cursor.putmulti(items, dupdata=False)[1]
        return added

    def _rows(self, number: int, permuted: NDArray[np.uint64]) -> Iterator[tuple[bytes, bytes]]:
        rows = np.empty((len(permuted), ROW_BYTES), np.uint8)
        rows[:, 0] = number
        rows[:, 1:] = permuted.astype(">u8").view(np.uint8).reshape(-1, FINGERPRINT_BYTES)
        return self._items.iter_unpack(rows.data)

    def find_strays(self, transaction: lmdb.Transaction[bytes]) -> list[str]:
        """List the keys of tables that the design does not have, one line each."""
        cursor = transaction.cursor(self._database)
        past = bytes((len(self.design.tables),))
        if not cursor.set_range(past):
            return []
        keys = cursor.iternext_nodup(keys=True, values=False)
        return [f"key {key.hex()} belongs to table {key[0]}, which is not there" for key in keys]

    def read_all(self, transaction: lmdb.Transaction[bytes]) -> list[NDArray[np.uint64]]:
        """Read every table back, restored and sorted; shape (n,) each. Cost: the whole store."""
        cursor = transaction.cursor(self._database)
        keys = list(cursor.iternext_nodup(keys=True, values=False))
        rows = np.frombuffer(
            cursor.getmulti(keys, dupdata=True, dupfixed_bytes=self._value_bytes, keyfixed=True),
            _ROW,
        )
        tables = []
        for number, table in enumerate(self.design.tables):
            permuted = rows["permuted"][rows["table"] == number].astype("<u8").byteswap()
            tables.append(np.sort(table.restore_array(permuted)))
        return tables


def _one_bit_flips(key_bytes: int) -> NDArray[np.uint8]:
    """Make the masks that flip no bit, or any one, of a key; shape (1 + bits, 1 + key_bytes)."""
    bits = 8 * key_bytes
    masks = np.array([0, *(1 << bit for bit in range(bits))], ">u4").view(np.uint8)
    # A key is led by the number of its table, which stays as it is.
    return np.ascontiguousarray(masks.reshape(-1, 4)[:, -(key_bytes + 1) :])
