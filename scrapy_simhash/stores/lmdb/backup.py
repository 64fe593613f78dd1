"""Back up an LMDB store while crawls write: copy, check, and only then name the copy.

::

    1. verify   every page of the data file, because LMDB's copying aborts at damaged ones
    2. copy     the data file without its free pages
    3. check    open the copy read-only, and compare its tables and records
    4. name     one rename: the backup exists completely, or not at all

Locks and leases are not copied, so every crawl in a restored backup counts as finished. A process
that is killed in between leaves a folder whose name begins with a dot and ends in `.partial`.
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
from scrapy_simhash.errors import StoreDamagedError, StoreUnavailableError
from scrapy_simhash.stores.lmdb.environment import DATA_FILE, Environment
from scrapy_simhash.stores.lmdb.guard import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PROBLEMS_SHOWN = 3


def back_up(
    environment: Environment,
    target: Path,
    inspect: Callable[[Path], tuple[dict[str, Any], list[str]]],
    *,
    check: bool,
) -> dict[str, Any]:
    """Write a snapshot of a store into a new folder, see `Engine.backup`."""
    target = target.parent.resolve() / target.name
    _require_free(environment.folder, target)
    if check:
        _require_sound(environment.find_damage())
    with _explained(target):
        temporary = Path(mkdtemp(".partial", f".{target.name}.", target.parent))
    try:
        environment.read(lambda txn: _copy(environment, txn, temporary / DATA_FILE, target))
        counted = _inspect(temporary, inspect)
        with _explained(target):
            sync_folder(temporary)
            # Fails if anything but an empty folder was made there meanwhile.
            temporary.rename(target)
            sync_folder(target.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return {"folder": str(target), **counted}


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


def _copy(
    environment: Environment, transaction: lmdb.Transaction[bytes], path: Path, target: Path
) -> None:
    """Copy the data file; blames errors on the copy, because the store's file was verified."""
    with _explained(target):
        environment.copy(transaction, path)


def _inspect(
    folder: Path, inspect: Callable[[Path], tuple[dict[str, Any], list[str]]]
) -> dict[str, Any]:
    """Open the copy like any store, count its contents and check it."""
    try:
        counted, problems = inspect(folder)
    finally:
        # LMDB made this file for its readers when the copy was opened.
        (folder / LOCK_FILE).unlink(missing_ok=True)
    _require_sound(problems)
    return {**counted, "file_bytes": sum(path.stat().st_size for path in folder.iterdir())}


def _require_sound(problems: list[str]) -> None:
    if not problems:
        return
    more = len(problems) - _PROBLEMS_SHOWN
    raise StoreDamagedError(
        f"no backup was made, because the store has {len(problems):,} problems: "
        f"{'; '.join(problems[:_PROBLEMS_SHOWN])}{f'; and {more:,} more' if more > 0 else ''}. "
        "`scrapy simhash check --rebuild` mends its tables; other damage needs an earlier backup",
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
