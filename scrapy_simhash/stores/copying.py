"""Copy LMDB stores row by row: into a backup while crawls write, or in place of the file."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import lmdb

from scrapy_simhash._files import open_whole, sync_folder
from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.stores.keyvalues import DOCUMENTS, cut
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


def _copy_rows(source: LmdbValues, target: str) -> int:
    """Write all rows in order into an empty file: full pages, no free ones; count documents."""
    # Not `Environment.copy`: where one key has more members than fit into a page, as a fingerprint
    # that 300 documents have, `compact=True` ends the process by SIGSEGV (lmdb 3.0.0).
    try:
        with lmdb.open(target, subdir=False, lock=False, sync=False, **OPTIONS) as copy:
            for name, flags in DATABASES.items():
                made, rows = copy.open_db(name.encode(), **flags), source.databases[name]
                for some in cut(source.transaction.cursor(rows), _ROWS_PER_COMMIT):
                    with copy.begin(write=True) as writing:
                        writing.cursor(made).putmulti(some, append=True)
    except (lmdb.Error, OSError) as error:  # of the copy: the store did not fail
        raise StoreUnavailableError(str(error)) from error
    return int(source.transaction.stat(source.databases[DOCUMENTS])["entries"])


def compact(folder: Path) -> dict[str, int]:
    """Rewrite the file of a store without free pages.

    Needs space for both files. If the process is killed, the store is as it was, or as it will be.

    Returns:
        `bytes_before` and `bytes_after`.

    Raises:
        StoreUnusableError: there is no store, it cannot be read, or is in use.
        StoreUnavailableError: the disk is full or failed; the store is unchanged.
    """
    data, lock = folder / DATA_FILE, folder / LOCK_FILE
    with closing(LmdbEngine(folder, readonly=True, alone=True)) as engine:
        engine.open()
        before = engine.measure()
        try:
            for left in folder.glob(f".{DATA_FILE}.*"):  # of a process that was killed
                rmtree(left)
            with open_whole(data, overwrite=True) as file:
                engine.run(lambda values: _copy_rows(values, file.name), writing=False)
                # LMDB's lock file counts the transactions of the old file. A reader that has it
                # open would pass it on to the next writer, which would start from an old state.
                lock.unlink(missing_ok=True)
                lock.touch(OPTIONS["mode"])  # shows that the data file was not copied here
        except (StoreUnavailableError, OSError) as error:
            raise StoreUnavailableError(
                f"the store at {folder} could not be packed and is unchanged: {error}"
            ) from error
        return {"bytes_before": before, "bytes_after": data.stat().st_size}


def back_up(store: Store, folder: Path) -> dict[str, Any]:
    """Check a store and copy it into a new folder, even while crawls write.

    The copy has every write that was acknowledged before this call. Decision logs are not copied.
    The store's file grows by what other processes change meanwhile.

    Args:
        store: an open store, in a folder.
        folder: a new folder in an existing one, on a local disk, outside of the store.

    Returns:
        `folder`, `documents` and `bytes`.

    Raises:
        FileExistsError: the folder exists.
        StoreError: the store is on a server, which makes its own backups, or it is damaged, or the
            copy could not be written: nothing is left of it.
        ValueError: the folder is inside the store.
    """
    engine = store.engine
    if not isinstance(engine, LmdbEngine):
        raise StoreError(
            f"the store at {engine.url} is on a server, which makes its own backups: BGSAVE "
            "writes them, and appendonly keeps later writes. `scrapy simhash export` writes the "
            "fingerprints to a file"
        )
    # A process that is killed leaves a folder whose name begins with a dot and ends in `.partial`.
    source, target = Path(engine.url).resolve(), folder.parent.resolve() / folder.name
    if os.path.lexists(target):
        raise FileExistsError(f"{target} exists already; name a new folder")
    if target.is_relative_to(source):
        raise ValueError(f"{target} is within the store itself; name a folder outside of it")
    if not os.access(source, os.W_OK):
        # Without LMDB's table of readers, writers would overwrite the pages that are being read.
        raise StoreUnavailableError(
            f"the folder {source} cannot be written, so crawls would not see that it is being "
            "read; run this as the user who owns it, or copy it when no process has it open"
        )
    if problems := store.check():
        raise StoreError(
            f"no backup was made, because the store has {len(problems):,} problems: {problems[0]}. "
            "`scrapy simhash check` lists them, and `check --rebuild` mends its tables; other "
            "damage needs an earlier backup"
        )
    try:
        with TemporaryDirectory(".partial", f".{target.name}.", target.parent) as temporary:
            data = Path(temporary, DATA_FILE)
            with open_whole(data, overwrite=True) as file:
                documents = engine.run(lambda each: _copy_rows(each, file.name), writing=False)
            octets = data.stat().st_size
            # Fails if anything but an empty folder was made there meanwhile.
            Path(temporary).rename(target)
        sync_folder(target.parent)
    except (StoreUnavailableError, OSError) as error:
        raise StoreUnavailableError(
            f"no backup was made at {target}, and nothing is left of it: {error}. Make room there, "
            "or name a folder whose parent exists and can be written"
        ) from error
    return {"folder": str(target), "documents": documents, "bytes": octets}
