"""The interface of all stores: keep the documents of crawls, and find those near a given one."""

from __future__ import annotations

import secrets
from collections import Counter
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import structs

from scrapy_simhash import __version__
from scrapy_simhash.errors import (
    DamagedError,
    StoreUnusableError,
)
from scrapy_simhash.judging.documents import (
    DEFAULT_DISTANCE_BITS,
    Document,
    Rule,
    State,
)
from scrapy_simhash.judging.hosts import Hosts
from scrapy_simhash.judging.matching import Judge
from scrapy_simhash.pages.addresses import bound_url
from scrapy_simhash.pages.facts import SKETCH_BYTES, Recipe, check_fingerprint
from scrapy_simhash.stores.documents import (
    Documents,
    pack_row,
    read_rows,
    unpack_document,
    unpack_row,
    unseal,
)
from scrapy_simhash.stores.keys import KeyTable
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    FORMAT,
    HEADER,
    HEADER_KEY,
    Engine,
    Header,
    KeyValues,
    cut,
)
from scrapy_simhash.stores.upkeep import add_duplicates, find_problems, read_table, rebuild
from scrapy_simhash.tables import DEFAULT_DESIGN, Limits, parse_design

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Decision
    from scrapy_simhash.pages.facts import Facts
    from scrapy_simhash.tables import Design

Result = TypeVar("Result")

# A problem that every check finds is not caused by concurrent writes.
_CHECKS_BESIDE_OTHERS = 2
# A deletion of so many locks the store for less than a second at a time.
_DOCUMENTS_PER_DELETION = 1_000
_MOST_IDENTITY_BYTES = 64


