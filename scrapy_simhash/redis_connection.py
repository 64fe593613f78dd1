"""Opening and closing a Redis store, and its commits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from scrapy_simhash.checks import check_confirm, choose_distance
from scrapy_simhash.designs import parse_design
from scrapy_simhash.planner import choose_design
from scrapy_simhash.recipe import Recipe
from scrapy_simhash.redis_commit import Committer
from scrapy_simhash.redis_documents import RedisDocuments
from scrapy_simhash.redis_header import make_store, unpack_header
from scrapy_simhash.redis_keys import Keys
from scrapy_simhash.redis_lease import RedisLeases, read_holder
from scrapy_simhash.redis_numbers import Numbers
from scrapy_simhash.redis_rebuild import Rewriter
from scrapy_simhash.redis_scripts import BEGIN
from scrapy_simhash.redis_server import Server, script
from scrapy_simhash.redis_snapshot import Snapshot
from scrapy_simhash.redis_tables import RedisTables
from scrapy_simhash.redis_writes import token_of
from scrapy_simhash.store_header import check_design, check_recipe, check_seed, require_reach
from scrapy_simhash.store_urls import server_address
from scrapy_simhash.stores import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from scrapy_simhash.records import Header

Result = TypeVar("Result")

# Then a commit that was overtaken each time lets nobody else commit until it is done, and what was
# read while others rewrote the tables is given up.
_TRIES_BESIDE_OTHERS = 4


class RedisConnection:
    """An open store: its server, its header, and commits that know both.

    The arguments are those of `stores.open_store`.
    """

    distance: int
    _tables: RedisTables
    _header: Header

    def __init__(  # noqa: PLR0913 - those of `open_store`
        self,
        url: str,
        distance: int | None = 3,
        tables: str | int = "auto",
        recipe: Recipe | None = None,
        confirm: float | None = None,
        *,
        readonly: bool = False,
        seed: int | None = None,
    ) -> None:
        check_confirm(confirm)
        automatic = tables == "auto"
        design = choose_design(0) if automatic else parse_design(tables)
        address = server_address(url)
        self.url = address.shown
        self.confirm = confirm
        self.readonly = readonly
        self._pid = os.getpid()
        self._keys = Keys(address.prefix)
        self._server = Server(address, readonly=readonly)
        try:
            if not self._server.call("EXISTS", self._keys.header, opening=True):
                choose_distance(distance, confirm, design)  # before anything is made
            made = not readonly and make_store(
                self._server, self._keys, recipe or Recipe(), design.name, seed
            )
            # Only its maker may choose again: others may rely on the design as it is.
            self._choosing = made and automatic
            self._packed_header = b""
            self._refresh(self._server.call("GET", self._keys.header, opening=True))
            check_seed(self._header, seed)
            self.recipe = check_recipe(self._header, recipe)
            check_design(self._header, None if automatic else design.name)
            self.distance = choose_distance(distance, confirm, self._tables.design)
        except BaseException:
            self._server.close()
            raise
        self.seed = self._header.seed
        self._leases = RedisLeases(self._server, self._keys.leases)
        self._numbers = Numbers(self._server, self._keys.next)
        self._committer = Committer(self._server, self._keys)
        self._rewriter = Rewriter(
            self._server, self._keys, self._committer, self._numbers, self._begin
        )
        self._alive: set[str] = set()
        self._closed = False

    def _refresh(self, packed: bytes | None) -> None:
        """Take over the header: another process may have changed the tables."""
        if packed != self._packed_header or packed is None:
            self._header = unpack_header(packed, self.url)
            if self._packed_header:
                # Somebody may have emptied the server, and made another store there.
                check_seed(self._header, self.seed)
                check_recipe(self._header, self.recipe)
                require_reach(self._header, self.distance)
            design = parse_design(self._header.design)
            self._tables = RedisTables(self._keys, design, self._header.base)
            self._packed_header = packed or b""

    def _begin(self) -> tuple[RedisDocuments, bytes]:
        """Begin to read; returns the documents, and the number of the last commit."""
        if os.getpid() != self._pid:
            raise StoreUnavailableError(
                f"the store at {self.url} was opened before a fork; open it in the child"
            )
        keys = self._keys
        packed, seq, alive, unapplied = self._server.call(
            *script(
                BEGIN,
                [keys.header, keys.seq, keys.leases, keys.log, keys.applied],
                "cluster" if self._server.address.cluster else "",
            )
        )
        if unapplied and not self.readonly:
            self._committer.complete(unapplied)
        self._refresh(packed)
        self._alive = set(map(read_holder, alive)) | self._leases.held
        self._numbers.begin()
        snapshot = Snapshot(self._server)
        snapshot.read.add(token_of(keys.header))
        return RedisDocuments(snapshot, keys, self._tables, self._numbers.take), seq

    def _is_alive(self, crawl: str) -> bool:
        """Say whether a crawl was alive when the commit began."""
        return crawl in self._alive

    def _read(self, work: Callable[[RedisDocuments], Result]) -> Result:
        """Run a function on what is stored.

        Args:
            work: runs again when the tables that it read were deleted meanwhile.

        Raises:
            StoreUnavailableError: they were each time; or the server did not answer.
        """
        for _ in range(_TRIES_BESIDE_OTHERS):
            stored = self._begin()[0]
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
            f"the tables of the store at {self.url} were written anew while they were read, "
            f"{_TRIES_BESIDE_OTHERS} times; try again when nobody rebuilds or imports"
        )

    def _is_latest(self, packed: bytes) -> bool:
        """Say whether this is still the header; tables are deleted after it names new ones."""
        return bool(self._server.call("GET", self._keys.header) == packed)

    def _write(self, work: Callable[[RedisDocuments], Result]) -> Result:
        """Run a function in one commit; in the server when this returns.

        Args:
            work: may run several times, each time on the store as it is then.

        Raises:
            StoreUnavailableError: see `Committer.commit`.
        """
        self._require_writable()
        for _ in range(_TRIES_BESIDE_OTHERS):
            stored, seq = self._begin()
            result = work(stored)
            if self._committer.commit(stored, seq):
                self._numbers.settle()
                return result
        with self._alone():
            return self._write_alone(work)

    def _write_alone(self, work: Callable[[RedisDocuments], Result]) -> Result:
        stored, seq = self._begin()
        result = work(stored)
        self._committer.commit_alone(stored, seq)
        self._numbers.settle()
        return result

    def _alone(self) -> AbstractContextManager[None]:
        return self._committer.alone()

    def _require_writable(self) -> None:
        if self.readonly:
            raise ValueError(f"the store at {self.url} was opened read-only")

    @property
    def design(self) -> str:
        return self._header.design

    def close(self) -> None:
        if not self._closed and os.getpid() == self._pid:
            self._closed = True
            self._leases.close()
            self._server.close()
