"""The interface of all stores: keep the documents of crawls, and find those near a given one."""

from __future__ import annotations

import math
import time
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from scrapy_simhash._fingerprints import check_fingerprint
from scrapy_simhash.errors import DamagedError, StoreUnusableError
from scrapy_simhash.judging.documents import State, StoredDocument, number_of_mark
from scrapy_simhash.judging.judge import Judge
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.judging.sites import Sites
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.header import (
    HEADER_KEY,
    check_design,
    check_mode,
    check_recipe,
    check_seed,
    choose_distance,
    new_header,
    require_reach,
    unpack_header,
)
from scrapy_simhash.stores.keyvalues import CRAWLS, DOCUMENTS, HEADER, Engine, KeyValues, cut
from scrapy_simhash.stores.lost import (
    ROWS_PER_CALL,
    count_lost,
    describe_lost,
    list_keys,
    mark_done,
    withdraw,
)
from scrapy_simhash.stores.rows import CrawlRecord, pack_row
from scrapy_simhash.stores.upkeep import (
    Mender,
    count_fingerprints,
    list_bulk_loaded,
    list_undelivered,
    note_bulk_loaded,
    read_table,
    rewrite_tables,
)
from scrapy_simhash.tables.arrays import contains, sort_distinct
from scrapy_simhash.tables.designs import DEFAULT_DESIGN, parse_design
from scrapy_simhash.tables.probing import Prober

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Document, Marked, Match, Verdict
    from scrapy_simhash.stores.header import Header
    from scrapy_simhash.stores.lost import LostPage
    from scrapy_simhash.tables.permutation import Design

Result = TypeVar("Result")

# A problem that every check finds is not caused by concurrent writes.
_CHECKS_BESIDE_OTHERS = 2
# A deletion of so many locks the store for less than a second at a time.
_DOCUMENTS_PER_DELETION = 1_000
# The number of the largest scopes to list.
_SCOPES_SHOWN = 20