class Store(AbstractContextManager["Store"]):
    """The documents of crawls, in a store of any kind; `with open_store(...) as store` closes it.

    Takes the arguments of `open_store`, with an engine that is not open yet in place of the URL.

    Attributes:
        recipe, seed: of its fingerprints.
        distance: within which documents are near-duplicates, in bits.
        rule: name of the rule that decides.
        url: where it is, for display, without password.
    """

    def __init__(  # those of `open_store`
        self,
        engine: Engine,
        distance: int | None = None,
        tables: str | int = "auto",
        recipe: Recipe | None = None,
        rule: str | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        self.url, self.readonly, self.engine = engine.url, engine.readonly, engine
        self._hosts = Hosts()
        self.dissolved: set[int] = set()
        self._recall_header = lru_cache(maxsize=1)(self._read_header)

        def make(values: KeyValues) -> None:
            if values.header is None and not any(values.scan(DOCUMENTS)):
                # A secret: whoever does not know it cannot craft a page with another's fingerprint.
                drawn = secrets.randbits(64) if seed is None else seed
                given = recipe or Recipe(), design.name, drawn, rule or "words"
                made = Header(FORMAT, __version__, *given)
                values.put(HEADER, HEADER_KEY, pack_row(HEADER_KEY, made))

        try:
            automatic = tables == "auto"
            design = parse_design(DEFAULT_DESIGN if automatic else tables)
            if not engine.exists():
                choose_distance(distance, design, rule or "words")  # before anything is made
            engine.open()
            if not self.readonly:
                engine.run(make, writing=True)
            self._wanted: dict[str, Any] = {"recipe": recipe, "seed": seed, "rule": rule}
            self._wanted["design"] = None if automatic else design.name
            header = self.read(lambda stored: stored.header)
            self.recipe, self.rule, self.seed = header.recipe, header.rule, header.seed
            # The store may be deleted, and another one made in its place.
            self._wanted = {"recipe": self.recipe, "seed": self.seed}
            self.distance = choose_distance(distance, parse_design(header.design), self.rule)
        except BaseException:
            engine.close()
            raise

    def read(self, work: Callable[[Documents], Result]) -> Result:
        """Run a function that reads the documents in one transaction; it may run several times."""
        return self.engine.run(lambda values: work(self._begin(values)), writing=False)

    def write(self, work: Callable[[Documents], Result]) -> Result:
        """Run a function in one durable transaction, see `Engine.run`."""
        if self.readonly:
            raise ValueError(f"the store at {self.url} was opened read-only")
        return self.engine.run(lambda values: work(self._begin(values)), writing=True)

    def _begin(self, values: KeyValues) -> Documents:
        """Read the header first: another process may have changed the tables."""
        if values.header is None:
            what = "was not made to its end; crawl again, which does that"
            if any(values.scan(DOCUMENTS)):
                what = "has no header; restore it from a backup"
            raise StoreUnusableError(f"the store at {self.url} {what}")
        header = self._recall_header(values.header)
        keys = KeyTable(values, header.seed, self.dissolved)
        return Documents(values, header, parse_design(header.design), keys)

    def _read_header(self, packed: bytes) -> Header:
        """Read a header, and refuse that of another store."""
        header = unpack_header(packed)
        for name, given in self._wanted.items():
            if given not in {None, own := getattr(header, name)}:
                shown = "" if name == "seed" else f": {own}, and {given} is wanted"
                raise StoreUnusableError(
                    f"the store was made with another {name}{shown}. Set it back (SIMHASH_RULE, or "
                    "SIMHASH_TABLES = 'auto'), or name another SIMHASH_STORE (--store) and crawl "
                    "again; `scrapy simhash check --rebuild --tables` changes the design"
                )
        return header

    @property
    def design(self) -> str:
        """Name of the table design, which another process may change."""
        return self.read(lambda stored: stored.header.design)

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        self.engine.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def find_and_add(
        self, documents: Sequence[Document], *, crawl: str = "", incremental: bool = True
    ) -> list[Decision]:
        """Judge documents in order and write each at once, as if it had come through.

        A document is a near-duplicate of one of its group (`Facts.group`), or of what was
        imported, that the rule calls one page with it (`judging.rule`; in plain simhash, that lies
        within the store's distance). Of several the decision names the most similar one (in plain
        simhash the nearest), of equal ones the oldest. A near-duplicate is recorded, but leads to
        no match. All is written in one transaction; a read-only store judges and writes nothing.

        Args:
            documents: in the order in which they arrived.
            crawl: id of the crawl that fetched them, or "" outside of crawls.
            incremental: drop pages for what earlier crawls got, too, see `judging.matching`.

        Returns:
            One decision for each document, once all of them are on disk.

        Raises:
            StoreUnavailableError: nothing was written.
            ValueError: what is known of a document cannot be stored; nothing was written.
        """
        for document in documents:
            _check_facts(document.facts)
        rule = Rule(self.distance, self.rule)
        first = 0 if self.readonly else self.engine.take_numbers(len(documents))

        def work(stored: Documents) -> list[Decision]:
            judge = Judge(stored, rule, crawl, incremental, self._hosts)
            decisions, taken = [], count(first)
            for document in documents:
                if self.engine.shared:
                    stored.read_ahead(document, rule)
                decision, judged = judge.judge(document)
                if not self.readonly:
                    judged.number = judged.number or next(taken)
                    decision.document = stored.save(judged)
                decisions.append(decision)
            return decisions

        return self.read(work) if self.readonly else self.write(work)

    def query(self, fingerprint: int, distance: int | None = None) -> list[tuple[int, Document]]:
        """Find all originals within a distance, of every group, with their bits, nearest first.

        Args:
            fingerprint: 0 to 2**64 - 1.
            distance: bits, for which the design must be complete; None for the store's own.

        Raises:
            ValueError: not a fingerprint, or the design is not complete for the distance.
        """
        check_fingerprint(fingerprint)
        bits = self.distance if distance is None else distance

        def work(stored: Documents) -> list[tuple[int, Document]]:
            limits = Limits(bits)
            found, _ = stored.list_led(stored.near(fingerprint, limits), limits)
            there = stored.get_all(found)
            return [(found[number].distance, each) for number, each in there.items()]

        return self.read(work)

    def find_documents(self, urls: Collection[str]) -> list[Document]:
        """Find the documents of URLs, by ascending number; leaves out damaged ones.

        Reads every record, some 2 kB each: 2 s for a million on a quiet core.
        """

        def work(stored: Documents) -> list[Document]:
            bounded = {bound_url(url, self.seed) for url in urls}
            sought = [url.encode(errors="surrogatepass") for url in bounded]
            rows = stored.values.scan(DOCUMENTS)
            near = ((key, row) for key, row in rows if any(url in row for url in sought))
            read = (each for _, each in read_rows(unpack_document, near))
            return stored.add_texts([each for each in read if each.facts.url in bounded])

        return self.read(work)

    def get_documents(self, documents: Collection[int]) -> dict[int, Document]:
        """Get documents by their numbers; leaves out those that do not exist."""
        found = self.read(lambda stored: stored.add_texts(stored.get_all(documents).values()))
        return {each.number: each for each in found}

    def list_documents(self, wanted: Callable[[Document], bool] = lambda _: True) -> list[Document]:
        """List the wanted documents, without their texts, by their numbers; about 2 KB each.

        Reads every record, and skips damaged ones; `wanted` may be called several times for each.
        """
        return self.read(lambda stored: list(filter(wanted, stored)))

    def stats(self) -> dict[str, Any]:
        """Count documents, damaged ones if there are any, and bytes; reads every record."""

        def work(stored: Documents) -> dict[str, Any]:
            states, stubs = Counter[str](), 0
            for _, each in stored.scan():
                if isinstance(each, DamagedError):
                    states["damaged"] += 1
                else:
                    states[each.state.name.lower()] += 1
                    stubs += each.facts.stub
            return {
                "store": self.url,
                "version": stored.header.version,
                "recipe": structs.asdict(self.recipe),
                "design": stored.header.design,
                "complete_for_bits": stored.design.reach_bits,
                "fingerprints": read_table(stored, 0).size,
                "documents": states.total(),
                **({"damaged": states["damaged"]} if states["damaged"] else {}),
                "done": states["done"],
                "near_duplicates": states["duplicate"],
                "stubs": stubs,
                "bytes": self.engine.measure(),
            }

        return self.read(work)

    def check(self) -> list[str]:
        """Compare all tables, fingerprints and documents; returns the problems, one a line.

        Where others may commit meanwhile, it lists only problems that every repeat finds.
        """

        def find() -> list[str]:
            return self.read(lambda stored: list(find_problems(stored)))

        if damage := self.engine.run(lambda _: self.engine.find_damage(), writing=False):
            return damage
        problems = find()
        for _ in range(_CHECKS_BESIDE_OTHERS if self.engine.shared and problems else 0):
            again = {*find()}
            problems = [problem for problem in problems if problem in again]
        return problems

    def fingerprints(self) -> NDArray[np.uint64]:
        """Read the distinct fingerprints of the tables, sorted; shape (n,).

        Those of near-duplicates are not there. Reads one table.
        """
        return self.read(lambda stored: read_table(stored, 0))

    def rebuild(self, tables: str | int | None = None) -> dict[str, int]:
        """Write tables, and all that leads to documents, anew; one transaction reads all records.

        Args:
            tables: another table design; None for the same.

        Returns:
            The numbers of `fingerprints` and `tables`; if not 0, of `damaged` records, to which
            nothing leads any more.

        Raises:
            StoreUnusableError: the design is not complete for the store's distance.
            ValueError: there is no such design.
        """

        def work(stored: Documents) -> dict[str, int]:
            design = stored.design if tables is None else parse_design(tables)
            choose_distance(self.distance, design, self.rule)
            return rebuild(stored, design)

        written = self.write(work)
        return {"fingerprints": self.fingerprints().size, **written}

    def spare(self, documents: Sequence[int]) -> None:
        """Exempt near-duplicates from being dropped when they are fetched again; skips others."""

        def work(stored: Documents) -> None:
            for each in stored.get_all(documents).values():
                if each.state == State.DUPLICATE:
                    each.spared = True
                    stored.put(each)

        self.write(work)

    def delete(self, documents: Collection[int]) -> int:
        """Delete documents with their near-duplicates; returns how many of both.

        Documents that do not exist are skipped. Fingerprints that no other document has leave the
        tables. Reads every record; each transaction deletes a thousand documents.
        """

        def work(stored: Documents, numbers: Collection[int]) -> int:
            found = stored.get_all(numbers).values()
            stored.read_ahead_of(found)
            for each in found:
                stored.remove(each)
            return len(found)

        chosen = self.read(lambda stored: add_duplicates(stored, documents))
        parts = cut(chosen, _DOCUMENTS_PER_DELETION)
        return sum(self.write(partial(work, numbers=part)) for part in parts)


def _check_facts(page: Facts) -> None:
    """Raise a ValueError for what a kind of store would refuse, or cut, amid a transaction."""
    if not 1 <= len(page.identity) <= _MOST_IDENTITY_BYTES:
        raise ValueError(
            f"an identity has 1 to {_MOST_IDENTITY_BYTES} bytes, got {page.identity!r} "
            f"for {page.url!r}"
        )
    check_fingerprint(page.fingerprint)
    if len(page.sketch) not in {0, SKETCH_BYTES}:
        raise ValueError(
            f"a sketch has {SKETCH_BYTES} bytes or none, got {len(page.sketch)} for {page.url!r}"
        )


def unpack_header(packed: bytes) -> Header:
    """Read a header; refuses one that is damaged, or of another format."""
    try:
        body = unseal("header", HEADER_KEY, packed)
        made_as, made_by, *_ = msgspec.msgpack.decode(body, type=list[Any])
        if made_as == FORMAT:
            return unpack_row(Header, HEADER_KEY, packed)
    except DamagedError as error:
        raise StoreUnusableError(
            f"{error.what}. Restore the store from a backup, or name another SIMHASH_STORE and "
            "crawl again"
        ) from error
    raise StoreUnusableError(
        f"the store has format {made_as}, but this version reads format {FORMAT} only; move it "
        f"away, or name another SIMHASH_STORE, and crawl again (scrapy-simhash {made_by} made it)"
    )


def choose_distance(distance: int | None, design: Design, rule: str) -> int:
    """Return the distance to use, or raise a StoreUnusableError; None chooses the default."""
    if rule not in DEFAULT_DISTANCE_BITS:
        raise ValueError(f"rule {rule!r} must be one of {', '.join(DEFAULT_DISTANCE_BITS)}")
    if distance is None:
        return min(DEFAULT_DISTANCE_BITS[rule], design.reach_bits)
    try:
        design.flips_for(distance)
    except ValueError as error:
        settings = "SIMHASH_DISTANCE and SIMHASH_TABLES; `scrapy simhash check --rebuild` gives it"
        raise StoreUnusableError(f"{error} ({settings} to a store)") from None
    return distance
