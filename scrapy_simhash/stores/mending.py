"""Check and mend a store: compare the entries that lead to documents with their records.

Identities, rows of fingerprints, lists of near-duplicates and notes about drops must lead to the
right documents. Mending restores them from the records. Entries that lead to a damaged record are
reported but left as they are: since the content of that record is lost, its fingerprints stay in
the tables, too.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from scrapy_simhash.errors import DamagedError, StoreError
from scrapy_simhash.judging.documents import CrawlRecord, Record, State, Waiting
from scrapy_simhash.stores import rows
from scrapy_simhash.stores.records import (
    Session,
    address_row,
    number_in,
    octets,
    pack_identity,
    unpack,
    unpack_identity,
)
from scrapy_simhash.tables.sets import contains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray


class Name(NamedTuple):
    """An identity leads to a document: `pack_identity` made `row` from its number."""

    identity: bytes
    row: bytes

    @property
    def number(self) -> int:
        """The number of the document; 0, which no document has, if the row is damaged."""
        try:
            return unpack_identity(*self)
        except StoreError:
            return 0


class Row(NamedTuple):
    """A fingerprint leads to a document."""

    fingerprint: int
    scope: bytes | None  # as this kind of store writes it; None marks a bulk-loaded fingerprint
    number: int


class Link(NamedTuple):
    """An original leads to its near-duplicate."""

    original: int
    number: int


Lead = TypeVar("Lead", bound="Name | Row | Link")


class Leads(Protocol[Lead]):
    """All leads of one kind (names, rows or links), with the methods of a set."""

    def __iter__(self) -> Iterator[Lead]:
        """Read all leads."""

    def __contains__(self, lead: Lead, /) -> bool:
        """Whether the store has this lead."""

    def add(self, lead: Lead, /) -> object:
        """Write a lead."""

    def discard(self, lead: Lead, /) -> object:
        """Delete a lead."""


class Records(Protocol):
    """The undamaged records by their numbers, with the methods of a dict."""

    def items(self) -> Iterable[tuple[int, Record]]:
        """Read all records."""

    def get(self, number: int, /) -> Record | None:
        """Look up a record."""

    def __contains__(self, number: int, /) -> bool:
        """Whether there is such a record."""


@dataclass(frozen=True)
class Mending:
    """Checks and mends a store in one transaction, which must be a writing one for mending."""

    stored: Session
    records: Records
    damaged: dict[int, DamagedError]  # complete once all `records` were read
    names: Leads[Name]
    rows: Leads[Row]
    links: Leads[Link]
    write_scope: Callable[[str], bytes]

    def find_problems(self, held: NDArray[np.uint64], following: int) -> Iterator[str]:
        """List the problems; `held`: the fingerprints in the tables, sorted, shape (n,)."""
        last = max((number for number, _ in self.records.items()), default=0)
        for error in self.damaged.values():
            yield error.what
        yield from self._check_names()
        yield from self._check_rows()
        yield from self._check_tables(held)
        yield from self._check_links()
        yield from self._check_addresses()
        for number in self._list_unread():
            yield f"the note about the drop of document {number} is damaged"
        if following <= last:
            yield f"the next document would get number {following}, which is already in use"
        yield from _check_crawls(self.stored.scan_crawls())
        yield from _check_texts(self.stored.scan_packed("texts"), self.records)
        yield from rows.find_problems(self.stored)

    def mend(self) -> dict[str, int]:
        """Correct all leads from the records; returns the counts of `Store.rebuild`."""
        # A record does not list its aliases, so lost ones cannot be restored.
        dropped = max(0, self._mend(self.names, *self._compare_names()))
        self.mend_rows()
        self._mend(self.links, *self._compare_links())
        self._mend_waiting()
        lost = rows.mend(self.stored)
        return {
            **({"damaged": len(self.damaged)} if self.damaged else {}),
            **({"aliases_dropped": dropped} if dropped else {}),
            **({"url_rows_dropped": lost} if lost else {}),
        }

    def mend_rows(self) -> None:
        """Correct only the rows, so that each document's fingerprint leads to it."""
        self._mend(self.rows, *self._compare_rows())

    def _mend(self, leads: Leads[Lead], missing: list[Lead], strays: list[Lead]) -> int:
        """Add the missing leads and delete the strays; returns deletions less additions."""
        kept = self.damaged.keys() - {0}
        dropped = [stray for stray in strays if stray.number not in kept]
        for stray in dropped:
            leads.discard(stray)
        for lead in missing:
            leads.add(lead)
        return len(dropped) - len(missing)

    def _name_of(self, number: int) -> str:
        """Name a document for a message."""
        record = self.records.get(number)
        return f"document {number} ({record.url!r})" if record else f"document {number}"

    # The `_compare_` methods list the missing leads and the strays.
    def _compare_names(self) -> tuple[list[Name], list[Name]]:
        wanted = (
            Name(record.identity, pack_identity(record.identity, number))
            for number, record in self.records.items()
        )
        missing = [name for name in wanted if name not in self.names]
        strays = [
            name for name in self.names if not (number := name.number) or number not in self.records
        ]
        return missing, strays

    def _check_names(self) -> Iterator[str]:
        missing, strays = self._compare_names()
        for name in missing:
            yield f"{self._name_of(name.number)} is not found by its identity"
        for name in strays:
            try:
                unpack_identity(*name)
            except StoreError as error:
                yield str(error)
            else:
                yield f"identity {name.identity.hex()} leads to no document"

    def _list_rows(self) -> Iterator[Row]:
        """List the rows that the records require."""
        for number, record in self.records.items():
            if record.state != State.DUPLICATE:
                scope = self.write_scope(record.scope)
                for fingerprint in record.fingerprints:
                    yield Row(fingerprint, scope, number)

    def _is_wanted(self, row: Row) -> bool:
        record = self.records.get(row.number)
        return row.scope is None or (
            record is not None
            and record.state != State.DUPLICATE
            and row.fingerprint in record.fingerprints
            and row.scope == self.write_scope(record.scope)
        )

    def _compare_rows(self) -> tuple[list[Row], list[Row]]:
        missing = [row for row in self._list_rows() if row not in self.rows]
        return missing, [row for row in self.rows if not self._is_wanted(row)]

    def _check_rows(self) -> Iterator[str]:
        missing, strays = self._compare_rows()
        for fingerprint, _, number in missing:
            yield f"{self._name_of(number)} is not found by its fingerprint {fingerprint:016x}"
        for fingerprint, _, number in strays:
            yield (
                f"fingerprint {fingerprint:016x} leads to document {number}, which does not have it"
            )

    def _check_tables(self, held: NDArray[np.uint64]) -> Iterator[str]:
        """Find fingerprints of documents, or bulk-loaded ones, that the tables lack."""
        owned = [(row.fingerprint, row.number) for row in self._list_rows()]
        for at in _find_missing(held, [fingerprint for fingerprint, _ in owned]):
            fingerprint, number = owned[at]
            yield f"fingerprint {fingerprint:016x} of {self._name_of(number)} is in no table"
        noted = [row.fingerprint for row in self.rows if row.scope is None]
        for at in _find_missing(held, noted):
            yield f"fingerprint {noted[at]:016x} is noted as bulk-loaded, but is in no table"

    def _compare_links(self) -> tuple[list[Link], list[Link]]:
        wanted = (
            Link(record.original, number)
            for number, record in self.records.items()
            if record.state == State.DUPLICATE
        )
        missing = [link for link in wanted if link not in self.links]
        return missing, [link for link in self.links if not self._is_linked(*link)]

    def _is_linked(self, original: int, number: int) -> bool:
        """Whether a document's record says that it is a near-duplicate of this original."""
        record = self.records.get(number)
        return (
            record is not None and record.state == State.DUPLICATE and record.original == original
        )

    def _check_links(self) -> Iterator[str]:
        missing, strays = self._compare_links()
        for original, number in strays:
            yield f"document {number} is listed as a near-duplicate of {original}, but is not"
        for original, number in missing:
            name = self._name_of(number)
            yield f"{name} is not listed as a near-duplicate of document {original}"
        for number, record in self.records.items():
            original = record.original if record.state == State.DUPLICATE else 0
            if original and original not in self.records:
                name = self._name_of(number)
                yield f"{name} is a near-duplicate of document {original}, which no longer exists"

    def _check_addresses(self) -> Iterator[str]:
        if not self.stored.addressed:
            return
        wanted, found = list_addresses(self.records.items()), self.stored.read_addresses()
        for row in wanted[~contains(found, wanted)].tolist():
            yield f"{self._name_of(number_in(row))} is not found by its URL"
        for number in map(number_in, found[~contains(wanted, found)].tolist()):
            if number not in self.damaged:
                yield f"the index of URLs leads to document {number} by a URL that it does not have"

    def _list_unread(self) -> list[int]:
        """List the documents whose note about a drop is unreadable or another document's."""
        waiting = self.stored.scan_packed("waiting")
        return [number for number, packed in waiting if not self._is_waiting(number, packed)]

    def _is_waiting(self, number: int, packed: bytes) -> bool:
        try:
            waiting = unpack(Waiting, octets(number), packed)
        except DamagedError:
            return False
        return self._is_linked(waiting.original, number)

    def _mend_waiting(self) -> None:
        for number in self._list_unread():
            if number in self.damaged:
                continue
            # The note's crawl and request are lost, but not the fact that the document waits.
            self.stored.drop_waiting(number)
            record = self.records.get(number)
            if record is not None and record.state == State.DUPLICATE:
                original = self.records.get(record.original)
                digest = original.text_digest if original is not None else b""
                self.stored.put_waiting(number, Waiting(record.original, digest, record.crawl))


