"""Servers that die, stand still, are full or lose data: pages are not judged, none is dropped."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.pages.facts import Recipe
from scrapy_simhash.stores import redis as redis_kind
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.redis import RedisEngine
from scrapy_simhash.stores.store import Store
from tests.helpers.children import running
from tests.helpers.documents import document
from tests.helpers.processes import wait_until
from tests.helpers.redisservers import RedisServer, free_port, run_redis
from tests.stores.test_lmdb_store_processes import WRITER, compare

pytestmark = pytest.mark.slow
A, B = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a server up, and try it again, after a moment."""
    monkeypatch.setattr(redis_kind, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(redis_kind, "PAUSE_SECONDS", 1.0)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server for one test, that keeps what it acknowledges."""
    with run_redis(*DURABLE) as server:
        yield server


@pytest.fixture(params=("redis_server", "valkey_server"))
def either(request: pytest.FixtureRequest) -> RedisServer:
    """A server of Redis, and one of Valkey."""
    found: RedisServer = request.getfixturevalue(request.param)
    return found


def add(store: Store, name: str, bits: int) -> str:
    """Judge a page; returns its status, or `not_judged`."""
    try:
        return str(store.find_and_add([document(name, bits)])[0].status)
    except StoreUnavailableError:
        return "not_judged"


@contextmanager
def limit(server: RedisServer) -> Iterator[None]:
    """Let a server refuse what takes memory."""
    with server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            yield
        finally:
            client.config_set("maxmemory", 0)


@pytest.mark.usefixtures("quick")
def test_a_server_that_dies_and_comes_back(server: RedisServer) -> None:
    with open_store(server.url("store")) as store:
        store.find_and_add([document("a", A)])
        server.kill()
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            store.find_and_add([document("b", A ^ 1)])
        with pytest.raises(StoreUnavailableError, match="is tried again every few seconds"):
            store.find_and_add([document("b", A ^ 1)])
        server.restart()
        wait_until(lambda: add(store, "b", A ^ 1) == "near_duplicate")
        assert store.check() == []


@pytest.mark.parametrize("lost", range(1, 9))
def test_what_is_sent_again_is_done_once(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """The answer to one of the round trips is lost, whichever it is: the last one commits."""
    ask, left = RedisEngine.ask, [lost]

    def lose(self: RedisEngine, *commands: Any, **options: Any) -> list[Any]:
        answers = ask(self, *commands, **options)
        left[0] -= 1
        if not left[0]:
            with self._explained():
                raise RedisConnectionError("reset by peer")
        return answers

    with open_store(redis_server.url()) as store:
        store.find_and_add([document("near", A ^ 1)])
        monkeypatch.setattr(RedisEngine, "ask", lose)
        assert add(store, "a", A) == "near_duplicate"
        assert add(store, "b", B) == "new"
        monkeypatch.undo()
        assert (store.stats()["documents"], store.check()) == (3, [])


def test_kill_9_of_the_server_loses_nothing_that_was_acknowledged(server: RedisServer) -> None:
    """Two writers at once; the server dies at any moment of theirs."""
    seed = random.SystemRandom().getrandbits(32)
    draw = random.Random(seed)  # noqa: S311 - told when the test fails
    for turn in range(2):
        url = server.url("store")
        with (
            running(WRITER, url, f"crawl-{turn}-a") as first,
            running(WRITER, url, f"crawl-{turn}-b") as second,
        ):
            first.tell("go")
            second.tell("go")
            told = [first.read() for _ in range(draw.randint(20, 60))]
            server.kill()
            told += first.read_whole_lines() + second.read_whole_lines()
        server.restart()
        with open_store(url) as store:
            lines = [line.split(" ", 1) for line in told if line]
            assert len(lines) >= 20
            compare(store, lines, seed)
            assert store.check() == [], seed


def test_a_full_server_takes_nothing_and_loses_nothing(either: RedisServer) -> None:
    """With more memory the store can be pruned."""
    pages = [document("a", A), document("twin", A ^ 1), document("b", B)]
    with open_store(either.url()) as store:
        store.find_and_add(pages)
        works: list[Callable[[], object]] = [
            lambda: store.find_and_add([document("c", A >> 1)]),
            *(lambda: store.engine.take_numbers(1), lambda: store.delete([1]), store.rebuild),
        ]
        for work in works:
            with (
                limit(either),
                pytest.raises(StoreUnavailableError, match=r"maxmemory\); give it more, then pr"),
            ):
                work()
        assert ([each.number for _, each in store.query(A)], store.check()) == ([1], [])
        assert store.delete([1]) == 2
        assert (store.query(A), store.check()) == ([], [])


@pytest.mark.parametrize("work", ["judge", "rebuild"])
def test_a_server_that_is_full_before_the_commit(
    either: RedisServer, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """Nothing of it is written."""
    commit = redis_kind.RedisValues.commit

    def fill_and_commit(self: redis_kind.RedisValues) -> bool:
        with limit(either):
            return commit(self)

    url = either.url()
    with open_store(url, 4) as store, open_store(url, 4) as other:
        store.find_and_add([document("a", A)])
        with monkeypatch.context() as patch:
            patch.setattr(redis_kind.RedisValues, "commit", fill_and_commit)
            works: dict[str, Callable[[], object]] = {
                "judge": lambda: store.find_and_add([document("b", B)]),
                "rebuild": lambda: store.rebuild("10"),
            }
            with pytest.raises(StoreUnavailableError, match="no memory left"):
                works[work]()
        assert store.query(B) == []
        assert add(other, "twin", A ^ 1) == "near_duplicate"
        assert store.check() == []


def test_a_server_that_was_emptied_takes_the_next_crawl(redis_server: RedisServer) -> None:
    """The crawl that was at work there leaves nothing that hinders others."""
    url = redis_server.url()
    with open_store(url) as store:
        store.find_and_add([document("a", A)])
        with redis_server.client() as client:
            client.flushall()
        for _ in range(2):
            with pytest.raises(StoreError, match="no header"):
                store.find_and_add([document("b", B)])
            with pytest.raises(StoreError, match="no header"):
                store.engine.take_numbers(1)
        with redis_server.client() as client:
            assert client.dbsize() == 0
    with open_store(url) as store:
        assert add(store, "b", B) == "new"
        assert store.check() == []


@pytest.mark.parametrize("seed", [7, 8])
def test_another_store_at_its_place_takes_nothing(redis_server: RedisServer, seed: int) -> None:
    """Fingerprints of another seed or recipe cannot be compared with those in it."""
    url = redis_server.url()
    with open_store(url, seed=7) as store:
        with redis_server.client() as client:
            client.flushall()
        recipe = Recipe(window=2) if seed == 7 else Recipe()
        with open_store(url, seed=seed, recipe=recipe) as other:
            with pytest.raises(StoreError, match="seed" if seed == 8 else "another recipe"):
                store.find_and_add([document("a", A)])
            assert other.stats()["documents"] == 0


@pytest.mark.usefixtures("quick")
def test_a_failover_drops_no_page_for_one_that_was_lost(server: RedisServer) -> None:
    """The replica lacks the last pages: they come again."""
    port = free_port()
    door = server.folder / "door"
    door.symlink_to(server.socket)
    url = f"unix://{door}?prefix=store"
    with server.client() as client:
        client.config_set("bind", "127.0.0.1")
        client.config_set("port", port)
    with run_redis("--replicaof", f"127.0.0.1 {port}", *DURABLE) as replica:
        with replica.client() as client:
            wait_until(lambda: client.info("replication")["master_link_status"] == "up")
        with open_store(url) as store, open_store(url) as other:
            add(store, "copied", A)
            with server.client() as client:
                assert client.execute_command("WAIT", 1, 5_000) == 1
            with replica.client() as client:
                client.replicaof("NO", "ONE")
            assert add(store, "lost", B) == "new"
            server.kill()
            door.unlink()
            door.symlink_to(replica.socket)
            wait_until(lambda: add(store, "twin of copied", A ^ 1) == "near_duplicate")
            assert add(other, "new", A << 7) == "new"
            assert add(store, "twin of lost", B ^ 1) == "new"
            assert add(store, "lost", B) == "near_duplicate"
            assert store.check() == []
