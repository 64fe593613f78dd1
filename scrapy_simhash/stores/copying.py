"""Copy the file of an LMDB store: into a new folder, or without its free pages."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import lmdb

from scrapy_simhash._files import open_whole, sync_folder
from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.lmdb import DATA_FILE, DATABASES, LOCK_FILE, OPTIONS, LmdbEngine

if TYPE_CHECKING:
    from scrapy_simhash.stores.lmdb import LmdbValues
    from scrapy_simhash.stores.store import Store

# LMDB keeps the pages of a commit in memory; most rows have at most 1,000 bytes.
_ROWS_PER_COMMIT = 16_384


def back_up(store: Store, folder: Path) -> dict[str, Any]:
    """Check a store and copy it into a new folder, with all that was acknowledged by then.

    Returns `folder` and `bytes`. Decision logs are not copied. The store's file grows by what
    crawls change meanwhile.

    Args:
        store: an open store, in a folder.
        folder: a new folder in an existing one, on a local disk, outside of the store.

    Raises:
        OSError: the folder exists, or cannot be made or written; nothing is left then.
        StoreError: the store is on a server or damaged; its folder cannot be written.
        ValueError: the folder is inside the store.
    """
    engine, target = store.engine, folder.parent.resolve() / folder.name
    if not isinstance(engine, LmdbEngine):
        raise StoreError(f"{engine.url} is in no folder; a server makes its own backups (BGSAVE)")
    if os.path.lexists(target):
        raise FileExistsError(f"{target} exists already; name a new folder")
    if target.is_relative_to(Path(engine.url).resolve()):
        raise ValueError(f"{target} is within the store itself; name a folder outside of it")
    if not os.access(engine.url, os.W_OK):
        # Without LMDB's table of readers, writers would overwrite the pages that are being read.
        raise StoreError(f"{engine.url} cannot be written; run this as the user who owns it")
    target.mkdir(0o700)
    try:
        if problems := store.check():
            raise StoreError(  # noqa: TRY301 - the folder goes in any case
                f"no backup was made of a store with damage: {problems[0]}. `scrapy simhash check` "
                "lists all of it, and `check --rebuild` mends its tables"
            )
        with open_whole(target / DATA_FILE, overwrite=False) as file:
            engine.env.copyfd(file.fileno())
    except BaseException as error:
        target.rmdir()
        if isinstance(error, lmdb.Error):
            raise OSError(str(error)) from error
        raise
    sync_folder(target.parent)
    return {"folder": str(target), "bytes": (target / DATA_FILE).stat().st_size}


def compact(store: Store) -> dict[str, int]:
    """Rewrite the file of a store row by row in order, without free pages; then close the store.

    Needs space for both files. If the process is killed, it is as it was, or as it will be.

    Returns:
        `bytes_before` and `bytes_after`.

    Raises:
        OSError: the new file cannot take the place of the old one; nothing was changed.
        StoreError: the store has no file; it is damaged, or open in another process; or the disk
            is full or failed: nothing was changed.
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
