"""Exchange data between stores: the commands `export` and `import`, of stores and archives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from scrapy_simhash._progress import show_busy
from scrapy_simhash.errors import (
    ArchiveError,
    PartlyFailedError,
    StoreDamagedError,
)
from scrapy_simhash.pages import make_recipe
from scrapy_simhash.stores import open_as_it_is, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.config import Config
    from scrapy_simhash.pages import Recipe
    from scrapy_simhash.stores import Store


def open_to_fill(
    config: Config, recipe: Recipe, seed: int | None = None, *, tables: str = "", url: str = ""
) -> Store:
    """Open a store for writing, by default that of the settings; make it if it does not exist."""
    return open_store(
        url or config.store,
        config.distance_to_open,
        tables or config.tables,
        recipe,
        confirm=config.confirm,
        seed=seed,
    )


_PROBLEMS_SHOWN = 3


class FingerprintArchive(Protocol):
    """What is read of an archive, see `batch.archive.Archive`."""

    count: int
    seed: int
    recipe: Recipe | None

    def verify(self) -> list[str]:
        """Verify all checksums; returns what is wrong."""

    def read_all(self) -> NDArray[np.uint64]:
        """Read all fingerprints, sorted; shape (n,)."""


OpenArchive: TypeAlias = "Callable[[Path], AbstractContextManager[FingerprintArchive]]"


def import_archive(
    config: Config, archive_path: Path, open_archive: OpenArchive, *, dry_run: bool
) -> dict[str, Any]:
    """Bulk-load an archive into the store; a new store adopts its seed and recipe."""
    # All checksums of the archive are verified first; after an error, the store is unchanged.
    answer = {"source": str(archive_path), "kind": "archive"}
    with open_archive(archive_path) as archive:
        if dry_run:
            return {**answer, "fingerprints": archive.count}
        if problems := archive.verify():
            more = len(problems) - _PROBLEMS_SHOWN
            raise ArchiveError(
                "; ".join(problems[:_PROBLEMS_SHOWN]) + (f"; and {more} more" if more > 0 else "")
            )
        fingerprints = archive.read_all()
        seed, recipe = archive.seed, archive.recipe
    recipe = recipe or make_recipe(config.extractor, config.features)
    with open_to_fill(config, recipe, seed) as store:
        added = store.bulk_load(fingerprints)
        return {
            **answer,
            "store": store.url,
            "design": store.design,
            "fingerprints": fingerprints.size,
            "new": added,
        }


def back_up(config: Config, folder: Path, *, check: bool) -> Iterator[dict[str, Any]]:
    """Copy the store into a new folder while crawls write; `check` checks the copy first."""
    with open_as_it_is(config.store) as store:
        try:
            with show_busy("copying, and comparing the copy" if check else "copying"):
                made = store.backup(folder, check=check)
        except StoreDamagedError as error:
            yield {"folder": None, "problems": error.problems}
            raise PartlyFailedError(str(error)) from error
        yield {**made, "problems": []}