def _check_crawls(crawls: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    """Find unreadable records of crawls, given by their keys; one line each."""
    for key, packed in crawls:
        try:
            unpack(CrawlRecord, key, packed)
        except DamagedError as error:
            yield error.what


def _check_texts(texts: Iterable[tuple[int, bytes]], records: Records) -> Iterator[str]:
    """Find texts that are unreadable or belong to no document; one line each."""
    for number, packed in texts:
        if number not in records:
            yield f"there is a text of document {number}, but no such document"
        try:
            zlib.decompress(packed)
        except zlib.error as error:
            yield f"text of document {number} is damaged: {error}"


def compare_tables(
    tables: Iterable[NDArray[np.uint64]],
) -> tuple[NDArray[np.uint64], list[str]]:
    """Compare every table with the first; returns the first, sorted, (n,), and the differences."""
    content = iter(tables)
    first = next(content)
    problems = [
        f"fingerprint {fingerprint:016x} is not in both table 0 and {number}"
        for number, other in enumerate(content, 1)
        for fingerprint in np.setxor1d(first, other, assume_unique=True).tolist()
    ]
    return first, problems


def list_addresses(
    records: Iterable[tuple[int, Record | DamagedError]],
) -> NDArray[np.uint64]:
    """List the rows of the index of URLs that the undamaged records require, sorted; (n,)."""
    rows = (
        address_row(record.url, number)
        for number, record in records
        if not isinstance(record, DamagedError) and record.url
    )
    return np.sort(np.fromiter(rows, np.uint64))


def _find_missing(held: NDArray[np.uint64], wanted: list[int]) -> list[int]:
    """List the indexes of the wanted fingerprints that the tables lack."""
    missing: list[int] = np.flatnonzero(~contains(held, np.array(wanted, np.uint64))).tolist()
    return missing
