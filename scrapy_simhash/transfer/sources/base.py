"""The interface of all sources: the entries they yield, and how reading resumes.

A position counts the records (or files) of a source that were read, and has a checksum of them.
If a truncated WARC is replaced by the complete file, reading resumes where it stopped; a different
file with the same name is read from the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

import msgspec
import xxhash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE_KINDS = ("warc", "wacz", "jsonl", "json", "csv", "folder")
# The other kinds hold fingerprints instead of pages.
KINDS = (*PAGE_KINDS, "archive", "store", "parquet")
_OCTETS_PER_READ = 1 << 20


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a source was read."""

    record: int = 0  # number of records read
    offset: int = 0  # octet where the next record begins; 0 if it is found only by counting
    octets: int = 0  # number of octets in the checksum: those before `offset`, or all
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


class Source(Protocol):
    """A source of records."""

    name: str  # for messages and the journal; if it is a path, absolute
    kind: str  # a value of `--kind`
    unit: str  # what `total` counts, in the plural

    @property
    def total(self) -> int:
        """The number of units to read."""

    def read(self, start: Position) -> Iterator[Entry]:
        """Read the records after a position; raises SourceError where it is cut or damaged."""

    def mark(self, record: int, offset: int) -> Position:
        """Make the position after an entry, with a checksum for `holds`."""

    def holds(self, position: Position) -> bool:
        """Whether the part before a position is unchanged."""


class Checksum:
    """The checksum of the first octets of a file, extended as the file is read."""

    def __init__(self, reopen: Callable[[], BinaryIO], total: int) -> None:
        self._reopen = reopen
        self._total = total
        self._octets = 0
        self._hash = xxhash.xxh3_128()

    def mark(self, record: int, offset: int) -> Position:
        """See `Source.mark`; without an offset, the checksum covers the whole file."""
        octets = offset or self._total
        return Position(record, offset, octets, self._sum(octets))

    def holds(self, position: Position) -> bool:
        """See `Source.holds`."""
        return position == START or self._sum(position.octets) == position.digest

    def _sum(self, octets: int) -> str:
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
