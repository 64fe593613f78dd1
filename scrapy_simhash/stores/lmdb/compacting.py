"""Compact the tables of an LMDB store while crawls go on.

From the start, new fingerprints go into another `added`, so that the merged data does not change::

    1. freeze   state: compacting, `added` is the other one       one short transaction
    2. merge    base + frozen -> the other base, slice by slice   a transaction of a second each
    3. switch   state: the new base; drop the old one, frozen     one transaction

A fingerprint removed meanwhile is removed from the old and the new base. If the process is killed
in between, the store is as complete as before, and the next compaction resumes with step 2.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from filelock import FileLock, Timeout

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.header import HEADER_KEY, design_of, unpack_header
from scrapy_simhash.stores.keyvalues import HEADER
from scrapy_simhash.stores.lmdb.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import lmdb

    from scrapy_simhash.stores.lmdb.values import LmdbValues
    from scrapy_simhash.tables.permutation import Design


def compact(
    folder: Path,
    write: Callable[[Callable[[LmdbValues], Any]], Any],
    progress: Callable[[int, int], object],
) -> None:
    """Rewrite the tables with full pages; `write` runs a function in a write transaction."""
    with _alone(folder):
        # By the design of this transaction: another process may have rebuilt the tables.
        slices = write(lambda values: list(freeze(values).still.slices(_read_design(values))))
        for done, piece in enumerate(slices):
            progress(done, len(slices))
            write(partial(_merge, piece))
        write(_switch)
        progress(len(slices), len(slices))


def _read_design(values: LmdbValues) -> Design:
    packed = values.get(HEADER, HEADER_KEY)
    if packed is None:
        raise StoreError("the store has no header; restore it from a backup")
    return design_of(unpack_header(packed))


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


def freeze(values: LmdbValues) -> Compaction:
    """Direct new fingerprints into another `added` from now on."""
    if not values.state.compacting:
        values.state = values.state._replace(added=1 - values.state.added, compacting=1)
    compaction = _open(values)
    # A killed compaction may have left rows there.
    values.transaction.drop(compaction.building, delete=False)
    return compaction


def _open(values: LmdbValues) -> Compaction:
    """Continue what `freeze` began; a StoreError if another process ended it."""
    found = values.tables.databases
    if found.frozen is None or found.building is None:
        raise StoreError("the tables were rewritten by another process meanwhile; nothing is lost")
    without_new = found._replace(added=found.frozen, frozen=None)
    still = Tables(values.transaction, without_new)
    return Compaction(values.tables, still, found.base, found.frozen, found.building)


def _merge(piece: tuple[bytes, bytes], values: LmdbValues) -> None:
    """Merge a range of keys; fingerprints added meanwhile stay where they are."""
    found = _open(values)
    found.tables.append(found.building, found.still.read_slice(piece))


def _switch(values: LmdbValues) -> None:
    """Switch from the frozen databases to the new base."""
    compaction = _open(values)
    compaction.tables.settle(compaction.building)
    values.transaction.drop(compaction.base, delete=False)
    values.transaction.drop(compaction.frozen, delete=False)
    values.state = values.state._replace(base=1 - values.state.base, compacting=0)
