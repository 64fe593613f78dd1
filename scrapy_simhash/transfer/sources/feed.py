"""Pages of a Scrapy feed: items with URL and HTML, as JSON Lines, JSON or CSV, gzipped or not."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

import msgspec

from scrapy_simhash.errors import SourceError
from scrapy_simhash.transfer.sources.base import Entry, FileSource, Position, SourcePage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


# Kinds by the suffix of the file's name without .gz.
SUFFIXES = {
    ".jsonl": "jsonl",
    ".jl": "jsonl",
    ".jsonlines": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
}
URL_FIELD = "url"
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
