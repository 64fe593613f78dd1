"""Copy an LMDB store into a new folder, while crawls write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb

from scrapy_simhash._files import open_whole, sync_folder
from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.lmdb import DATA_FILE, LmdbEngine

if TYPE_CHECKING:
    from scrapy_simhash.stores.store import Store


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
