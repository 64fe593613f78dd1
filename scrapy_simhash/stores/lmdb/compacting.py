"""Compact the tables of an LMDB store while crawls go on.

From the start, new fingerprints go into another `added`, so that the merged data does not change::

    1. freeze   state: compacting, `added` is the other one       one short transaction
    2. merge    base + frozen -> the other base, slice by slice   a transaction of a second each
    3. switch   state: the new base; drop the old one, frozen     one transaction

A fingerprint removed meanwhile is removed from the old and the new base. If the process is killed
in between, the store is as complete as before, and the next compaction resumes with step 2.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.header import HEADER_KEY, design_of, unpack_header
from scrapy_simhash.stores.keyvalues import HEADER
from scrapy_simhash.stores.lmdb.values import Tables

if TYPE_CHECKING:
    from collections.abc import Callable
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
    try:
        with FileLock(folder / "compacting.lock", timeout=0, mode=0o600):
            # By the design of this transaction: another process may have rebuilt the tables.
            slices = write(lambda values: list(freeze(values).slices(_read_design(values))))
            for done, piece in enumerate(slices):
                progress(done, len(slices))
                write(partial(_merge, piece))
            write(_switch)
            progress(len(slices), len(slices))
    except Timeout:
        raise StoreError(
            f"another process is compacting the store at {folder}; wait for it to end"
        ) from None


def _read_design(values: LmdbValues) -> Design:
    packed = values.get(HEADER, HEADER_KEY)
    if packed is None:
        raise StoreError("the store has no header; restore it from a backup")
    return design_of(unpack_header(packed))


def freeze(values: LmdbValues) -> Tables:
    """Direct new fingerprints into another `added` from now on; returns the tables without them."""
    if not values.state.compacting:
        values.state = values.state._replace(added=1 - values.state.added, compacting=1)
    still, building = _open(values)
    # A killed compaction may have left rows there.
    values.transaction.drop(building, delete=False)
    return still


def _open(values: LmdbValues) -> tuple[Tables, lmdb._Database]:
    """Get the tables without fingerprints added since `freeze`, and the base that they become.

    Raises a StoreError if another process ended this compaction.
    """
    found = values.tables.databases
    if found.frozen is None or found.building is None:
        raise StoreError("the tables were rewritten by another process meanwhile; nothing is lost")
    still = found._replace(added=found.frozen, frozen=None)
    return Tables(values.transaction, still), found.building


def _merge(piece: tuple[bytes, bytes], values: LmdbValues) -> None:
    """Merge a range of keys; fingerprints added meanwhile stay where they are."""
    still, building = _open(values)
    values.tables.append(building, still.read_slice(piece))


def _switch(values: LmdbValues) -> None:
    """Switch from the frozen databases to the new base."""
    still, building = _open(values)
    values.tables.settle(building)
    for merged in (still.databases.base, still.databases.added):
        values.transaction.drop(merged, delete=False)
    values.state = values.state._replace(base=1 - values.state.base, compacting=0)
