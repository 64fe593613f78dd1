"""The LMDB store: one folder, any number of processes on one host."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from scrapy_simhash.checks import check_document, choose_distance
from scrapy_simhash.designs import parse_design
from scrapy_simhash.jointables import contains, sort_distinct
from scrapy_simhash.judge import Judge
from scrapy_simhash.lmdb_archived import merge, tidy_archives
from scrapy_simhash.lmdb_backup import back_up
from scrapy_simhash.lmdb_compact import compact
from scrapy_simhash.lmdb_rebuild import rebuild, rewrite_tables, trusted_fingerprints
from scrapy_simhash.lmdb_rows import scan_records
from scrapy_simhash.lmdb_stats import describe_tables, list_bulk_loaded
from scrapy_simhash.lmdb_transfer import LmdbTransfer
from scrapy_simhash.lost import keep_requests, list_lost, take_lost
from scrapy_simhash.permutation import check_fingerprint
from scrapy_simhash.planner import choose_design
from scrapy_simhash.records import CrawlRecord
from scrapy_simhash.store_documents import find_matches
from scrapy_simhash.store_joins import list_recorded_pairs
from scrapy_simhash.store_queries import StoreQueries
from scrapy_simhash.store_stats import (
    count_documents,
    describe_header,
    find_documents,
    read_document,
    visit_documents,
)
from scrapy_simhash.store_upkeep import (
    DOCUMENTS_PER_DELETION,
    delete_documents,
    list_dropped,
    list_identities,
    list_undelivered,
    note_end,
    select_documents,
    spare_documents,
    with_near_duplicates,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_documents import Documents
    from scrapy_simhash.stored import Document, LostPage, Match, StoredDocument, Verdict

Result = TypeVar("Result")


class LmdbStore(LmdbTransfer, StoreQueries):
    """See `stores.Store` for what the methods do and `LmdbConnection` for how it is opened."""

    def start_crawl(self, crawl: str, spider: str) -> None:
        self._require_writable()
        self._leases.take(crawl)
        started = CrawlRecord(spider, started=time.time())
        try:
            self._write(lambda stored, _: stored.put_crawl(crawl, started))
        except BaseException:
            self._leases.give_back(crawl)
            raise

    def end_crawl(self, crawl: str) -> None:
        try:
            self._write(lambda stored, _: note_end(stored, crawl))
        finally:
            self._leases.give_back(crawl)

    def find_and_add(
        self,
        documents: Sequence[Document],
        *,
        crawl: str = "",
        done: Sequence[int] = (),
        withdrawn: Sequence[int] = (),
        requests: Mapping[int, bytes | None] | None = None,
    ) -> list[Verdict]:
        for document in documents:
            check_document(document)

        def work(stored: Documents, _: lmdb.Transaction[bytes]) -> list[Verdict]:
            judge = self._judge(stored)
            judge.mark_done(done, crawl)
            judge.withdraw(withdrawn, crawl)
            keep_requests(stored, requests or {})
            return [judge.judge(document) for document in documents]

        return self._read(work) if self.readonly else self._write(work)

    def _judge(self, stored: Documents) -> Judge:
        answers: dict[str, bool] = {}

        def alive(crawl: str) -> bool:
            if crawl not in answers:
                answers[crawl] = self._leases.alive(crawl)
            return answers[crawl]

        return Judge(stored, self.distance, self.confirm, alive, readonly=self.readonly)

    def mark_done(self, documents: Sequence[int], crawl: str) -> None:
        self._write(lambda stored, _: self._judge(stored).mark_done(documents, crawl))

    def withdraw(self, documents: Sequence[int], crawl: str) -> None:
        self._write(lambda stored, _: self._judge(stored).withdraw(documents, crawl))

    def take_lost(self, crawl: str, spider: str, *, ending: bool = False) -> list[LostPage]:
        if not self._read(lambda stored, _: stored.has_waiting()):
            return []  # nearly always; no need to wait for other writers
        alive = self._leases.alive
        return self._write(lambda stored, _: take_lost(stored, alive, crawl, spider, ending=ending))

    def query(self, fingerprint: int, distance: int | None = None) -> list[Match]:
        check_fingerprint(fingerprint)
        bits = self._bits(distance)
        if distance is not None:
            self._tables.design.flips_for(bits)  # raises where the design is not complete
        return self._environment.read(
            lambda txn: find_matches(self._refresh(txn), fingerprint, bits)
        )

    def bulk_load(self, fingerprints: NDArray[np.uint64], *, archived: bool = False) -> int:
        """See `stores.Store.bulk_load`.

        With `archived`, or where there is one already, everything in the tables goes into an
        archive beneath them, see `lmdb_archived`.
        """
        if fingerprints.dtype != np.uint64:
            raise ValueError(f"fingerprints are numpy uint64, got {fingerprints.dtype}")
        fingerprints = sort_distinct(fingerprints)

        self._write(partial(self._choose_for, fingerprints.size))
        if archived or self._header.archive:
            return merge(self._environment, self._databases, fingerprints)

        def work(stored: Documents, txn: lmdb.Transaction[bytes]) -> int:
            indexed = stored.list_indexed()
            for known in indexed[contains(fingerprints, indexed)].tolist():
                stored.note_bulk_loaded(known)
            before = trusted_fingerprints(txn, self._databases, self._tables)
            together = sort_distinct(np.concatenate([before, fingerprints]))
            rewrite_tables(txn, self._databases, self._tables, self._header.design, together)
            self._refresh(txn)
            return together.size - before.size

        return self._write(work)

    def _choose_for(self, count: int, _: Documents, transaction: lmdb.Transaction[bytes]) -> None:
        """Choose the design of empty tables for so many fingerprints."""
        if self._choosing and not self._tables.count_rows(transaction):
            design = choose_design(count, self.distance).name
            nothing = np.zeros(0, np.uint64)
            rewrite_tables(transaction, self._databases, self._tables, design, nothing)
            self._refresh(transaction)

    def find_document(self, url: str) -> list[StoredDocument]:
        return self._read(partial(find_documents, url))

    def get_document(self, document: int) -> StoredDocument | None:
        return self._read(partial(read_document, document))

    def bulk_loaded(self) -> NDArray[np.uint64]:
        return self._read(partial(list_bulk_loaded, self._databases, self._tables))

    def visit(self, take: Callable[[StoredDocument], object]) -> int:
        return self._read(lambda _, txn: visit_documents(take, scan_records(txn, self._databases)))

    def stats(self) -> dict[str, Any]:
        def work(stored: Documents, txn: lmdb.Transaction[bytes]) -> dict[str, Any]:
            counted = count_documents(stored, scan_records(txn, self._databases))
            octets = self._environment.file_bytes
            return {
                "store": self.url,
                **describe_header(self._header),
                **describe_tables(txn, self._databases, self._tables),
                "crawls": txn.stat(self._databases.crawls)["entries"],
                **counted,
                "lost": sum(1 for _ in list_lost(stored, self._leases.alive)),
                "file_bytes": octets,
                "bytes_per_document": round(octets / max(1, counted["documents"]), 1),
            }

        return self._read(work)

    def table_stats(self) -> dict[str, Any]:
        found = self._read(lambda _, txn: describe_tables(txn, self._databases, self._tables))
        return {**found, "file_bytes": self._environment.file_bytes}

    def backup(self, folder: Path, *, check: bool = True) -> dict[str, Any]:
        return back_up(self._environment, self._databases, folder, check=check)

    def fingerprints(self, *, delivered: bool = False) -> NDArray[np.uint64]:
        def work(stored: Documents, txn: lmdb.Transaction[bytes]) -> NDArray[np.uint64]:
            found = self._tables.read_all(txn)
            return found[~contains(list_undelivered(stored), found)] if delivered else found

        return self._read(work)

    def recorded_pairs(self) -> NDArray[np.uint64]:
        return self._read(partial(list_recorded_pairs, self._tables.design.reach_bits))

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        self._require_writable()
        self._environment.read(self._refresh)
        if self._header.archive:
            merge(self._environment, self._databases)
        else:
            compact(self._environment, self._databases, progress or (lambda *_: None))

    def rebuild(self, tables: str | int | None = None) -> dict[str, int]:
        def work(_: Documents, txn: lmdb.Transaction[bytes]) -> dict[str, int]:
            design = self._header.design if tables is None else parse_design(tables).name
            choose_distance(self.distance, self.confirm, parse_design(design))
            written = rebuild(design, txn, self._databases, self._tables)
            self._refresh(txn)
            return written

        written = self._write(work)
        tidy_archives(self._environment, self._databases)
        return written

    def select(self, wanted: Callable[[StoredDocument], bool]) -> list[int]:
        return self._read(lambda stored, _: select_documents(stored, wanted, self._leases.alive))

    def list_dropped(
        self, wanted: Callable[[StoredDocument], bool], *, lost: bool = False
    ) -> list[StoredDocument]:
        alive = self._leases.alive
        return self._read(lambda stored, _: list_dropped(stored, alive, wanted, lost=lost))

    def spare(self, documents: Sequence[int]) -> None:
        self._write(lambda stored, _: spare_documents(stored, documents))

    def delete(self, documents: Sequence[int]) -> int:
        alive = self._leases.alive
        chosen = self._read(lambda stored, _: with_near_duplicates(stored, documents, alive))
        identities = self._read(partial(list_identities, chosen))
        deleted = 0
        for start in range(0, len(chosen), DOCUMENTS_PER_DELETION):
            part = chosen[start : start + DOCUMENTS_PER_DELETION]
            work = partial(delete_documents, part, identities, alive)
            deleted += self._write(work)
        return deleted
