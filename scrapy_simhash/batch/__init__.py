"""Many fingerprints at once, without a crawl: joins, clusters, archives, plans, Spark.

An island: of the package, only `commands` imports it. The functions here are about stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash._printable import show_progress
from scrapy_simhash.batch.archive import SORTED_ONLY, write_archive
from scrapy_simhash.judging.documents import State
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from scrapy_simhash.config import Config
    from scrapy_simhash.stores.store import Store

__all__ = ["export_archive", "list_recorded_pairs"]


def list_recorded_pairs(store: Store) -> NDArray[np.uint64]:
    """Pair the near-duplicates with their originals; reads every record.

    Shape (n, 2): the fingerprints of a near-duplicate and its original. Leaves out
    near-duplicates whose original was deleted.
    """
    pairs = store.read(
        lambda stored: [
            (each.facts.fingerprint, original.facts.fingerprint)
            for each in stored
            if each.state == State.DUPLICATE
            for original in stored.get_all([each.original]).values()
        ]
    )
    return np.array(pairs, np.uint64).reshape(-1, 2)


def export_archive(
    config: Config, archive_path: Path, *, all_tables: bool, overwrite: bool
) -> Iterator[dict[str, Any]]:
    """Write the fingerprints of the store to an archive, with its seed and recipe."""
    # Without `all_tables`, the archive has only the sorted fingerprints: it cannot be probed alone.
    with open_as_it_is(config.store) as store:
        fingerprints = store.fingerprints()
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
        "file_bytes": file_bytes,
    }
