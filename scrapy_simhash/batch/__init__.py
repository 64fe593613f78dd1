"""Many fingerprints at once, without a crawl: joins, clusters, archives, plans, Spark.

An island: of the package, only `commands` imports it. The functions here are about a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash._progress import show_progress
from scrapy_simhash.batch.archive.format import SORTED_ONLY, write_archive
from scrapy_simhash.batch.joins import batch, selfjoin
from scrapy_simhash.judging.documents import State
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from scrapy_simhash.config import Config
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.store import Store

__all__ = [
    "batch_query",
    "export_archive",
    "find_all",
    "find_clusters",
    "list_recorded_pairs",
]


def find_all(store: Store, distance: int | None = None) -> NDArray[np.uint64]:
    """Find all pairs of fingerprints in the tables within a distance, whatever their scopes.

    Args:
        store: an open store.
        distance: bits, 0 to 63, whatever the table design; None for the store's own.

    Returns:
        Shape (pairs, 2), sorted; cost and order are those of `joins.selfjoin.find_all`.

    Raises:
        ValueError: the distance is out of range.
    """
    return selfjoin.find_all(store.fingerprints(), _bits(store, distance))


def find_clusters(
    store: Store, distance: int | None = None, *, representative: bool = False
) -> list[list[int]]:
    """Cluster fingerprints by their distances and by the recorded near-duplicates.

    Args:
        store: an open store.
        distance: as for `find_all`.
        representative: make clusters around a fingerprint that is paired with all others, see
            `joins.selfjoin.representative_clusters`; otherwise of all that pairs connect.

    Returns:
        Clusters of two fingerprints or more, made of the pairs of `find_all` and
        `list_recorded_pairs`; the latter add near-duplicates, which are not in the tables.
    """
    pairs = selfjoin.merge_pairs(find_all(store, distance), list_recorded_pairs(store))
    cluster = selfjoin.representative_clusters if representative else selfjoin.connected_clusters
    return [members.tolist() for members in cluster(pairs)]


def list_recorded_pairs(store: Store) -> NDArray[np.uint64]:
    """Pair the near-duplicates with their originals; reads every record.

    Shape (n, 2): the fingerprints of a near-duplicate and its original. Leaves out
    near-duplicates whose original was deleted.
    """

    def work(stored: Documents) -> list[tuple[int, int]]:
        pairs = []
        for _, record in stored:
            if record.state == State.DUPLICATE and (original := stored.get(record.original)):
                pairs.append((record.facts.fingerprint, original.facts.fingerprint))
        return pairs

    return np.array(store.read(work), np.uint64).reshape(-1, 2)


def batch_query(
    store: Store, queries: NDArray[np.uint64], distance: int | None = None
) -> NDArray[np.uint64]:
    """Find all fingerprints in the tables near any of many queries.

    Args:
        store: an open store.
        queries: in any order, shape (q,).
        distance: bits, 0 to 63, whatever the table design; None for the store's own.

    Returns:
        Shape (matches, 3): query, fingerprint, bits between them; cost and order are those of
        `joins.batch.batch_query`. For few queries, `Store.query` is faster.
    """
    return batch.batch_query(queries, [store.fingerprints()], _bits(store, distance))


def _bits(store: Store, distance: int | None) -> int:
    return store.distance if distance is None else distance


def export_archive(
    config: Config, archive_path: Path, *, all_tables: bool, overwrite: bool
) -> Iterator[dict[str, Any]]:
    """Write the fingerprints of the store to an archive, with its seed and recipe."""
    # What only stubs have is no simhash: it is left out. Without `all_tables`, the archive has only
    # the sorted fingerprints, and cannot be probed on its own.
    with open_as_it_is(config.store) as store:
        everything = store.fingerprints().size
        fingerprints = store.fingerprints(stubs=False)
        design = store.design if all_tables else SORTED_ONLY
        seed, recipe = store.seed, store.recipe
    with show_progress("writing the archive"):
        file_bytes = write_archive(
            archive_path, fingerprints, design=design, seed=seed, recipe=recipe, overwrite=overwrite
        )
    yield {
        "archive": str(archive_path),
        "design": design,
        "fingerprints": fingerprints.size,
        "left_out": everything - fingerprints.size,
        "file_bytes": file_bytes,
    }
