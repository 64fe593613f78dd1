"""Pages of a folder of HTML files, with or without a table of their URLs.

::

    pages.csv or index.csv    url, path; other columns are ignored

Without a table, the pages are all `.html`, `.htm` and `.xhtml` files below the folder, in the order
of their names, and their URLs are `file://...`. Names of gzipped files end in `.gz`.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from typing import TYPE_CHECKING

import xxhash

from scrapy_simhash.errors import SourceError
from scrapy_simhash.transfer.sources.base import Entry, Position, Source, SourcePage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = ("pages.csv", "index.csv")
_SUFFIXES = (".html", ".htm", ".xhtml")


class FolderSource(Source):
    """A folder of pages; SourceError if its table cannot be read, or it has no page."""

    kind = "folder"
    unit = "pages"

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.name = str(folder)
        self._most_bytes = most_bytes
        table = next((folder / name for name in TABLES if (folder / name).is_file()), None)
        self._pages = _read_table(folder, table) if table else _list_pages(folder)
        if not self._pages:
            raise SourceError(f"{folder} has no page: no {', '.join(_SUFFIXES)} file, no table")
        self.total = len(self._pages)
        self.without_address = sum(url == path.as_uri() for url, path in self._pages)
        self._summed = 0
        self._hash = xxhash.xxh3_128()

    def read(self, start: Position) -> Iterator[Entry]:
        """See `Source.read`."""
        for number, (url, path) in enumerate(self._pages[start.record :], start.record + 1):
            yield Entry(self._read_page(url, path), number, 0, number)

    def _read_page(self, url: str, path: Path) -> SourcePage | str:
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                return SourcePage(url, file.read(self._most_bytes + 1))
        except (OSError, EOFError, zlib.error):
            return "unreadable"

    def _sum(self, position: Position) -> str:
        # Of names, sizes and times; extended as the pages are read, so each file is examined once.
        count = position.record
        if count > self.total:
            return ""
        if count < self._summed:
            self._summed, self._hash = 0, xxhash.xxh3_128()
        for url, path in self._pages[self._summed : count]:
            self._hash.update(_describe(url, path).encode("utf-8", "surrogateescape"))
        self._summed = count
        return self._hash.hexdigest()


def _describe(url: str, path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return f"{url}\0{path}\0\0"
    return f"{url}\0{path}\0{found.st_size}\0{found.st_mtime_ns}\0"


def _read_table(folder: Path, table: Path) -> list[tuple[str, Path]]:
    pages = []
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            columns = list(reader.fieldnames or ())
            if missing := [name for name in ("url", "path") if name not in columns]:
                raise SourceError(
                    f"{table} has no column {' and '.join(missing)}; it has {', '.join(columns)}"
                )
            for row in reader:
                path = folder / (row["path"] or "")
                if not row["path"] or not path.resolve().is_relative_to(folder.resolve()):
                    raise SourceError(
                        f"{table}, line {reader.line_num}: the path {row['path']!r} is outside of "
                        "the folder; nothing was imported from it"
                    )
                pages.append((row["url"] or path.as_uri(), path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{table} cannot be read: {error}") from error
    return pages


def _list_pages(folder: Path) -> list[tuple[str, Path]]:
    paths = (
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name.removesuffix(".gz").endswith(_SUFFIXES)
    )
    return [(path.as_uri(), path) for path in sorted(paths)]
