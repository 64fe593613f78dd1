"""The LMDB store: one folder, any number of processes on one host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from scrapy_simhash.config import default_distance
from scrapy_simhash.designs import parse_design
from scrapy_simhash.judge import Judge
from scrapy_simhash.lease import Leases
from scrapy_simhash.lmdb_check import check_documents
from scrapy_simhash.lmdb_documents import Documents
from scrapy_simhash.lmdb_environment import (
    acquire_environment,
    has_data,
    release_environment,
)
from scrapy_simhash.lmdb_header import (
    change_design,
    check_design,
    check_recipe,
    make_store,
    open_databases,
    read_packed_header,
    unpack_header,
)
from scrapy_simhash.lmdb_stats import count_documents, describe_document
from scrapy_simhash.lmdb_tables import Tables
from scrapy_simhash.permutation import Design, check_fingerprint
from scrapy_simhash.planner import choose_design
from scrapy_simhash.recipe import Recipe
from scrapy_simhash.records import CrawlRecord
from scrapy_simhash.sketch import SKETCH_BYTES
from scrapy_simhash.stores import (
    MOST_FINGERPRINTS,
    MOST_IDENTITY_BYTES,
    Document,
    Match,
    StoredDocument,
    StoreMismatchError,
    StoreUnusableError,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import lmdb
    from numpy.typing import NDArray

Result = TypeVar("Result")


class LmdbStore:
    """See `stores.Store` for what the methods do and `stores.open_store` for the arguments."""

    def __init__(
        self,
        path: Path,
        distance: int | None = 3,
        tables: str | int = "auto",
        recipe: Recipe | None = None,
        confirm: float | None = None,
        *,
        readonly: bool = False,
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
            made = not readonly and make_store(self._environment, recipe or Recipe(), design.name)
            # Only its maker may choose again: others may rely on the design as it is.
            self._choosing = made and automatic
            self._databases = open_databases(self._environment)
            self._packed_header = b""
            self._environment.read(self._refresh)
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
        if packed is None:
            raise StoreUnusableError(f"{self.url} has no header; restore it from a backup")
        if packed != self._packed_header:
            self._header = unpack_header(packed)
            self._tables = Tables(parse_design(self._header.design), self._databases.tables)
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
            _check_document(document)

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
        bits = self.distance if distance is None else distance
        if not 0 <= bits <= self._tables.design.reach_bits:
            raise ValueError(
                f"distance {bits}: table design {self._tables.design.name} is complete for "
                f"0 to {self._tables.design.reach_bits} bits"
            )

        def work(stored: Documents, _: lmdb.Transaction[bytes]) -> list[Match]:
            matches: list[Match] = []
            seen: set[int] = set()  # a document may have several fingerprints near by
            for found_bits, found in stored.near(fingerprint, bits):
                for number in stored.numbers(found):
                    if number in seen:
                        continue
                    seen.update({number} - {0})
                    record = stored.get(number) if number else None
                    matches.append(Match(number, found, found_bits, record.url if record else None))
            return matches

        return self._read(work)

    def bulk_load(self, fingerprints: NDArray[np.uint64]) -> int:
        if fingerprints.dtype != np.uint64:
            raise ValueError(f"fingerprints are numpy uint64, got {fingerprints.dtype}")

        def work(stored: Documents, txn: lmdb.Transaction[bytes]) -> int:
            if self._choosing and not txn.stat(self._databases.tables)["entries"]:
                design = choose_design(len(fingerprints), self.distance)
                change_design(txn, self._databases, design.name)
                self._refresh(txn)
            for known in np.intersect1d(fingerprints, stored.list_indexed()).tolist():
                stored.note_bulk_loaded(known)
            return self._tables.load(txn, fingerprints)

        return self._write(work)

    def find_document(self, url: str) -> list[StoredDocument]:
        return self._read(
            lambda stored, _: [
                describe_document(number, record, stored.get_text(number))
                for number, record in stored
                if record.url == url
            ]
        )

    def get_document(self, document: int) -> StoredDocument | None:
        def work(stored: Documents, _: lmdb.Transaction[bytes]) -> StoredDocument | None:
            record = stored.get(document)
            if record is None:
                return None
            return describe_document(document, record, stored.get_text(document))

        return self._read(work)

    def stats(self) -> dict[str, Any]:
        def work(stored: Documents, txn: lmdb.Transaction[bytes]) -> dict[str, Any]:
            pages = txn.stat(self._databases.tables)
            counted = count_documents(stored)
            bytes_of_tables = pages["psize"] * (
                pages["branch_pages"] + pages["leaf_pages"] + pages["overflow_pages"]
            )
            fingerprints = pages["entries"] // len(self._tables.design.tables)
            return {
                "store": self.url,
                "format": self._header.format,
                "created": self._header.created,
                "recipe": {"id": self.recipe.id, **self._header.recipe},
                "libraries": self._header.libraries,
                "design": self._tables.design.name,
                "tables": len(self._tables.design.tables),
                "complete_for_bits": self._tables.design.reach_bits,
                "crawls": txn.stat(self._databases.crawls)["entries"],
                **counted,
                "fingerprints": fingerprints,
                "file_bytes": self._environment.file_bytes,
                "bytes_per_document": round(
                    self._environment.file_bytes / max(1, counted["documents"]), 1
                ),
                "table_bytes_per_fingerprint": round(bytes_of_tables / max(1, fingerprints), 1),
            }

        return self._read(work)

    def check(self) -> list[str]:
        return self._read(lambda _, txn: check_documents(txn, self._databases, self._tables))


def choose_distance(distance: int | None, confirm: float | None, design: Design) -> int:
    """Return the distance to work with; None stands for the default within the design's reach.

    Raises:
        StoreMismatchError: the design is not complete for the distance.
    """
    if distance is None:
        return min(default_distance(confirm), design.reach_bits)
    if not 0 <= distance <= design.reach_bits:
        wider = "4" if distance <= parse_design(4).reach_bits else f"'{distance + 3}:{distance}'"
        raise StoreMismatchError(
            f"distance {distance}: table design {design.name} is complete for 0 to "
            f"{design.reach_bits} bits; take a smaller SIMHASH_DISTANCE, or a new SIMHASH_STORE "
            f"with a design for it, such as SIMHASH_TABLES = {wider}"
        )
    return distance


def _check_document(document: Document) -> None:
    """Refuse what LMDB would reject or cut in the middle of a transaction."""
    for identity in (document.identity, *document.aliases):
        if not 1 <= len(identity) <= MOST_IDENTITY_BYTES:
            raise ValueError(
                f"an identity has 1 to {MOST_IDENTITY_BYTES} bytes, got {identity!r} "
                f"for {document.url!r}"
            )
    if not 1 <= len(document.fingerprints) <= MOST_FINGERPRINTS:
        raise ValueError(
            f"a document has 1 to {MOST_FINGERPRINTS} fingerprints, "
            f"got {len(document.fingerprints)} for {document.url!r}"
        )
    for fingerprint in document.fingerprints:
        check_fingerprint(fingerprint)
    if len(document.sketch) not in {0, SKETCH_BYTES}:
        raise ValueError(
            f"a sketch has {SKETCH_BYTES} bytes or none, got {len(document.sketch)} "
            f"for {document.url!r}"
        )
