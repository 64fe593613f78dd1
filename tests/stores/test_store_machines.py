"""Any sequence of what a crawl does to a store of each kind; LMDB is packed in between."""

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from scrapy_simhash.stores.copying import compact
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import open_lmdb
from tests.helpers.needing import examples
from tests.helpers.redisservers import RedisServer
from tests.helpers.storemachine import StoreMachine


class LmdbMachine(StoreMachine):
    def prepare(self, data: st.DataObject) -> None:
        most = data.draw(st.sampled_from([65_536, 4, 2]))
        self.patch.setattr("scrapy_simhash.stores.documents.MOST_IN_PLAIN_BUCKET", most)
        # Every page after every step, in Python: the file is none of what is tried here.
        self.patch.setattr("scrapy_simhash.stores.lmdb.LmdbEngine.find_damage", lambda _: [])
        self.crowded = most < 65_536
        self.folder = Path(tempfile.mkdtemp())

    def open_store(self, **arguments: Any) -> Store:
        return open_lmdb(self.folder, **arguments)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule()
    def compact(self) -> None:
        self.store.close()
        compact(self.folder)
        self.open()


TestLmdbMachine = LmdbMachine.TestCase
# Several milliseconds a step: each is a durable transaction, and all tables are read after it.
TestLmdbMachine.settings = settings(examples(5), stateful_step_count=40)


class RedisMachine(StoreMachine):
    """A store on a server, of which `test_a_server` says which."""

    server: ClassVar[RedisServer]

    def prepare(self, data: st.DataObject) -> None:
        most = data.draw(st.sampled_from([16_384, 4, 2]))
        self.patch.setattr("scrapy_simhash.stores.redis.MOST_IN_BUCKET", most)
        self.patch.setattr("scrapy_simhash.stores.documents.MOST_IN_PLAIN_BUCKET", most)
        self.crowded = most < 16_384
        # All keys of the server are looked at after each step.
        self.server.empty()
        self.url = self.server.url()

    def open_store(self, **arguments: Any) -> Store:
        return open_store(self.url, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("redis_server", 6), ("valkey_server", 3)])
def test_a_server(request: pytest.FixtureRequest, kind: str, count: int) -> None:
    RedisMachine.server = request.getfixturevalue(kind)
    run_state_machine_as_test(
        RedisMachine, settings=settings(max_examples=count, stateful_step_count=40)
    )
