"""Pages of WARC files, single or in a WACZ; read with FastWARC (extra `warc`).

A `response` record is a page; a `revisit` record is not, because its body is in an earlier one.
"""

from __future__ import annotations

import zipfile
import zlib
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

from scrapy_simhash.errors import SourceError
from scrapy_simhash.transfer.sources import START, Entry, FileSource, Position, SourcePage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


# The first octets of a gzip member, a zstd frame and a WARC record, where reading can start.
_BEGINNINGS = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"WARC/")
_GZIP = _BEGINNINGS[0]
_LONGEST_BEGINNING = max(map(len, _BEGINNINGS))
SUFFIXES = (".warc", ".warc.gz", ".warc.zst")
_OCTETS_PER_READ = 1 << 16


class WarcSource(FileSource):
    """A WARC file, plain, or compressed record by record or as a whole."""

    def __init__(
        self, name: str, reopen: Callable[[], BinaryIO], total: int, most_bytes: int
    ) -> None:
        super().__init__(name, "warc", reopen, total)
        self._most_bytes = most_bytes

    def read(self, start: Position) -> Iterator[Entry]:
        """See `Source.read`."""
        record, offset = start.record, start.offset
        try:
            with self._reopen() as file:
                file.seek(offset)
                entries = self._read_records(file)
                if not offset:
                    for _ in range(record):
                        next(entries)
                for page, done, next_offset in entries:
                    record, offset = record + 1, next_offset
                    yield Entry(page, record, offset, done)
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile, StopIteration) as error:
            where = f"octet {offset:,} (record {record + 1:,})"
            raise self._unreadable(where, error) from error

    def _read_records(self, file: BinaryIO) -> Iterator[tuple[SourcePage | str, int, int]]:
        """Yield each record's page, the octets read so far, and the next record's offset or 0."""
        held: SourcePage | str | None = None
        last = file.tell()
        singly: bool | None = None  # whether reading can start at each record
        for record in _load_fastwarc().ArchiveIterator(file, parse_http=False):
            if held is not None:
                if singly is None:
                    singly = self._begins(record.stream_pos)
                last = record.stream_pos if singly else last
                yield held, record.stream_pos, record.stream_pos if singly else 0
            held = self._read_record(record)
        self._require_end(last)
        if held is not None:
            yield held, self.total, self.total

    def _begins(self, offset: int) -> bool:
        """Whether reading can start there; never in a file that was compressed as a whole."""
        with self._reopen() as file:
            file.seek(offset)
            return file.read(_LONGEST_BEGINNING).startswith(_BEGINNINGS)

    def _require_end(self, offset: int) -> None:
        """Refuse a gzip file that ends within a member: FastWARC does not notice that."""
        with self._reopen() as file:
            file.seek(offset)
            octets = file.read(_OCTETS_PER_READ)
            while octets.startswith(_GZIP[: len(octets)]) and octets:
                member = zlib.decompressobj(wbits=31)
                while octets and not member.eof:
                    member.decompress(octets)
                    octets = file.read(_OCTETS_PER_READ) if not member.eof else octets
                if not member.eof:
                    raise EOFError("it is cut short")
                octets = member.unused_data or file.read(_OCTETS_PER_READ)

    def _read_record(self, record: Any) -> SourcePage | str:
        """Read a record to its end; raises EOFError if it is cut short."""
        if not record.headers.contains_key("Content-Length"):
            raise EOFError("it is cut short, or not a WARC")
        if record.record_type != _load_fastwarc().WarcRecordType.response or not record.is_http:
            self._read_body(record)
            return "no_response"
        date = record.record_date
        url = record.headers.get("WARC-Target-URI") or ""
        try:
            record.parse_http()
        except OSError:
            self._read_body(record)
            return "bad_http"
        body = self._read_body(record)
        headers = record.http_headers
        return SourcePage(
            url.removeprefix("<").removesuffix(">"),
            self._decode(body, headers),
            headers.status_code or 0,
            tuple(headers.to_tuples()),
            html=False,
            time=date.timestamp() if date else None,
        )

    def _read_body(self, record: Any) -> bytes:
        expected = record.content_length
        body = _read_bounded(record.reader, self._most_bytes + 1)
        rest = record.reader.consume() if len(body) > self._most_bytes else 0
        if len(body) + rest < expected:
            raise EOFError("it is cut short")
        return body

    def _decode(self, body: bytes, headers: Any) -> bytes:
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
                    try:
                        # Bounded, because a few kilobytes may unpack to gigabytes.
                        body = _read_bounded(reader(BytesIO(body)), self._most_bytes + 1)
                    except OSError:
                        continue
        return body


def _read_bounded(reader: Any, most: int) -> bytes:
    parts, left = [], most
    while left and (part := reader.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def open_warc(path: Path, most_bytes: int) -> WarcSource:
    """Open a WARC file."""
    _load_fastwarc()
    return WarcSource(str(path), lambda: path.open("rb"), path.stat().st_size, most_bytes)


def read_warc(path: Path, most_bytes: int) -> Iterator[tuple[str, bytes, int, str, float | None]]:
    """Read the responses of a WARC file: URL, body, status, content type, time."""
    for entry in open_warc(path, most_bytes).read(START):
        if isinstance(page := entry.page, SourcePage):
            kinds = (value for name, value in page.headers if name.lower() == "content-type")
            yield page.url, page.body, page.status, next(kinds, ""), page.time


def open_wacz(path: Path, most_bytes: int) -> list[WarcSource]:
    """Open the WARC files of a WACZ in the order of their names; SourceError if it has none."""
    _load_fastwarc()
    try:
        with zipfile.ZipFile(path) as packed:
            members = [member for member in packed.infolist() if member.filename.endswith(SUFFIXES)]
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceError(f"{path} is damaged or not a WACZ: {error}. Get a whole copy") from error
    if not members:
        raise SourceError(f"{path} has no WARC file in it ({', '.join(SUFFIXES)})")
    return [
        WarcSource(
            f"{path}!{member.filename}",
            partial(_open_member, path, member.filename),
            member.file_size,
            most_bytes,
        )
        for member in sorted(members, key=lambda member: member.filename)
    ]


def _open_member(path: Path, name: str) -> BinaryIO:
    with zipfile.ZipFile(path) as packed:
        return packed.open(name)  # type: ignore[return-value]  # keeps the file open by itself


def _load_fastwarc() -> Any:
    try:
        from fastwarc import warc  # noqa: PLC0415 - an extra
    except ImportError:
        raise SourceError("WARC files need pip install 'scrapy-simhash[warc]'") from None
    return warc