class Store(AbstractContextManager["Store"]):
    """The documents of crawls, in a store of any kind; `with open_store(...) as store` closes it.

    Takes the arguments of `open_store`, with an engine that is not open yet in place of the URL.
    """

    recipe: Recipe
    seed: int
    distance: int
    confirm: float | None

    _header: Header
    _prober: Prober
    _packed_header = b""
    _opened = False

    def __init__(  # those of `open_store`
        self,
        engine: Engine,
        distance: int | None = 3,
        tables: str | int = "auto",
        recipe: Recipe | None = None,
        confirm: float | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        self.confirm = confirm
        self.readonly = engine.readonly
        self.engine = engine
        self._sites = Sites()
        self._dissolved: set[int] = set()
        try:
            automatic = tables == "auto"
            design = parse_design(DEFAULT_DESIGN if automatic else tables)
            if not engine.exists():
                choose_distance(distance, confirm, design)  # before anything is made
            engine.open()
            if not self.readonly:
                self._make(recipe or Recipe(), design.name, seed)
            self.read(lambda _: None)
            check_seed(self._header, seed)
            self.recipe = check_recipe(self._header, recipe)
            check_design(self._header, None if automatic else design.name)
            self.distance = choose_distance(distance, confirm, self._prober.design)
        except BaseException:
            engine.close()
            raise
        self.seed = self._header.seed
        self._opened = True

    def _make(self, recipe: Recipe, design: str, seed: int | None) -> None:
        """Write the header of a store that is empty."""
        header = new_header(recipe, design, seed, plain=self.confirm is None)

        def work(values: KeyValues) -> None:
            if values.get(HEADER, HEADER_KEY) is None and not any(values.scan(DOCUMENTS)):
                values.put(HEADER, HEADER_KEY, pack_row(HEADER_KEY, header))

        self.engine.write(work)

    def read(self, work: Callable[[Documents], Result]) -> Result:
        """Run a function that reads the documents in one transaction; it may run several times."""
        return self.engine.read(lambda values: work(self._begin(values)))

    def write(self, work: Callable[[Documents], Result]) -> Result:
        """Run a function in one durable transaction, see `Engine.write`."""
        self._require_writable()
        return self.engine.write(lambda values: work(self._begin(values)))

    def _begin(self, values: KeyValues) -> Documents:
        """Read the header first: another process may have changed the tables."""
        packed = values.get(HEADER, HEADER_KEY)
        if packed is None:
            raise StoreUnusableError(
                f"the store at {self.url} has no header; restore it from a backup"
            )
        if packed != self._packed_header:
            self._take_over(unpack_header(packed))
            self._packed_header = packed
        return Documents(
            values, self._prober, self._header.seed, self.engine.leases.alive, self._dissolved
        )

    def _take_over(self, header: Header) -> None:
        """Adopt this header: another process may have changed the tables."""
        if self._opened:
            # The store may have been deleted, and another one made in its place.
            check_seed(header, self.seed)
            check_recipe(header, self.recipe)
            require_reach(header, self.distance)
        self._header, self._prober = header, Prober(parse_design(header.design))

    def require_mode(self, confirm: float | None) -> None:
        """Raise a StoreMismatchError if the store was made with plain simhash, or without."""
        check_mode(self._header, confirm)

    def _require_writable(self) -> None:
        if self.readonly:
            raise ValueError(f"the store at {self.url} was opened read-only")

    @property
    def url(self) -> str:
        """Where the store is, for display, without password."""
        return self.engine.url

    @property
    def design(self) -> str:
        """Name of the table design, which another process may change."""
        return self.read(lambda stored: stored.design.name)

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        self.engine.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def start_crawl(self, crawl: str, spider: str, *, lease: bool = True) -> None:
        """Take the lease of a crawl: its pending records count until it ends or the process dies.

        Args:
            crawl: a new id: 1 to 100 letters, digits, `.`, `_` and `-`.
            spider: name of the spider, for display.
            lease: take it; False if another process has it already.

        Raises:
            StoreMismatchError: the store was made with plain simhash, and this is another mode, or
                the other way round.
        """
        self._require_writable()
        self.require_mode(self.confirm)
        if lease:
            self.engine.leases.take(crawl)
        started = CrawlRecord(spider, started=time.time())
        try:
            self.write(lambda stored: stored.put_crawl(crawl, started))
        except BaseException:
            self.engine.leases.give_back(crawl)
            raise

    def end_crawl(self, crawl: str) -> None:
        """End the crawl and its lease."""

        def work(stored: Documents) -> None:
            record = stored.get_crawl(crawl)
            if record is not None:
                record.ended = time.time()
                stored.put_crawl(crawl, record)

        try:
            self.write(work)
        finally:
            self.engine.leases.give_back(crawl)

    def find_and_add(  # one transaction for all that a crawl writes
        self,
        documents: Sequence[Document],
        *,
        crawl: str = "",
        done: Sequence[Marked] = (),
        withdrawn: Sequence[Marked] = (),
        before: Callable[[Documents], object] | None = None,
        seconds: float = math.inf,
    ) -> list[Verdict]:
        """Judge documents in order and add the new ones, in one durable transaction.

        A document is a near-duplicate of a document in its scope that the rule calls one page
        with it (`judging.rule`; without confirmation, that lies within the store's distance), and
        that is done, or pending in a crawl whose lease is valid. Of several matches the verdict
        names the most similar one (without confirmation the nearest), of equal ones the oldest. A
        near-duplicate is recorded, but leads to no match. A read-only store judges and writes
        nothing.

        Args:
            documents: in the order in which they arrived.
            crawl: the crawl of `done` and `withdrawn`.
            done: documents to mark done first, see `mark_done`.
            withdrawn: documents to withdraw first, see `withdraw`.
            before: what else to do in the same transaction, before a document is judged.
            seconds: judge no further document after this time, as others wait to write.

        Returns:
            One verdict for each document that was judged, the first one at least, once all of them
            are on disk.

        Raises:
            StoreUnavailableError: nothing was written.
        """
        rule = Rule(self.distance, self.confirm)

        def work(stored: Documents) -> list[Verdict]:
            if self.engine.shared:
                marked = [number_of_mark(mark) for mark in (*done, *withdrawn)]
                stored.read_ahead(documents, marked, rule)
                self._sites.prepare(stored, [document.facts for document in documents])
            if (done or withdrawn) and not self.readonly:
                mark_done(stored, done, crawl)
                withdraw(stored, withdrawn, crawl)
            if before is not None and not self.readonly:
                before(stored)
            judge = Judge(stored, rule, cache(stored.alive), self._sites)
            end = time.monotonic() + seconds
            verdicts = []
            for document in documents:
                verdict, change = judge.judge(document)
                if not self.readonly:
                    verdict = replace(verdict, document=stored.apply(change))
                verdicts.append(verdict)
                if time.monotonic() > end:
                    break
            return verdicts

        return self.read(work) if self.readonly else self.write(work)

    def query(self, fingerprint: int, distance: int | None = None) -> list[Match]:
        """Find all originals within a distance, of every scope, nearest first.

        Args:
            fingerprint: 0 to 2**64 - 1.
            distance: bits, for which the design must be complete; None for the store's own.

        Raises:
            ValueError: not a fingerprint, or the design is not complete for the distance.
        """
        check_fingerprint(fingerprint)
        bits = self.distance if distance is None else distance

        def work(stored: Documents) -> list[Match]:
            if distance is not None:
                stored.design.flips_for(bits)  # raises unless the design is complete
            return stored.find_matches(fingerprint, bits)

        return self.read(work)

    def mark_done(self, documents: Sequence[Marked], crawl: str) -> None:
        """Mark documents as done: their items passed the pipelines.

        Documents that are not pending in this crawl are skipped, and a `Version` of a
        document that has another text by now. A plain number stands for whatever text it has.
        """
        self.write(lambda stored: mark_done(stored, documents, crawl))

    def withdraw(self, documents: Sequence[Marked], crawl: str) -> None:
        """Withdraw documents that are pending in this crawl, with the text that is marked.

        They cause no more drops, and are judged afresh when they are fetched again.
        """
        self.write(lambda stored: withdraw(stored, documents, crawl))

    def bulk_load(self, fingerprints: NDArray[np.uint64]) -> int:
        """Add fingerprints, shape (n,), without documents; returns how many were new.

        They match in every scope. One transaction rewrites all tables; it reads these and all
        records.
        """
        if fingerprints.dtype != np.uint64:
            raise ValueError(f"fingerprints must be numpy.uint64, got {fingerprints.dtype}")
        fingerprints = sort_distinct(fingerprints)

        def work(stored: Documents) -> int:
            before = Mender(stored).list_fingerprints()
            together = sort_distinct(np.concatenate([before, fingerprints]))
            self._rewrite(stored, stored.design, together)
            note_bulk_loaded(stored, fingerprints)
            return together.size - before.size

        return self.write(work)

    def _rewrite(self, stored: Documents, design: Design, fingerprints: NDArray[np.uint64]) -> None:
        """Rewrite all tables, in this or another design."""
        rewrite_tables(stored, design, fingerprints)
        header = msgspec.structs.replace(self._header, design=design.name)
        stored.values.put(HEADER, HEADER_KEY, pack_row(HEADER_KEY, header))

    def find_document(self, url: str) -> list[StoredDocument]:
        """Find documents by their URL."""
        return self.get_documents(self.read(lambda stored: stored.list_at(url)))

    def find_titles(self, urls: Iterable[str]) -> dict[str, str]:
        """Find the titles of pages, those that are there."""
        return {url: pages[-1].facts.title for url in urls if (pages := self.find_document(url))}

    def get_document(self, document: int) -> StoredDocument | None:
        """Get a document by its number, or None."""
        return next(iter(self.get_documents([document])), None)

    def get_documents(self, documents: Sequence[int]) -> list[StoredDocument]:
        """Get documents by their numbers; leaves out those that do not exist."""

        def work(stored: Documents) -> list[StoredDocument]:
            found, wordings = stored.get_all(documents), stored.get_wordings(documents)
            return [StoredDocument(*each, wordings.get(each[0])) for each in found.items()]

        return self.read(work)

    def visit(self, take: Callable[[StoredDocument], object]) -> None:
        """Call a function with every document, without its text, in the order of their arrival.

        Damaged records are skipped.
        """
        last = 0

        def work(stored: Documents) -> None:
            nonlocal last
            for number, record in stored.scan():
                if number > last and not isinstance(record, DamagedError):  # or it runs again
                    take(StoredDocument(number, record))
                last = max(last, number)

        self.read(work)

    def list_documents(self) -> list[StoredDocument]:
        """List the documents that `visit` passes; about 2 KB each."""
        documents: list[StoredDocument] = []
        self.visit(documents.append)
        return documents

    def list_lost(self) -> Iterator[LostPage]:
        """List the lost pages, 512 in a transaction; leaves out damaged rows."""
        for some in cut(self.read(list_keys), ROWS_PER_CALL):
            yield from self.read(partial(describe_lost, keys=some))

    def bulk_loaded(self) -> NDArray[np.uint64]:
        """List the fingerprints that were bulk-loaded: sorted, shape (n,); reads a table."""
        return self.read(list_bulk_loaded)

    def stats(self) -> dict[str, Any]:
        """Count documents, duplicates by distance and scope, and bytes; reads every record.

        If some records cannot be read, `damaged` counts them.
        """

        def work(stored: Documents) -> dict[str, Any]:
            states, distances, scopes = Counter[str](), Counter[int](), Counter[str]()
            for _, record in stored.scan():
                if isinstance(record, DamagedError):
                    states["damaged"] += 1
                    continue
                states[record.state.name.lower()] += 1
                states["stubs"] += record.facts.stub and not record.facts.file
                states["files"] += record.facts.file
                scopes[record.facts.scope] += 1
                if record.state == State.DUPLICATE:
                    distances[record.distance] += 1
            documents = states["damaged"] + scopes.total()
            name, octets = self.engine.measure()
            return {
                "store": self.url,
                "format": self._header.format,
                "created": self._header.created,
                "recipe": {"id": self.recipe.id, **self._header.recipe},
                "libraries": self._header.libraries,
                **self._describe_tables(stored),
                "crawls": stored.values.count(CRAWLS),
                "documents": documents,
                **({"damaged": states["damaged"]} if states["damaged"] else {}),
                "done": states["done"],
                "pending": states["pending"],
                "near_duplicates": states["duplicate"],
                "distances": {str(bits): distances[bits] for bits in sorted(distances)},
                "stubs": states["stubs"],
                "files": states["files"],
                "scopes": dict(scopes.most_common(_SCOPES_SHOWN)),
                "lost": count_lost(stored),
                name: octets,
                "bytes_per_document": round(octets / max(1, documents), 1),
            }

        return self.read(work)

    def _describe_tables(self, stored: Documents) -> dict[str, Any]:
        return {
            "design": self._prober.design.name,
            "tables": len(self._prober.design.tables),
            "complete_for_bits": self._prober.design.reach_bits,
            "fingerprints": count_fingerprints(stored),
        }

    def table_stats(self) -> dict[str, Any]:
        """Count fingerprints, and bytes of the store; reads no record."""
        name, octets = self.engine.measure()
        return {**self.read(self._describe_tables), name: octets}

    def check(self) -> list[str]:
        """Compare all tables, fingerprints and documents; returns the problems, one a line.

        Where others may commit meanwhile, it lists only problems that every repeat finds.
        """

        def find_problems() -> list[str]:
            return self.read(lambda stored: Mender(stored).find_problems())

        problems = self.engine.find_damage() or find_problems()
        for _ in range(_CHECKS_BESIDE_OTHERS if self.engine.shared and problems else 0):
            again = set(find_problems())
            problems = [problem for problem in problems if problem in again]
        return problems

    def fingerprints(self, *, delivered: bool = False) -> NDArray[np.uint64]:
        """Read the distinct fingerprints of the tables, sorted; shape (n,).

        Those of near-duplicates are not there. Reads one table. With `delivered`, only fingerprints
        that were bulk-loaded or whose document is done and not a stub; that reads every record.
        """

        def work(stored: Documents) -> NDArray[np.uint64]:
            found = read_table(stored, 0)
            return found[~contains(list_undelivered(stored), found)] if delivered else found

        return self.read(work)

    def rebuild(self, tables: str | int | None = None) -> dict[str, int]:
        """Rewrite the tables from the documents and the bulk-loaded fingerprints, in a transaction.

        It also mends the entries that lead to documents, and reads the whole store.

        Args:
            tables: another table design; None for the same.

        Returns:
            The numbers of `fingerprints` and `tables`; if not 0, of `damaged` records, whose
            fingerprints stay as they are, and of damaged rows of lost pages (`rows_dropped`).

        Raises:
            StoreMismatchError: the design is not complete for the store's distance.
            ValueError: there is no such design.
        """

        def work(stored: Documents) -> dict[str, int]:
            design = stored.design if tables is None else parse_design(tables)
            choose_distance(self.distance, self.confirm, design)
            mender = Mender(stored)
            found, mended = mender.list_fingerprints(), mender.mend()
            self._rewrite(stored, design, found)
            return {"fingerprints": found.size, "tables": len(design.tables), **mended}

        return self.write(work)

    def select(self, wanted: Callable[[StoredDocument], bool]) -> list[int]:
        """List the wanted documents with their near-duplicates; reads every record.

        Leaves out documents that are pending in a running crawl. `wanted` may be called several
        times for a document, and the document's `wording` is None.
        """

        def work(stored: Documents) -> list[int]:
            found = (
                number
                for number, record in stored
                if not stored.is_in_use(record) and wanted(StoredDocument(number, record))
            )
            return stored.list_deletable(list(found))

        return self.read(work)

    def spare(self, documents: Sequence[int]) -> None:
        """Exempt near-duplicates from being dropped when they are fetched again; skips others."""

        def work(stored: Documents) -> None:
            for number, record in stored.get_all(documents).items():
                if record.state == State.DUPLICATE:
                    record.spared = True
                    stored.put(number, record)

        self.write(work)

    def delete(self, documents: Sequence[int]) -> int:
        """Delete documents with their near-duplicates; returns how many of both.

        Documents that do not exist, or are pending in a running crawl, are skipped. Fingerprints
        that no other document has, and that were not bulk-loaded, leave the tables. Each
        transaction deletes a thousand documents.
        """

        def work(stored: Documents, numbers: Sequence[int]) -> int:
            stored.prefetch_documents(numbers)
            stored.keys.read_ladders(numbers)
            found = stored.get_all(stored.list_deletable(numbers))
            for number, record in found.items():
                stored.take_out(number, record)
                stored.remove(number, record)
            return len(found)

        chosen = self.read(lambda stored: stored.list_deletable(documents))
        parts = cut(chosen, _DOCUMENTS_PER_DELETION)
        return sum(self.write(partial(work, numbers=part)) for part in parts)
