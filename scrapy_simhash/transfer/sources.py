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
from pathlib import Path
from types import SimpleNamespace
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
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html"),)
    status: int = 200
    time: float | None = None  # of the fetch, seconds since 1970, UTC, if known


class Skipped(NamedTuple):
    """A record without a page."""

    reason: str  # a word to count it by
    problem: str = ""  # which record cannot be read, and why; "" if it is sound


Entry: TypeAlias = SourcePage | Skipped
TABLE = "pages.csv"  # of a folder: the addresses of its pages
# A copy, because the store's constant is in a module that loads lmdb.
_DATA_FILE_OF_STORE = "data.mdb"
_FEEDS = (".jsonl", ".jl", ".jsonlines", ".ndjson")
_KINDS = {"warc": (".warc", ".warc.zst"), "wacz": (".wacz",), "jsonl": _FEEDS}
# An item has the HTML with escapes, and other fields.
_MOST_ITEM_BYTES = 8 * MOST_BYTES


def find_kind(name: str) -> str:
    """Find the kind of a path or of a store's URL."""
    path = Path(name)
    if "://" in name or (path / _DATA_FILE_OF_STORE).exists():
        return "store"
    if (path / TABLE).exists():
        return "folder"
    path.stat()  # raises if it does not exist
    plain = path.name.lower().removesuffix(".gz")
    for kind, endings in _KINDS.items():
        if plain.endswith(endings) and not path.is_dir():
            return kind
    raise ValueError(
        f"{name} cannot be used; name a store, a WARC (.warc, .warc.gz, .wacz), a feed "
        f"({', '.join(_FEEDS)}, perhaps with .gz), or a folder with {TABLE} (columns url, path)"
    )


def read_source(name: str, kind: str) -> Iterator[Entry]:
    """Read all records of a source of pages, of each at most `MOST_BYTES` + 1 octets.

    Raises:
        SourceError: from here on the source is cut or damaged.
    """
    record = 0
    try:
        for record, entry in enumerate(_read_records(Path(name), kind), 1):  # noqa: B007
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


class _Item(msgspec.Struct):
    """What is read of an item of a feed: its other fields may have any number of values."""

    url: str
    html: str | None = None
    body: str | None = None


_UTF_8 = (("Content-Type", "text/html; charset=utf-8"),)


def _read_feed(file: BinaryIO) -> Iterator[Entry]:
    lines, found, other = _unzip(file), False, b""
    for number, line in enumerate(iter(partial(lines.readline, _MOST_ITEM_BYTES + 1), b""), 1):
        if len(line) > _MOST_ITEM_BYTES:
            while line and not line.endswith(b"\n"):
                line = lines.readline(_MOST_ITEM_BYTES)  # noqa: PLW2901 - the rest of it
            yield Skipped("too_large", f"line {number:,} has more than {_MOST_ITEM_BYTES:,} octets")
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
                other = line
                yield Skipped("no_html")
            else:
                found = True
                yield SourcePage(item.url, html.encode(), _UTF_8)
    if not found and other:
        is_object = other.lstrip().startswith(b"{")
        fields = msgspec.json.decode(other, type=dict[str, msgspec.Raw]) if is_object else ()
        raise SourceError(
            f"{file.name} has no page: no item has the fields url and html or body. The last item "
            f"has: {', '.join(fields) or 'nothing'}; rename its fields"
        )


def _read_folder(folder: Path) -> Iterator[Entry]:
    """Read the pages that a table lists: columns `url` and `path`, others are ignored."""
    with (folder / TABLE).open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file, strict=True):
            if not row.keys() >= {"url", "path"}:
                raise ValueError(
                    f"its table has columns {', '.join(map(str, row))}, not url and path"
                )
            path = folder / (row["path"] or "")
            if not (row["path"] and path.resolve().is_relative_to(folder.resolve())):
                yield Skipped("unreadable", f"the path {row['path']!r} is outside of the folder")
                continue
            try:
                with path.open("rb") as page:
                    body = _unzip(page).read(MOST_BYTES + 1)
            except _UNREADABLE as error:
                yield Skipped("unreadable", f"{path}: {str(error) or 'it ends too early'}")
            else:
                yield SourcePage(row["url"], body)


def _read_warc(file: BinaryIO) -> Iterator[Entry]:
    """Read a WARC file, plain or compressed; raises EOFError if it is cut short."""
    try:
        from fastwarc.warc import ArchiveIterator  # noqa: PLC0415 - an extra
    except ImportError:
        raise SourceError("WARC files need pip install 'scrapy-simhash[warc]'") from None
    # FastWARC itself unpacks twice as fast, but does not notice a cut between records. It gets what
    # there is before what is damaged, and never seeks.
    stream = SimpleNamespace(read=cast("Any", _unzip(file)).read1, tell=lambda: 0)
    for record in ArchiveIterator(cast("Any", stream), parse_http=False):
        if not record.headers.contains_key("Content-Length"):
            raise EOFError("it is cut short, or not a WARC")
        yield _read_record(record)


def _read_record(record: Any) -> Entry:
    """Read a record: a `response` is a page; the body of a `revisit` is in an earlier record."""
    skipped = Skipped("no_response")
    if is_page := record.is_http and (record.headers.get("WARC-Type") or "").lower() == "response":
        try:
            record.parse_http()
        except OSError:
            is_page, skipped = False, Skipped("bad_http")
    expected = record.content_length
    body = _read_bounded(record.reader)
    rest = record.reader.consume() if len(body) > MOST_BYTES else 0
    if len(body) + rest < expected:
        raise EOFError("it is cut short")
    if not is_page:
        return skipped
    url, headers = record.headers.get("WARC-Target-URI") or "", record.http_headers
    return SourcePage(
        url.removeprefix("<").removesuffix(">"),
        _decode(body, headers),
        tuple(headers.to_tuples()),
        headers.status_code or 0,
        record.record_date and record.record_date.timestamp(),
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
    given = f"{headers.get('Content-Encoding')},{headers.get('Transfer-Encoding')}".lower()
    for coding in given.split(",")[::-1]:
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
