"""Pages from elsewhere, to seed a store with: what every kind of source yields, and how it resumes.

A source is read from a position: so many records (or files) from its beginning. What was read
before that position is summed up, and the position counts only as long as the sum is the same: of a
WARC that was cut and came again as a whole the rest is read, of another file of its name all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
import xxhash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

PAGE_KINDS = ("warc", "wacz", "jsonl", "json", "csv", "folder")
# What the others hold was fingerprinted before.
KINDS = (*PAGE_KINDS, "archive", "store", "parquet")
_OCTETS_PER_READ = 1 << 20


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a source was read.

    Attributes:
        record: so many records, from the beginning.
        offset: the octet where the next one begins; 0 where only counting leads there.
        octets: so many octets of the source are summed up, those before `offset` or all.
        digest: their sum, hexadecimal; "" at the beginning.
    """

    record: int = 0
    offset: int = 0
    octets: int = 0
    digest: str = ""


START = Position()


class SourcePage(NamedTuple):
    """A page as its source has it.

    Attributes:
        url: of the page; not necessarily one.
        body: decoded as the headers say, but for its charset.
        status: of HTTP.
        headers: of HTTP; a feed and a folder have none.
        html: whether it is an HTML page for certain; None where its headers have to tell.
        encoding: of the body, where its source knows it.
        time: when it was fetched, seconds since 1970, UTC; None where nothing says so.
    """

    url: str
    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    html: bool = True
    encoding: str | None = None
    time: float | None = None


class Entry(NamedTuple):
    """A record of a source.

    Attributes:
        page: or, as text, the reason why there is none.
        record: so many records were read, this one included.
        offset: the octet where the next one begins; 0 where only counting leads there.
        done: of `Source.total`.
    """

    page: SourcePage | str
    record: int
    offset: int
    done: int


class SourceError(Exception):
    """A source cannot be read, or not further; names source, place and cure."""


class Source(Protocol):
    """What every kind of source of pages can do.

    Attributes:
        name: for people and for the journal; absolute where it is a path.
        kind: as `--kind` has it.
        unit: what `total` counts, in the plural.
    """

    name: str
    kind: str
    unit: str

    @property
    def total(self) -> int:
        """How much there is to read."""

    def read(self, start: Position) -> Iterator[Entry]:
        """Read the records after a position.

        Raises:
            SourceError: cut, damaged, or of another kind; what was yielded before is whole.
        """

    def mark(self, record: int, offset: int) -> Position:
        """Make the position of an entry that can be found again, see `holds`."""

    def holds(self, position: Position) -> bool:
        """Say whether what was read before a position is still the same."""


class Summed:
    """The sum of the first octets of a file, made further as the file is read.

    Args:
        reopen: opens the file anew.
    """

    def __init__(self, reopen: Callable[[], BinaryIO]) -> None:
        self._reopen = reopen
        self._octets = 0
        self._hash = xxhash.xxh3_128()

    def mark(self, record: int, offset: int, total: int) -> Position:
        """Make a position, see `Source.mark`; without an offset, all octets are summed up."""
        octets = offset or total
        return Position(record, offset, octets, self._sum(octets))

    def holds(self, position: Position) -> bool:
        """Say whether the octets of a position are there, and the same."""
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
