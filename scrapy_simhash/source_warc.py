"""Pages of WARC files, as they are or within a WACZ; by FastWARC (extra `warc`).

A `response` is a page. A `revisit` has none: its body stands in an earlier record.
"""

from __future__ import annotations

import zipfile
import zlib
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from scrapy_simhash.sources import Entry, SourceError, SourcePage, Summed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from scrapy_simhash.sources import Position

# Of a member of a gzip file, a frame of zstd, a record: one can begin to read there.
_BEGINNINGS = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"WARC/")
_GZIP = _BEGINNINGS[0]
_LONGEST_BEGINNING = max(map(len, _BEGINNINGS))
_SUFFIXES = (".warc", ".warc.gz", ".warc.zst")
_OCTETS_PER_READ = 1 << 16


class WarcSource:
    """A WARC file, plain or compressed, record by record or as a whole.

    Args:
        name: for people.
        reopen: opens it at its beginning.
        total: its octets.
        most_bytes: of longer bodies only so many are read, and one more.
    """

    kind = "warc"
    unit = "octets"

    def __init__(
        self, name: str, reopen: Callable[[], BinaryIO], total: int, most_bytes: int
    ) -> None:
        self.name = name
        self.total = total
        self._reopen = reopen
        self._most_bytes = most_bytes
        summed = Summed(reopen)
        self.mark = partial(summed.mark, total=total)
        self.holds = summed.holds

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
            raise SourceError(
                f"{self.name} cannot be read from {where} on: {error or 'it ends there'}. Get a "
                "whole copy and run this again: it goes on there"
            ) from error

    def _read_records(self, file: BinaryIO) -> Iterator[tuple[SourcePage | str, int, int]]:
        """Read each record, and tell how many octets are read, and where the next one begins.

        That is 0 where only counting helps.
        """
        held: SourcePage | str | None = None
        last = file.tell()
        singly: bool | None = None  # whether each record begins in a place of its own
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
        """Say whether something begins there: not in a file that was compressed as a whole."""
        with self._reopen() as file:
            file.seek(offset)
            return file.read(_LONGEST_BEGINNING).startswith(_BEGINNINGS)

    def _require_end(self, offset: int) -> None:
        """Refuse a gzip file that ends within a member: FastWARC takes that for the end."""
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
        """Read a record to its end.

        Raises:
            EOFError: it is cut short.
        """
        if not record.headers.contains_key("Content-Length"):
            raise EOFError("it is cut short, or no WARC")
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
        expected, parts, left = record.content_length, [], self._most_bytes + 1
        while left and (part := record.reader.read(left)):
            parts.append(part)
            left -= len(part)
        body = b"".join(parts)
        if len(body) + (0 if left else record.reader.consume()) < expected:
            raise EOFError("it is cut short")
        return body

    def _decode(self, body: bytes, headers: Any) -> bytes:
        """Undo transfer and content encoding; what is not encoded as it says stays as it is."""
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
                        # Bounded: a few kilobytes may unpack to gigabytes.
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
    return WarcSource(str(path), partial(_open, path), path.stat().st_size, most_bytes)


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def open_wacz(path: Path, most_bytes: int) -> list[WarcSource]:
    """Open the WARC files of a WACZ, one after the other by their names.

    Raises:
        SourceError: it is damaged, or has none.
    """
    _load_fastwarc()
    try:
        with zipfile.ZipFile(path) as packed:
            members = [each for each in packed.infolist() if each.filename.endswith(_SUFFIXES)]
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceError(f"{path} is no WACZ, or cut short: {error}. Get a whole copy") from error
    if not members:
        raise SourceError(f"{path} has no WARC file in it ({', '.join(_SUFFIXES)})")
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
