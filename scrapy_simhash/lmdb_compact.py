"""Compaction: single rows and buckets become a new base of full pages, while crawls go on.

New fingerprints go into another `added` from the start on, so that what is merged stands still::

    1. freeze   header: compacting, `added` is the other one      one short transaction
    2. merge    base + frozen -> the other base, slice by slice   a transaction of a second each
    3. switch   header: the new base; drop the old one, frozen    one transaction

A fingerprint that is removed meanwhile leaves old and new base. Killed in between, the store is as
complete as before, and the next compaction begins again at step 2.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from filelock import FileLock, Timeout

from scrapy_simhash.designs import parse_design
from scrapy_simhash.lmdb_header import read_header, table_databases, write_header
from scrapy_simhash.lmdb_tables import Tables
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    import lmdb

    from scrapy_simhash.lmdb_documents import Databases
    from scrapy_simhash.lmdb_environment import Environment


def compact(
    environment: Environment, databases: Databases, progress: Callable[[int, int], object]
) -> None:
    """Rewrite the tables at full fill.

    Args:
        environment: of the store, writable.
        databases: its databases.
        progress: called with how many of how many slices are done.

    Raises:
        StoreError: another compaction is running, or the tables were rewritten meanwhile.
    """
    lock = FileLock(environment.folder / "compacting.lock", mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise StoreError(
            f"the store at {environment.folder} is being compacted by another process; wait for it"
        ) from None
    try:
        slices = environment.write(lambda txn: _freeze(txn, databases))
        for done, piece in enumerate(slices):
            progress(done, len(slices))
            environment.write(partial(_merge, databases, piece))
        environment.write(lambda txn: _switch(txn, databases))
        progress(len(slices), len(slices))
    finally:
        lock.release()


def _freeze(
    transaction: lmdb.Transaction[bytes], databases: Databases
) -> list[tuple[int, int, int]]:
    header = read_header(transaction, databases)
    if not header.compacting:
        header.added, header.compacting = 1 - header.added, True
        write_header(transaction, databases, header)
    compaction = _open(transaction, databases)
    # Of a compaction that was killed.
    transaction.drop(compaction.building, delete=False)
    return list(compaction.still.slices(transaction))


class _Compaction(NamedTuple):
    """What is being compacted: `still` are the tables without what is added meanwhile."""

    tables: Tables
    still: Tables
    base: lmdb._Database
    frozen: lmdb._Database
    building: lmdb._Database


def _open(transaction: lmdb.Transaction[bytes], databases: Databases) -> _Compaction:
    header = read_header(transaction, databases)
    found = table_databases(databases, header)
    if found.frozen is None or found.building is None:
        raise StoreError("the tables were rewritten by another process meanwhile; nothing is lost")
    design = parse_design(header.design)
    still = Tables(design, found._replace(added=found.frozen, frozen=None))
    return _Compaction(Tables(design, found), still, found.base, found.frozen, found.building)


def _merge(
    databases: Databases, piece: tuple[int, int, int], transaction: lmdb.Transaction[bytes]
) -> None:
    """Merge a range of keys; what was added meanwhile stays where it is."""
    compaction = _open(transaction, databases)
    permuted = compaction.still.read_slice(transaction, piece)
    compaction.tables.append(transaction, compaction.building, piece[0], permuted)


def _switch(transaction: lmdb.Transaction[bytes], databases: Databases) -> None:
    compaction = _open(transaction, databases)
    compaction.tables.settle(transaction, compaction.building)
    transaction.drop(compaction.base, delete=False)
    transaction.drop(compaction.frozen, delete=False)
    header = read_header(transaction, databases)
    header.base, header.compacting = 1 - header.base, False
    write_header(transaction, databases, header)
