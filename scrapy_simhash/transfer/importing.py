"""The command `import`: seed a store with pages, archives, documents and other stores."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from contextlib import ExitStack, suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from scrapy.utils.project import data_path

from scrapy_simhash._progress import show_progress
from scrapy_simhash.detector.log import IMPORT_PREFIX, new_crawl
from scrapy_simhash.errors import ArchiveError, PartlyFailedError, SourceError
from scrapy_simhash.pages.fingerprint import make_recipe
from scrapy_simhash.stores.opening import folder_of, open_store, show_url
from scrapy_simhash.transfer.merging import merge_stores, open_to_fill
from scrapy_simhash.transfer.parquet import ParquetSource
from scrapy_simhash.transfer.seeding import (
    SPIDER,
    Journal,
    PageMaker,
    Progress,
    Seeder,
    name_store,
    seed_documents,
)
from scrapy_simhash.transfer.sources import (
    HTML_FIELDS,
    START,
    SUFFIXES,
    FeedSource,
    FolderSource,
    Source,
)
from scrapy_simhash.transfer.warc import open_wacz, open_warc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray
    from scrapy.settings import Settings

    from scrapy_simhash.config import Config
    from scrapy_simhash.pages.recipe import Recipe


# A copy, because the store's constant is in a module that loads lmdb.
_DATA_FILE_OF_STORE = "data.mdb"
# Longer than any of the magic numbers below.
_OCTETS_TOLD_BY = 16
_BEGINNINGS = {
    b"WARC/": "warc",
    b"\x28\xb5\x2f\xfd": "warc",  # zstd, which no other kind uses
    b"PK\x03\x04": "wacz",
    b"PAR1": "parquet",
    b"\x89SIMHASH": "archive",  # MAGIC of `batch.archive.format`, which is not imported here
}


def find_kind(name: str, kind: str | None = None) -> str:
    """Find the kind of a path or of a store's URL, unless the user named the `kind`."""
    if kind is None and "://" in name:
        return "store"
    if kind == "store":
        return kind
    path = Path(name)
    path.stat()
    if kind is not None:
        return kind
    if path.is_dir():
        other = "parquet" if any(path.glob("*.parquet")) else "folder"
        return "store" if (path / _DATA_FILE_OF_STORE).exists() else other
    beginning = _read_beginning(path)
    for octets, found in _BEGINNINGS.items():
        if beginning.startswith(octets):
            return found
    if (suffix := Path(path.name.removesuffix(".gz")).suffix.lower()) in SUFFIXES:
        return SUFFIXES[suffix]
    raise ValueError(
        f"{name} cannot be used: by its content it is not an archive, WARC, WACZ, Parquet file, "
        f"store or folder, and by its name not a feed ({', '.join(SUFFIXES)}); if it is one of "
        "them all the same, name its kind with --kind"
    )


def _read_beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        beginning = file.read(_OCTETS_TOLD_BY)
    if beginning.startswith(b"\x1f\x8b"):
        with suppress(OSError, EOFError, zlib.error), gzip.open(path) as file:
            return file.read(_OCTETS_TOLD_BY)
    return beginning


def open_sources(
    name: str, kind: str, url_field: str, html_field: str | None, most_bytes: int
) -> Sequence[Source]:
    """Open a source that is read record by record; a WACZ has several such sources."""
    # Of pages longer than `most_bytes` only one byte more is read, so they count as too large.
    # Absolute, because the journal would take a relative path for another source.
    path = Path(name).resolve()
    if kind == "parquet":
        return [ParquetSource(path)]
    if kind == "folder":
        return [FolderSource(path, most_bytes)]
    if kind == "wacz":
        return open_wacz(path, most_bytes)
    if kind == "warc":
        return [open_warc(path, most_bytes)]
    return [FeedSource(path, kind, url_field, (html_field,) if html_field else HTML_FIELDS)]


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


def import_sources(  # noqa: PLR0913, PLR0917  # the options, each by its name
    config: Config,
    settings: Settings,
    sources: Sequence[str],
    kind: str | None,
    url_field: str,
    html_field: str | None,
    journal_path: Path | None,
    open_archive: OpenArchive,
    *,
    dry_run: bool,
) -> Iterator[dict[str, Any]]:
    """Seed the store with pages, archives or other stores, in the given order.

    Args:
        config: the plugin's settings.
        settings: all settings of Scrapy.
        sources: paths, or URLs of stores.
        kind: the kind of all sources; None to detect it.
        url_field: field of a feed's items with the URL.
        html_field: field of a feed's items with the HTML; None for `html` or `body`.
        journal_path: path of the journal; None for the one beside the store.
        open_archive: opens an archive at a path, see `batch.archive.Archive`.
        dry_run: count what could be imported, change nothing.

    Raises:
        ValueError: a source is of no known kind, or the journal's path is another file.
        PartlyFailedError: a source could not be read to its end; earlier records were imported.
        StoreError: the store cannot be used, or an archive is damaged.
        OSError: a source cannot be read.
    """
    found = [(name, find_kind(name, kind)) for name in sources]
    problems: list[str] = []
    with ExitStack() as held:
        running = _Import(config, settings, journal_path, held, problems)
        for its_kind, run in groupby(found, key=itemgetter(1)):
            names = [name for name, _ in run]
            if its_kind == "store":
                # At once: they are judged in the order in which they were first seen.
                if dry_run:
                    yield from map(_count_store, names)
                else:
                    yield from merge_stores(config, names, config.store)
                continue
            for name in names:
                if its_kind == "archive":
                    yield import_archive(config, Path(name), open_archive, dry_run=dry_run)
                    continue
                try:
                    opened = open_sources(name, its_kind, url_field, html_field, config.max_bytes)
                except SourceError as error:
                    problems.append(str(error))
                    continue
                for source in opened:
                    yield running.count(source) if dry_run else running.read(source)
    if problems:
        raise PartlyFailedError("; ".join(problems))


