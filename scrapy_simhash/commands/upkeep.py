"""Commands that fill, copy and maintain a store: import, export, check, prune, undo."""

from __future__ import annotations

import sys
import time
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_simhash._printable import mask_passwords, plural, printable, show_progress
from scrapy_simhash.batch import export_archive
from scrapy_simhash.crawl.running import find_log
from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.judge.log import find_crawl, read_log
from scrapy_simhash.judging.documents import State
from scrapy_simhash.stores.opening import open_as_it_is, open_store
from scrapy_simhash.stores.store import choose_distance
from scrapy_simhash.stores.upkeep import add_duplicates
from scrapy_simhash.tables import DEFAULT_DESIGN, parse_design
from scrapy_simhash.transfer import import_sources

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from scrapy_simhash.commands.answering import Answer
    from scrapy_simhash.commands.command import Make
    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import Document
    from scrapy_simhash.stores.store import Store


def _export(config: Config, options: Namespace) -> Iterator[Answer]:
    """Copy a store, or write its fingerprints."""
    if options.what == "fingerprints":
        yield from export_archive(
            config, options.output, all_tables=options.all_tables, overwrite=options.overwrite
        )
    else:
        from scrapy_simhash.stores.copying import back_up  # noqa: PLC0415 - loads lmdb

        with open_as_it_is(config.store) as store, show_progress("comparing, and copying"):
            made = back_up(store, options.output)
        yield made


_SECONDS_A_DAY = 86_400
_LISTED = ("document", "url", "state", "original", "scope", "crawls", "time")


def _open_to_change(config: Config) -> Store:
    """Open an existing store for writing, whatever its recipe and design."""
    open_as_it_is(config.store).close()  # raises if it does not exist; the next line would make it
    return open_store(config.store, distance=0)


def _check(config: Config, options: Namespace) -> Iterator[Answer]:
    """Compare the tables with the documents, or pack or rewrite them."""
    if options.tables is not None and not options.rebuild:
        raise ValueError(f"--tables {options.tables} needs --rebuild, which rewrites the tables")
    if options.compact:
        from scrapy_simhash.stores.copying import compact  # noqa: PLC0415 - loads lmdb

        with open_as_it_is(config.store) as store, show_progress("packing the store"):
            yield compact(store)
    elif options.rebuild:
        tables = DEFAULT_DESIGN if options.tables == "auto" else options.tables
        with _open_to_change(config) as store:
            if tables is not None:  # another design must be complete for SIMHASH_DISTANCE
                choose_distance(config.distance, parse_design(tables), store.rule)
            with show_progress("rewriting the tables"):
                written = store.rebuild(tables)
            yield {"design": store.design, **written}
    else:
        with open_as_it_is(config.store) as store, show_progress("comparing tables and documents"):
            problems, counted = store.check(), store.stats()
        yield {**counted, "problems": problems}
        if problems:
            found = plural(len(problems), "problem")
            raise PartlyFailedError(
                f"{found}; --rebuild repairs the tables, a damaged record needs a backup"
            )


def _prune(config: Config, options: Namespace) -> Iterator[Answer]:
    """Delete documents that meet all given criteria, and their near-duplicates."""
    urls, days, dry_run = options.urls, options.days, options.dry_run
    if not urls and (days, options.crawl) == (None, None):
        raise ValueError("name what to delete: URLs, --days or --crawl")
    if days is not None and not days >= 0:
        raise ValueError(f"--days {days}: must be 0 or more")
    oldest = inf if days is None else time.time() - days * _SECONDS_A_DAY
    crawl = find_crawl(find_log(config), options.crawl)

    def choose(document: Document) -> bool:
        return (
            (not urls or document.facts.url in urls)
            and document.facts.time < oldest
            and (crawl is None or crawl in document.crawls)
        )

    with open_as_it_is(config.store) if dry_run else _open_to_change(config) as store:
        with show_progress("looking through the documents"):
            chosen = {each.number: each.facts.url for each in store.list_documents(choose)}
            numbers = store.read(lambda stored: add_duplicates(stored, chosen))
        if dry_run:
            for document in store.get_documents(numbers).values():
                yield document.pick(*_LISTED)
        with show_progress("deleting"):
            deleted = 0 if dry_run else store.delete(numbers)
    left = {*urls}.difference(chosen.values())
    if not numbers:
        _require_all(left)
        raise PartlyFailedError("no document meets all criteria")
    near_duplicates = len(numbers) - len(chosen)
    yield {"documents": len(chosen), "near_duplicates": near_duplicates, "deleted": deleted}
    _require_all(left)


def _print_removal(answer: Answer) -> Iterable[str]:
    if "url" in answer:
        yield f"{answer['state']:<9}  {printable(answer['url'])}"
    else:
        done = "deleted" if answer["deleted"] else "would delete"
        yield (
            f"{done} {plural(answer['documents'], 'document')} and "
            f"{plural(answer['near_duplicates'], 'near-duplicate')} of them"
        )


