"""Stores: the documents of crawls, findable by near fingerprints. The interface all kinds share.

Errors::

    StoreError
    +-- StoreUnusableError      at opening: nothing was changed; the message names the cure
    |   +-- StoreMismatchError  made with another recipe or table design
    +-- StoreUnavailableError   while open: this write failed (disk full, ...); a later one may work
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_simhash.store_transfer import TransferStore
from scrapy_simhash.store_urls import is_server, show_url, store_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

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


class Store(TransferStore, AbstractContextManager["Store"], Protocol):
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
        of equals, the oldest. A near-duplicate is recorded but
        not put into the tables. A read-only store judges and writes nothing.

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

        Args:
            fingerprint: 0 to 2**64 - 1.
            distance: bits, up to the largest for which the design is complete; None for the
                store's own.

        Raises:
            ValueError: the fingerprint is none, or the design is not complete for the distance.
        """

    def mark_done(self, documents: Sequence[int], crawl: str) -> None:
        """Note that the items of these documents came through.

        Those that are not pending in this crawl are passed over.
        """

    def withdraw(self, documents: Sequence[int], crawl: str) -> None:
        """Take back documents that are pending in this crawl.

        They cause no drop, and are judged afresh when fetched again.
        """

    def take_lost(self, crawl: str, spider: str, *, ending: bool = False) -> list[LostPage]:
        """Hand those documents over to a crawl that were dropped for one that never came through.

        Its own, and those of the spider's crawls that ended, until they are judged again. Reads
        what waits: drops of the last seconds, and what is lost.

        Args:
            crawl: a running one.
            spider: its spider's name.
            ending: it is about to end: what is pending in it counts as lost.
        """

    def bulk_load(self, fingerprints: NDArray[np.uint64], *, archived: bool = False) -> int:
        """Add fingerprints without documents, for seeding; returns how many were not there yet.

        They match in every scope. Reads everything and writes all tables anew: cost grows with
        the store. Shape (n,); one transaction. `archived` keeps them compressed beneath the tables,
        see `lmdb_archived`; a `StoreError` where there is no such thing.
        """

    def find_document(self, url: str) -> list[StoredDocument]:
        """Find documents by their URL; reads every record, cost grows with the store."""

    def get_document(self, document: int) -> StoredDocument | None:
        """Get a document by its number, or None."""

    def visit(self, take: Callable[[StoredDocument], object]) -> int:
        """Hand over every document in the order in which they came, without its text.

        Returns:
            How many records are damaged; those are passed over.
        """

    def bulk_loaded(self) -> NDArray[np.uint64]:
        """List the fingerprints that were bulk-loaded; sorted, shape (n,). Reads a table."""

    def stats(self) -> dict[str, Any]:
        """Count documents, duplicates by distance and scope, bytes; reads every record.

        Those that cannot be read are counted as `damaged`, where there are any.
        """

    def table_stats(self) -> dict[str, Any]:
        """Count fingerprints, bytes of the tables and of the file; reads no record."""

    def check(self) -> list[str]:
        """Compare all tables, fingerprints and documents; returns what is wrong, one a line."""

    def backup(self, folder: Path, *, check: bool = True) -> dict[str, Any]:
        """Copy the store into a new folder while crawls write, see `lmdb_backup.back_up`."""

    def fingerprints(self, *, delivered: bool = False) -> NDArray[np.uint64]:
        """Read all fingerprints of the tables: sorted, each once; shape (n,).

        Those of near-duplicates are not there. Cost: one table, and 8 bytes each.

        Args:
            delivered: only those that were bulk-loaded, or have a document that is done and no
                stub; reads every record.
        """

    def recorded_pairs(self) -> NDArray[np.uint64]:
        """Pair the near-duplicates with what they were dropped for.

        Returns:
            Shape (n, 2): fingerprints of a near-duplicate and its original, the nearest two; none
            where the original was deleted. Reads every record.
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
            Clusters of two fingerprints or more, made of the pairs of `find_all` and of
            `recorded_pairs`, so a near-duplicate that is not in the tables stands with its
            original. Raises what `find_all` does.
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
            `batch.batch_query`. For few queries `query` is quicker. Raises what `find_all` does.
        """

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Write the tables anew, full and in order, while crawls go on.

        A file does not shrink by that. Killed in between, nothing is lost.

        Args:
            progress: is told how many slices of how many are done.

        Raises:
            StoreError: another process is compacting, or rewrote the tables meanwhile.
            StoreUnavailableError: a write failed; nothing is lost.
        """

    def rebuild(self, tables: str | int | None = None) -> dict[str, int]:
        """Write the tables anew from the documents and what was bulk-loaded: one transaction.

        What leads to documents is mended as well.

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

        `wanted` may be asked several times about a document, whose `text` is None.
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

        Those that are gone, or pending in a running crawl, are passed over. Fingerprints that no
        other document has, nor were bulk-loaded, leave the tables. A transaction a thousand.
        """


def open_store(  # noqa: PLR0913 - a store has so many sides
    url: str,
    distance: int | None = 3,
    tables: str | int = "auto",
    recipe: Recipe | None = None,
    readonly: bool = False,
    confirm: float | None = None,
    *,
    seed: int | None = None,
) -> Store:
    """Open a store, or make a new one where there is none.

    Args:
        url: a folder, `lmdb:///folder`, or a server: `redis://host:6379/0`, `rediss://`,
            `unix:///socket`, `redis+cluster://host:6379`, with `?prefix=` of its keys.
        distance: k, the bits within which documents are near-duplicates, 0 up to the largest
            distance for which the table design is complete (7 with four tables). None for 7, or
            for 3 without `confirm`, or what the store's design reaches if that is less.
        tables: table design: `auto`, 4, 10, 16, 20 or blocks and distance as "m:k". `auto` takes
            an existing store's.
        recipe: how its fingerprints are made; None takes an existing store's, or the default.
        readonly: True to change nothing; there must be a store then.
        confirm: similarity of the sketches that a match must reach, 0 to 1, see `confirm`; None
            for plain simhash. What has no sketch is matched within 3 bits instead.
        seed: of a new store's token hash; one that is there must have it. None draws one.

    Returns:
        The store, a context manager.

    Raises:
        StoreUnusableError: it cannot be opened; nothing was changed.
        StoreMismatchError: it was made with another recipe or table design.
        ValueError: an argument is out of its range.
    """
    if is_server(url):
        if find_spec("redis") is None:
            raise StoreUnusableError(
                f"store {show_url(url)} needs a client: pip install 'scrapy-simhash[redis]'"
            )
        from scrapy_simhash.redis_store import RedisStore  # noqa: PLC0415 - loads redis

        return RedisStore(url, distance, tables, recipe, confirm, readonly=readonly, seed=seed)
    from scrapy_simhash.lmdb_store import LmdbStore  # noqa: PLC0415 - loads lmdb

    folder = store_folder(url)
    return LmdbStore(folder, distance, tables, recipe, confirm, readonly=readonly, seed=seed)
