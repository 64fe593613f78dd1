"""Back up an LMDB store while crawls write.

Locks are not copied. A process that is killed in between leaves a folder whose name begins with a
dot and ends in `.partial`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import lmdb

from scrapy_simhash._files import sync_folder
from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.stores.lmdb import DATA_FILE, LOCK_FILE, LmdbEngine
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from scrapy_simhash.stores.store import Store


def back_up(store: Store, folder: Path, *, check: bool = True) -> dict[str, Any]:
    """Copy a store into a new folder, even while crawls write.

    The copy has every write that was acknowledged before this call. Decision logs are not copied.
    The store's file grows by what other processes change meanwhile.

    Args:
        store: an open store, in a folder.
        folder: a new folder in an existing one, on a local disk, outside of the store.
        check: compare everything in the copy before it gets its name, see `Store.check`.

    Returns:
        `folder`, `documents`, `fingerprints`, `file_bytes` and `checked`.

    Raises:
        FileExistsError: the folder exists.
        StoreError: the store is on a server, which makes its own backups, or it is damaged, or the
            copy could not be written: nothing is left of it.
        ValueError: the folder is inside the store.
    """
    if not isinstance(store.engine, LmdbEngine):
        raise StoreError(
            f"the store at {store.engine.url} is on a server, which makes its own backups: BGSAVE "
            "writes them, and appendonly keeps later writes. `scrapy simhash export` writes the "
            "fingerprints to a file"
        )
    source, target = Path(store.engine.url).resolve(), folder.parent.resolve() / folder.name
    if os.path.lexists(target):
        raise FileExistsError(f"{target} exists already; name a new folder")
    if target.is_relative_to(source):
        raise ValueError(f"{target} is within the store itself; name a folder outside of it")
    if not os.access(source, os.W_OK):
        # Without LMDB's table of readers, writers would overwrite the pages of the snapshot.
        raise StoreUnavailableError(
            f"the folder {source} cannot be written, so crawls would not see that it is being "
            "read; run this as the user who owns it, or copy it when no process has it open"
        )
    temporary: Path | None = None
    try:
        temporary = Path(mkdtemp(".partial", f".{target.name}.", target.parent))
        store.engine.copy(temporary / DATA_FILE)
        with open_as_it_is(str(temporary)) as made:  # this verifies every page of it
            if check and (problems := made.check()):
                raise StoreError(
                    f"no backup was made, because the store has {len(problems):,} problems: "
                    f"{problems[0]}. `scrapy simhash check` lists them, and `check --rebuild` "
                    "mends its tables; other damage needs an earlier backup"
                )
            counted = made.stats()
        (temporary / LOCK_FILE).unlink(missing_ok=True)  # of its reader
        sync_folder(temporary)
        # Fails if anything but an empty folder was made there meanwhile.
        temporary.rename(target)
        sync_folder(target.parent)
    except (lmdb.Error, OSError) as error:
        raise StoreUnavailableError(
            f"no backup was made at {target}, and nothing is left of it: {error}. Make room there, "
            "or name a folder whose parent exists and can be written"
        ) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)  # unless it has its name
    shown = {name: counted[name] for name in ("documents", "fingerprints", "file_bytes")}
    return {"folder": str(target), **shown, "checked": check}
