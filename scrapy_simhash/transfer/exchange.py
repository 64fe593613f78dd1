"""Exchange data with other stores and people: import archives, export stores and drops."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from scrapy_simhash._progress import show_progress
from scrapy_simhash.errors import (
    ArchiveError,
    PartlyFailedError,
    StoreDamagedError,
)
from scrapy_simhash.pages.fingerprint import make_recipe
from scrapy_simhash.stores.opening import open_as_it_is, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.pages.recipe import Recipe
    from scrapy_simhash.stores.store import Store


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
            with show_progress("copying, and comparing the copy" if check else "copying"):
                made = store.backup(folder, check=check)
        except StoreDamagedError as error:
            yield {"folder": None, "problems": error.problems}
            raise PartlyFailedError(str(error)) from error
        yield {**made, "problems": []}


_SHOWN_OF_KEPT = ("url", "document", "state", "title", "canonical", "file", "crawl", "time")
_SHOWN = ("url", "document", "distance", "similarity", "crawl", "time", "undone")
_get_shown = attrgetter(*_SHOWN[:-1], "spared")


def list_kept(
    store: Store, crawl: str | None = None, *, every: bool = False
) -> Iterator[dict[str, Any]]:
    """List the kept pages of a store, each with its near-duplicates, in order of their arrival.

    Reads every record once and the kept ones again; holds some 300 bytes for each near-duplicate.

    Args:
        store: to read.
        crawl: only near-duplicates of this crawl; None for all.
        every: also the kept pages that have none.

    Yields:
        `url`, `document`, `state`, `title`, `canonical`, `file`, `crawl` and `time` of the kept
        page, and `duplicates`: `url`, `document`, `distance`, `similarity`, `crawl`, `time` and
        `undone` of each. A page that was deleted or cannot be read has its number only; the
        near-duplicates of imported fingerprints come last, with `document` 0.
    """
    originals: dict[int, int] = {}
    found: list[tuple[Any, ...]] = []
    groups: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)

    def note(document: StoredDocument) -> None:
        if document.state == "duplicate":
            originals[document.document] = document.original
            if crawl in {None, document.crawl}:
                found.append(_get_shown(document))
        elif every:
            groups[document.document] = []

    store.visit(note)
    for shown in found:
        duplicate = dict(zip(_SHOWN, shown, strict=True))
        groups[_find_kept(duplicate["document"], originals)].append(duplicate)
    for number in sorted(groups, key=lambda number: number or inf):
        kept = store.get_document(number) if number else None
        page = {name: getattr(kept, name, None) for name in _SHOWN_OF_KEPT}
        yield {**page, "document": number, "duplicates": groups[number]}


def _find_kept(number: int, originals: Mapping[int, int]) -> int:
    """Find the page that was kept: an original whose crawl died may be a near-duplicate by now."""
    seen: set[int] = set()
    while number in originals and number not in seen:
        seen.add(number)
        number = originals[number]
    return number
