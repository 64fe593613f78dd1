"""Backup of an LMDB store while crawls write: copied, checked, and only then named.

::

    1. verify   every page of the data file: LMDB, which copies it, aborts at damaged ones
    2. copy     the data file without its free pages, and the archive beneath the tables
    3. check    the copy is opened read-only and compared with itself
    4. name     one rename: the backup is there as a whole, or not at all

Locks and leases are not copied: to who opens the backup, every crawl has ended. Whoever is killed
in between leaves a folder behind whose name begins with a dot and ends in `.partial`.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import lmdb

from scrapy_simhash.lmdb_archived import open_tables
from scrapy_simhash.lmdb_check import check_documents
from scrapy_simhash.lmdb_environment import DATA_FILE, Environment
from scrapy_simhash.lmdb_guard import LOCK_FILE
from scrapy_simhash.lmdb_header import open_databases, read_header
from scrapy_simhash.records import StoreDamagedError
from scrapy_simhash.stores import StoreUnavailableError
from scrapy_simhash.wholefile import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from scrapy_simhash.lmdb_documents import Databases

_FILE_MODE = 0o600
# A merge takes seconds at least, and the moment in which it gets in the way is below a millisecond.
_TRIES = 10
_PROBLEMS_SHOWN = 3


class _ArchiveReplacedError(Exception):
    """A merge ended between the transaction and the opening of the archive that it names."""


def back_up(
    environment: Environment, databases: Databases, target: Path, *, check: bool
) -> dict[str, Any]:
    """Write a snapshot of a store into a new folder.

    It has everything that was acknowledged before this was called. Opened as a store, it is one
    whose crawls have all ended. Decision logs are not copied. Cost: reads the store and writes
    it once, without free pages; verifying and checking as for `stores.Store.check`. Other
    processes go on meanwhile, and the file grows by what they change; other users of the store in
    this process wait.

    Args:
        environment: of the store.
        databases: of the store.
        target: the folder: not there yet, in one that is, on a local disk.
        check: verify the store's file first, and compare everything in the copy before it gets its
            name.

    Returns:
        `folder`, `documents`, `fingerprints`, `file_bytes` and `checked`.

    Raises:
        FileExistsError: the folder is there.
        StoreDamagedError: the check found problems; nothing is left of the copy.
        StoreUnavailableError: it could not be written; nothing is left of it.
        StoreUnusableError: the copy cannot be opened, because it is damaged or on a network file
            system; nothing is left of it.
        ValueError: the folder is within the store.
    """
    target = target.absolute()
    _require_free(environment.folder, target)
    if check:
        _require_sound(environment.find_damage())
    with _explained(target):
        temporary = Path(mkdtemp(".partial", f".{target.name}.", target.parent))
    try:
        _copy(environment, databases, temporary, target)
        counted = _inspect(temporary, check=check)
        with _explained(target):
            _name(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return {"folder": str(target), **counted}


def _require_free(folder: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(f"{target} is there already; name a folder that is not")
    if target.resolve().is_relative_to(folder):
        raise ValueError(f"{target} is within the store itself; name a folder outside of it")
    if not os.access(folder, os.W_OK):
        # Without LMDB's table of readers, writers take the pages of the snapshot for free ones.
        raise StoreUnavailableError(
            f"the folder {folder} cannot be written, so crawls would not see that it is being "
            "read; run this as the user who owns it, or copy it when nobody has it open"
        )


def _copy(environment: Environment, databases: Databases, folder: Path, target: Path) -> None:
    with ExitStack() as held:
        work = partial(_copy_data, environment, databases, folder, target, held)
        for _ in range(_TRIES):
            try:
                archive = environment.read(work)
                break
            except _ArchiveReplacedError:
                continue
        else:
            raise StoreUnavailableError(
                f"no backup at {target}: the archive of {environment.folder} was replaced or is "
                f"gone, {_TRIES} times in a row; try again, and see what `check` says"
            )
        if archive is not None:
            with _explained(target), _create(folder / Path(archive.name).name) as file:
                shutil.copyfileobj(archive, file)


def _copy_data(
    environment: Environment,
    databases: Databases,
    folder: Path,
    target: Path,
    held: ExitStack,
    transaction: lmdb.Transaction[bytes],
) -> BinaryIO | None:
    """Copy the data file; returns the archive that belongs to it, held open.

    A merge that ends meanwhile deletes that archive's name, not what is open.
    """
    header, archive = read_header(transaction, databases), None
    if header.archive:
        try:
            archive = held.enter_context((environment.folder / header.archive).open("rb"))
        except FileNotFoundError:
            raise _ArchiveReplacedError from None
    with _explained(target), _create(folder / DATA_FILE) as file:
        environment.copy(transaction, file.fileno())
    return archive


@contextmanager
def _create(path: Path) -> Iterator[BinaryIO]:
    """Write a file of our own; on disk at the end."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _inspect(folder: Path, *, check: bool) -> dict[str, Any]:
    """Open the copy as anybody would, count what is in it and compare it with itself."""
    environment = Environment(folder, readonly=True)
    try:
        databases = open_databases(environment)

        def work(transaction: lmdb.Transaction[bytes]) -> dict[str, Any]:
            tables = open_tables(folder, databases, read_header(transaction, databases))
            if check:
                _require_sound(check_documents(transaction, databases, tables))
            return {
                "documents": transaction.stat(databases.documents)["entries"],
                "fingerprints": tables.count_fingerprints(transaction),
            }

        counted = environment.read(work)
    finally:
        environment.close()
        # Made by opening it, where LMDB notes its readers.
        (folder / LOCK_FILE).unlink(missing_ok=True)
    file_bytes = sum(path.stat().st_size for path in folder.iterdir())
    return {**counted, "file_bytes": file_bytes, "checked": check}


def _require_sound(problems: list[str]) -> None:
    if not problems:
        return
    more = len(problems) - _PROBLEMS_SHOWN
    raise StoreDamagedError(
        f"no backup was made, because the store has {len(problems):,} problems: "
        f"{'; '.join(problems[:_PROBLEMS_SHOWN])}{f'; and {more:,} more' if more > 0 else ''}. "
        "`scrapy simhash rebuild` mends its tables; all else needs an earlier backup",
        problems,
    )


def _name(temporary: Path, target: Path) -> None:
    sync_folder(temporary)
    # Fails where something has come to stand there meanwhile, other than an empty folder.
    temporary.rename(target)
    sync_folder(target.parent)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except (lmdb.Error, OSError) as error:
        raise StoreUnavailableError(
            f"no backup at {target}, and nothing is left of it: {error}. Make room there, or name "
            "a folder whose parent is there and can be written"
        ) from error
