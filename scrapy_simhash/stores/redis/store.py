"""The Redis store: one server or a cluster, any number of processes on any number of hosts."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.judging.merging import Row, read_rows
from scrapy_simhash.stores.header import choose_distance
from scrapy_simhash.stores.redis.commits import Committer
from scrapy_simhash.stores.redis.documents import Numbers, RedisDocuments
from scrapy_simhash.stores.redis.mending import Rewriter, find_problems
from scrapy_simhash.stores.redis.scripts import BEGIN, token_of
from scrapy_simhash.stores.redis.server import (
    RedisLeases,
    Server,
    make_store,
    read_holder,
    script,
    unpack_header,
)
from scrapy_simhash.stores.redis.snapshot import (
    RedisTables,
    Snapshot,
    list_fingerprints_with_rows,
    measure,
)
from scrapy_simhash.stores.store import Store
from scrapy_simhash.stores.upkeep import visit_documents
from scrapy_simhash.stores.urls import server_address
from scrapy_simhash.tables import choose_design, parse_design
from scrapy_simhash.tables.sets import sort_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from scrapy_simhash.judging import StoredDocument
    from scrapy_simhash.pages import Recipe

Result = TypeVar("Result")

# After this number of tries, a commit that others overtook each time locks the store to finish, and
# a read gives up if others rewrote the tables each time.
_TRIES_BESIDE_OTHERS = 4
# A problem that every check finds is not caused by concurrent writes.
_CHECKS_BESIDE_OTHERS = 2


class _OtherTablesError(Exception):
    """Another process has replaced the tables since this one read the header."""


class RedisStore(Store):
    """A store on a server; `Store` documents the methods."""

    _leases: RedisLeases

    def _find(self, place: Path | str) -> bool:
        self._pid = os.getpid()
        address = server_address(str(place))
        self.url = address.shown
        self._server = Server(address, readonly=self.readonly)
        self._closing.callback(self._server.close)
        self._keys = self._server.keys
        return bool(self._server.call("EXISTS", self._keys.header, opening=True))

    def _open(self, recipe: Recipe, design: str, seed: int | None) -> bool:
        made = not self.readonly and make_store(self._server, recipe, design, seed)
        self._refresh(self._server.call("GET", self._keys.header, opening=True))
        self._leases = RedisLeases(self._server)
        self._closing.callback(self._leases.close)
        self._numbers = Numbers(self._server, readonly=self.readonly)
        self._committer = Committer(self._server)
        self._rewriter = Rewriter(self._server, self._committer, self._numbers, self._begin)
        self._alive: set[str] = set()
        # In a cluster, whether nobody else committed since the last commit of this process.
        self._undisturbed = not self._server.address.cluster
        return made

    def _refresh(self, packed: bytes | None) -> None:
        """Adopt the header: another process may have changed the tables."""
        if packed != self._packed_header or packed is None:
            self._take_over(unpack_header(packed, self.url))
            self._tables = RedisTables(self._keys, self._design, self._header.base)
            self._packed_header = packed or b""

    def _begin(
        self, ahead: Callable[[RedisDocuments], object] | None = None
    ) -> tuple[RedisDocuments, bytes]:
        """Begin to read; returns the documents, and the number of the last commit.

        What `ahead` reads first is read in the same round trip.
        """
        if os.getpid() != self._pid:
            raise StoreUnavailableError(
                f"the store at {self.url} was opened before a fork; open it in the child"
            )
        while True:
            self._numbers.begin()
            self._seq = b""
            snapshot = Snapshot(self._server, self._begin_with)
            snapshot.read.add(token_of(self._keys.header))
            addressed = self._header.addressed
            stored = RedisDocuments(snapshot, self._tables, self._numbers, addressed=addressed)
            with suppress(_OtherTablesError):
                if ahead is None or not self._undisturbed:
                    snapshot.run([])
                if ahead is not None:
                    ahead(stored)
                if not self._seq:  # `ahead` read nothing
                    snapshot.run([])
                return stored, self._seq

    def _begin_with(self, commands: list[tuple[object, ...]]) -> list[Any]:
        """Begin to read, and run commands in the same round trip."""
        keys, cluster = self._keys, self._server.address.cluster
        names = [keys.header, keys.seq, keys.leases, keys.log, keys.applied]
        begin = script(BEGIN, names, "cluster" if cluster else "")
        self._undisturbed = not cluster  # if this fails, the next one begins by itself
        (packed, seq, alive, unapplied), *answers = self._server.run([begin, *commands])
        if unapplied and not self.readonly:
            self._committer.complete(unapplied)
        self._alive = set(map(read_holder, alive)) | self._leases.held
        if packed != self._packed_header:
            self._refresh(packed)
            raise _OtherTablesError
        self._seq = seq
        if cluster:
            self._undisturbed = seq == self._committer.applied
            self._committer.applied = seq
            if commands and not self._undisturbed:
                # The nodes may have answered before all commits up to this one were there.
                return self._server.run(commands)
        return answers

    def _is_alive(self, crawl: str) -> bool:
        """Whether the lease of a crawl was valid when the commit began."""
        return crawl in self._alive

    def _has_waiting(self) -> bool:
        return bool(self._server.call("HLEN", self._keys.waiting))

    def _measure(self) -> tuple[str, int]:
        return "memory_bytes", measure(self._server, self._keys.all_patterns())

    def _read(
        self,
        work: Callable[[RedisDocuments], Result],
        ahead: Callable[[RedisDocuments], object] | None = None,
    ) -> Result:
        """Run a function that reads the store; run it again if others replaced the tables."""
        for _ in range(_TRIES_BESIDE_OTHERS):
            stored = self._begin(ahead)[0]
            packed = self._packed_header
            try:
                result = work(stored)
            except StoreUnavailableError:
                raise
            except StoreError:  # tables that are half deleted look damaged
                if self._is_latest(packed):
                    raise
            else:
                if self._is_latest(packed):
                    return result
        raise StoreUnavailableError(
            f"the tables of the store at {self.url} were rewritten while they were being read, "
            f"{_TRIES_BESIDE_OTHERS} times; try again when no rebuild or import is running"
        )

    def _is_latest(self, packed: bytes) -> bool:
        """Whether this is still the header; tables are deleted after it names new ones."""
        return bool(self._server.call("GET", self._keys.header) == packed)

    def _commit(
        self,
        work: Callable[[RedisDocuments], Result],
        ahead: Callable[[RedisDocuments], object] | None = None,
    ) -> Result:
        """Run a function and commit its writes; start over if other commits interfere."""
        for _ in range(_TRIES_BESIDE_OTHERS):
            stored, seq = self._begin(ahead)
            result = work(stored)
            if self._committer.commit(stored, seq):
                self._numbers.settle()
                return result
            self._overtaken += 1
        with self._committer.alone():
            stored, seq = self._begin(ahead)
            result = work(stored)
            self._committer.commit_alone(stored, seq)
            self._numbers.settle()
            return result

    def close(self) -> None:
        if os.getpid() == self._pid:  # do not close a forked child's copy
            super().close()

    def start_crawl(self, crawl: str, spider: str) -> None:
        self._require_writable()
        self._server.warn_of_loss()
        super().start_crawl(crawl, spider)

    def visit(self, take: Callable[[StoredDocument], object]) -> int:
        # Not by `_read`: each document is passed once, and no tables are read.
        return visit_documents(take, self._begin()[0].scan())

    def check(self) -> list[str]:
        """List the problems that repeated checks find each time."""
        problems = self._read(find_problems)
        for _ in range(_CHECKS_BESIDE_OTHERS):
            if not problems:
                break
            again = set(self._read(find_problems))
            problems = [problem for problem in problems if problem in again]
        return problems

    def backup(self, folder: Path, *, check: bool = True) -> dict[str, Any]:
        del folder, check
        raise StoreError(
            f"the store at {self.url} is on a server, which makes its own backups: BGSAVE writes "
            "them, and appendonly keeps later writes. `scrapy simhash export fingerprints` "
            "writes the fingerprints to a file"
        )

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Do nothing: buckets have no unused space, and removed rows free it at once."""
        self._require_writable()
        if progress is not None:
            progress(1, 1)

    def rebuild(self, tables: str | int | None = None) -> dict[str, int]:
        self._require_writable()
        with self._committer.alone():
            self._begin()
            design = self._header.design if tables is None else parse_design(tables).name
            choose_distance(self.distance, self.confirm, parse_design(design))
            self._rewriter.drop_unfinished(self._header)
            mended = self._rewriter.mend()
            self._rewriter.mend_addresses()
            found = list_fingerprints_with_rows(self._server)
            header = msgspec.structs.replace(self._header, addressed=True)
            self._rewriter.rewrite_tables(header, design, found)
            self._begin()
            return {
                "fingerprints": int(found.size),
                "tables": len(self._tables.design.tables),
                **mended,
            }

    def read_rows(self, numbers: Sequence[int]) -> list[Row]:
        def work(stored: RedisDocuments) -> list[Row]:
            stored.fetch(records=numbers, waiting=numbers)
            stored.snapshot.fetch((self._keys.texts(each), b"%d" % each) for each in numbers)
            records = map(stored.get, numbers)
            stored.fetch(records=[each.original for each in records if each and each.original])
            return read_rows(stored, numbers, stored.list_identities(numbers))

        return self._read(work)

    def _load(self, fingerprints: NDArray[np.uint64]) -> int:
        with self._committer.alone():
            self._begin()
            before = list_fingerprints_with_rows(self._server)
            design = self._header.design
            if self._choosing and not before.size:
                design = choose_design(fingerprints.size, self.distance).name
            together = sort_distinct(np.concatenate([before, fingerprints]))
            self._rewriter.drop_unfinished(self._header)
            self._rewriter.rewrite_tables(self._header, design, together, fingerprints)
            self._begin()
            return int(together.size - before.size)

    def _list_identities(self, numbers: Collection[int]) -> Mapping[int, Sequence[bytes]]:
        del numbers
        return {}  # `remove` looks up those of each document
