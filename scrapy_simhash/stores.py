"""Stores: the documents of crawls, findable by near fingerprints. The interface all kinds share.

Errors::

    StoreError
    +-- StoreUnusableError      at opening: nothing was changed; the message names the cure
    |   +-- StoreMismatchError  made with another recipe or table design
    +-- StoreUnavailableError   while open: this write failed (disk full, ...); a later one may work
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from scrapy_simhash.store_urls import store_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.recipe import Recipe
    from scrapy_simhash.stored import Document, LostPage, Match, StoredDocument, Verdict


class StoreError(Exception):
    """A store cannot do what was asked of it."""


class StoreUnusableError(StoreError):
    """The store cannot be opened; it was left as it is. The message names the cure."""


class StoreMismatchError(StoreUnusableError):
    """The store was made with another recipe or table design than the one asked for."""


class StoreUnavailableError(StoreError):
    """A write failed and changed nothing; the store is used again as soon as it can be."""


class Store(Protocol):
    """What every kind of store can do; `with open_store(...) as store` closes it."""

    url: str
    recipe: Recipe
    seed: int
    distance: int
    confirm: float | None
    readonly: bool

    @property
    def design(self) -> str:
        """Name of the table design."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def close(self) -> None:
        """Let go of the store; harmless when done twice."""

    def start_crawl(self, crawl: str, spider: str) -> None:
        """Take the lease of a crawl: its pending records count until it ends or the process dies.

        Args:
            crawl: id of the crawl: letters, digits, `.`, `_` and `-`; one nobody used before.
            spider: its spider's name, for people.
        """

    def end_crawl(self, crawl: str) -> None:
        """Give the lease back."""

    def find_and_add(
        self,
        documents: Sequence[Document],
        *,
        crawl: str = "",
        done: Sequence[int] = (),
        withdrawn: Sequence[int] = (),
        requests: Mapping[int, bytes | None] | None = None,
    ) -> list[Verdict]:
        """Judge documents in order and add the new ones: one durable transaction for all.

        A document is a near-duplicate of one in its scope that lies within the store's distance,
        is confirmed (see `confirm`), and is done, or pending in a crawl whose lease is alive. Of
        several, the one with the largest similarity is named; without confirmation, the nearest;
        of equals, the oldest. A near-duplicate is recorded but not put into the tables. A
        read-only store judges and writes nothing.

        Args:
            documents: in the order in which they came.
            crawl: the crawl of `done` and `withdrawn`.
            done: documents to mark done first, see `mark_done`.
            withdrawn: documents to withdraw first, see `withdraw`.
            requests: how dropped documents can be fetched again, see `take_lost`; None for one
                that was not dropped after all. Kept only while its original is pending.

        Returns:
            One verdict for each document. When this returns, they are on disk.

        Raises:
            StoreUnavailableError: nothing was written.
        """

    def query(self, fingerprint: int, distance: int | None = None) -> list[Match]:
        """Find all originals within a distance, of every scope, nearest first.

        Documents that were near-duplicates themselves are not in the tables.

        Args:
            fingerprint: 0 to 2**64 - 1.
            distance: bits, up to the largest for which the design is complete; None for the
                store's own.

        Raises:
            ValueError: the fingerprint is none, or the design is not complete for the distance.
        """

    def mark_done(self, documents: Sequence[int], crawl: str) -> None:
        """Note that the items of these documents came through.

        Documents that are not pending in this crawl (any more) are passed over.
        """

    def withdraw(self, documents: Sequence[int], crawl: str) -> None:
        """Take back what is pending in this crawl: no ground for a drop, judged afresh later."""

    def take_lost(self, crawl: str, spider: str, *, ending: bool = False) -> list[LostPage]:
        """Hand those documents over to a crawl that were dropped for one that never came through.

        Its own, and those of the spider's crawls that ended. Each is handed over again until it
        is judged again. Reads what waits: drops of the last seconds, and what is lost.

        Args:
            crawl: a running one.
            spider: its spider's name.
            ending: it is about to end: what is pending in it counts as lost.
        """

    def bulk_load(self, fingerprints: NDArray[np.uint64]) -> int:
        """Add fingerprints without documents, for seeding; returns how many were not there yet.

        They match in every scope. Reads everything and writes all tables anew: cost grows with
        the store. Shape (n,); one transaction.
        """

    def find_document(self, url: str) -> list[StoredDocument]:
        """Find documents by their URL; reads every record, cost grows with the store."""

    def get_document(self, document: int) -> StoredDocument | None:
        """Get a document by its number, or None."""

    def list_documents(self) -> list[StoredDocument]:
        """List all documents in the order in which they came; `text` is None."""

    def bulk_loaded(self) -> NDArray[np.uint64]:
        """List the fingerprints that were bulk-loaded; sorted, shape (n,). Reads a table."""

    def stats(self) -> dict[str, Any]:
        """Count documents, duplicates by distance and scope, bytes; reads every record.

        Records that cannot be read are counted as `damaged`, where there are any.
        """

    def table_stats(self) -> dict[str, Any]:
        """Count fingerprints, bytes of the tables and of the file; reads no record."""

    def check(self) -> list[str]:
        """Compare tables, fingerprints and documents; returns what is wrong, one line each.

        Cost grows with the store.
        """

    def backup(self, folder: Path, *, check: bool = True) -> dict[str, Any]:
        """Copy the store into a new folder while crawls write, see `lmdb_backup.back_up`."""

    def fingerprints(self, *, delivered: bool = False) -> NDArray[np.uint64]:
        """Read all fingerprints of the tables: sorted, each once; shape (n,).

        Those of near-duplicates are not among them. Cost: one table, and 8 bytes each.

        Args:
            delivered: only those that were bulk-loaded, or have a document that is done and no
                stub; reads every record.
        """

    def recorded_pairs(self) -> NDArray[np.uint64]:
        """Pair the near-duplicates with what they were dropped for.

        Returns:
            Shape (n, 2): fingerprint of a near-duplicate, fingerprint of its original, those two
            of each that are nearest. Near-duplicates whose original was deleted have none. Reads
            every record.
        """

    def find_all(self, distance: int | None = None) -> NDArray[np.uint64]:
        """Find all pairs of fingerprints of the tables within a distance, of every scope.

        Args:
            distance: bits, 0 to 63, whatever the table design; None for the store's own.

        Returns:
            Shape (pairs, 2), sorted; cost and order are those of `selfjoin.find_all`.

        Raises:
            ValueError: the distance is out of range.
        """

    def find_clusters(
        self, distance: int | None = None, *, representative: bool = False
    ) -> list[list[int]]:
        """Put fingerprints into clusters: by their distance, and by what was dropped for what.

        Args:
            distance: as for `find_all`.
            representative: clusters around a fingerprint to which all others are paired, see
                `clusters.representative_clusters`; otherwise all that is connected.

        Returns:
            Clusters of two fingerprints or more. They are made of the pairs of `find_all` and of
            `recorded_pairs`, so a near-duplicate that is not in the tables stands with its
            original.

        Raises:
            ValueError: the distance is out of range.
        """

    def batch_query(
        self, queries: NDArray[np.uint64], distance: int | None = None
    ) -> NDArray[np.uint64]:
        """Find all fingerprints of the tables near to any of many queries.

        Args:
            queries: in any order, shape (q,).
            distance: bits, 0 to 63, whatever the table design; None for the store's own.

        Returns:
            Shape (matches, 3): query, fingerprint, bits between them; cost and order are those of
            `batch.batch_query`. For few queries `query` is quicker.

        Raises:
            ValueError: the distance is out of range.
        """

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Write the tables anew, full and in order, while crawls go on.

        The file does not shrink by that: its pages are used again. Killed in between, nothing is
        lost, and the next one begins again.

        Args:
            progress: is told how many slices of how many are done.

        Raises:
            StoreError: another process is compacting, or rewrote the tables meanwhile.
            StoreUnavailableError: a write failed; nothing is lost.
        """

    def rebuild(self, tables: str | int | None = None) -> dict[str, int]:
        """Write the tables anew from the documents and what was bulk-loaded: one transaction.

        What leads to documents is mended as well: identities, lists of near-duplicates.

        Args:
            tables: another table design; None for the same.

        Returns:
            `fingerprints` and `tables`: how many there are now. Where there are any, `damaged`:
            records that cannot be read, whose fingerprints stay as they are; `aliases_dropped`:
            damaged aliases, which no record names. Reads the whole store.

        Raises:
            StoreMismatchError: the design is not complete for the store's distance.
            ValueError: no such design.
        """

    def select(self, wanted: Callable[[StoredDocument], bool]) -> list[int]:
        """List the documents that are wanted, and the near-duplicates of these.

        Documents that are pending in a running crawl are left out. Reads every record.

        Args:
            wanted: says so; may be asked several times about a document, whose `text` is None.
        """

    def list_dropped(
        self, wanted: Callable[[StoredDocument], bool], *, lost: bool = False
    ) -> list[StoredDocument]:
        """List the near-duplicates that are wanted; reads every record.

        Args:
            wanted: says so.
            lost: only those whose original never came through, and is not about to.
        """

    def spare(self, documents: Sequence[int]) -> None:
        """Let near-duplicates pass when they are fetched again, whatever they are like."""

    def delete(self, documents: Sequence[int]) -> int:
        """Delete documents with their near-duplicates; returns how many, these included.

        Those that are gone already, or pending in a running crawl, are passed over. Fingerprints
        that no other document has, nor were bulk-loaded, leave the tables. Reads all identities;
        a transaction for each thousand documents.
        """


def open_store(
    url: str,
    distance: int | None = 3,
    tables: str | int = "auto",
    recipe: Recipe | None = None,
    readonly: bool = False,
    confirm: float | None = None,
) -> Store:
    """Open a store, or make a new one where there is none.

    Args:
        url: a folder, or `lmdb:///folder`.
        distance: k, the bits within which documents are near-duplicates, 0 up to the largest
            distance for which the table design is complete (7 with four tables). None for 7, or
            for 3 without `confirm`, or what the store's design reaches if that is less.
        tables: table design: `auto`, 4, 10, 16, 20 or blocks and distance as "m:k". `auto` takes
            an existing store's.
        recipe: how its fingerprints are made; None takes an existing store's, or the default.
        readonly: True to change nothing; there must be a store then.
        confirm: similarity of the sketches that a match must reach, 0 to 1, see `confirm`; None
            for plain simhash. What has no sketch is matched within 3 bits instead.

    Returns:
        The store, a context manager.

    Raises:
        StoreUnusableError: it cannot be opened; nothing was changed.
        StoreMismatchError: it was made with another recipe or table design.
        ValueError: an argument is out of its range.
    """
    from scrapy_simhash.lmdb_store import LmdbStore  # noqa: PLC0415 - loads lmdb

    folder = store_folder(url)
    return LmdbStore(folder, distance, tables, recipe, confirm, readonly=readonly)
