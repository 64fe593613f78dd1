"""Commands that move data into stores and out of them: import, export."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from scrapy_simhash._files import open_whole
from scrapy_simhash._printable import mask_passwords, plural, printable
from scrapy_simhash.batch import export_archive
from scrapy_simhash.commands.frame import (
    JSON_SUFFIXES,
    Command,
    call,
    name_page,
    print_fields,
    style,
)
from scrapy_simhash.errors import PartlyFailedError
from scrapy_simhash.inspection.log import find_crawl
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.transfer.exchange import back_up, list_kept
from scrapy_simhash.transfer.sources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scrapy_simhash.commands.frame import Answer, Part
    from scrapy_simhash.config import Config


def _import(config: Config, options: argparse.Namespace) -> Iterator[Answer]:
    from scrapy_simhash.batch.archive import Archive  # noqa: PLC0415 - loads numpy
    from scrapy_simhash.transfer.importing import import_sources  # noqa: PLC0415 - loads trafilatura

    options.open_archive = Archive
    return call(import_sources, config, options)


def _print_import(answer: Answer) -> Iterable[Part]:
    yield from print_fields(answer)
    if answer.get("without_address"):
        yield style(
            f"  {answer['without_address']:,} pages have only the URL of their file. A crawl will "
            "judge the real pages as near-duplicates of these and drop them with their links, even "
            "the first one. Unless you want that, add a pages.csv (columns url, path) and import "
            "into a new store",
            "yellow",
        )


def _list_duplicates(
    config: Config,
    options: argparse.Namespace,
    listed_path: Path | None,
    crawl: str | None,
    *,
    every: bool,
    overwrite: bool,
) -> Iterator[Answer]:
    """List the kept pages, each with its near-duplicates, or write them to a file."""
    with open_as_it_is(config.store) as store:
        kept = list_kept(store, find_crawl(config, crawl), every=every)
        if listed_path is None:
            yield from kept
            return
        as_json = options.json or listed_path.suffix.lower() in JSON_SUFFIXES
        pages = duplicates = 0
        with open_whole(listed_path, overwrite=overwrite) as file:
            for page in kept:
                lines = [mask_passwords(json.dumps(page))] if as_json else _print_kept(page)
                file.write("".join(f"{line}\n" for line in lines).encode("ascii"))
                pages += 1
                duplicates += len(page["duplicates"])
    if not pages:
        raise PartlyFailedError(f"{listed_path} is empty: the store has no such page")
    yield {"file": str(listed_path), "kept": pages, "duplicates": duplicates}


def _print_duplicates(answer: Answer) -> Iterable[Part]:
    yield from print_fields(answer) if "kept" in answer else _print_kept(answer)


def _print_kept(page: Answer) -> Iterable[str]:
    """Write a kept page in a line, and each of its duplicates in one that is indented."""
    gone = page["url"] is None and page["document"]
    yield f"document {gone}, deleted or damaged" if gone else name_page(page["url"])
    for duplicate in page["duplicates"]:
        alike = duplicate["similarity"]
        shown = "" if alike is None else f", {alike:.2f} alike"
        undone = ", undone" * duplicate["undone"]
        bits = plural(duplicate["distance"], "bit")
        yield f"    {printable(duplicate['url'])}  ({bits}{shown}{undone})"


_STORE = """
FOLDER: target; must not exist yet
--no-check: do not compare the tables of the copy with each other and with the documents
"""
_FINGERPRINTS = """
FILE: the archive to write
--tables: write all tables of the store's design, so that the archive can be probed on its own
--overwrite: replace an existing file
"""
_DUPLICATES = """
-o --output FILE: write them to this file, as JSON lines if its name ends in .jsonl, .jl or .json
--overwrite: replace an existing file
--all: list the kept pages without duplicates, too
--crawl ID: only duplicates of this crawl; `last`: the newest one of the log
"""
_IMPORT = f"""
SOURCE...: WARC, WACZ, feed (JSON Lines, JSON, CSV), folder of HTML files, archive, store, or
    Parquet of `spark`
--into STORE: another name of --store: folder or URL; made if it does not exist
--kind KIND: kind of all sources (default: detected): {", ".join(KINDS)}
--url-field NAME: for a feed: the field of its items with the URL (default: url)
--html-field NAME: for a feed: the field of its items with the HTML (default: html, or else body)
--resume FILE: journal that records how far sources were read (default: imports.json in the store's
    folder)
--dry-run: count what would be imported, change nothing
"""
_WRITTEN = {
    "store": (
        "Copy the whole store while crawls write, and check the copy",
        Command(
            back_up,
            _STORE,
            more={"no-check": {"action": "store_false", "dest": "check"}},
        ),
    ),
    "fingerprints": (
        "Write the fingerprints of the store to an archive",
        Command(
            export_archive,
            _FINGERPRINTS,
            details="The archive has fingerprints, not documents; `export store` copies a store.",
            more={"file": {"dest": "archive_path"}, "tables": {"dest": "all_tables"}},
        ),
    ),
    "duplicates": (
        "List the kept pages, each with the duplicates dropped for it",
        Command(
            _list_duplicates,
            _DUPLICATES,
            _print_duplicates,
            more={"output": {"dest": "listed_path"}, "all": {"dest": "every"}},
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
            "export duplicates -o duplicates.jsonl",
            "export duplicates --all --crawl last -o duplicates.txt",
        ),
        details="`export ACTION --help` has the options of an action.",
        actions=_WRITTEN,
    ),
    "import": Command(
        _import,
        _IMPORT,
        _print_import,
        more={
            "source": {"dest": "sources"},
            "into": {"dest": "store", "default": argparse.SUPPRESS},
            "kind": {"choices": KINDS},
            "url-field": {"default": "url"},
            "resume": {"dest": "journal_path"},
        },
        examples=(
            "import fingerprints.archive --store seeded",
            "import crawl.warc.gz --store seeded",
            "import monday tuesday --into week",
            "import week --into redis://localhost:6379/0",
        ),
        details="An archive has fingerprints, not documents, so importing it does not restore a "
        "store. To restore one, put its backup in its place. A single store is copied unchanged "
        "into a new or empty one. Otherwise what it has stays, and the documents are judged in the "
        "order in which they were first seen.",
    ),
}
