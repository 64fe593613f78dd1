"""The command import: a store is seeded with what is there already."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy.utils.project import data_path

from scrapy_simhash.archive import Archive
from scrapy_simhash.decisionlog import IMPORT_PREFIX, new_crawl
from scrapy_simhash.exchange import import_archive
from scrapy_simhash.handover import merge_stores
from scrapy_simhash.inspection import PartlyFailedError, make_recipe_of
from scrapy_simhash.progress import show_progress
from scrapy_simhash.source_folder import FolderSource
from scrapy_simhash.source_kinds import find_kind, open_pages
from scrapy_simhash.source_parquet import ParquetSource
from scrapy_simhash.sources import PAGE_KINDS, START, SourceError
from scrapy_simhash.store_urls import is_server, show_url, store_folder
from scrapy_simhash.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy.settings import Settings

    from scrapy_simhash.config import Config
    from scrapy_simhash.journal import Journal
    from scrapy_simhash.recipe import Recipe
    from scrapy_simhash.seeding import Seeder
    from scrapy_simhash.sources import Source
    from scrapy_simhash.stores import Store


def import_sources(  # noqa: PLR0913, PLR0917  # the options, each by its name
    config: Config,
    settings: Settings,
    sources: Sequence[str],
    kind: str | None,
    url_field: str,
    html_field: str | None,
    journal_path: Path | None,
    *,
    base: bool,
    dry_run: bool,
) -> Iterator[dict[str, Any]]:
    """Seed the store with pages, archives or other stores, in the order in which they are named.

    Args:
        config: the settings in force.
        settings: all of them.
        sources: paths, or URLs of stores.
        kind: of all of them; None to find out.
        url_field: of a feed's items.
        html_field: of a feed's items; None for `html` or `body`.
        journal_path: of the journal of pages; None for the one beside the store.
        base: keep archives compressed beneath the tables.
        dry_run: count what there is to be imported, change nothing.

    Raises:
        ValueError: a source is of no known kind, or the journal is none.
        PartlyFailedError: pages could not be read to the end; what came before was imported.
        StoreError: the store cannot be used, or an archive is damaged.
        OSError: a source cannot be read.
    """
    found = [(name, find_kind(name, kind)) for name in sources]
    problems: list[str] = []
    with _Reading(config, settings, journal_path, dry_run=dry_run) as reading:
        for name, its_kind in found:
            if its_kind not in {*PAGE_KINDS, "parquet"}:
                yield from _take_over(config, name, its_kind, base=base, dry_run=dry_run)
                continue
            try:
                if its_kind == "parquet":
                    yield reading.read_documents(ParquetSource(Path(name).resolve()), problems)
                    continue
                opened = open_pages(name, its_kind, url_field, html_field, config.max_bytes)
            except SourceError as error:
                problems.append(str(error))
                continue
            for source in opened:
                yield reading.read(source, problems)
    if problems:
        raise PartlyFailedError("; ".join(problems))


def _take_over(
    config: Config, name: str, kind: str, *, base: bool, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Import what was fingerprinted before."""
    if dry_run:
        yield {"source": show_url(name), "kind": kind, **_count_fingerprinted(name, kind)}
    elif kind == "archive":
        yield from import_archive(config, Path(name), base=base)
    else:
        yield from merge_stores(config, [name], config.store)


def _count_fingerprinted(name: str, kind: str) -> dict[str, int]:
    if kind == "archive":
        with Archive(name) as archive:
            return {"fingerprints": archive.count}
    with open_store(name, distance=0, readonly=True) as store:
        stats = store.stats()
        return {"documents": stats["documents"], "fingerprints": stats["fingerprints"]}


