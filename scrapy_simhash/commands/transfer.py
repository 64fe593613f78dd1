"""Commands that move data into stores and out of them: import, export."""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import starmap
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import printable
from scrapy_simhash._progress import show_progress
from scrapy_simhash.batch import export_archive, import_archive
from scrapy_simhash.commands.frame import (
    Command,
    add_crawl,
    add_overwrite,
    describe_match,
    name_page,
    print_fields,
    style,
)
from scrapy_simhash.inspection.log import find_crawl
from scrapy_simhash.judging.comparison import is_better_url
from scrapy_simhash.judging.documents import StoredDocument
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.commands.frame import Answer
    from scrapy_simhash.config import Config
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.store import Store


def _back_up(config: Config, folder: Path, *, check: bool) -> Iterator[dict[str, Any]]:
    """Copy the store into a new folder while crawls write; `check` checks the copy first."""
    from scrapy_simhash.stores.copying import back_up  # noqa: PLC0415 - loads lmdb

    with open_as_it_is(config.store) as store:
        with show_progress("copying, and comparing the copy" if check else "copying"):
            made = back_up(store, folder, check=check)
        yield made


def _import(config: Config, options: argparse.Namespace) -> Iterator[Answer]:
    from scrapy_simhash.transfer import importing  # noqa: PLC0415 - loads trafilatura

    sources = [(name, importing.find_kind(name)) for name in options.sources]
    yield from importing.import_sources(config, options.settings, sources, import_archive)


def _print_import(answer: Answer) -> Iterable[str]:
    yield from print_fields(answer)
    if answer.get("without_address"):
        yield style(
            f"  {answer['without_address']:,} pages have only the URL of their file. A crawl will "
            "judge the real pages as near-duplicates of these and drop them with their links, even "
            "the first one. Unless you want that, add a pages.csv (columns url, path) and import "
            "into a new store",
            "yellow",
        )


_SHOWN_OF_KEPT = ("url", "document", "state", "title", "canonical", "crawls", "time")
_SHOWN = ("url", "document", "distance", "similarity", "crawls", "time", "undone", "canonical")
_get_shown = attrgetter(
    *("facts.url", "document", "record.distance", "record.similarity", "record.crawls"),
    *("facts.time", "record.spared", "facts.canonical"),
)


def list_kept(
    store: Store, crawl: str | None = None, *, every: bool = False
) -> Iterator[dict[str, Any]]:
    """List the kept pages of a store, each with its near-duplicates, in order of their arrival.

    Reads every record once and the kept ones again; holds some 300 bytes for each near-duplicate.
    `crawl` is that of the near-duplicates, if not any; with `every` also pages that have none. A
    page that was deleted or cannot be read has its number only; the near-duplicates of imported
    fingerprints come last, with `document` 0.
    """

    def work(stored: Documents) -> dict[int, list[dict[str, Any]]]:
        groups: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        for document in starmap(StoredDocument, stored):
            if document.state == "duplicate":
                if crawl is None or crawl in document.record.crawls:
                    shown = dict(zip(_SHOWN, _get_shown(document), strict=True))
                    groups[document.record.original].append(shown)
            elif every:
                groups.setdefault(document.document, [])
        return groups

    groups = store.read(work)
    for number in sorted(groups, key=lambda number: number or inf):
        kept = store.get_documents([number]).get(number)
        known = kept.pick(*_SHOWN_OF_KEPT) if kept else {}
        page = {name: known.get(name) for name in _SHOWN_OF_KEPT}
        better = ""
        for duplicate in groups[number]:
            url, canonical = duplicate["url"], duplicate.pop("canonical")
            if (
                kept
                and not better
                and is_better_url(url, canonical, kept.facts.url, kept.facts.canonical)
            ):
                better = url
        yield {**page, "document": number, "better_url": better, "duplicates": groups[number]}


def _list_duplicates(config: Config, crawl: str | None, *, every: bool) -> Iterator[Answer]:
    """List the kept pages, each with its near-duplicates."""
    with open_as_it_is(config.store) as store:
        yield from list_kept(store, find_crawl(config, crawl), every=every)


def _print_kept(page: Answer) -> Iterable[str]:
    """Write a kept page in a line, and each of its duplicates in one that is indented."""
    gone = page["url"] is None and page["document"]
    better = f"  (better: {printable(page['better_url'])})" * bool(page["better_url"])
    yield f"document {gone}, deleted or damaged" if gone else f"{name_page(page['url'])}{better}"
    for duplicate in page["duplicates"]:
        undone = ", undone" * duplicate["undone"]
        yield f"    {printable(duplicate['url'])}  ({describe_match(duplicate)}{undone})"


def _add_backup(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="target; must not exist yet")
    about = "do not compare the tables of the copy with each other and with the documents"
    add("--no-check", dest="check", action="store_false", help=about)


def _add_archive(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("archive_path", type=Path, metavar="FILE", help="the archive to write")
    about = "write all tables of the store's design, so that the archive can be probed on its own"
    add("--tables", dest="all_tables", action="store_true", help=about)
    add_overwrite(parser)


def _add_duplicates(parser: ArgumentParser) -> None:
    add = parser.add_argument
    about = "list the kept pages without duplicates, too"
    add("--all", dest="every", action="store_true", help=about)
    add_crawl(parser, "only duplicates of this crawl")


def _add_import(parser: ArgumentParser) -> None:
    add = parser.add_argument
    about = "WARC or WACZ, feed (JSON Lines), folder of HTML files, archive, or store"
    add("sources", nargs="+", metavar="SOURCE", help=about)
    about = "another name of --store: folder or URL; made if it does not exist"
    add("--into", dest="store", default=argparse.SUPPRESS, metavar="STORE", help=about)


_WRITTEN = {
    "store": (
        "Copy the whole store while crawls write, and check the copy",
        Command(_back_up, _add_backup),
    ),
    "fingerprints": (
        "Write the fingerprints of the store to an archive",
        Command(
            export_archive,
            _add_archive,
            details="The archive has fingerprints, not documents; `export store` copies a store.",
        ),
    ),
    "duplicates": (
        "List the kept pages, each with the duplicates dropped for it",
        Command(
            _list_duplicates,
            _add_duplicates,
            _print_kept,
            details="A line for each page that was kept, then one for each page that was dropped, "
            "or flagged, as its near-duplicate; with --json one object a line for both.",
        ),
    ),
}


COMMANDS = {
    "export": Command(
        None,
        examples=(
            "export store simhash-backup",
            "export fingerprints fingerprints.archive",
            "export fingerprints --tables --overwrite fingerprints.archive",
            "export duplicates",
            "export duplicates --json",
            "export duplicates --all --crawl last",
        ),
        details="`export ACTION --help` has the options of an action.",
        actions=_WRITTEN,
    ),
    "import": Command(
        _import,
        _add_import,
        _print_import,
        examples=(
            "import fingerprints.archive --store seeded",
            "import crawl.warc.gz --store seeded",
            "import .scrapy/simhash --into copy",
        ),
        details="What the store has already is recognised: run an import that was interrupted "
        "again. An archive has fingerprints, not documents, so importing it does not restore a "
        "store; to restore one, put its backup in its place. Of a store, the pages that came "
        "through come in, if its recipe and seed are those of the store.",
    ),
}