def _count_store(name: str) -> dict[str, Any]:
    with open_store(name, distance=0, readonly=True) as store:
        stats = store.stats()
    counted = {kind: stats[kind] for kind in ("documents", "fingerprints")}
    return {"source": show_url(name), "kind": "store", **counted}


class _Import:
    """Imports sources record by record, with one journal; starts store and workers when needed."""

    def __init__(
        self,
        config: Config,
        settings: Settings,
        journal_path: Path | None,
        held: ExitStack,
        problems: list[str],
    ) -> None:
        self._config = config
        self._maker = PageMaker(config, settings)
        self._journal_path = journal_path
        self._held = held
        self._problems = problems  # one for each source that could not be read to the end
        self._runner = held.enter_context(asyncio.Runner())
        self._seeder: Seeder | None = None
        self._journal: Journal | None = None

    def read(self, source: Source) -> dict[str, Any]:
        """Import a source."""
        if isinstance(source, ParquetSource):
            crawl = new_crawl(IMPORT_PREFIX)
            with open_to_fill(self._config, source.recipe, source.seed) as store:
                journal = self._keep_journal(store.seed)
                read = partial(seed_documents, store, crawl, source, journal, self._maker)
                return self._read(source, journal, crawl, read)
        seeder = self._seeder = self._seeder or self._start()

        def read_pages(show: Callable[[int, int], None]) -> None:
            self._runner.run(seeder.read(source, show))

        return self._read(source, seeder.journal, seeder.crawl, read_pages)

    def _read(
        self,
        source: Source,
        journal: Journal,
        crawl: str,
        read: Callable[[Callable[[int, int], None]], None],
    ) -> dict[str, Any]:
        resumed_at = journal.find(source).position.record
        whole = True
        try:
            with show_progress(source.unit) as show:
                read(show)
        except SourceError as error:
            self._problems.append(str(error))
            whole = False
        progress = journal.find(source)
        return {
            **_describe(source, progress.position.record, progress, whole=whole),
            "store": show_url(self._config.store),
            "crawl": crawl,
            "resumed_at": resumed_at,
            "verdicts": progress.verdicts,
        }

    def _start(self) -> Seeder:
        # Makes the store if it does not exist, because the journal is kept beside it.
        recipe = make_recipe(self._config.extractor, self._config.features)
        with open_to_fill(self._config, recipe) as store:
            journal = self._keep_journal(store.seed)
        seeder = Seeder(self._config, journal, self._maker)
        self._runner.run(seeder.detector.open(SPIDER))
        self._held.callback(lambda: self._runner.run(seeder.detector.close()))
        return seeder

    def _keep_journal(self, seed: int) -> Journal:
        if self._journal is None:
            path = self._journal_path or _choose_journal(self._config.store, seed)
            self._journal = self._held.enter_context(Journal(path, seed))
        return self._journal

    def count(self, source: Source) -> dict[str, Any]:
        """Count the records of a source that could be imported."""
        if isinstance(source, ParquetSource):
            return {"source": source.name, "kind": source.kind, "documents": source.total}
        counted = Progress()
        records = 0
        whole = True
        try:
            for entry in source.read(START):
                records = entry.record
                page = self._maker.make_page(entry)
                if isinstance(page, str):
                    counted.skip(page)
                else:
                    counted.pages += 1
        except SourceError as error:
            self._problems.append(str(error))
            whole = False
        return _describe(source, records, counted, whole=whole)


def _describe(source: Source, records: int, counted: Progress, *, whole: bool) -> dict[str, Any]:
    return {
        "source": source.name,
        "kind": source.kind,
        "records": records,
        "pages": counted.pages,
        "skipped": counted.skipped,
        "without_address": source.without_address,
        "complete": whole,
    }


def _choose_journal(store: str, seed: int) -> Path:
    """Choose the journal's path: in the store's folder, or without one in Scrapy's data folder."""
    folder = folder_of(store)
    if folder is None:
        return Path(data_path(f"simhash-imports-{name_store(seed)}.json", createdir=False))
    return folder / "imports.json"
