"""Copy an LMDB store: into a new folder, while crawls write, or in place of its file."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import lmdb

from scrapy_simhash._files import open_whole, sync_folder
from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.lmdb import (
    DATA_FILE,
    DATABASES,
    LOCK_FILE,
    OPTIONS,
    LmdbEngine,
    LmdbValues,
)

if TYPE_CHECKING:
    from scrapy_simhash.stores.store import Store

# LMDB keeps the pages of a commit in memory; most rows have at most 1,000 bytes.
_ROWS_PER_COMMIT = 16_384


def compact(store: Store) -> dict[str, int]:
    """Rewrite the file of a store, row by row in order, without free pages; then close the store.

    Needs space for both files. If the process is killed, the store is as it was, or as it will be.

    Returns:
        `bytes_before` and `bytes_after`.

    Raises:
        OSError: the copy cannot take the place of the file; the store is unchanged.
        StoreError: the store is on a server, damaged, or open in another process; or the disk is
            full or failed: the store is unchanged.
    """
    engine = store.engine
    if not isinstance(engine, LmdbEngine):
        raise StoreError(f"{engine.url} is in no folder; --compact is for folders")
    engine.keep_out()
    data, lock, before = Path(engine.url, DATA_FILE), Path(engine.url, LOCK_FILE), engine.measure()
    for left in data.parent.glob(f".{DATA_FILE}.*"):  # of a process that was killed
        rmtree(left)
    with open_whole(data, overwrite=True) as file:
        engine.run(lambda values: _copy_rows(values, file.name), writing=False)
        # It counts the transactions of the old file; without one, this file would look copied here.
        lock.unlink(missing_ok=True)
        lock.touch(OPTIONS["mode"])
    store.close()
    return {"bytes_before": before, "bytes_after": data.stat().st_size}


def _copy_rows(source: LmdbValues, target: str) -> None:
    # LMDB's own compact copy is SIGSEGV where a fingerprint has 300 documents (lmdb 3.0.0).
    try:
        with lmdb.open(target, subdir=False, lock=False, sync=False, **OPTIONS) as copy:
            for name, flags in DATABASES.items():
                made, rows = copy.open_db(name.encode(), **flags), source.databases[name]
                for some in cut(source.transaction.cursor(rows), _ROWS_PER_COMMIT):
                    with copy.begin(write=True) as writing:
                        writing.cursor(made).putmulti(some, append=True)
    except (lmdb.Error, OSError) as error:  # of the copy: the store did not fail
        told = f"the store could not be packed and is unchanged: {error}; make room for its copy"
        raise StoreUnavailableError(told) from error


def back_up(store: Store, folder: Path) -> dict[str, Any]:
    """Check a store and copy it into a new folder, with all that was acknowledged by then.

    Decision logs are not copied. The store's file grows by what crawls change meanwhile.

    Args:
        store: an open store, in a folder.
        folder: a new folder in an existing one, on a local disk, outside of the store.

    Returns:
        `folder` and `bytes`.

    Raises:
        OSError: the folder exists, or cannot be made or written; nothing is left then.
        StoreError: the store is on a server or damaged; its folder cannot be written.
        ValueError: the folder is inside the store.
    """
    engine, target = store.engine, folder.parent.resolve() / folder.name
    if not isinstance(engine, LmdbEngine):
        raise StoreError(f"{engine.url} is on a server, which makes its own backups (BGSAVE)")
    if os.path.lexists(target):
        raise FileExistsError(f"{target} exists already; name a new folder")
    if target.is_relative_to(Path(engine.url).resolve()):
        raise ValueError(f"{target} is within the store itself; name a folder outside of it")
    if not os.access(engine.url, os.W_OK):
        # Without LMDB's table of readers, writers would overwrite the pages that are being read.
        raise StoreError(f"{engine.url} cannot be written; run this as the user who owns it")
    target.mkdir(0o700)
    with ExitStack() as undo:
        undo.callback(target.rmdir)
        if problems := store.check():
            raise StoreError(
                f"no backup was made of a store with damage: {problems[0]}. `scrapy simhash check` "
                "lists all of it, and `check --rebuild` mends its tables"
            )
        try:
            with open_whole(target / DATA_FILE, overwrite=False) as file:
                engine.env.copyfd(file.fileno())
        except lmdb.Error as error:
            raise OSError(str(error)) from error
        undo.pop_all()
    sync_folder(target.parent)
    return {"folder": str(target), "bytes": (target / DATA_FILE).stat().st_size}
