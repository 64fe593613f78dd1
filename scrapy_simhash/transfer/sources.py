"""Sources of `import`: their entries, how reading resumes, feeds, and folders of pages.

A position counts the records (or files) of a source that were read, and has a checksum of them.
If a truncated WARC is replaced by the complete file, reading resumes where it stopped; a different
file with the same name is read from the start.

A feed is of Scrapy: items with URL and HTML, as JSON Lines, JSON or CSV, gzipped or not.

A folder has HTML files, with or without a table of their URLs::

    pages.csv or index.csv    url, path; other columns are ignored

Without a table, the pages are all `.html`, `.htm` and `.xhtml` files below the folder, in the order
of their names, and their URLs are `file://...`. Names of gzipped files end in `.gz`.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from abc import ABC, abstractmethod
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO, cast

import msgspec
import xxhash

from scrapy_simhash.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# The last three hold fingerprints instead of pages.
KINDS = ("warc", "wacz", "jsonl", "json", "csv", "folder", "archive", "store", "parquet")
_OCTETS_PER_READ = 1 << 20


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a source was read."""

    record: int = 0  # number of records read
    offset: int = 0  # octet where the next record begins; 0 if it is found only by counting
    octets: int = 0  # of the checksum of a file: those before `offset`, or all
    digest: str = ""  # their checksum, hexadecimal; "" at the beginning


START = Position()


class SourcePage(NamedTuple):
    """A page as stored in its source."""

    url: str  # may be invalid
    body: bytes  # with transfer and content encodings undone, but still in its charset
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()  # HTTP headers; feeds and folders have none
    html: bool = True  # it is HTML; False if only the headers can tell
    encoding: str | None = None  # charset of the body, if known
    time: float | None = None  # of the fetch, seconds since 1970, UTC, if known


class Entry(NamedTuple):
    """A record of a source: a page, or the facts of a document, or the reason why it has none."""

    page: SourcePage | dict[str, Any] | str
    record: int  # number of records read, including this one
    offset: int  # see `Position`
    done: int  # of `Source.total`


class Source(ABC):
    """A source of records."""

    name: str  # for messages and the journal; if it is a path, absolute
    kind: str  # a value of `--kind`
    unit: str  # what `total` counts, in the plural
    total: int
    without_address = 0  # how many of its pages have the URL of their file

    @abstractmethod
    def read(self, start: Position) -> Iterator[Entry]:
        """Read the records after a position; raises SourceError where it is cut or damaged."""

    @abstractmethod
    def _sum(self, position: Position) -> str:
        """Make a checksum of what is before a position; "" if there is less."""

    def mark(self, record: int, offset: int) -> Position:
        """Make the position after an entry, with a checksum for `holds`."""
        position = Position(record, offset, offset or self.total)
        return msgspec.structs.replace(position, digest=self._sum(position))

    def holds(self, position: Position) -> bool:
        """Whether the part before a position is unchanged."""
        return position == START or self._sum(position) == position.digest

    def _unreadable(self, where: str, error: Exception) -> SourceError:
        return SourceError(
            f"{self.name} cannot be read from {where} on: {str(error) or 'it ends there'}. "
            "Repair it, or get a complete copy, and run this again: it resumes there"
        )


class FileSource(Source):
    """A file of records; its checksum is extended as the file is read."""

    unit = "octets"

    def __init__(self, name: str, kind: str, reopen: Callable[[], BinaryIO], total: int) -> None:
        self.name, self.kind, self.total = name, kind, total
        self._reopen = reopen
        self._octets = 0
        self._hash = xxhash.xxh3_128()

    def _sum(self, position: Position) -> str:
        # Without an offset, it covers the whole file.
        octets = position.octets
        if octets < self._octets:
            self._octets, self._hash = 0, xxhash.xxh3_128()
        if octets > self._octets:
            with self._reopen() as file:
                file.seek(self._octets)
                while self._octets < octets:
                    read = file.read(min(_OCTETS_PER_READ, octets - self._octets))
                    if not read:
                        return ""
                    self._hash.update(read)
                    self._octets += len(read)
        return self._hash.hexdigest()


# Kinds by the suffix of the file's name without .gz.
SUFFIXES = {
    ".jsonl": "jsonl",
    ".jl": "jsonl",
    ".jsonlines": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
}
# An item's page is in the first of these fields that it has.
HTML_FIELDS = ("html", "body")
_LARGEST_CELL_BYTES = 16 * 2**20
_CHARACTERS_PER_READ = 1 << 16
_JSON_BETWEEN = " \t\r\n,"
_NO_HTML = "no_html"
_END = object()


