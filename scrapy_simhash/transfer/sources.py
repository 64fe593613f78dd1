"""What `import` reads: pages of WARC files, feeds and folders.

Sources are generators, and read nothing twice. What a file unpacks to may be of any size: a line,
an item, a page and the number of an archive's members are bounded.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, cast
from zipfile import BadZipFile, ZipFile

import msgspec

from scrapy_simhash.errors import SourceError
from scrapy_simhash.pages.facts import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What reading a file may raise, whatever is in it.
_UNREADABLE = (
    *(OSError, EOFError, ValueError, RuntimeError, MemoryError, zlib.error, csv.Error),
    *(msgspec.MsgspecError, BadZipFile),
)
_GZIP = b"\x1f\x8b\x08"


class SourcePage(NamedTuple):
    """A page as its source has it."""

    url: str  # may be invalid
    body: bytes  # with transfer and content encodings undone, but still in its charset
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()  # HTTP headers; feeds and folders have none
    html: bool = True  # it is HTML; False if only the headers can tell
    encoding: str | None = None  # charset of the body, if known
    time: float | None = None  # of the fetch, seconds since 1970, UTC, if known


class Skipped(NamedTuple):
    """A record without a page."""

    reason: str  # a word to count it by
    problem: str = ""  # which record cannot be read, and why; "" if it is sound


Entry: TypeAlias = SourcePage | Skipped


# Of the names of feeds, without .gz.
FEEDS = (".jsonl", ".jl", ".jsonlines", ".ndjson")
TABLE = "pages.csv"  # of a folder: the addresses of its pages
# An item has the HTML with escapes, and other fields.
_MOST_ITEM_BYTES = 8 * MOST_BYTES


def read_source(name: str, kind: str) -> Iterator[Entry]:
    """Read all records of a source of pages, of each at most `MOST_BYTES` + 1 octets.

    Raises:
        SourceError: from here on the source is cut or damaged.
    """
    record = 0
    try:
        for entry in _read_records(Path(name), kind):
            record += 1
            yield entry
        if not record:
            raise EOFError("it has no record")
    except _UNREADABLE as error:
        raise SourceError(
            f"{name} cannot be read from record {record + 1:,} on: "
            f"{str(error) or 'it ends there'}. Repair it, or get a complete copy, and run this "
            "again"
        ) from error


def _read_records(path: Path, kind: str) -> Iterator[Entry]:
    if kind == "folder":
        yield from _read_folder(path)
    elif kind == "wacz":
        with ZipFile(path) as zipped:
            for member in zipped.namelist():
                if member.startswith("archive/") and not member.endswith("/"):
                    with zipped.open(member) as file:
                        yield from _read_warc(cast("BinaryIO", file))
    else:
        with path.open("rb") as file:
            yield from (_read_warc if kind == "warc" else _read_feed)(file)


def _unzip(file: BinaryIO) -> BinaryIO:
    """Unpack a file that is gzipped."""
    if not cast("Any", file).peek(len(_GZIP)).startswith(_GZIP):
        return file
    return cast("BinaryIO", gzip.GzipFile(fileobj=file))


# Feeds of Scrapy: items with a URL and HTML


class _Item(msgspec.Struct):
    """What is read of an item: its other fields may have any number of values."""

    url: str
    html: str | None = None
    body: str | None = None


def _read_feed(file: BinaryIO) -> Iterator[Entry]:
    lines, found, last = _unzip(file), False, b""
    for number in count(1):
        if not (line := lines.readline(_MOST_ITEM_BYTES + 1)):
            break
        if len(line) > _MOST_ITEM_BYTES:
            while line and not line.endswith(b"\n"):
                line = lines.readline(_MOST_ITEM_BYTES)
            problem = f"line {number:,} has more than {_MOST_ITEM_BYTES:,} octets"
            yield Skipped("too_large", problem)
        elif line.strip():
            try:
                item = msgspec.json.decode(line, type=_Item)
                html = item.body if item.html is None else item.html
            except msgspec.ValidationError:
                html = None
            except (ValueError, RecursionError) as error:
                yield Skipped("unreadable", f"line {number:,} is no JSON: {error}")
                continue
            if html is None:
                last = line
                yield Skipped("no_html")
            else:
                found = True
                yield SourcePage(item.url, html.encode(), encoding="utf-8")
    if not found and last:
        is_object = last.lstrip().startswith(b"{")
        fields = msgspec.json.decode(last, type=dict[str, msgspec.Raw]) if is_object else ()
        raise SourceError(
            f"{file.name} has no page: no item has the fields url and html or body. The last item "
            f"has: {', '.join(fields) or 'nothing'}; rename its fields"
        )


def _read_folder(folder: Path) -> Iterator[Entry]:
    """Read the pages that a table lists: columns `url` and `path`, others are ignored."""
    csv.field_size_limit(max(csv.field_size_limit(), MOST_BYTES))  # a cell may hold a page
    with (folder / TABLE).open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file, strict=True):
            if not row.keys() >= {"url", "path"}:
                raise ValueError(
                    f"its table has columns {', '.join(map(str, row))}, not url and path"
                )
            path = folder / (row["path"] or "")
            if row["path"] and path.resolve().is_relative_to(folder.resolve()):
                yield _read_page(row["url"], path)
            else:
                yield Skipped("unreadable", f"the path {row['path']!r} is outside of the folder")


def _read_page(url: str, path: Path) -> Entry:
    try:
        with path.open("rb") as file:
            return SourcePage(url, _unzip(file).read(MOST_BYTES + 1))
    except _UNREADABLE as error:
        return Skipped("unreadable", f"{path}: {str(error) or 'it ends too early'}")


# WARC files, read with FastWARC (extra `warc`): a `response` record is a page; a `revisit` record
# is not, because its body is in an earlier one.


class _Stream:
    """A file for FastWARC, which gets what there is before what is damaged; it never seeks."""

    def __init__(self, file: BinaryIO) -> None:
        self.read = cast("Any", file).read1

    def tell(self) -> int:
        return 0


def _read_warc(file: BinaryIO) -> Iterator[Entry]:
    """Read a WARC file, plain or compressed; raises EOFError if it is cut short."""
    try:
        from fastwarc.warc import ArchiveIterator  # noqa: PLC0415 - an extra
    except ImportError:
        raise SourceError("WARC files need pip install 'scrapy-simhash[warc]'") from None
    # FastWARC itself unpacks twice as fast, but does not notice a cut between records.
    for record in ArchiveIterator(cast("Any", _Stream(_unzip(file))), parse_http=False):
        if not record.headers.contains_key("Content-Length"):
            raise EOFError("it is cut short, or not a WARC")
        yield _read_record(record)


def _read_record(record: Any) -> Entry:
    date, url = record.record_date, record.headers.get("WARC-Target-URI") or ""
    skipped = None
    if (record.headers.get("WARC-Type") or "").lower() != "response" or not record.is_http:
        skipped = Skipped("no_response")
    else:
        try:
            record.parse_http()
        except OSError:
            skipped = Skipped("bad_http")
    expected = record.content_length
    body = _read_bounded(record.reader)
    rest = record.reader.consume() if len(body) > MOST_BYTES else 0
    if len(body) + rest < expected:
        raise EOFError("it is cut short")
    if skipped:
        return skipped
    headers = record.http_headers
    return SourcePage(
        url.removeprefix("<").removesuffix(">"),
        _decode(body, headers),
        headers.status_code or 0,
        tuple(headers.to_tuples()),
        html=False,
        time=date.timestamp() if date else None,
    )


def _read_bounded(reader: Any) -> bytes:
    """Read at most `MOST_BYTES` + 1 octets: a few kilobytes may unpack to gigabytes."""
    parts, left = [], MOST_BYTES + 1
    while left and (part := reader.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _decode(body: bytes, headers: Any) -> bytes:
    """Undo transfer and content encoding; leaves a body with a wrong declaration as it is."""
    from fastwarc import stream_io  # noqa: PLC0415 - only for this

    readers: dict[str, Callable[[BytesIO], Any]] = {
        "chunked": stream_io.ChunkedReader,
        "gzip": stream_io.GzipReader,
        "x-gzip": stream_io.GzipReader,
        "br": stream_io.BrotliReader,
        "zstd": stream_io.ZstdReader,
        "deflate": partial(stream_io.GzipReader, zlib=True),
    }
    for name in ("Transfer-Encoding", "Content-Encoding"):
        for coding in reversed((headers.get(name) or "").lower().split(",")):
            if reader := readers.get(coding.strip()):
                with suppress(OSError):
                    body = _read_bounded(reader(BytesIO(body)))
    return body


def read_warc(path: Path) -> Iterator[tuple[str, bytes, int, str, float | None]]:
    """Read the responses of a WARC file: URL, body, status, content type, time."""
    for page in read_source(str(path), "warc"):
        if isinstance(page, SourcePage):
            kinds = (value for name, value in page.headers if name.lower() == "content-type")
            yield page.url, page.body, page.status, next(kinds, ""), page.time
