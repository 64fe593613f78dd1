"""The Redis store: one server or a cluster, any number of processes on any number of hosts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from scrapy_simhash.checks import check_document, choose_distance
from scrapy_simhash.designs import parse_design
from scrapy_simhash.jointables import contains, sort_distinct
from scrapy_simhash.judge import Judge
from scrapy_simhash.lost import keep_requests, list_lost, take_lost
from scrapy_simhash.permutation import check_fingerprint
from scrapy_simhash.planner import choose_design
from scrapy_simhash.records import CrawlRecord
from scrapy_simhash.redis_check import Checker
from scrapy_simhash.redis_prefetch import prefetch_group, prefetch_matches
from scrapy_simhash.redis_reading import (
    list_bulk_loaded,
    list_fingerprints_with_rows,
    list_full,
    measure,
    read_fingerprints,
    scan_records,
)
from scrapy_simhash.redis_transfer import RedisTransfer
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
from scrapy_simhash.stores import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from scrapy_simhash.redis_documents import RedisDocuments
    from scrapy_simhash.stored import Document, LostPage, Match, StoredDocument, Verdict


# A problem that is there each time is none of what others were writing just then.
_CHECKS_BESIDE_OTHERS = 2


class RedisStore(RedisTransfer, StoreQueries):
    """See `stores.Store` for what the methods do and `RedisConnection` for how it is opened."""

    def start_crawl(self, crawl: str, spider: str) -> None:
        self._require_writable()
        self._server.warn_of_loss()
        self._leases.take(crawl)
        started = CrawlRecord(spider, started=time.time())
        try:
            self._write(lambda stored: stored.put_crawl(crawl, started))
        except BaseException:
            self._leases.give_back(crawl)
            raise

    def end_crawl(self, crawl: str) -> None:
        try:
            self._write(lambda stored: note_end(stored, crawl))
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

        def work(stored: RedisDocuments) -> list[Verdict]:
            marked = [*done, *withdrawn]
            numbers = None if self.readonly else self._numbers
            prefetch_group(stored, documents, marked, self.distance, numbers)
            judge = self._judge(stored)
            judge.mark_done(done, crawl)
            judge.withdraw(withdrawn, crawl)
            keep_requests(stored, requests or {})
            return [judge.judge(document) for document in documents]

        return self._read(work) if self.readonly else self._write(work)

    def _judge(self, stored: RedisDocuments) -> Judge:
        return Judge(stored, self.distance, self.confirm, self._is_alive, readonly=self.readonly)

    def mark_done(self, documents: Sequence[int], crawl: str) -> None:
        self._write(lambda stored: self._judge(stored).mark_done(documents, crawl))

    def withdraw(self, documents: Sequence[int], crawl: str) -> None:
        self._write(lambda stored: self._judge(stored).withdraw(documents, crawl))

    def take_lost(self, crawl: str, spider: str, *, ending: bool = False) -> list[LostPage]:
        if not self._server.call("HLEN", self._keys.waiting):
            return []
        alive = self._is_alive
        return self._write(lambda stored: take_lost(stored, alive, crawl, spider, ending=ending))

    def query(self, fingerprint: int, distance: int | None = None) -> list[Match]:
        check_fingerprint(fingerprint)
        bits = self._bits(distance)
        if distance is not None:
            self._tables.design.flips_for(bits)  # raises where the design is not complete

        def work(stored: RedisDocuments) -> list[Match]:
            prefetch_matches(stored, fingerprint, bits)
            return find_matches(stored, fingerprint, bits)

        return self._read(work)

    def bulk_load(self, fingerprints: NDArray[np.uint64], *, archived: bool = False) -> int:
        if archived:
            raise StoreError(
                f"the store at {self.url} is in the memory of a server and has no archive beneath "
                "its tables; import without --base, or into a store in a folder"
            )
        if fingerprints.dtype != np.uint64:
            raise ValueError(f"fingerprints are numpy uint64, got {fingerprints.dtype}")
        self._require_writable()
        fingerprints = sort_distinct(fingerprints)
        with self._alone():
            self._begin()
            before = list_fingerprints_with_rows(self._server, self._keys)
            design = self._header.design
            if self._choosing and not before.size:
                design = choose_design(fingerprints.size, self.distance).name
            together = sort_distinct(np.concatenate([before, fingerprints]))
            self._rewriter.drop_unfinished(self._header)
            self._rewriter.rewrite_tables(self._header, design, together, fingerprints)
            self._begin()
            return int(together.size - before.size)

    def find_document(self, url: str) -> list[StoredDocument]:
        return self._read(lambda stored: find_documents(url, stored))

    def get_document(self, document: int) -> StoredDocument | None:
        return self._read(lambda stored: read_document(document, stored))

    def bulk_loaded(self) -> NDArray[np.uint64]:
        self._begin()
        return list_bulk_loaded(self._server, self._keys)

    def visit(self, take: Callable[[StoredDocument], object]) -> int:
        # Each is handed over once, and no tables are read.
        self._begin()
        return visit_documents(take, scan_records(self._server, self._keys))

    def stats(self) -> dict[str, Any]:
        def work(stored: RedisDocuments) -> dict[str, Any]:
            counted = count_documents(stored, scan_records(self._server, self._keys))
            octets = measure(self._server, self._keys.all_patterns())
            return {
                "store": self.url,
                **describe_header(self._header),
                **self._describe_tables(),
                "crawls": self._server.call("HLEN", self._keys.crawls),
                **counted,
                "lost": sum(1 for _ in list_lost(stored, self._is_alive)),
                "memory_bytes": octets,
                "bytes_per_document": round(octets / max(1, counted["documents"]), 1),
            }

        return self._read(work)

    def _describe_tables(self) -> dict[str, Any]:
        design = self._tables.design
        fingerprints = read_fingerprints(self._server, self._keys, self._tables).size
        pattern = self._keys.pattern(f"t{self._tables.generation}.")
        octets = measure(self._server, [pattern])
        return {
            "design": design.name,
            "tables": len(design.tables),
            "complete_for_bits": design.reach_bits,
            "fingerprints": fingerprints,
            "table_bytes_per_fingerprint": round(octets / max(1, fingerprints), 1),
            "buckets_too_full": len(list_full(self._server, pattern)),
        }

    def table_stats(self) -> dict[str, Any]:
        return self._read(lambda _: self._describe_tables())

    def check(self) -> list[str]:
        """List what is wrong; what others write meanwhile is looked at again."""
        problems = self._check_once()
        for _ in range(_CHECKS_BESIDE_OTHERS):
            if not problems:
                break
            again = set(self._check_once())
            problems = [problem for problem in problems if problem in again]
        return problems

    def _check_once(self) -> list[str]:
        return self._read(lambda _: Checker(self._server, self._keys, self._tables).check())

    def backup(self, folder: Path, *, check: bool = True) -> dict[str, Any]:
        del folder, check
        raise StoreError(
            f"the store at {self.url} is on a server, which makes its own backups: BGSAVE writes "
            "them, and appendonly keeps what came since. `scrapy simhash export` writes the "
            "fingerprints into a file"
        )

    def fingerprints(self, *, delivered: bool = False) -> NDArray[np.uint64]:
        def work(stored: RedisDocuments) -> NDArray[np.uint64]:
            found = read_fingerprints(self._server, self._keys, self._tables)
            return found[~contains(list_undelivered(stored), found)] if delivered else found

        return self._read(work)

    def recorded_pairs(self) -> NDArray[np.uint64]:
        reach_bits = self._tables.design.reach_bits
        return self._read(lambda stored: list_recorded_pairs(reach_bits, stored))

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Do nothing: buckets have no room to spare, and what leaves them is free at once."""
        self._require_writable()
        if progress is not None:
            progress(1, 1)

    def rebuild(self, tables: str | int | None = None) -> dict[str, int]:
        self._require_writable()
        with self._alone():
            self._begin()
            design = self._header.design if tables is None else parse_design(tables).name
            choose_distance(self.distance, self.confirm, parse_design(design))
            self._rewriter.drop_unfinished(self._header)
            mended = self._rewriter.mend()
            found = list_fingerprints_with_rows(self._server, self._keys)
            self._rewriter.rewrite_tables(self._header, design, found)
            self._begin()
            return {
                "fingerprints": int(found.size),
                "tables": len(self._tables.design.tables),
                **mended,
            }

    def select(self, wanted: Callable[[StoredDocument], bool]) -> list[int]:
        return self._read(lambda stored: select_documents(stored, wanted, self._is_alive))

    def list_dropped(
        self, wanted: Callable[[StoredDocument], bool], *, lost: bool = False
    ) -> list[StoredDocument]:
        alive = self._is_alive
        return self._read(lambda stored: list_dropped(stored, alive, wanted, lost=lost))

    def spare(self, documents: Sequence[int]) -> None:
        self._write(lambda stored: spare_documents(stored, documents))

    def delete(self, documents: Sequence[int]) -> int:
        alive = self._is_alive

        def work(stored: RedisDocuments, part: Sequence[int]) -> int:
            stored.fetch(records=part, duplicates=part)
            identities = list_identities(part, stored)
            return delete_documents(part, identities, alive, stored)

        chosen = self._read(lambda stored: with_near_duplicates(stored, documents, alive))
        deleted = 0
        for start in range(0, len(chosen), DOCUMENTS_PER_DELETION):
            part = chosen[start : start + DOCUMENTS_PER_DELETION]
            deleted += self._write(lambda stored, part=part: work(stored, part))  # type: ignore[misc]
        return deleted
