"""The permuted, sorted tables in LMDB (paper, section 3.1).

All tables of a design share one database; its order keeps each of them one sorted run::

    key    table number (1 byte) | leading key_bytes of the permuted fingerprint
    value  the other 8 - key_bytes bytes; all values of a key, sorted   (DUPSORT + DUPFIXED)

One `getmulti` hands the candidates of every table to numpy at once: rows of 9 bytes, each a
table number and a whole permuted fingerprint. The distance does not depend on the permutation, so
only matches are restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.permutation import Design, check_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lmdb
    from numpy.typing import NDArray

_FINGERPRINT_BYTES = 8
# Bytes are compared as little-endian numbers on both sides: the count of differing bits is the
# same in any byte order, and no row has to be turned round.
_ROW = np.dtype(
    {"names": ["table", "permuted"], "formats": ["u1", "<u8"], "offsets": [0, 1], "itemsize": 9}
)
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
        self._key_end = design.key_bytes
        self._value_bytes = _FINGERPRINT_BYTES - design.key_bytes
        self._numbered = [
            (bytes((number,)), table.permute) for number, table in enumerate(design.tables)
        ]

    def probe(
        self, transaction: lmdb.Transaction[bytes], fingerprint: int, distance: int
    ) -> list[tuple[int, int]]:
        """Find every fingerprint within a distance.

        Args:
            transaction: any.
            fingerprint: the query.
            distance: bits; not more than the design is complete for.

        Returns:
            (distance, fingerprint) of each, nearest first. Cost: one descent a table, and the
            candidates that share its key, on average documents / 256**key_bytes.
        """
        end = self._key_end
        permuted = [
            (number, permute(fingerprint).to_bytes(8, "big")) for number, permute in self._numbered
        ]
        rows = np.frombuffer(
            transaction.cursor(self._database).getmulti(
                [number + octets[:end] for number, octets in permuted],
                dupdata=True,
                dupfixed_bytes=self._value_bytes,
                keyfixed=True,
            ),
            _ROW,
        )
        queries = np.frombuffer(b"".join([octets for _, octets in permuted]), "<u8")
        distances = np.bitwise_count(rows["permuted"] ^ queries[rows["table"]])
        (near,) = (distances <= distance).nonzero()
        if not near.size:
            return []
        # One fingerprint is often found by several tables.
        return sorted({(int(distances[row]), self._restore(rows[row])) for row in near})

    def _restore(self, row: np.void) -> int:
        octets = int(row["permuted"]).to_bytes(8, "little")
        table = self.design.tables[int(row["table"])]
        return table.restore(int.from_bytes(octets, "big"))

    def _items(self, fingerprint: int) -> list[tuple[bytes, bytes]]:
        # The width is checked here because a DUPFIXED table takes any and then loses values.
        check_fingerprint(fingerprint)
        items = []
        for number, permute in self._numbered:
            octets = permute(fingerprint).to_bytes(8, "big")
            items.append((number + octets[: self._key_end], octets[self._key_end :]))
        return items

    def add(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> None:
        """Put a fingerprint into every table; harmless when it is there."""
        for key, value in self._items(fingerprint):
            transaction.put(key, value, db=self._database)

    def remove(self, transaction: lmdb.Transaction[bytes], fingerprint: int) -> None:
        """Take a fingerprint out of every table; harmless when it is not there."""
        for key, value in self._items(fingerprint):
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
        rows = np.empty((len(permuted), _ROW.itemsize), np.uint8)
        rows[:, 0] = number
        rows[:, 1:] = permuted.astype(">u8").view(np.uint8).reshape(-1, _FINGERPRINT_BYTES)
        octets, key_end = rows.tobytes(), 1 + self._key_end
        for start in range(0, len(octets), _ROW.itemsize):
            middle, end = start + key_end, start + _ROW.itemsize
            yield octets[start:middle], octets[middle:end]

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
