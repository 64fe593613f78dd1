"""The commands compact, rebuild, check, prune and delete."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy_simhash.checks import choose_distance
from scrapy_simhash.config import SECONDS_A_DAY
from scrapy_simhash.designs import parse_design
from scrapy_simhash.inspection import PartlyFailedError, open_as_it_is
from scrapy_simhash.logreader import find_crawl
from scrapy_simhash.planner import choose_design
from scrapy_simhash.progress import show_busy, show_progress
from scrapy_simhash.store_urls import is_server, store_folder
from scrapy_simhash.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy_simhash.config import Config
    from scrapy_simhash.stored import StoredDocument
    from scrapy_simhash.stores import Store


def open_to_change(config: Config) -> Store:
    """Open an existing store for writing, whatever its recipe and design."""
    open_as_it_is(config).close()  # raises where there is none: it would be made below
    return open_store(config.store, distance=0)


def compact(config: Config) -> Iterator[dict[str, Any]]:
    """Write the tables at full fill, then shrink the file if nobody else has the store open.

    A store on a server has no file, and its tables are always full.

    Raises:
        StoreError: another process is compacting; the disk is full, and nothing is lost.
    """
    from scrapy_simhash.lmdb_environment import shrink  # noqa: PLC0415 - loads lmdb

    with open_to_change(config) as store, show_progress("slices") as show:
        before = store.table_stats()
        store.compact(show)
        after = store.table_stats()
    sizes = ["table_bytes_per_fingerprint", *(["file_bytes"] if "file_bytes" in after else [])]
    answer = {
        "fingerprints": after["fingerprints"],
        **{
            f"{name}_{when}": stats[name]
            for name in sizes
            for when, stats in (("before", before), ("after", after))
        },
    }
    if not is_server(config.store):
        shrunk = shrink(store_folder(config.store))
        answer |= {} if shrunk is None else {"file_bytes_after": shrunk[1]}
        answer["shrunk"] = shrunk is not None
    yield answer


def rebuild(config: Config, tables: str | None) -> Iterator[dict[str, Any]]:
    """Write the tables anew from the documents and what was bulk-loaded.

    Args:
        config: whose distance another design must be complete for.
        tables: another design, or `auto`; None for the same.

    Raises:
        StoreMismatchError: the design is not complete for SIMHASH_DISTANCE.
        ValueError: no such design.
    """
    with open_to_change(config) as store:
        if tables == "auto":
            tables = choose_design(store.table_stats()["fingerprints"], config.distance).name
        if tables is not None:
            choose_distance(config.distance, config.confirm, parse_design(tables))
        with show_busy("writing the tables anew"):
            written = store.rebuild(tables)
        yield {"design": store.design, **written}


def check(config: Config) -> Iterator[dict[str, Any]]:
    """Compare the tables with each other and with the documents.

    Raises:
        PartlyFailedError: there are problems.
    """
    with open_as_it_is(config) as store:
        with show_busy("comparing tables and documents"):
            problems = store.check()
        # Counted, not read: a damaged bucket can be counted.
        counted = store.table_stats()
        yield {
            "problems": problems,
            "tables": counted["tables"],
            "fingerprints": counted["fingerprints"],
        }
    if problems:
        raise PartlyFailedError(
            f"{len(problems):,} problems; rebuild mends the tables, a damaged record needs a backup"
        )


def prune(
    config: Config, days: float | None, scope: str | None, crawl: str | None, *, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Delete documents that meet all criteria that are given, and their near-duplicates.

    Args:
        config: the settings in force.
        days: last seen more than so many days ago; 0 or more.
        scope: of this scope; "" is the global one.
        crawl: judged in this crawl; `last` is the newest one of the log.
        dry_run: change nothing, list what would go.

    Raises:
        ValueError: no criterion, or days below 0.
    """
    if days is None and scope is None and crawl is None:
        raise ValueError("say what is to go: --days, --scope or --crawl")
    if days is not None and not days >= 0:
        raise ValueError(f"--days {days}: must be 0 or more")
    crawl = find_crawl(config, crawl)
    oldest = None if days is None else time.time() - days * SECONDS_A_DAY

    def wanted(document: StoredDocument) -> bool:
        return (oldest is None or document.time < oldest) and _is_of(document, scope, crawl)

    yield from _remove(config, wanted, dry_run=dry_run)


def delete(
    config: Config, urls: Sequence[str], scope: str | None, crawl: str | None, *, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Delete documents by URL, scope and crawl, and their near-duplicates.

    Args:
        config: the settings in force.
        urls: one of these; none for any.
        scope: of this scope; "" is the global one.
        crawl: judged in this crawl; `last` is the newest one of the log.
        dry_run: change nothing, list what would go.

    Raises:
        ValueError: no criterion.
        PartlyFailedError: nothing could be deleted for some of the URLs.
    """
    if not urls and scope is None and crawl is None:
        raise ValueError("say what is to go: URLs, --scope or --crawl")
    crawl = find_crawl(config, crawl)
    missing = dict.fromkeys(urls)

    def wanted(document: StoredDocument) -> bool:
        if (urls and document.url not in urls) or not _is_of(document, scope, crawl):
            return False
        missing.pop(document.url, None)
        return True

    yield from _remove(config, wanted, dry_run=dry_run)
    if 0 < len(missing) < len(set(urls)):
        raise PartlyFailedError(
            f"not in the store, or in use by a running crawl: {', '.join(missing)}"
        )


def _is_of(document: StoredDocument, scope: str | None, crawl: str | None) -> bool:
    return scope in {None, document.scope} and crawl in {None, document.crawl}


def _remove(
    config: Config, wanted: Callable[[StoredDocument], bool], *, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Delete what is wanted and its near-duplicates; nothing is answered where that is nothing."""
    chosen: set[int] = set()

    def note(document: StoredDocument) -> bool:
        if found := wanted(document):
            chosen.add(document.document)
        return found

    with open_as_it_is(config) if dry_run else open_to_change(config) as store:
        with show_busy("looking through the documents"):
            numbers = store.select(note)
        if dry_run:
            yield from _list_documents(store, numbers)
        with show_busy("deleting"):
            deleted = 0 if dry_run else store.delete(numbers)
    if numbers:
        yield {
            "documents": len(chosen),
            "near_duplicates": len(numbers) - len(chosen),
            "deleted": deleted,
        }


def _list_documents(store: Store, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    for number in numbers:
        if document := store.get_document(number):
            yield {
                "document": number,
                "url": document.url,
                "state": document.state,
                "original": document.original,
                "scope": document.scope,
                "crawl": document.crawl,
                "time": document.time,
            }
