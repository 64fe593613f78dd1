"""How one store takes over the documents of another, see `merging`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scrapy_simhash.records import CrawlRecord, Record, Waiting


class Row(NamedTuple):
    """A document with all that is known of it.

    Attributes:
        number: in the store it is from.
        record: of the document.
        aliases: other identities that lead to it.
        text: its main text, or None.
        waiting: what is noted of its drop, or None.
        original: identity of what it is a near-duplicate of; b"" for none.
        source: which of several stores it is from.
    """

    number: int
    record: Record
    aliases: tuple[bytes, ...] = ()
    text: str | None = None
    waiting: Waiting | None = None
    original: bytes = b""
    source: int = 0


class Challenge(NamedTuple):
    """A document that was there, and one that was taken over, like it, and was first."""

    time: float
    number: int
    challenger: int


Challenges: TypeAlias = tuple[Challenge, ...]


class Taken(NamedTuple):
    """What became of some rows: how many of each kind, and whose turn comes yet."""

    counts: dict[str, int]
    challenges: Challenges


class TransferStore(Protocol):
    """What every kind of store can do to be read as a whole and to take over another one."""

    def list_first_times(self) -> list[tuple[int, float, bool]]:
        """List all documents: number, when it was first seen, whether it is a near-duplicate.

        In the order of their numbers; reads every record.
        """

    def read_rows(self, numbers: Sequence[int]) -> list[Row]:
        """Read documents as a whole; those that are gone are left out."""

    def list_texts(self) -> set[int]:
        """List the documents whose main texts are kept, by their numbers; reads no text."""

    def has_original(self, identity: bytes) -> bool:
        """Say whether an identity is that of a document which is no near-duplicate."""

    def list_crawls(self) -> dict[str, CrawlRecord]:
        """List all crawls, by their ids."""

    def copy_crawls(self, crawls: Mapping[str, CrawlRecord]) -> None:
        """Note crawls of another store; those whose id is known stay as they are."""

    def copy_rows(self, rows: Sequence[Row]) -> Taken:
        """Copy documents as they are, with their numbers: one durable transaction.

        Args:
            rows: of a store of which this one has nothing but an earlier part, in the order of
                their numbers.
        """

    def merge_rows(
        self,
        rows: Sequence[Row],
        was_original: Callable[[int, bytes], bool],
        challenges: Challenges,
        *,
        last: bool = False,
    ) -> Taken:
        """Take over documents by who was first, see `merging`: one durable transaction.

        Args:
            rows: originals in the order of their first times, then near-duplicates.
            was_original: `has_original` of the store of that place among the sources.
            challenges: what the call before has left.
            last: there are no more originals: judge all that is still challenged.
        """
