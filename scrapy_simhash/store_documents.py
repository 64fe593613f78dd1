"""What the judgement and the upkeep ask of the documents of a store, whatever its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from scrapy_simhash.stored import Match

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy_simhash.records import CrawlRecord, Record, Waiting
    from scrapy_simhash.stored import Probe


class Documents(Protocol):
    """The documents as one transaction sees them; it writes all that is changed here, or nothing.

    `lmdb_documents.Documents` says more about each method.
    """

    def find_number(self, identity: bytes) -> int | None:
        """Get the number of the document with this identity or alias."""

    def name(self, number: int, identity: bytes, *, overwrite: bool = False) -> None:
        """Let an identity lead to a document."""

    def get(self, number: int) -> Record | None:
        """Get a record, or None."""

    def put(self, number: int, record: Record, text: str | None = None) -> None:
        """Write a record, and its text unless that is None."""

    def get_text(self, number: int) -> str | None:
        """Get a document's main text, or None where none was kept."""

    def drop_text(self, number: int) -> None:
        """Forget a document's main text."""

    def remove(self, number: int, identities: Iterable[bytes]) -> None:
        """Delete a record with its text and identities; it must be out of all lists."""

    def list_identities(self, numbers: Collection[int]) -> dict[int, list[bytes]]:
        """List all identities that lead to these documents."""

    def next_number(self) -> int:
        """Take the next document number; from 1, never given twice."""

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        """Read every record, in the order in which the documents came."""

    def index(self, number: int, record: Record) -> None:
        """Make a document findable by its fingerprints."""

    def unindex(self, number: int, record: Record) -> None:
        """Undo `index`; a fingerprint leaves the tables with its last document."""

    def keep_bulk_loaded(self, fingerprints: Iterable[int]) -> None:
        """Note which of these were bulk-loaded, before documents get them."""

    def near(
        self, fingerprint: int, distance: int, most: int | None = None, *, bounded: bool = False
    ) -> Probe:
        """Find stored fingerprints within a distance, see `Prober.probe`."""

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        """List the documents that have a fingerprint of the tables, oldest first within a scope."""

    def get_crawl(self, crawl: str) -> CrawlRecord | None:
        """Get the record of a crawl, or None."""

    def put_crawl(self, crawl: str, record: CrawlRecord) -> None:
        """Write the record of a crawl."""

    def link(self, original: int, duplicate: int) -> None:
        """Note that a document is a near-duplicate of another."""

    def unlink(self, original: int, duplicate: int) -> None:
        """Undo `link`."""

    def list_duplicates(self, original: int) -> list[int]:
        """List the near-duplicates of a document."""

    def is_linked(self, original: int, duplicate: int) -> bool:
        """Say whether `link` noted this pair."""

    def put_waiting(self, number: int, waiting: Waiting) -> None:
        """Note that the drop of a document may have to be taken back."""

    def get_waiting(self, number: int) -> Waiting | None:
        """Get what `put_waiting` noted, or None."""

    def drop_waiting(self, number: int) -> None:
        """Note that the drop of a document is settled; harmless when it is."""

    def has_waiting(self) -> bool:
        """Say whether any drop may have to be taken back; True where that is not known."""

    def list_waiting(self) -> list[tuple[int, Waiting]]:
        """List the drops that may have to be taken back: few, those of the last seconds."""


def find_matches(documents: Documents, fingerprint: int, distance: int) -> list[Match]:
    """List the documents and bulk-loaded fingerprints within a distance, nearest first."""
    matches: list[Match] = []
    seen: set[int] = set()  # a document may have several fingerprints near by
    for bits, found in documents.near(fingerprint, distance).near:
        for number in documents.numbers(found):
            if number in seen:
                continue
            seen.update({number} - {0})
            record = documents.get(number) if number else None
            matches.append(Match(number, found, bits, record.url if record else None))
    return matches
