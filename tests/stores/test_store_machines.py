"""Any sequence of what a crawl does to a store of each kind; LMDB is compacted in between."""

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.lmdb.compacting import _merge, _switch, freeze
from scrapy_simhash.stores.lmdb.values import LmdbValues
from scrapy_simhash.stores.memory import MemoryEngine
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from scrapy_simhash.tables.designs import parse_design
from tests.helpers.documents import open_lmdb
from tests.helpers.needing import examples
from tests.helpers.redisservers import RedisCluster, RedisServer
from tests.helpers.storemachine import StoreMachine

# MOST_IN_BUCKET, _MOST_SINGLE, _ROWS_PER_SLICE: as they are, then such that a few documents are
# packed, fill several slices, and make buckets too full.
SIZES = [(65_536, 1_024, 2**20), (65_536, 1, 4), (4, 2, 1), (2, 1, 2)]
Result = TypeVar("Result")
SIZE_NAMES = (
    "MOST_IN_BUCKET",
    "_MOST_SINGLE",
    "_ROWS_PER_SLICE",
)


class LmdbMachine(StoreMachine):
    """An LMDB store, and an oracle that knows what it must say."""

    store: Store

    def prepare(self, data: st.DataObject) -> None:
        sizes = data.draw(st.sampled_from(SIZES))
        for name, size in zip(SIZE_NAMES, sizes, strict=True):
            self.patch.setattr(f"scrapy_simhash.stores.lmdb.values.{name}", size)
        # Every page after every step, in Python: the file is none of what is tried here.
        self.patch.setattr("scrapy_simhash.stores.lmdb.engine.find_damage", lambda _: [])
        self.crowded = sizes[0] < 65_536
        self.pieces: list[tuple[bytes, bytes]] | None = None
        self.folder = Path(tempfile.mkdtemp())

    def open_store(self, **arguments: Any) -> Store:
        return open_lmdb(self.folder, **arguments)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def compacted(self) -> None:
        self.pieces = None

    def step(self, work: Callable[[LmdbValues], Result]) -> Result:
        """Take a step of a compaction, which a kill may follow."""
        return self.store.write(lambda stored: work(cast("LmdbValues", stored.values)))

    @rule()
    def begin_compaction(self) -> None:
        """One that was begun before is taken for killed."""
        self.pieces = self.step(
            lambda values: list(freeze(values).slices(parse_design(self.store.design)))
        )

    @precondition(lambda self: self.pieces)
    @rule(count=st.integers(1, 30))
    def merge_some(self, count: int) -> None:
        assert self.pieces
        for _ in range(min(count, len(self.pieces))):
            piece = self.pieces.pop(0)
            self.step(partial(_merge, piece))

    @precondition(lambda self: self.pieces is not None)
    @rule()
    def finish_compaction(self) -> None:
        if self.pieces:
            self.merge_some(len(self.pieces))
        self.step(_switch)
        self.pieces = None

    def rewritten(self) -> None:
        """A compaction that was begun before stops at its next step."""
        if self.pieces is not None:
            with pytest.raises(StoreError, match="rewritten by another process"):
                self.step(partial(_merge, (b"\0", b"\1")))
            with pytest.raises(StoreError, match="rewritten by another process"):
                self.step(_switch)
        self.pieces = None


TestLmdbMachine = LmdbMachine.TestCase
# Several milliseconds a step: each is a durable transaction, and all tables are read after it.
TestLmdbMachine.settings = settings(examples(5), stateful_step_count=40)


class MemoryMachine(StoreMachine):
    """A store in memory, which lasts as long as it is open."""

    def prepare(self, data: st.DataObject) -> None:
        most = data.draw(st.sampled_from([65_536, 4, 2]))
        self.patch.setattr("scrapy_simhash.stores.keyvalues.MOST_IN_BUCKET", most)
        self.crowded = most < 65_536
        self.engine = MemoryEngine()

    def open_store(self, **arguments: Any) -> Store:
        return Store(self.engine, **arguments)


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(examples(5), stateful_step_count=40)


class RedisMachine(StoreMachine):
    """A store on a server, of which `test_a_server` says which."""

    server: ClassVar[RedisServer | RedisCluster]

    def prepare(self, data: st.DataObject) -> None:
        most = data.draw(st.sampled_from([16_384, 4, 2]))
        self.patch.setattr("scrapy_simhash.stores.redis.places.MOST_IN_BUCKET", most)
        self.crowded = most < 16_384
        # All keys of the server are looked at after each step.
        self.server.empty()
        self.url = self.server.url()

    def open_store(self, **arguments: Any) -> Store:
        return open_store(self.url, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"), [("redis_server", 6), ("cluster_server", 4), ("valkey_server", 3)]
)
def test_a_server(request: pytest.FixtureRequest, kind: str, count: int) -> None:
    RedisMachine.server = request.getfixturevalue(kind)
    run_state_machine_as_test(
        RedisMachine, settings=settings(max_examples=count, stateful_step_count=40)
    )