class _Reading:
    """Imports sources that are read record by record, with one journal.

    Store and workers are started for the first source of pages.

    Args:
        config: the settings in force.
        settings: all of them.
        journal_path: of the journal; None for the one beside the store.
        dry_run: count only.
    """

    def __init__(
        self, config: Config, settings: Settings, journal_path: Path | None, *, dry_run: bool
    ) -> None:
        from scrapy_simhash.crawled import PageMaker  # noqa: PLC0415 - loads the detector

        self._config = config
        self._to_page = PageMaker(config, settings)
        self._journal_path = journal_path
        self._dry_run = dry_run
        self._running = ExitStack()
        self._started: tuple[asyncio.Runner, Seeder] | None = None
        self._journal: Journal | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def read(self, source: Source, problems: list[str]) -> dict[str, Any]:
        """Import pages, or count them; what is wrong with them is added to the problems."""
        if self._dry_run:
            return self._count(source, problems)
        runner, seeder = self._started = self._started or self._start()

        def work(show: Callable[[int, int], None]) -> None:
            runner.run(seeder.read(source, show))

        return self._run(source, seeder.crawl, work, problems)

    def read_documents(self, source: ParquetSource, problems: list[str]) -> dict[str, Any]:
        """Import documents, or count them; what is wrong with them is added to the problems.

        Raises:
            ValueError: the scope asks for texts, which they do not have.
        """
        from scrapy_simhash.seeding_documents import seed_documents  # noqa: PLC0415 - loads them

        if self._dry_run:
            return {"source": source.name, "kind": source.kind, "documents": source.total}
        crawl = new_crawl(IMPORT_PREFIX)
        with self._open_store(source.recipe, source.seed) as store:
            journal = self._keep_journal(store.seed)

            def work(show: Callable[[int, int], None]) -> None:
                seed_documents(store, crawl, source, journal, self._to_page.place, show)

            return self._run(source, crawl, work, problems)

    def _run(
        self,
        source: Source | ParquetSource,
        crawl: str,
        work: Callable[[Callable[[int, int], None]], None],
        problems: list[str],
    ) -> dict[str, Any]:
        assert self._journal is not None  # noqa: S101 - kept since the store was opened
        resumed_at = self._journal.find(source).position.record
        known = len(problems)
        try:
            with show_progress(source.unit) as show:
                work(show)
        except SourceError as error:
            problems.append(str(error))
        progress = self._journal.find(source)
        return {
            "source": source.name,
            "kind": source.kind,
            "store": show_url(self._config.store),
            "crawl": crawl,
            "records": progress.position.record,
            "resumed_at": resumed_at,
            "pages": progress.pages,
            "verdicts": progress.verdicts,
            "skipped": progress.skipped,
            "without_address": _count_addressless(source),
            "complete": len(problems) == known,
        }

    def _start(self) -> tuple[asyncio.Runner, Seeder]:
        from scrapy_simhash.seeding import Seeder  # noqa: PLC0415 - loads the workers

        # Made now if there is none: the journal is kept beside it.
        with self._open_store(make_recipe_of(self._config)) as store:
            journal = self._keep_journal(store.seed)
        runner = self._running.enter_context(asyncio.Runner())
        seeder = Seeder(self._config, journal, self._to_page)
        runner.run(seeder.open())
        self._running.callback(lambda: runner.run(seeder.close()))
        return runner, seeder

    def _open_store(self, recipe: Recipe, seed: int | None = None) -> Store:
        config = self._config
        return open_store(
            config.store,
            config.distance_to_open,
            config.tables,
            recipe,
            confirm=config.confirm,
            seed=seed,
        )

    def _keep_journal(self, seed: int) -> Journal:
        from scrapy_simhash.journal import Journal  # noqa: PLC0415 - only where one is kept

        if self._journal is None:
            path = self._journal_path or _choose_journal(self._config.store, seed)
            self._journal = self._running.enter_context(Journal(path, seed))
        return self._journal

    def _count(self, source: Source, problems: list[str]) -> dict[str, Any]:
        from scrapy_simhash.seeding import add_one  # noqa: PLC0415 - loads the workers

        records = pages = 0
        skipped: dict[str, int] = {}
        whole = True
        try:
            for entry in source.read(START):
                records = entry.record
                page = entry.page if isinstance(entry.page, str) else self._to_page(entry.page)
                if isinstance(page, str):
                    add_one(skipped, page)
                else:
                    pages += 1
        except SourceError as error:
            problems.append(str(error))
            whole = False
        return {
            "source": source.name,
            "kind": source.kind,
            "records": records,
            "pages": pages,
            "skipped": skipped,
            "without_address": _count_addressless(source),
            "complete": whole,
        }


def _count_addressless(source: Source | ParquetSource) -> int:
    return source.without_address if isinstance(source, FolderSource) else 0


def _choose_journal(store: str, seed: int) -> Path:
    """Find the journal's place: in the store's folder, or where it has none, in Scrapy's."""
    if is_server(store):
        from scrapy_simhash.journal import name_store  # noqa: PLC0415 - only where one is kept

        return Path(data_path(f"simhash-imports-{name_store(seed)}.json", createdir=False))
    return store_folder(store) / "imports.json"