def _undo(config: Config, options: Namespace) -> Iterator[Answer]:
    """List drops that meet all given criteria, and let their pages pass when fetched again."""
    urls, original, dry_run = options.urls, options.original, options.dry_run
    if not urls and (original, options.crawl) == (None, None):
        raise ValueError("name what to undo: URLs, --original or --crawl")
    crawl = find_crawl(find_log(config), options.crawl)
    with open_as_it_is(config.store) if dry_run else _open_to_change(config) as store:
        kept = [] if original is None else store.find_documents([original])
        originals = {each.original or each.number for each in kept}

        def choose(document: Document) -> bool:
            return (
                document.state == State.DUPLICATE
                and (not urls or document.facts.url in urls)
                and (original is None or document.original in originals)
                and (crawl is None or crawl in document.crawls)
            )

        found = store.list_documents(choose)
        requested = _find_requested(config, {document.facts.url for document in found})
        answers = [_describe(store, document, requested) for document in found]
        if found and not dry_run:
            store.spare([document.number for document in found])
        # Last, because the reader of the answers may stop early, as `head` does.
        yield from answers
        left = {*urls}.difference(document.facts.url for document in found)
        if original is not None and not kept:
            left.add(original)
        if found:
            done = f"{plural(len(found), 'page')} listed, nothing undone"
            if not dry_run:
                done = f"{plural(len(found), 'drop')} undone; what was dropped passes when it is "
                done += "fetched again"
            sys.stderr.write(f"{done}\n")
        _require_all(left)
        if not found:
            raise PartlyFailedError("nothing to undo: no drop meets all criteria")


def _find_requested(config: Config, urls: Collection[str]) -> dict[str, str]:
    """Find in the log which addresses were asked for where redirects led from them to these."""
    path, wanted = find_log(config), {*map(mask_passwords, urls)}
    lines = read_log(path, damaged=[]) if wanted else ()
    last = {each.url: each.requested_url for each, _ in lines if each.url in wanted}
    return {url: requested for url, requested in last.items() if requested}


def _require_all(left: Collection[str]) -> None:
    """Raise an error that names the URLs of which nothing was chosen."""
    if left:
        raise PartlyFailedError(
            f"{', '.join(sorted(left))}: nothing in the store with this address meets all "
            "criteria; name it as it was fetched"
        )


def _describe(store: Store, document: Document, requested: Mapping[str, str]) -> Answer:
    """Describe a drop by the address that was asked for, which may lead elsewhere by now."""
    kept = document.original
    original = store.get_documents([kept]).get(kept)
    url = document.facts.url
    return {
        "url": requested.get(mask_passwords(url), url),
        **document.pick("document", "distance", "similarity", "crawls"),
        "original": original.facts.url if original else None,
    }


def add_commands(make: Make) -> None:
    """Add the commands that fill, copy and maintain a store."""
    add = make(
        "undo",
        "Undo drops: list the URLs to fetch again, and let them pass. Drops that meet all given "
        "criteria are undone: the pages pass from then on; they are fetched when a crawl meets "
        "their addresses, or by a spider of yours that reads this list.",
        _undo,
        printer=lambda answer: [printable(answer["url"])],
        takes="store crawl",
    ).add_argument
    add("urls", nargs="*", metavar="URL", help="only drops of these pages")
    add("--original", metavar="URL", help="only drops for this page")
    add("--dry-run", action="store_true", help="list the drops, change nothing")
    add = make(
        "export",
        "Copy a store, or write its fingerprints. An archive has fingerprints, not documents.",
        _export,
        takes="store overwrite",
    ).add_argument
    about = "store: the whole store, checked, while crawls write; fingerprints: an archive"
    add("what", choices=("store", "fingerprints"), metavar="WHAT", help=about)
    about = "the new folder for a store, or the file for fingerprints"
    add("-o", "--output", type=Path, required=True, metavar="PATH", help=about)
    about = "fingerprints: with all tables of the store, so that it can be probed on its own"
    add("--tables", dest="all_tables", action="store_true", help=about)
    parser = make(
        "import",
        "Fill a store from pages or other stores. What the store has already is recognised: run "
        "an import that was interrupted again. Of a store, the pages that came through come in, if "
        "its recipe and seed are those of the store; to restore one, put its backup in its place.",
        lambda config, options: import_sources(config, options.settings, options.sources),
    )
    about = "WARC or WACZ, feed (JSON Lines), folder with pages.csv, or store"
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help=about)
    add = make(
        "prune",
        "Delete documents by URL, age or crawl. Deletes documents that meet all given "
        "criteria, with their near-duplicates.",
        _prune,
        printer=_print_removal,
        takes="store crawl",
    ).add_argument
    add("urls", nargs="*", metavar="URL", help="only documents with these URLs")
    add("--days", type=float, help="only documents last seen more than so many days ago")
    add("--dry-run", action="store_true", help="list what would be deleted, delete nothing")
    parser = make(
        "check",
        "Count and compare what a store has, pack it or rebuild its tables. Of the pages `done` "
        "are those whose items came through, `stubs` are too short for a simhash. Then it prints "
        "one problem a line; the exit code is 1 if there are any. --compact is for a store in a "
        "folder, while nobody else has it open.",
        _check,
    )
    add = parser.add_mutually_exclusive_group().add_argument
    add("--compact", action="store_true", help="give free space of the store's file back")
    add("--rebuild", action="store_true", help="rewrite the tables from the documents")
    about = "with --rebuild: another table design, or auto (default: the same one)"
    parser.add_argument("--tables", metavar="DESIGN", help=about)
