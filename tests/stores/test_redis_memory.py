"""Servers without memory: what was begun is kept and ended, and there is a way out."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.redis import leases as redis_lease
from scrapy_simhash.stores.redis import values as redis_values
from scrapy_simhash.stores.redis.scripts import Write
from scrapy_simhash.stores.redis.values import TableWriter
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.redisservers import RedisCluster, RedisServer
from tests.stores.test_redis_faults import add_and_die, alive, engine_of

pytestmark = pytest.mark.slow

A, B = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210


@contextmanager
def limit(*servers: RedisServer, octets: int = 1) -> Iterator[None]:
    """Let servers refuse what takes memory beyond so much."""
    with ExitStack() as stack:
        for server in servers:
            client = stack.enter_context(server.client())
            client.config_set("maxmemory", octets)
            stack.callback(client.config_set, "maxmemory", 0)
        yield


@pytest.fixture(params=["redis_server", "cluster_server", "valkey_server", "valkey_cluster_server"])
def server(request: pytest.FixtureRequest) -> RedisServer | RedisCluster:
    """A server, and a cluster."""
    found: RedisServer | RedisCluster = request.getfixturevalue(request.param)
    return found


def nodes_of(server: RedisServer | RedisCluster) -> list[RedisServer]:
    return server.nodes if isinstance(server, RedisCluster) else [server]


def test_what_is_deleted_makes_room(server: RedisServer | RedisCluster) -> None:
    pages = [document("a", A), document("twin", A ^ 1), document("b", B)]
    with begin_crawl(server.url()) as store:
        store.find_and_add(pages)
        store.end_crawl(CRAWL)
        with limit(*nodes_of(server)):
            with pytest.raises(StoreUnavailableError, match=r"maxmemory\); .* prune the store"):
                store.start_crawl("crawl-2", "spider")
            assert store.delete([1]) == 2
            assert store.query(A) == []
        assert store.rebuild()["fingerprints"] == 1
        assert store.check() == []
        assert [match.document for match in store.query(B)] == [3]


def test_what_was_begun_is_kept_and_ended(
    server: RedisServer | RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease of a crawl, and the lock of who is alone."""
    monkeypatch.setattr(redis_lease, "LEASE_SECONDS", 2.0)
    url = server.url()
    with begin_crawl(url) as store, open_store(url) as other, limit(*nodes_of(server)):
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            assert CRAWL in alive(other)
        committer = engine_of(store)._committer
        with committer.alone():
            committer.require_alone()
        with pytest.raises(StoreUnavailableError, match="no memory left"):
            store.rebuild()
        assert not engine_of(store)._server.call("EXISTS", engine_of(store)._places.lock)
        store.close()
        assert CRAWL not in alive(other)


def test_what_was_acknowledged_comes_to_full_nodes(
    cluster_server: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process died before it was there, and nobody may read anything before it is."""
    url = cluster_server.url()
    with begin_crawl(url) as store, open_store(url) as other:
        add_and_die(store, monkeypatch)
        with limit(*cluster_server.nodes):
            assert [match.document for match in other.query(A)] == [1]
        assert other.check() == []


def test_full_nodes_take_one_commit_at_most(cluster_server: RedisCluster) -> None:
    """The log's node has room, so the first one counts before another node is asked."""
    url = cluster_server.url("log")
    with begin_crawl(url) as store:
        others = []
        for node in cluster_server.nodes:
            with node.client() as client:
                others += [] if client.keys("{log}:header") else [node]
        assert len(others) == 2
        with limit(*others):
            assert store.find_and_add([document("a", A)])[0].status == "new"
            for bits in (B, B >> 1):
                with pytest.raises(StoreUnavailableError, match="no memory left"):
                    store.find_and_add([document("b", bits)])
            assert [match.document for match in store.query(A)] == [1]
        assert store.find_and_add([document("b", B)])[0].status == "new"
        assert store.check() == []


def list_generations(store: Store) -> set[int]:
    """List the generations of which there are tables."""
    places = engine_of(store)._places
    return set(map(places.read_generation, engine_of(store)._server.scan(places.tables)))


@pytest.mark.parametrize("work", ["rebuild", "bulk_load"])
def test_tables_that_do_not_fit_leave_nothing(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """The memory becomes full when some of them are written."""
    first, second = np.random.default_rng(7).integers(2**64, size=(2, 20), dtype=np.uint64)
    apply = TableWriter._apply

    def run() -> None:
        _ = store.rebuild() if work == "rebuild" else store.bulk_load(second)

    def apply_and_fill(self: TableWriter, writes: list[Write]) -> None:
        apply(self, writes)
        written.append(list_generations(store))
        stack.enter_context(limit(redis_server))

    with begin_crawl(redis_server.url()) as store:
        store.bulk_load(first)
        before, written = list_generations(store), list[set[int]]()
        with monkeypatch.context() as patch, ExitStack() as stack:
            patch.setattr(redis_values, "_BYTES_PER_CALL", 100)
            patch.setattr(TableWriter, "_apply", apply_and_fill)
            with pytest.raises(StoreUnavailableError, match="no memory left"):
                run()
        assert [len(generations) for generations in written] == [2]
        assert list_generations(store) == before
        assert store.find_and_add([document("a", A)])[0].status == "new"
        assert store.check() == []
        run()
        assert store.check() == []


def test_tables_that_are_written_take_the_place_of_the_old_ones(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory becomes full when all but the header is written: there is room after that."""

    finish = TableWriter.finish

    def fill_and_finish(self: TableWriter, writes: list[Write]) -> bool:
        stack.enter_context(limit(redis_server))
        return finish(self, writes)

    with begin_crawl(redis_server.url()) as store, ExitStack() as stack:
        store.find_and_add([document("a", A)])
        monkeypatch.setattr(TableWriter, "finish", fill_and_finish)
        assert store.rebuild("10")["tables"] == 10
        assert store.check() == []


def test_tables_of_one_that_was_killed_go_first(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it was about to do is forgotten: another design."""
    begin = TableWriter.begin
    seen: list[set[int]] = []

    def die(*_: object) -> None:
        raise InterruptedError

    def begin_and_look(self: TableWriter) -> object:
        begun = begin(self)
        seen.append(list_generations(store))
        return begun

    with begin_crawl(redis_server.url()) as store:
        store.find_and_add([document("a", A)])
        (before,), design = list_generations(store), store.stats()["design"]
        with monkeypatch.context() as patch:
            patch.setattr(TableWriter, "finish", die)
            patch.setattr(TableWriter, "abandon", lambda _: None)
            with pytest.raises(InterruptedError):
                store.rebuild("10")
        assert len(list_generations(store)) == 2
        monkeypatch.setattr(TableWriter, "begin", begin_and_look)
        store.rebuild()
        assert seen == [{before}]
        assert len(list_generations(store)) == 1
        assert store.stats()["design"] == design
        assert store.check() == []
