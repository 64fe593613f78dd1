"""Look below the rows of an LMDB store: at its databases, in a transaction that writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import lmdb

    from scrapy_simhash.stores.store import Store

    Databases = dict[str, lmdb._Database]

Result = TypeVar("Result")


def pack(store: Store) -> None:
    """Pack the tables of a store that stays open: as bulk-loading anything does."""
    store.bulk_load(np.empty(0, np.uint64))


def in_lmdb(store: Store, work: Callable[[lmdb.Transaction[bytes], Databases], Result]) -> Result:
    """Run a function with a transaction, and the databases by their names."""

    def begin(stored: Any) -> Result:
        return work(stored.values.transaction, stored.values.databases)

    return store.write(begin)
