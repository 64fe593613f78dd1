"""Any sequence of what a crawl does to a Redis store, on a server and on a cluster."""

from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.redisservers import RedisCluster, RedisServer
from tests.helpers.storemachine import StoreMachine

pytestmark = pytest.mark.slow


class RedisMachine(StoreMachine):
    """A Redis store, and an oracle that knows what it must say."""

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


class ClusterMachine(RedisMachine):
    """The same on three servers."""


@pytest.fixture(autouse=True, scope="module")
def servers(redis_server: RedisServer, cluster_server: RedisCluster) -> None:
    RedisMachine.server = redis_server
    ClusterMachine.server = cluster_server


TestRedisMachine = RedisMachine.TestCase
TestRedisMachine.settings = settings(max_examples=6, stateful_step_count=40)
TestClusterMachine = ClusterMachine.TestCase
TestClusterMachine.settings = settings(max_examples=4, stateful_step_count=40)
