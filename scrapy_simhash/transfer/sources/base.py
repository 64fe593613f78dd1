"""The interface of all sources: the entries they yield, and how reading resumes.

A position counts the records (or files) of a source that were read, and has a checksum of them.
If a truncated WARC is replaced by the complete file, reading resumes where it stopped; a different
file with the same name is read from the start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec
import xxhash

from scrapy_simhash.errors import SourceError

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
            f"{self.name} cannot be read from {where} on: {str(error) or 'it ends there'}. Mend "
            "it, or get a whole copy, and run this again: it resumes there"
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
