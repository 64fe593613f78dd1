"""The fingerprints of a store as a whole: those in its tables, and those that have no document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrapy_simhash.stores.documents import BULK_LOADED
from scrapy_simhash.stores.keyvalues import FINGERPRINTS, number_of, octets
from scrapy_simhash.tables.arrays import contains, sort_distinct
from scrapy_simhash.tables.probing import ROW, pack_buckets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.tables.permutation import Design


def read_table(stored: Documents, number: int, *, tolerant: bool = False) -> NDArray[np.uint64]:
    """Read the distinct fingerprints of a table, sorted; `tolerant` passes over damage."""
    table = stored.design.tables[number]
    parts = [np.empty(0, np.uint64)]
    slices = _read_rows(stored, number, tolerant=tolerant)
    parts += [np.frombuffer(rows, ROW)["permuted"] for rows in slices]
    return sort_distinct(table.restore(np.concatenate(parts)))


def read_tables(stored: Documents, *, tolerant: bool = False) -> Iterator[NDArray[np.uint64]]:
    """Read one table after the other, see `read_table`."""
    for number in range(len(stored.design.tables)):
        yield read_table(stored, number, tolerant=tolerant)


def count_fingerprints(stored: Documents) -> int:
    """Count the fingerprints in the tables; reads one table, and passes over damage."""
    return sum(map(len, _read_rows(stored, 0, tolerant=True))) // ROW.itemsize


def _read_rows(stored: Documents, number: int, *, tolerant: bool) -> Iterator[bytes]:
    """Read the rows of a table, see `KeyValues.rows`."""
    width = 1 + stored.design.key_bytes
    return stored.values.rows(bytes((number,)), key_bytes=width, tolerant=tolerant)


def rewrite_tables(stored: Documents, design: Design, fingerprints: NDArray[np.uint64]) -> None:
    """Replace the tables by those of a design, with distinct fingerprints, shape (n,)."""
    stored.values.clear_tables()
    for number, table in enumerate(design.tables):
        permuted = np.sort(table.permute(fingerprints))
        stored.values.fill(pack_buckets(number, permuted, design.key_bytes))


def _read_indexed(stored: Documents) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Read the fingerprints that have rows, and those that are noted as bulk-loaded.

    Both sorted, shape (n,). Reads all rows.
    """
    keys = (number_of(key) for key, _ in stored.values.scan(FINGERPRINTS))
    indexed = sort_distinct(np.fromiter(keys, np.uint64))
    rows = stored.values.scan(FINGERPRINTS)
    noted = (number_of(key) for key, member in rows if member == BULK_LOADED)
    return indexed, sort_distinct(np.fromiter(noted, np.uint64))


def list_bulk_loaded(stored: Documents) -> NDArray[np.uint64]:
    """List the fingerprints that were bulk-loaded; sorted, shape (n,)."""
    held, (indexed, noted) = read_table(stored, 0), _read_indexed(stored)
    return sort_distinct(np.concatenate([held[~contains(indexed, held)], noted]))


def note_bulk_loaded(stored: Documents, fingerprints: NDArray[np.uint64]) -> None:
    """Record that these were bulk-loaded, as far as the tables do not tell; shape (n,)."""
    indexed, _ = _read_indexed(stored)
    fingerprints = indexed[contains(fingerprints, indexed)]
    for fingerprint in fingerprints.tolist():
        stored.values.add(FINGERPRINTS, octets(fingerprint), BULK_LOADED)
