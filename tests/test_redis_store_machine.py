"""Any sequence of what a crawl does to a Redis store."""

from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from scrapy_simhash.stores import Store, open_store
from tests.redisservers import RedisServer
from tests.storemachine import StoreMachine


class RedisMachine(StoreMachine):
    """A Redis store, and an oracle that knows what it must say."""

    server: ClassVar[RedisServer]

    def prepare(self, data: st.DataObject) -> None:
        most = data.draw(st.sampled_from([16_384, 4, 2]))
        for module in ("redis_commit", "redis_rebuild"):
            self.patch.setattr(f"scrapy_simhash.{module}.MOST_IN_BUCKET", most)
        self.crowded = most < 16_384
        # All keys of the server are looked at after each step.
        with self.server.client() as client:
            client.flushall()
        self.url = self.server.url()

    def open_store(self, **arguments: Any) -> Store:
        return open_store(self.url, **arguments)


@pytest.fixture(autouse=True, scope="module")
def server(redis_server: RedisServer) -> None:
    RedisMachine.server = redis_server


TestRedisMachine = RedisMachine.TestCase
TestRedisMachine.settings = settings(max_examples=8, stateful_step_count=40)
