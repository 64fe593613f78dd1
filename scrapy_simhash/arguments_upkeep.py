"""Arguments of the commands that change, copy or check a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_simhash.sources import KINDS

if TYPE_CHECKING:
    import argparse


def add_rebuild(parser: argparse.ArgumentParser) -> None:
    """Add those of `rebuild`."""
    parser.add_argument("--tables", metavar="DESIGN", help="another one (default: the same)")


def add_prune(parser: argparse.ArgumentParser) -> None:
    """Add those of `prune`."""
    parser.add_argument(
        "--days", type=float, metavar="N", help="last seen more than so many days ago"
    )
    _add_choice(parser)


def add_delete(parser: argparse.ArgumentParser) -> None:
    """Add those of `delete`."""
    parser.add_argument("urls", nargs="*", metavar="URL")
    _add_choice(parser)


def add_undo(parser: argparse.ArgumentParser) -> None:
    """Add those of `undo`."""
    parser.add_argument("urls", nargs="*", metavar="URL", help="that were dropped")
    parser.add_argument("--original", metavar="URL", help="only drops for this page")
    parser.add_argument("--distance", type=int, metavar="BITS", help="only of this distance")
    _add_crawl(parser)
    parser.add_argument(
        "--lost", action="store_true", help="only drops for pages whose items never came through"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", dest="urls_path", help="write the URLs there"
    )
    parser.add_argument("--dry-run", action="store_true", help="list them, change nothing")


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add those of `export`."""
    _add_archive(parser)
    parser.add_argument(
        "--tables",
        action="store_true",
        dest="all_tables",
        help="all tables of the store's design, so that the archive answers probes by itself",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def add_import(parser: argparse.ArgumentParser) -> None:
    """Add those of `import`."""
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="WARC, WACZ, feed (JSON Lines, JSON, CSV), folder of HTML files, archive, store, or "
        "Parquet of `spark`",
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        metavar="KIND",
        help=f"of all sources (default: found out): {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--url-field", default="url", metavar="NAME", help="of a feed's items (default: url)"
    )
    parser.add_argument(
        "--html-field", metavar="NAME", help="of a feed's items (default: html, or else body)"
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        dest="journal_path",
        help="journal of how far pages were read (default: imports.json in the store's folder)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="count what there is, change nothing"
    )
    parser.add_argument(
        "--base",
        action="store_true",
        help="keep an archive compressed, beneath the store's tables",
    )


def add_merge(parser: argparse.ArgumentParser) -> None:
    """Add those of `merge`."""
    parser.add_argument("sources", nargs="+", metavar="STORE", help="folders or URLs; not changed")
    parser.add_argument(
        "--into", required=True, metavar="STORE", help="folder or URL; made where there is none"
    )


def add_backup(parser: argparse.ArgumentParser) -> None:
    """Add those of `backup`."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="that is not there yet")
    parser.add_argument(
        "--no-check",
        action="store_false",
        dest="check",
        help="do not compare the tables of the copy with each other and with the documents",
    )


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scope", metavar="S", help="only of this scope; '' for the global one")
    _add_crawl(parser)
    parser.add_argument("--dry-run", action="store_true", help="list what would go, delete nothing")


def _add_crawl(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--crawl", metavar="ID", help="only of this crawl; last for the newest one of the log"
    )


def _add_archive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive_path", type=Path, metavar="FILE")
