"""The commands export, import and backup: what leaves a store, and what comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_simhash.archive import Archive
from scrapy_simhash.archive_format import ArchiveError
from scrapy_simhash.archive_writer import SORTED_ONLY, write_archive
from scrapy_simhash.inspection import PartlyFailedError, make_recipe_of, open_as_it_is
from scrapy_simhash.progress import show_busy
from scrapy_simhash.records import StoreDamagedError
from scrapy_simhash.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_simhash.config import Config

_PROBLEMS_SHOWN = 3


def export_archive(
    config: Config, archive_path: Path, *, all_tables: bool, overwrite: bool
) -> Iterator[dict[str, Any]]:
    """Write the fingerprints of the store into an archive, with its seed and recipe.

    Those whose documents are all pending, withdrawn or too short are left out: bulk-loaded
    elsewhere, they would make near-duplicates of pages that nobody ever had.

    Args:
        config: the settings in force.
        archive_path: of the archive.
        all_tables: all tables of the store's design, so that the archive answers probes by itself;
            otherwise the sorted fingerprints alone.
        overwrite: replace a file that is there.

    Raises:
        FileExistsError: the path is taken, and not to be overwritten.
        OSError: it cannot be written; what was there before is there still.
    """
    with open_as_it_is(config) as store:
        everything = store.fingerprints().size
        fingerprints = store.fingerprints(delivered=True)
        design = store.design if all_tables else SORTED_ONLY
        seed, recipe = store.seed, store.recipe
    with show_busy("writing the archive"):
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


def import_archive(config: Config, archive_path: Path, *, base: bool) -> Iterator[dict[str, Any]]:
    """Bulk-load an archive into the store; a new store takes over its seed and recipe.

    The whole archive is compared with its checksums first.

    Args:
        config: the settings in force.
        archive_path: of the archive.
        base: keep it compressed beneath the tables, see `lmdb_archived`.

    Raises:
        ArchiveError: no archive, or a damaged one; nothing was changed.
        StoreMismatchError: the store has another seed or recipe; nothing was changed.
        OSError: the archive cannot be read.
    """
    with Archive(archive_path) as archive:
        if problems := archive.verify():
            more = len(problems) - _PROBLEMS_SHOWN
            raise ArchiveError(
                "; ".join(problems[:_PROBLEMS_SHOWN]) + (f"; and {more} more" if more > 0 else "")
            )
        fingerprints = archive.read_all()
        seed, recipe = archive.seed, archive.recipe or make_recipe_of(config)
    with open_store(
        config.store,
        config.distance_to_open,
        config.tables,
        recipe,
        confirm=config.confirm,
        seed=seed,
    ) as store:
        added = store.bulk_load(fingerprints, archived=base)
        yield {
            "source": str(archive_path),
            "kind": "archive",
            "store": store.url,
            "design": store.design,
            "fingerprints": fingerprints.size,
            "new": added,
        }


def back_up(config: Config, folder: Path, *, check: bool) -> Iterator[dict[str, Any]]:
    """Copy the store into a new folder while crawls write, and check the copy.

    Args:
        config: the settings in force.
        folder: that is not there yet.
        check: compare everything in the copy before it gets its name.

    Raises:
        FileExistsError: the folder is there.
        PartlyFailedError: the store has problems; no backup was made.
        StoreUnavailableError: the copy could not be written; nothing is left of it.
    """
    with open_as_it_is(config) as store:
        try:
            with show_busy("copying, and comparing the copy" if check else "copying"):
                made = store.backup(folder, check=check)
        except StoreDamagedError as error:
            yield {"folder": None, "problems": error.problems}
            raise PartlyFailedError(str(error)) from error
        yield {**made, "problems": []}
