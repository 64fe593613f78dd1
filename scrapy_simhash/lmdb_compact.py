"""Compaction: single rows and buckets become a new base of full pages, while crawls go on.

New fingerprints go into another `added` from the start on, so that what is merged stands still::

    1. freeze   header: compacting, `added` is the other one      one short transaction
    2. merge    base + frozen -> the other base, slice by slice   a transaction of a second each
    3. switch   header: the new base; drop the old one, frozen    one transaction

A fingerprint that is removed meanwhile leaves old and new base. Killed in between, the store is as
complete as before, and the next compaction begins again at step 2.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from filelock import FileLock, Timeout

from scrapy_simhash.designs import parse_design
from scrapy_simhash.lmdb_header import read_header, table_databases, write_header
from scrapy_simhash.lmdb_tables import Tables
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import lmdb

    from scrapy_simhash.lmdb_documents import Databases
    from scrapy_simhash.lmdb_environment import Environment
    from scrapy_simhash.records import Header


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
    with compacting_alone(environment):
        slices = environment.write(lambda txn: list(freeze(txn, databases).still.slices(txn)))
        for done, piece in enumerate(slices):
            progress(done, len(slices))
            environment.write(partial(_merge, databases, piece))
        environment.write(lambda txn: _switch(txn, databases))
        progress(len(slices), len(slices))


@contextmanager
def compacting_alone(environment: Environment) -> Iterator[None]:
    """Keep other compactions away.

    Raises:
        StoreError: there is one.
    """
    lock = FileLock(environment.folder / "compacting.lock", mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise StoreError(
            f"the store at {environment.folder} is being compacted by another process; wait for it"
        ) from None
    try:
        yield
    finally:
        lock.release()


def freeze(
    transaction: lmdb.Transaction[bytes], databases: Databases, *, merging: str = ""
) -> Compaction:
    """Let new fingerprints go into another `added` from now on.

    Args:
        transaction: a write transaction.
        databases: of the store.
        merging: name of the archive that the others will be in; "" for a new base.
    """
    header = read_header(transaction, databases)
    if not header.compacting:
        header.added, header.compacting = 1 - header.added, True
    header.merging = merging
    write_header(transaction, databases, header)
    compaction = open_compaction(transaction, databases)
    # Of a compaction that was killed.
    transaction.drop(compaction.building, delete=False)
    if not header.archive:
        transaction.drop(databases.removed, delete=False)
    return compaction


class Compaction(NamedTuple):
    """What is being compacted: `still` are the tables without what is added meanwhile."""

    tables: Tables
    still: Tables
    base: lmdb._Database
    frozen: lmdb._Database
    building: lmdb._Database


def open_compaction(transaction: lmdb.Transaction[bytes], databases: Databases) -> Compaction:
    """Find what `freeze` began.

    Raises:
        StoreError: another process ended it.
    """
    header = read_header(transaction, databases)
    found = table_databases(databases, header)
    if found.frozen is None or found.building is None:
        raise StoreError("the tables were rewritten by another process meanwhile; nothing is lost")
    design = parse_design(header.design)
    still = Tables(design, found._replace(added=found.frozen, frozen=None))
    return Compaction(Tables(design, found), still, found.base, found.frozen, found.building)


def _merge(
    databases: Databases, piece: tuple[int, int, int], transaction: lmdb.Transaction[bytes]
) -> None:
    """Merge a range of keys; what was added meanwhile stays where it is."""
    compaction = open_compaction(transaction, databases)
    permuted = compaction.still.read_slice(transaction, piece)
    compaction.tables.append(transaction, compaction.building, piece[0], permuted)


def _switch(transaction: lmdb.Transaction[bytes], databases: Databases) -> None:
    compaction = open_compaction(transaction, databases)
    header = read_header(transaction, databases)
    switch(transaction, databases, compaction, header)


def switch(
    transaction: lmdb.Transaction[bytes],
    databases: Databases,
    compaction: Compaction,
    header: Header,
) -> None:
    """Use what was written instead of what was frozen; writes the header."""
    compaction.tables.settle(transaction, compaction.building)
    transaction.drop(compaction.base, delete=False)
    transaction.drop(compaction.frozen, delete=False)
    header.base, header.compacting, header.merging = 1 - header.base, False, ""
    write_header(transaction, databases, header)
