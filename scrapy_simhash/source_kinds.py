"""What there is to be imported from: told by name and content."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_simhash.archive_format import MAGIC
from scrapy_simhash.source_feed import HTML_FIELDS, SUFFIXES, FeedSource
from scrapy_simhash.source_folder import FolderSource
from scrapy_simhash.source_warc import open_wacz, open_warc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.sources import Source

# Its own constant stands in a module that loads lmdb.
_DATA_FILE_OF_STORE = "data.mdb"
# Longer than any of the beginnings below.
_OCTETS_TOLD_BY = 16
_BEGINNINGS = {
    b"WARC/": "warc",
    b"\x28\xb5\x2f\xfd": "warc",  # zstd, of which no other kind is made
    b"PK\x03\x04": "wacz",
    b"PAR1": "parquet",
    MAGIC: "archive",
}


def find_kind(name: str, kind: str | None = None) -> str:
    """Tell what a source is.

    Args:
        name: a path, or the URL of a store.
        kind: as the user says; None to find out.

    Raises:
        ValueError: it is of no kind that is known.
        OSError: it is not there, or cannot be read.
    """
    if kind is None and "://" in name:
        return "store"
    if kind == "store":
        return kind
    path = Path(name)
    path.stat()
    if kind is not None:
        return kind
    if path.is_dir():
        return _find_kind_of_folder(path)
    beginning = _read_beginning(path)
    for octets, found in _BEGINNINGS.items():
        if beginning.startswith(octets):
            return found
    if (suffix := Path(path.name.removesuffix(".gz")).suffix.lower()) in SUFFIXES:
        return SUFFIXES[suffix]
    raise ValueError(
        f"{name} cannot be used: it is no archive, WARC, WACZ, Parquet file, store or folder by "
        f"its content, nor a feed by its name ({', '.join(SUFFIXES)}); if it is one of them all "
        "the same, say which with --kind"
    )


def _find_kind_of_folder(path: Path) -> str:
    if (path / _DATA_FILE_OF_STORE).exists():
        return "store"
    return "parquet" if any(path.glob("*.parquet")) else "folder"


def _read_beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        beginning = file.read(_OCTETS_TOLD_BY)
    if beginning.startswith(b"\x1f\x8b"):
        with suppress(OSError, EOFError, zlib.error), gzip.open(path) as file:
            return file.read(_OCTETS_TOLD_BY)
    return beginning


def open_pages(
    name: str, kind: str, url_field: str, html_field: str | None, most_bytes: int
) -> Sequence[Source]:
    """Open a source of pages; a WACZ has several.

    Args:
        name: its path.
        kind: one of `sources.PAGE_KINDS`.
        url_field: of a feed's items.
        html_field: of a feed's items; None for the usual ones.
        most_bytes: of longer pages only so many are read, and one more.

    Raises:
        SourceError: it cannot be read at all.
        OSError: it is not there, or cannot be read.
    """
    # By another name it would be another source to the journal.
    path = Path(name).resolve()
    if kind == "folder":
        return [FolderSource(path, most_bytes)]
    if kind == "wacz":
        return open_wacz(path, most_bytes)
    if kind == "warc":
        return [open_warc(path, most_bytes)]
    return [FeedSource(path, kind, url_field, (html_field,) if html_field else HTML_FIELDS)]
