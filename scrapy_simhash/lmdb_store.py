"""The LMDB store: one folder, any number of processes on one host."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from scrapy_simhash.batch import batch_query
from scrapy_simhash.checks import check_document, choose_distance
from scrapy_simhash.clusters import connected_clusters, merge_pairs, representative_clusters
from scrapy_simhash.designs import parse_design
from scrapy_simhash.jointables import contains, sort_distinct
from scrapy_simhash.judge import Judge
from scrapy_simhash.lease import Leases
from scrapy_simhash.lmdb_archived import delete_unused_archives, merge, open_tables
from scrapy_simhash.lmdb_backup import back_up
from scrapy_simhash.lmdb_check import check_documents
from scrapy_simhash.lmdb_compact import compact
from scrapy_simhash.lmdb_documents import Documents
from scrapy_simhash.lmdb_environment import (
    acquire_environment,
    has_data,
    release_environment,
)
from scrapy_simhash.lmdb_header import (
    check_design,
    check_recipe,
    check_seed,
    make_store,
    open_databases,
    read_header,
    read_packed_header,
    require_reach,
    unpack_header,
    write_header,
)
from scrapy_simhash.lmdb_joins import list_recorded_pairs
from scrapy_simhash.lmdb_stats import (
    count_documents,
    describe_header,
    describe_tables,
    find_documents,
    read_document,
)
from scrapy_simhash.lmdb_upkeep import (
    DOCUMENTS_PER_DELETION,
    delete_documents,
    list_undelivered,
    select_documents,
    trusted_fingerprints,
    with_near_duplicates,
)
from scrapy_simhash.permutation import check_fingerprint
from scrapy_simhash.planner import choose_design
from scrapy_simhash.recipe import Recipe
from scrapy_simhash.records import CrawlRecord
from scrapy_simhash.selfjoin import find_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import lmdb
    from numpy.typing import NDArray

    from scrapy_simhash.lmdb_tables import Tables
    from scrapy_simhash.stored import Document, Match, StoredDocument, Verdict

Result = TypeVar("Result")


class LmdbStore:
    """See `stores.Store` for what the methods do and `stores.open_store` for the arguments.

    A new store takes the `seed` of its token hash, 0 to 2**64 - 1, or draws one; one that is there
    must have it.
    """

    distance: int
    _tables: Tables

    def __init__(  # noqa: PLR0913  # those of `open_store`, and the seed
        self,
        path: Path,
        distance: int | None = 3,
        tables: str | int = "auto",
        recipe: Recipe | None = None,
        confirm: float | None = None,
        *,
        readonly: bool = False,
        seed: int | None = None,
    ) -> None:
        if confirm is not None and not 0 <= confirm <= 1:
            raise ValueError(f"confirm is a similarity from 0 to 1 or None, got {confirm!r}")
        automatic = tables == "auto"
        design = choose_design(0) if automatic else parse_design(tables)
        self.url = str(path)
        self.confirm = confirm
        self.readonly = readonly
        if not has_data(path):
            choose_distance(distance, confirm, design)  # before anything is made
        self._environment = acquire_environment(path, readonly=readonly)
        try:
            made = not readonly and make_store(
                self._environment, recipe or Recipe(), design.name, seed
            )
            # Only its maker may choose again: others may rely on the design as it is.
            self._choosing = made and automatic
            self._databases = open_databases(self._environment)
            self._packed_header = b""
            self._environment.read(self._refresh)
            check_seed(self._header, seed)
            self.recipe = check_recipe(self._header, recipe)
            check_design(self._header, None if automatic else design.name)
            self.distance = choose_distance(distance, confirm, self._tables.design)
        except BaseException:
            release_environment(self._environment)
            raise
        self.seed = self._header.seed
        self._leases = Leases(self._environment.folder / "leases")
        self._closed = False

    def _refresh(self, transaction: lmdb.Transaction[bytes]) -> Documents:
        """Begin with the header: another process may have changed the tables' design."""
        packed = read_packed_header(transaction, self._databases)
        if packed != self._packed_header:
            self._header = unpack_header(packed)
            if self._packed_header:
                require_reach(self._header, self.distance)
            self._tables = open_tables(self._environment.folder, self._databases, self._header)
            self._packed_header = packed
        return Documents(transaction, self._databases, self._tables)

    def _read(self, work: Callable[[Documents, lmdb.Transaction[bytes]], Result]) -> Result:
        return self._environment.read(lambda txn: work(self._refresh(txn), txn))

    def _write(self, work: Callable[[Documents, lmdb.Transaction[bytes]], Result]) -> Result:
        self._require_writable()
        return self._environment.write(lambda txn: work(self._refresh(txn), txn))

    def _require_writable(self) -> None:
        if self.readonly:
            raise ValueError(f"the store at {self.url} was opened read-only")

    @property
    def design(self) -> str:
        return self._header.design

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._leases.give_back_all()
            release_environment(self._environment)

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
        def work(stored: Documents, _: lmdb.Transaction[bytes]) -> None:
            record = stored.get_crawl(crawl)
            if record is not None:
                record.ended = time.time()
                stored.put_crawl(crawl, record)

        try:
            self._write(work)
        finally:
            self._leases.give_back(crawl)

    def find_and_add(
        self,
        documents: Sequence[Document],
        *,
        crawl: str = "",
        done: Sequence[int] = (),
        withdrawn: Sequence[int] = (),
    ) -> list[Verdict]:
        for document in documents:
            check_document(document)

        def work(stored: Documents, _: lmdb.Transaction[bytes]) -> list[Verdict]:
            judge = self._judge(stored)
            judge.mark_done(done, crawl)
            judge.withdraw(withdrawn, crawl)
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

    def query(self, fingerprint: int, distance: int | None = None) -> list[Match]:
        check_fingerprint(fingerprint)
        bits = self._bits(distance)
        self._tables.design.flips_for(bits)  # raises where the design is not complete
        return self._read(lambda stored, _: stored.find_matches(fingerprint, bits))

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
            before = trusted_fingerprints(stored, self._tables, txn)
            together = sort_distinct(np.concatenate([before, fingerprints]))
            self._rewrite(txn, self._header.design, together)
            return together.size - before.size

        return self._write(work)

    def _choose_for(self, count: int, _: Documents, transaction: lmdb.Transaction[bytes]) -> None:
        """Choose the design of empty tables for so many fingerprints."""
        if self._choosing and not self._tables.count_rows(transaction):
            design = choose_design(count, self.distance).name
            self._rewrite(transaction, design, np.zeros(0, np.uint64))

    def _rewrite(
        self, transaction: lmdb.Transaction[bytes], design: str, fingerprints: NDArray[np.uint64]
    ) -> None:
        """Write all tables anew, in this or another design; a compaction is given up."""
        header = read_header(transaction, self._databases)
        changed = design != header.design
        others = header.compacting or header.archive
        header.compacting, header.archive, header.merging = False, "", ""
        if changed or others:
            header.design = design
            write_header(transaction, self._databases, header)
        self._tables.clear(transaction)
        self._refresh(transaction)
        self._tables.fill(transaction, fingerprints)

    def find_document(self, url: str) -> list[StoredDocument]:
        return self._read(partial(find_documents, url))

    def get_document(self, document: int) -> StoredDocument | None:
        return self._read(partial(read_document, document))

    def stats(self) -> dict[str, Any]:
        def work(stored: Documents, txn: lmdb.Transaction[bytes]) -> dict[str, Any]:
            counted = count_documents(stored)
            octets = self._environment.file_bytes
            return {
                "store": self.url,
                **describe_header(self._header),
                **describe_tables(txn, self._databases, self._tables),
                "crawls": txn.stat(self._databases.crawls)["entries"],
                **counted,
                "file_bytes": octets,
                "bytes_per_document": round(octets / max(1, counted["documents"]), 1),
            }

        return self._read(work)

    def check(self) -> list[str]:
        return self._read(lambda _, txn: check_documents(txn, self._databases, self._tables))

    def backup(self, folder: Path, *, check: bool = True) -> dict[str, Any]:
        return back_up(self._environment, self._databases, folder, check=check)

    def fingerprints(self, *, delivered: bool = False) -> NDArray[np.uint64]:
        def work(stored: Documents, txn: lmdb.Transaction[bytes]) -> NDArray[np.uint64]:
            found = self._tables.read_all(txn)
            return found[~contains(list_undelivered(stored), found)] if delivered else found

        return self._read(work)

    def recorded_pairs(self) -> NDArray[np.uint64]:
        return self._read(partial(list_recorded_pairs, self._tables.design.reach_bits))

    def find_all(self, distance: int | None = None) -> NDArray[np.uint64]:
        return find_all(self.fingerprints(), self._bits(distance))

    def find_clusters(
        self, distance: int | None = None, *, representative: bool = False
    ) -> list[list[int]]:
        pairs = merge_pairs(self.find_all(distance), self.recorded_pairs())
        clusters = representative_clusters(pairs) if representative else connected_clusters(pairs)
        return [cluster.tolist() for cluster in clusters]

    def batch_query(
        self, queries: NDArray[np.uint64], distance: int | None = None
    ) -> NDArray[np.uint64]:
        return batch_query(queries, [self.fingerprints()], self._bits(distance))

    def _bits(self, distance: int | None) -> int:
        return self.distance if distance is None else distance

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        self._require_writable()
        self._environment.read(self._refresh)
        if self._header.archive:
            merge(self._environment, self._databases)
        else:
            compact(self._environment, self._databases, progress or (lambda *_: None))

    def rebuild(self, tables: str | int | None = None) -> dict[str, int]:
        def work(stored: Documents, txn: lmdb.Transaction[bytes]) -> dict[str, int]:
            design = self._header.design if tables is None else parse_design(tables).name
            choose_distance(self.distance, self.confirm, parse_design(design))
            found = trusted_fingerprints(stored, self._tables, txn)
            self._rewrite(txn, design, found)
            return {"fingerprints": found.size, "tables": len(self._tables.design.tables)}

        written = self._write(work)
        delete_unused_archives(self._environment.folder, self._header)
        return written

    def select(self, wanted: Callable[[StoredDocument], bool]) -> list[int]:
        return self._read(lambda stored, _: select_documents(stored, wanted, self._leases.alive))

    def delete(self, documents: Sequence[int]) -> int:
        alive = self._leases.alive
        chosen = self._read(lambda stored, _: with_near_duplicates(stored, documents, alive))
        identities = self._read(lambda stored, _: stored.list_identities(set(chosen)))
        deleted = 0
        for start in range(0, len(chosen), DOCUMENTS_PER_DELETION):
            part = chosen[start : start + DOCUMENTS_PER_DELETION]
            work = partial(delete_documents, part, identities, alive)
            deleted += self._write(work)
        return deleted
