"""Many fingerprints at once, without a crawl: joins, clusters, archives, plans, Spark.

An island: of the package, only `commands` imports it. The functions here are about stores.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash._progress import show_progress
from scrapy_simhash.batch.archive.format import SORTED_ONLY, write_archive
from scrapy_simhash.batch.archive.reader import Archive
from scrapy_simhash.judging.documents import State
from scrapy_simhash.simhash import hamming_distance
from scrapy_simhash.stores.opening import open_as_it_is, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import Record
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.store import Store

__all__ = ["export_archive", "import_archive", "list_recorded_pairs"]


def list_recorded_pairs(store: Store) -> NDArray[np.uint64]:
    """Pair the near-duplicates with their originals; reads every record.

    Shape (n, 2): the fingerprints of a near-duplicate and its original. Leaves out
    near-duplicates whose original was deleted.
    """

    def work(stored: Documents) -> list[tuple[int, int]]:
        pairs = []
        for _, record in stored:
            if record.state == State.DUPLICATE:
                own, possible = record.facts.fingerprint, _list_originals(stored, record)
                nearest = min(possible, key=partial(hamming_distance, own), default=None)
                if nearest is not None:
                    pairs.append((own, nearest))
        return pairs

    return np.array(store.read(work), np.uint64).reshape(-1, 2)


def _list_originals(stored: Documents, record: Record) -> Iterable[int]:
    """List the fingerprints of the original of a near-duplicate, or those that may be its."""
    if record.original:
        original = stored.get(record.original)
        return (original.facts.fingerprint,) if original else ()
    # Of a bulk-loaded fingerprint only the distance is recorded, as far as the design reaches.
    distance = min(record.distance, stored.design.reach_bits)
    near = stored.near(record.facts.fingerprint, distance).near
    return (found for _, found in near if stored.numbers(found, most=1) == [0])


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


def import_archive(config: Config, archive_path: Path) -> dict[str, Any]:
    """Bulk-load an archive into the store; a new store adopts its seed and recipe.

    Raises:
        ArchiveError: its checksums are wrong; nothing was changed.
    """
    with Archive(archive_path) as archive:
        fingerprints = archive.read_all()
        seed, recipe = archive.seed, archive.recipe
    how = config.distance_to_open, config.tables, recipe
    with open_store(config.store, *how, rule=config.rule, seed=seed) as store:
        added = store.bulk_load(fingerprints)
        return {
            "source": str(archive_path),
            "kind": "archive",
            "store": store.url,
            "design": store.design,
            "fingerprints": fingerprints.size,
            "new": added,
        }
