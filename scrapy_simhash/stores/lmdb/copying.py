"""Copy LMDB stores: row by row without free pages, into a backup, or in place of the file.

LMDB's own copy (`copyfd` with `compact`) ends the process by SIGSEGV where one key has more rows
than fit into a page (lmdb 3.0.0), as a page with 300 near-duplicates has.

A backup is made while crawls write: every page of the data file is verified, the file is copied,
the copy's tables and records are compared, and one rename makes the backup exist.

Locks are not copied. A process that is killed in between leaves a folder whose name begins with a
dot and ends in `.partial`.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import lmdb

from scrapy_simhash._files import sync_folder
from scrapy_simhash.errors import (
    StoreDamagedError,
    StoreError,
    StoreUnavailableError,
    StoreUnusableError,
)
from scrapy_simhash.stores.keyvalues import DOCUMENTS, cut
from scrapy_simhash.stores.lmdb import guard
from scrapy_simhash.stores.lmdb.engine import LmdbEngine
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_simhash.stores.store import Store

# LMDB keeps the pages of a commit in memory; most rows have at most 1,000 bytes.
_ROWS_PER_COMMIT = 16_384
_LEAST_MAP_BYTES = 16 * 2**20


def copy_rows(
    source: lmdb.Environment,
    transaction: lmdb.Transaction[bytes],
    target: Path,
    mode: int = guard.FILE_MODE,
) -> None:
    """Write all rows that a transaction sees into a new file, durably."""
    used = (source.info()["last_pgno"] + 1) * source.stat()["psize"]
    names = list(transaction.cursor().iternext(keys=True, values=False))
    with lmdb.open(
        str(target),
        subdir=False,
        lock=False,
        sync=False,
        mode=mode,
        map_size=max(2 * used, _LEAST_MAP_BYTES),
        max_dbs=len(names),
        lib_version=guard.LIB_VERSION,
    ) as copy:
        for name in names:
            opened = source.open_db(name, transaction, create=False)
            flags = opened.flags()
            made = copy.open_db(name, dupsort=flags["dupsort"], dupfixed=flags["dupfixed"])
            for some in cut(transaction.cursor(opened), _ROWS_PER_COMMIT):
                with copy.begin(write=True) as writing:
                    writing.cursor(made).putmulti(some, append=True)
    with target.open("rb") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask is
        os.fsync(file.fileno())


def compact(folder: Path) -> None:
    """Rewrite the file of a store in the order of its rows: with full pages, and no free ones.

    Needs space for both files. If the process is killed, the store is as it was, or as it will be.

    Raises:
        StoreUnusableError: there is no store, or it cannot be read.
        StoreUnavailableError: it is in use, or the disk is full or failed; the store is unchanged.
    """
    with guard.explained(folder):
        folder = folder.resolve()
        data, packed = folder / guard.DATA_FILE, folder / f"{guard.DATA_FILE}.packed"
        if not data.exists():
            raise StoreUnusableError(f"there is no store at {folder}; name an existing one")
        with guard.alone(folder):
            try:
                packed.unlink(missing_ok=True)  # that of a process that was killed
                with guard.peek(folder) as env, env.begin() as transaction:
                    copy_rows(env, transaction, packed, data.stat().st_mode & 0o777)
                # LMDB's lock file counts the transactions of the old file. A reader that has it
                # open would pass it on to the next writer, which would start from an old state.
                (folder / guard.LOCK_FILE).unlink(missing_ok=True)
                # An empty one shows that the data file was not copied here, see `require_whole`.
                (folder / guard.LOCK_FILE).touch(guard.FILE_MODE)
                packed.rename(data)
            except (lmdb.Error, OSError) as error:
                raise StoreUnavailableError(
                    f"the store at {folder} could not be packed and is unchanged: {error}"
                ) from error
            finally:
                packed.unlink(missing_ok=True)
            sync_folder(folder)


def back_up(store: Store, folder: Path, *, check: bool = True) -> dict[str, Any]:
    """Copy a store into a new folder, even while crawls write.

    The copy has every write that was acknowledged before this call; in it, all crawls count as
    ended. Decision logs are not copied. Reads the store and writes it once, without free pages;
    the store's file grows by what other processes change meanwhile, and other users of the
    store in this process wait.

    Args:
        store: an open store, in a folder.
        folder: a new folder in an existing one, on a local disk, outside of the store.
        check: verify the store's file first, and compare everything in the copy before it gets
            its name. Costs as much as `Store.check`.

    Returns:
        `folder`, `documents`, `fingerprints`, `file_bytes` and `checked`.

    Raises:
        FileExistsError: the folder exists.
        StoreDamagedError: the check found problems. After this and the next two errors nothing
            is left of the copy.
        StoreUnavailableError: the copy could not be written.
        StoreUnusableError: the copy cannot be opened: damaged or on a network file system.
        StoreError: the store is on a server, which makes its own backups.
        ValueError: the folder is inside the store.
    """
    if not isinstance(store.engine, LmdbEngine):
        raise StoreError(
            f"the store at {store.url} is on a server, which makes its own backups: BGSAVE writes "
            "them, and appendonly keeps later writes. `scrapy simhash export` writes the "
            "fingerprints to a file"
        )
    environment, target = store.engine.environment, folder.parent.resolve() / folder.name
    _require_free(environment.folder, target)
    if check:
        _require_sound(store.engine.find_damage())
    with _explained(target):
        temporary = Path(mkdtemp(".partial", f".{target.name}.", target.parent))

    def copy(transaction: lmdb.Transaction[bytes]) -> None:
        with _explained(target):  # the store's own file was verified
            copy_rows(environment.env, transaction, temporary / guard.DATA_FILE)

    try:
        environment.read(copy)
        try:
            with open_as_it_is(str(temporary)) as made:
                _require_sound(made.check() if check else [])
                documents = made.read(lambda stored: stored.values.count(DOCUMENTS))
                fingerprints = made.table_stats()["fingerprints"]
        finally:
            # LMDB made this file for its readers when the copy was opened.
            (temporary / guard.LOCK_FILE).unlink(missing_ok=True)
        octets = sum(path.stat().st_size for path in temporary.iterdir())
        with _explained(target):
            sync_folder(temporary)
            # Fails if anything but an empty folder was made there meanwhile.
            temporary.rename(target)
            sync_folder(target.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    counted = {"documents": documents, "fingerprints": fingerprints, "file_bytes": octets}
    return {"folder": str(target), **counted, "checked": check}


def _require_free(folder: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(f"{target} exists already; name a new folder")
    if target.resolve().is_relative_to(folder):
        raise ValueError(f"{target} is within the store itself; name a folder outside of it")
    if not os.access(folder, os.W_OK):
        # Without LMDB's table of readers, writers would overwrite the pages of the snapshot.
        raise StoreUnavailableError(
            f"the folder {folder} cannot be written, so crawls would not see that it is being "
            "read; run this as the user who owns it, or copy it when no process has it open"
        )


def _require_sound(problems: list[str]) -> None:
    if problems:
        raise StoreDamagedError(
            f"no backup was made, because the store has {len(problems):,} problems: {problems[0]}. "
            "`scrapy simhash check --rebuild` mends its tables; other damage needs an earlier "
            "backup",
            problems,
        )


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except (lmdb.Error, OSError) as error:
        raise StoreUnavailableError(
            f"no backup was made at {target}, and nothing is left of it: {error}. Make room there, "
            "or name a folder whose parent exists and can be written"
        ) from error
