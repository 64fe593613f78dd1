"""What judging and upkeep ask of the documents of a store, whatever its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scrapy_simhash.judging.documents import Document, Record
    from scrapy_simhash.judging.rule import Rule
    from scrapy_simhash.pages.wording import Wording


class Candidate(NamedTuple):
    """A stored document that may be like the one that is judged.

    Candidates sort by these fields. The distance of one that was found by its `name` or by so many
    `keys` is -1 until its record is read, and only then it is known whether it `stands` for a page
    that its reader gets, and whether that reader has its items (`settled`).
    """

    distance: int
    number: int
    fingerprint: int
    name: str = ""
    keys: int = 0
    stands: bool = True
    settled: bool = True


# Candidates with their records, of which bulk-loaded ones have none, in order; and whether these
# are all, which plain simhash may not know.
Gathered: TypeAlias = "tuple[list[tuple[Candidate, Record | None]], bool]"


class Reading(Protocol):
    """The documents as one transaction sees them, as far as judging without writing needs them."""

    def find_own(self, page: Document) -> list[tuple[int, Record]]:
        """Find the documents to which the identities of a page lead, its own one first."""

    def gather(self, page: Document, rule: Rule, own: int = 0) -> Gathered:
        """Find the candidates of a page, but for its own document."""

    def sample(self, host: str) -> dict[int, bytes]:
        """List up to 16 documents of a host, see `pages.addresses.host_of`; none of most hosts."""
        # No near-duplicates and no stubs, all with sketches, in an order that no site can choose;
        # by number, each with a digest of what it tells of its site.

    def glance(self, numbers: Collection[int]) -> dict[int, Record]:
        """Get those records that are there and undamaged, as they happen to be; one round trip."""

    def get_wordings(self, numbers: Collection[int]) -> dict[int, Wording]:
        """Get those wordings that are there and undamaged; one round trip."""

    def get(self, number: int) -> Record | None:
        """Get a record, or None."""

    def get_row(self, table: str, key: bytes) -> bytes | None:
        """Get a row of a table (see `stores.keyvalues.ROW_TABLES`), or None."""
        # Rows are written and read by `judging.rows.pack_row` and `unpack_row`.


class Documents(Reading, Protocol):
    """The documents as one transaction sees them; it writes all that is changed here, or nothing.

    `stores.documents` documents the methods.
    """

    def put(
        self,
        number: int,
        record: Record,
        wording: bytes | None = None,
        names: Iterable[bytes] = (),
    ) -> None:
        """Write a record whose place among the others is the same."""

    def list_duplicates(self, original: int) -> list[int]: ...

    def put_row(self, table: str, key: bytes, row: bytes) -> None: ...

    def drop_row(self, table: str, key: bytes) -> None: ...
