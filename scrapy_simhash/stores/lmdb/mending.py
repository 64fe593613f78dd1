"""Check and mend an LMDB store, and compact its tables while crawls go on.

From the start, new fingerprints go into another `added`, so that the merged data does not change::

    1. freeze   header: compacting, `added` is the other one      one short transaction
    2. merge    base + frozen -> the other base, slice by slice   a transaction of a second each
    3. switch   header: the new base; drop the old one, frozen    one transaction

A fingerprint removed meanwhile is removed from the old and the new base. If the process is killed
in between, the store is as complete as before, and the next compaction resumes with step 2.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.stores.header import design_of
from scrapy_simhash.stores.lmdb.documents import (
    BULK_LOADED,
    read_header,
    table_databases,
    write_header,
)
from scrapy_simhash.stores.lmdb.tables import Layout, Tables
from scrapy_simhash.stores.mending import (
    Lead,
    Link,
    Mending,
    Name,
    Row,
    compare_tables,
    list_addresses,
)
from scrapy_simhash.stores.records import number_of, octets, scope_hash
from scrapy_simhash.tables import parse_design
from scrapy_simhash.tables.sets import contains, sort_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Record
    from scrapy_simhash.stores.lmdb.documents import LmdbDocuments


class _Records:
    """The undamaged records, read one at a time: there may be more than fit into memory."""

    def __init__(self, stored: LmdbDocuments) -> None:
        self._stored = stored
        self.damaged: dict[int, DamagedError] = {}

    def items(self) -> Iterator[tuple[int, Record]]:
        for number, record in self._stored.scan():
            if isinstance(record, DamagedError):
                self.damaged[number] = record
            else:
                yield number, record

    def get(self, number: int) -> Record | None:
        return None if number in self.damaged else self._stored.get(number)

    def __contains__(self, number: int) -> bool:
        database = self._stored.databases.documents
        return self._stored.transaction.get(octets(number), db=database) is not None


class _Leads(Generic[Lead]):
    """A database as a set: `read` turns a key and a value into a lead, `write` does the reverse."""

    def __init__(
        self,
        transaction: lmdb.Transaction[bytes],
        database: lmdb._Database,
        read: Callable[[bytes, bytes], Lead],
        write: Callable[[Lead], tuple[bytes, bytes]],
    ) -> None:
        self._transaction = transaction
        self._database = database
        self._read = read
        self._write = write
        self._several: bool = database.flags()["dupsort"]
        self._place = transaction.cursor(database)

    def __iter__(self) -> Iterator[Lead]:
        for key, value in self._transaction.cursor(self._database):
            yield self._read(key, value)

    def __contains__(self, lead: Lead) -> bool:
        key, value = self._write(lead)
        if not self._several:
            return self._transaction.get(key, db=self._database) == value
        return self._place.set_key_dup(key, value)

    def add(self, lead: Lead) -> None:
        key, value = self._write(lead)
        self._transaction.put(key, value, db=self._database)

    def discard(self, lead: Lead) -> None:
        key, value = self._write(lead)
        self._transaction.delete(key, value, db=self._database)


class _Rows(_Leads[Row]):
    def discard(self, lead: Row) -> None:
        super().discard(lead)
        if number_of(_write_row(lead)[1]).bit_count() == 1:
            # No document has such a number and scope: a bit of `BULK_LOADED` was flipped.
            self.add(Row(lead.fingerprint, None, 0))


def _read_row(key: bytes, value: bytes) -> Row:
    scope = None if value == BULK_LOADED else value[:8]
    return Row(number_of(key), scope, number_of(value[8:]))


def _write_row(row: Row) -> tuple[bytes, bytes]:
    value = BULK_LOADED if row.scope is None else row.scope + octets(row.number)
    return octets(row.fingerprint), value


def _open(stored: LmdbDocuments, *, in_memory: bool) -> Mending:
    """Prepare to check or mend a store; `in_memory` is faster, but loads every record."""
    transaction, databases = stored.transaction, stored.databases
    records = _Records(stored)
    return Mending(
        stored,
        dict(records.items()) if in_memory else records,
        records.damaged,
        _Leads(transaction, databases.identities, Name, lambda name: name),
        _Rows(transaction, databases.fingerprints, _read_row, _write_row),
        _Leads(
            *(transaction, databases.duplicates),
            lambda key, value: Link(number_of(key), number_of(value)),
            lambda link: (octets(link.original), octets(link.number)),
        ),
        lru_cache(scope_hash),
    )


def check_documents(stored: LmdbDocuments) -> list[str]:
    """List all inconsistencies, one line each; reads the whole store."""
    held, problems = compare_tables(stored.tables.read_tables(tolerant=True))
    problems += _open(stored, in_memory=True).find_problems(held, stored.following_number())
    strays = [
        f"the database urls has a key {key.hex()}, which is of no table"
        for key in stored.list_stray_keys()
    ]
    return problems + stored.tables.find_strays() + strays


def rebuild(stored: LmdbDocuments, design: str) -> dict[str, int]:
    """Restore everything but the records, see `Store.rebuild`; reads them about three times."""
    found = stored.tables.read_trusted()
    mended = _open(stored, in_memory=False).mend()
    stored.drop_stray_keys()
    found = _add_indexed(stored, found)
    stored.rewrite_addresses(list_addresses(stored.scan()))
    header = read_header(stored)
    header.addressed = stored.addressed = True
    write_header(stored, header)
    rewrite_tables(stored, design, found)
    return {"fingerprints": found.size, "tables": len(parse_design(design).tables), **mended}


def rewrite_tables(stored: LmdbDocuments, design: str, fingerprints: NDArray[np.uint64]) -> None:
    """Rewrite all tables, in this or another design; cancels a compaction."""
    header = read_header(stored)
    if header.compacting or design != header.design:
        header.compacting, header.design = False, design
        write_header(stored, header)
    stored.tables.clear()
    layout = Layout(parse_design(design), table_databases(stored.databases, header))
    Tables(stored.transaction, layout).fill(fingerprints)


def trusted_fingerprints(stored: LmdbDocuments) -> NDArray[np.uint64]:
    """List the fingerprints that belong in the tables, sorted, (n,); mends `fingerprints`."""
    # Bulk-loaded fingerprints and those of damaged records must be in at least two tables.
    found = stored.tables.read_trusted()
    _open(stored, in_memory=False).mend_rows()
    return _add_indexed(stored, found)


def _add_indexed(stored: LmdbDocuments, held: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Add the documents' fingerprints to the trusted ones; only these remain bulk-loaded."""
    transaction, database = stored.transaction, stored.databases.fingerprints
    noted = [key for key, row in transaction.cursor(database) if row == BULK_LOADED]
    known = contains(held, np.array([number_of(key) for key in noted], np.uint64))
    for key in (key for key, held_too in zip(noted, known.tolist(), strict=True) if not held_too):
        transaction.delete(key, BULK_LOADED, db=database)
    return sort_distinct(np.concatenate([held, stored.list_indexed()]))