class FeedSource(FileSource):
    """A feed of kind `jsonl`, `json` or `csv`; the first HTML field of an item has its page."""

    def __init__(self, path: Path, kind: str, url_field: str, html_fields: tuple[str, ...]) -> None:
        super().__init__(str(path), kind, lambda: path.open("rb"), path.stat().st_size)
        self._fields = url_field, html_fields
        self._zipped = path.suffix == ".gz"

    def read(self, start: Position) -> Iterator[Entry]:
        """See `Source.read`."""
        readers: dict[str, Callable[..., Iterator[tuple[Any, int]]]] = {
            "jsonl": self._read_lines,
            "json": self._read_array,
            "csv": self._read_rows,
        }
        record, seen, lacking = start.record, start.record, None
        with self._reopen() as raw:
            try:
                file = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if self._zipped else raw
                file.seek(start.offset)
                items = readers[self.kind](file)
                for number, (item, offset) in enumerate(items, 1):
                    if not start.offset and number <= start.record:
                        continue
                    page = self._make_page(item)
                    record += 1
                    lacking = item if page == _NO_HTML else lacking
                    seen += page != _NO_HTML
                    yield Entry(page, record, offset, raw.tell())
            except (
                *(OSError, EOFError, zlib.error, ValueError, csv.Error),
                msgspec.DecodeError,
            ) as error:
                raise self._unreadable(f"record {record + 1:,}", error) from error
        if lacking is not None and not seen:
            raise SourceError(self._describe_missing(lacking))

    def _describe_missing(self, item: Any) -> str:
        url_field, html_fields = self._fields
        found = ", ".join(map(str, item)) if isinstance(item, dict) else type(item).__name__
        return (
            f"{self.name} has no page: no item has the fields {url_field} and "
            f"{' or '.join(html_fields)}. The last item has: {found or 'nothing'}. Name its fields "
            "with --url-field and --html-field"
        )

    def _make_page(self, item: Any) -> SourcePage | str:
        url_field, html_fields = self._fields
        if not isinstance(item, dict):
            return _NO_HTML
        url = item.get(url_field)
        html = next((item[name] for name in html_fields if isinstance(item.get(name), str)), None)
        if not isinstance(url, str) or html is None:
            return _NO_HTML
        return SourcePage(url, html.encode("utf-8", "replace"), encoding="utf-8")

    def _read_lines(self, file: BinaryIO) -> Iterator[tuple[Any, int]]:
        for line in iter(file.readline, b""):
            if line.strip():
                yield msgspec.json.decode(line), 0 if self._zipped else file.tell()

    def _read_rows(self, file: BinaryIO) -> Iterator[tuple[Any, int]]:
        csv.field_size_limit(_LARGEST_CELL_BYTES)
        with TextIOWrapper(file, "utf-8-sig", newline="") as text:
            reader = csv.DictReader(text, strict=True)
            url_field, html_fields = self._fields
            columns = list(reader.fieldnames or ())
            if url_field not in columns or not set(html_fields).intersection(columns):
                raise SourceError(self._describe_missing(dict.fromkeys(columns)))
            for row in reader:
                yield row, 0

    def _read_array(self, file: BinaryIO) -> Iterator[tuple[Any, int]]:
        """Read an array item by item, because all of it may not fit into memory."""
        with TextIOWrapper(file, "utf-8-sig") as text:
            buffer = text.read(_CHARACTERS_PER_READ).lstrip()
            if not buffer.startswith("["):
                raise ValueError("it is not a JSON array")
            buffer = buffer[1:]
            while True:
                item, buffer = _take_item(buffer.lstrip(_JSON_BETWEEN), text)
                if item is _END:
                    return
                yield item, 0


def _take_item(buffer: str, text: TextIO) -> tuple[Any, str]:
    """Decode the first item of a text, reading on if needed; `_END` at the end of the array."""
    while True:
        if buffer.startswith("]"):
            return _END, ""
        try:
            item, end = json.JSONDecoder().raw_decode(buffer)
            return item, buffer[end:]
        except ValueError:
            # Doubles the text each time, so that a large item is not decoded too often.
            more = text.read(max(_CHARACTERS_PER_READ, len(buffer)))
            if not more:
                raise
            buffer = (buffer + more).lstrip(_JSON_BETWEEN)


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
