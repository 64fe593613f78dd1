"""What judging and upkeep ask of the documents of a store, whatever its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from scrapy_simhash.judging.documents import Match, PageFacts, Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scrapy_simhash.judging.rows import CrawlRecord
    from scrapy_simhash.pages.wording import Wording
    from scrapy_simhash.tables.probing import Probe


class Reading(Protocol):
    """The documents as one transaction sees them, as far as judging without writing needs them."""

    def find_number(self, identity: bytes) -> int | None:
        """Get the number of the document with this identity or alias."""

    def get(self, number: int) -> Record | None:
        """Get a record, or None."""

    def sample(self, host: str) -> dict[int, bytes]:
        """List up to 16 documents of a host, see `pages.addresses.host_of`; none of most hosts."""
        # No near-duplicates and no stubs, all with sketches, in an order that no site can choose;
        # by number, each with a digest of what it tells of its site.

    def list_alike(self, page: PageFacts, reader: str, own: int = 0) -> dict[int, int]:
        """List the documents with rare triples of a page, each with their number; 16 at most."""
        # Of its scope; without `own`. See `judging.keys`.

    def list_called(self, page: PageFacts) -> list[tuple[str, list[int]]]:
        """List the parts of a page's names, each with up to 9 documents that have it, too."""
        # Of its host and scope, no near-duplicates and no files, all with sketches.

    def glance(self, numbers: Collection[int]) -> dict[int, Record]:
        """Get those records that are there and undamaged, as they happen to be; one round trip."""

    def near(
        self,
        fingerprint: int,
        distance: int,
        most: int | None = None,
        in_bucket: int | None = None,
        or_nothing: bool = False,
    ) -> Probe:
        """Find stored fingerprints within a distance, see `Prober.probe`."""

    def numbers(
        self, fingerprint: int, scope: str | None = None, most: int | None = None
    ) -> list[int]:
        """List the documents that have exactly this fingerprint, oldest first within a scope."""
        # `scope` and `most` limit them, unless None; 0 leads them if it was bulk-loaded.

    def get_wordings(self, numbers: Collection[int]) -> dict[int, Wording]:
        """Get those wordings that are there and undamaged; one round trip."""

    def get_row(self, table: str, key: bytes) -> bytes | None:
        """Get a row of a table (see `stores.keyvalues.ROW_TABLES`), or None."""
        # Rows are written and read by `judging.documents.pack_row` and `unpack_row`.


class Documents(Reading, Protocol):
    """The documents as one transaction sees them; it writes all that is changed here, or nothing.

    `stores.documents` documents the methods.
    """

    def __iter__(self) -> Iterator[tuple[int, Record]]: ...

    def add(
        self,
        number: int,
        record: Record,
        wording: bytes | None = None,
        *,
        aliases: Iterable[bytes] = (),
    ) -> int:
        """Write a document and all that leads to it, under the next number in place of 0."""

    def take_out(self, number: int, record: Record) -> None:
        """Delete all entries that lead to a document; its record stays."""

    def put(
        self,
        number: int,
        record: Record,
        wording: bytes | None = None,
        names: Iterable[bytes] = (),
    ) -> None:
        """Write a record whose place among the others is the same."""

    def list_aliases(self, number: int) -> tuple[bytes, ...]: ...

    def list_duplicates(self, original: int) -> list[int]: ...

    def get_crawl(self, crawl: str) -> CrawlRecord | None: ...

    def put_crawl(self, crawl: str, record: CrawlRecord) -> None: ...

    def put_row(self, table: str, key: bytes, row: bytes) -> None: ...

    def drop_row(self, table: str, key: bytes) -> None: ...

    def scan_rows(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]: ...

    def count_rows(self, table: str) -> int: ...


def find_matches(documents: Reading, fingerprint: int, distance: int) -> list[Match]:
    """List the documents and bulk-loaded fingerprints within a distance, nearest first."""
    matches: list[Match] = []
    for bits, found in documents.near(fingerprint, distance).near:
        for number in documents.numbers(found):
            record = documents.get(number) if number else None
            matches.append(Match(number, found, bits, record.url if record else None))
    return matches