def compact(
    folder: Path,
    write: Callable[[Callable[[LmdbDocuments], Any]], Any],
    progress: Callable[[int, int], object],
) -> None:
    """Rewrite the tables with full pages; `write` runs a function in a write transaction."""
    with _alone(folder):
        slices = write(lambda stored: list(freeze(stored).still.slices()))
        for done, piece in enumerate(slices):
            progress(done, len(slices))
            write(partial(_merge, piece))
        write(_switch)
        progress(len(slices), len(slices))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Prevent other compactions; raise a StoreError if one is running."""
    lock = FileLock(folder / "compacting.lock", mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise StoreError(
            f"another process is compacting the store at {folder}; wait for it to end"
        ) from None
    try:
        yield
    finally:
        lock.release()


class Compaction(NamedTuple):
    """The parts of a compaction; `still`: the tables without fingerprints added meanwhile."""

    tables: Tables
    still: Tables
    base: lmdb._Database
    frozen: lmdb._Database
    building: lmdb._Database


def freeze(stored: LmdbDocuments) -> Compaction:
    """Direct new fingerprints into another `added` from now on."""
    header = read_header(stored)
    if not header.compacting:
        header.added, header.compacting = 1 - header.added, True
        write_header(stored, header)
    compaction = _open_compaction(stored)
    # A killed compaction may have left rows there.
    stored.transaction.drop(compaction.building, delete=False)
    return compaction


def _open_compaction(stored: LmdbDocuments) -> Compaction:
    """Continue what `freeze` began; a StoreError if another process ended it."""
    header = read_header(stored)
    found = table_databases(stored.databases, header)
    if found.frozen is None or found.building is None:
        raise StoreError("the tables were rewritten by another process meanwhile; nothing is lost")
    design, without_new = design_of(header), found._replace(added=found.frozen, frozen=None)
    tables = Tables(stored.transaction, Layout(design, found))
    still = Tables(stored.transaction, Layout(design, without_new))
    return Compaction(tables, still, found.base, found.frozen, found.building)


def _merge(piece: tuple[int, int, int], stored: LmdbDocuments) -> None:
    """Merge a range of keys; fingerprints added meanwhile stay where they are."""
    found = _open_compaction(stored)
    found.tables.append(found.building, piece[0], found.still.read_slice(piece))


def _switch(stored: LmdbDocuments) -> None:
    """Switch from the frozen databases to the new base."""
    compaction = _open_compaction(stored)
    compaction.tables.settle(compaction.building)
    stored.transaction.drop(compaction.base, delete=False)
    stored.transaction.drop(compaction.frozen, delete=False)
    header = read_header(stored)
    header.base, header.compacting = 1 - header.base, False
    write_header(stored, header)
