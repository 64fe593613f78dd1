"""Commands that move data into stores and out of them: import, export."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_simhash._printable import printable
from scrapy_simhash._progress import show_progress
from scrapy_simhash.batch import export_archive
from scrapy_simhash.commands.answering import describe_match, print_fields, take_crawl
from scrapy_simhash.inspection.log import find_crawl, find_log
from scrapy_simhash.judging.documents import State, StoredDocument
from scrapy_simhash.pages.addresses import is_better_url
from scrapy_simhash.stores.opening import open_as_it_is

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.commands.answering import Answer
    from scrapy_simhash.commands.command import Make
    from scrapy_simhash.config import Config
    from scrapy_simhash.stores.documents import Documents
    from scrapy_simhash.stores.store import Store


def _import(config: Config, options: Namespace) -> Iterator[Answer]:
    from scrapy_simhash.transfer import importing  # noqa: PLC0415 - loads turbohtml

    sources = [(name, importing.find_kind(name)) for name in options.sources]
    yield from importing.import_sources(config, options.settings, sources)


def add_import(make: Make) -> None:
    """Add the command `import`."""
    parser = make(
        "Fill a store from pages or other stores. What the store has already is recognised: run "
        "an import that was interrupted again. Of a store, the pages that came through come in, if "
        "its recipe and seed are those of the store; to restore one, put its backup in its place.",
        _import,
        "import crawl.warc.gz --store seeded",
        "import .scrapy/simhash --store copy",
    )
    about = "WARC or WACZ, feed (JSON Lines), folder with pages.csv, or store"
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help=about)


_KEPT = ("url", "document", "state", "title", "canonical", "crawls", "time")
_DROPPED = ("url", "document", "distance", "similarity", "crawls", "time")


def list_kept(
    store: Store, crawl: str | None = None, *, every: bool = False
) -> Iterator[dict[str, Any]]:
    """List the kept pages of a store, each with its near-duplicates, in order of their arrival.

    Reads every record once and the kept ones again; holds some 300 bytes for each near-duplicate.
    `crawl` is that of the near-duplicates, if not any; with `every` also pages that have none. A
    page that was deleted or cannot be read has its number only.
    """

    def work(stored: Documents) -> dict[int, list[tuple[dict[str, Any], str]]]:
        groups: defaultdict[int, list[tuple[dict[str, Any], str]]] = defaultdict(list)
        for number, record in stored:
            if record.state != State.DUPLICATE:
                if every:
                    groups.setdefault(number, [])
            elif crawl is None or crawl in record.crawls:
                shown = StoredDocument(number, record).pick(*_DROPPED) | {"undone": record.spared}
                groups[record.original].append((shown, record.facts.canonical))
        return groups

    groups = store.read(work)
    for number in sorted(groups):
        kept = store.get_documents([number]).get(number)
        page = kept.pick(*_KEPT) if kept else dict.fromkeys(_KEPT)
        better = (
            shown["url"]
            for shown, canonical in groups[number]
            if kept and is_better_url(shown["url"], canonical, kept.facts.url, kept.facts.canonical)
        )
        duplicates = [shown for shown, _ in groups[number]]
        yield {**page, "document": number, "better_url": next(better, ""), "duplicates": duplicates}


def _export(config: Config, options: Namespace) -> Iterator[Answer]:
    """Copy a store, or write its fingerprints, or list its near-duplicates."""
    if options.what == "duplicates":
        crawl = find_crawl(find_log(config, None), options.crawl)
        with open_as_it_is(config.store) as store:
            yield from list_kept(store, crawl, every=options.every)
    elif options.output is None:
        raise ValueError(f"export {options.what} needs --output, a file or folder to write")
    elif options.what == "fingerprints":
        yield from export_archive(
            config, options.output, all_tables=options.all_tables, overwrite=options.overwrite
        )
    else:
        from scrapy_simhash.stores.copying import back_up  # noqa: PLC0415 - loads lmdb

        with open_as_it_is(config.store) as store:
            with show_progress("copying, and comparing the copy" if options.check else "copying"):
                made = back_up(store, options.output, check=options.check)
            yield made


def _print_export(answer: Answer) -> Iterable[str]:
    """Write a kept page in a line, and each of its duplicates in one that is indented."""
    if "duplicates" not in answer:
        yield from print_fields(answer)
        return
    gone = f"document {answer['document']}, deleted or damaged"
    better = f"  (better: {printable(answer['better_url'])})" * bool(answer["better_url"])
    yield gone if answer["url"] is None else f"{printable(answer['url'])}{better}"
    for duplicate in answer["duplicates"]:
        undone = ", undone" * duplicate["undone"]
        yield f"    {printable(duplicate['url'])}  ({describe_match(duplicate)}{undone})"


def add_export(make: Make) -> None:
    """Add the command `export`."""
    add = make(
        "Copy a store, or write its fingerprints or duplicates. An archive has fingerprints, "
        "not documents.",
        _export,
        "export store -o simhash-backup",
        "export fingerprints --tables -o probed.archive",
        "export duplicates --all --crawl last",
        printer=_print_export,
        takes="store overwrite",
    ).add_argument
    about = (
        "store: the whole store, checked, while crawls write; fingerprints: an archive; "
        "duplicates: a list of the kept pages, each with those dropped, or flagged, for it"
    )
    add("what", choices=("store", "fingerprints", "duplicates"), metavar="WHAT", help=about)
    about = "the new folder for a store, or the file for fingerprints"
    add("-o", "--output", type=Path, metavar="PATH", help=about)
    about = "store: do not compare the tables of the copy with each other and with the documents"
    add("--no-check", dest="check", action="store_false", help=about)
    about = "fingerprints: with all tables of the store, so that it can be probed on its own"
    add("--tables", dest="all_tables", action="store_true", help=about)
    about = "duplicates: list the kept pages without duplicates, too"
    add("--all", dest="every", action="store_true", help=about)
    take_crawl(add, "duplicates: only of this crawl")
