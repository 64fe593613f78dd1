"""What judging and upkeep ask of the documents of a store, whatever its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from scrapy_simhash.judging.documents import CrawlRecord, Match, Record, Waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy_simhash.tables.probing import Probe


class Reading(Protocol):
    """The documents as one transaction sees them, as far as judging without writing needs them."""

    def find_number(self, identity: bytes) -> int | None:
        """Get the number of the document with this identity or alias."""

    def get(self, number: int) -> Record | None:
        """Get a record, or None."""

    def near(
        self, fingerprint: int, distance: int, most: int | None = None, *, bounded: bool = False
    ) -> Probe:
        """Find stored fingerprints within a distance, see `Prober.probe`."""

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        """List the documents that have exactly this fingerprint, oldest first within a scope."""
        # `scope` and `most` limit them, unless None; 0 leads them if it was bulk-loaded.

    def get_row(self, table: str, key: bytes) -> bytes | None:
        """Get a row of a table of URL rules (see `stores.records.ROW_TABLES`), or None."""
        # Rows are written and read by `urls.rules.pack_row` and `unpack_row`.


class Documents(Reading, Protocol):
    """The documents as one transaction sees them; it writes all that is changed here, or nothing.

    `judge.add` and `judge.take_out` know in which order a document is written and taken out.
    """

    def put(
        self, number: int, record: Record, text: str | None = None, names: Iterable[bytes] = ()
    ) -> None:
        """Write a record, its text unless that is None, and let these identities lead to it."""
        # Its own one does in any case, others unless they lead to another document.

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

    def put_address(self, url: str, number: int) -> None:
        """Make a document findable by its URL, where the store has an index of these."""

    def drop_address(self, url: str, number: int) -> None:
        """Undo `put_address`."""

    def keep_bulk_loaded(self, fingerprints: Iterable[int]) -> None:
        """Note which of these were bulk-loaded, before documents get them."""

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

    def put_waiting(self, number: int, waiting: Waiting) -> None:
        """Note that the drop of a document may have to be taken back."""

    def get_waiting(self, number: int) -> Waiting | None:
        """Get what `put_waiting` noted, or None."""

    def drop_waiting(self, number: int) -> None:
        """Note that the drop of a document is settled; harmless when it is."""

    def has_waiting(self) -> bool:
        """Whether any drop may have to be taken back; True where that is not known."""

    def list_waiting(self) -> list[tuple[int, Waiting]]:
        """List the drops that may have to be taken back: few, those of the last seconds."""

    def list_newest(self, most: int) -> list[tuple[int, Record]]:
        """Read so many records, those with the highest numbers, newest first."""

    def put_row(self, table: str, key: bytes, row: bytes) -> None:
        """Write a row of a table."""

    def drop_row(self, table: str, key: bytes) -> None:
        """Delete a row of a table, if it is there."""

    def scan_rows(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Read the rows of a table whose keys begin so; in no order on a server."""
        # They may be changed meanwhile, by this transaction, too.

    def count_rows(self, table: str) -> int:
        """Count the rows of a table; reads none."""

    # Whether each read is a round trip. If not, the `prefetch` methods do nothing.
    remote: ClassVar[bool] = False

    def prefetch_rows(
        self,
        rows: Iterable[tuple[str, bytes]],
        *,
        identities: Iterable[bytes] = (),
        records: Iterable[int] = (),
    ) -> None:
        """Read in one go rows of tables, given by table and key, and other things."""
        del rows, identities, records


def find_matches(documents: Reading, fingerprint: int, distance: int) -> list[Match]:
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
