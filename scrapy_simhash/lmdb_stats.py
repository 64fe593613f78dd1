"""What an LMDB store says of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import lmdb

    from scrapy_simhash.lmdb_documents import Databases
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
