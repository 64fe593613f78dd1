"""What an LMDB store says of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash.jointables import contains, sort_distinct
from scrapy_simhash.lmdb_documents import BULK_LOADED
from scrapy_simhash.store_rows import number_of

if TYPE_CHECKING:
    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_documents import Databases, Documents
    from scrapy_simhash.lmdb_tables import Tables


def describe_tables(
    transaction: lmdb.Transaction[bytes], databases: Databases, tables: Tables
) -> dict[str, Any]:
    """Count fingerprints and the octets of their tables; reads the sizes of all buckets."""
    octets = tables.archive_bytes
    for name in ("base0", "base1", "added0", "added1", "hot"):
        pages = transaction.stat(getattr(databases, name))
        octets += pages["psize"] * (
            pages["branch_pages"] + pages["leaf_pages"] + pages["overflow_pages"]
        )
    count = len(tables.design.tables)
    fingerprints = tables.count_fingerprints(transaction)
    return {
        "design": tables.design.name,
        "tables": count,
        "complete_for_bits": tables.design.reach_bits,
        "fingerprints": fingerprints,
        **({"archive_bytes": tables.archive_bytes} if tables.archive_bytes else {}),
        "table_bytes_per_fingerprint": round(octets / max(1, fingerprints), 1),
        "buckets_too_full": len(tables.hot_keys(transaction)),
    }


def list_bulk_loaded(
    databases: Databases, tables: Tables, stored: Documents, transaction: lmdb.Transaction[bytes]
) -> NDArray[np.uint64]:
    """List the fingerprints that were bulk-loaded, whoever has them as well; sorted, shape (n,)."""
    held = tables.read_all(transaction)
    rows = transaction.cursor(databases.fingerprints).iternext_nodup(keys=True, values=True)
    noted = [number_of(key) for key, first in rows if first == BULK_LOADED]
    alone = held[~contains(stored.list_indexed(), held)]
    return sort_distinct(np.concatenate([alone, np.array(noted, np.uint64)]))
