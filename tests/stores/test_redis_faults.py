"""Servers that die, stand still, are full or lose data: pages are not judged, none is dropped."""

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.judging.documents import Change, Document, Verdict
from scrapy_simhash.judging.judge import Judge
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores import redis as redis_kind
from scrapy_simhash.stores import redisserver
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.redisserver import Server
from scrapy_simhash.stores.store import Store
from tests.helpers.children import running
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.processes import wait_until
from tests.helpers.redisservers import RedisServer, free_port, run_redis
from tests.stores.test_lmdb_store_processes import WRITER, compare

pytestmark = pytest.mark.slow

A, B = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
KINDS = ("redis_server", "valkey_server")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a server up, and try it again, after a moment."""
    monkeypatch.setattr(redisserver, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(redisserver, "BEAT_SECONDS", 0.2)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server for one test, that keeps what it acknowledges."""
    with run_redis(*DURABLE) as server:
        yield server


@pytest.fixture(params=KINDS)
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


def alive(store: Store) -> set[str]:
    """List the crawls that are running, of those that tests begin."""
    crawls = store.read(lambda stored: [key.decode() for key, _ in stored.values.scan("crawls")])
    set(map(store.engine.leases.alive, crawls))
    store.read(lambda _: None)
    return set(filter(store.engine.leases.alive, crawls))


@contextmanager
def limit(server: RedisServer) -> Iterator[None]:
    """Let a server refuse what takes memory."""
    with server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            yield
        finally:
            client.config_set("maxmemory", 0)


# Without answers


@pytest.mark.usefixtures("quick")
def test_a_server_that_dies_and_comes_back(server: RedisServer) -> None:
    with begin_crawl(server.url("store")) as store:
        store.find_and_add([document("a", A)])
        server.kill()
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            store.find_and_add([document("b", A ^ 1)])
        with pytest.raises(StoreUnavailableError, match="is tried again every few seconds"):
            store.find_and_add([document("b", A ^ 1)])
        server.restart()
        wait_until(lambda: add(store, "b", A ^ 1) == "near_duplicate")
        assert store.check() == []


@pytest.mark.usefixtures("quick")
def test_a_server_that_stands_still(server: RedisServer) -> None:
    """Nobody waits after two failures; what it was sent before it may do, which harms nothing."""
    with begin_crawl(server.url("store")) as store:
        store.find_and_add([document("a", A)])
        server.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match=r"did not answer within 1 seconds"):
            store.find_and_add([document("b", B)])
        assert time.monotonic() - began < 3
        began = time.monotonic()
        assert [add(store, f"{number}", A >> number) for number in range(20)] == ["not_judged"] * 20
        assert time.monotonic() - began < 1
        server.process.send_signal(signal.SIGCONT)
        wait_until(lambda: add(store, "c", A ^ 1) == "near_duplicate")
        assert store.check() == []


@pytest.mark.parametrize("lost", range(1, 9))
def test_what_is_sent_again_is_done_once(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """The answer to one of the round trips is lost, whichever it is: the last one commits."""
    run, left = Server._run, [lost]

    def lose(self: Server, connection: Any, commands: Sequence[Any]) -> list[Any]:
        answers = run(self, connection, commands)
        left[0] -= 1
        if not left[0]:
            with self._explained():
                raise RedisConnectionError("reset by peer")
        return answers

    with begin_crawl(redis_server.url()) as store:
        store.find_and_add([document("near", A ^ 1)])
        monkeypatch.setattr(Server, "_run", lose)
        assert add(store, "a", A) == "near_duplicate"
        assert add(store, "b", B) == "new"
        monkeypatch.undo()
        assert store.stats()["documents"] == 3
        assert store.check() == []


# Killed


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
            lines = [line.split(" ", 2) for line in told if line]
            assert len(lines) >= 20
            compare(store, lines, seed)
            assert store.check() == [], seed


def test_a_writer_that_is_killed(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pending pages count until its lease ends by itself, and then no longer."""
    monkeypatch.setattr(redisserver, "LEASE_SECONDS", 1.0)
    url = server.url("store")
    shorter = "from scrapy_simhash.stores import redisserver\nredisserver.LEASE_SECONDS = 1.0\n"
    with begin_crawl(url) as store:
        with running(shorter + WRITER, url, "crawl-dead") as writer:
            writer.tell("go")
            _, number, _ = writer.read().split(" ", 2)
            writer.kill()
        # It may have had the lock.
        wait_until(lambda: store.get_document(int(number)))
        added = store.get_document(int(number))
        assert added
        wait_until(lambda: "crawl-dead" not in alive(store))
        twin = document("twin", added.facts.fingerprint)
        assert store.find_and_add([twin])[0].status == "new"
        assert store.find_and_add([document("third", added.facts.fingerprint)])[0].match
        assert store.check() == []


def test_the_lock_of_a_process_that_died_ends(server: RedisServer) -> None:
    """Others wait for it, and no page is not judged."""
    url = server.url("store")
    holder = (
        "import sys\nfrom scrapy_simhash.stores.opening import open_store\n"
        "def wait(_):\n    print('ready', flush=True)\n    sys.stdin.readline()\n"
        "with open_store(sys.argv[1]) as store:\n    store.write(wait)\n"
    )
    with begin_crawl(url) as store:
        store.find_and_add([document("a", A)])
        with running(holder, url) as other:
            other.kill()
            began = time.monotonic()
            assert add(store, "b", A ^ 1) == "near_duplicate"
            assert time.monotonic() - began > redisserver.LOCK_SECONDS - 2


def test_a_lease_is_kept_while_its_process_lives(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a full server, and where the server lost it."""
    monkeypatch.setattr(redisserver, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(redisserver, "BEAT_SECONDS", 0.3)
    url = redis_server.url("leased")
    with begin_crawl(url) as store, open_store(url) as other, redis_server.client() as client:
        store.find_and_add([document("a", A)])
        with pytest.raises(ValueError, match="a crawl with this id is running"):
            other.start_crawl(CRAWL, "spider")
        deadline = time.monotonic() + 4.5
        with limit(redis_server):
            while time.monotonic() < deadline:
                assert CRAWL in alive(other)
        assert client.delete(f"leased:lease:{CRAWL}")
        wait_until(lambda: CRAWL in alive(other))
        store.end_crawl(CRAWL)
        assert CRAWL not in alive(other)


# Two writers


def lose_lock(server: RedisServer, store: Store) -> None:
    """Let the lock end, as it does when its holder stands still for long."""
    with server.client() as client:
        assert client.delete(f"{store.engine._prefix}:lock")  # type: ignore[attr-defined]


@pytest.mark.parametrize("home", KINDS)
def test_a_lost_lock_writes_nothing(
    home: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes meanwhile; then the page is judged again, beside what that wrote."""
    server: RedisServer = request.getfixturevalue(home)
    url, turns, judge = server.url(), iter(range(1)), Judge.judge
    with begin_crawl(url) as store, open_store(url) as other:

        def judge_and_stand_still(judging: Judge, page: Document) -> tuple[Verdict, Change]:
            judged = judge(judging, page)
            if next(turns, None) is not None:
                lose_lock(server, store)
                assert add(other, "b", A ^ 1) == "new"
            return judged

        monkeypatch.setattr(Judge, "judge", judge_and_stand_still)
        (verdict,) = store.find_and_add([document("a", A)])
        assert verdict.status == "near_duplicate"
        assert store.stats()["documents"] == 2
        assert store.check() == []


def test_who_always_loses_the_lock_gives_up(redis_server: RedisServer) -> None:
    with begin_crawl(redis_server.url()) as store:
        lose = partial(lose_lock, redis_server, store)
        with pytest.raises(StoreUnavailableError, match="was lost, as this process stood still"):
            store.find_and_add([document("a", A)], before=lambda _: lose())
        assert store.stats()["documents"] == 0


def test_the_lock_is_renewed_while_its_process_works(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To rewrite a large store takes longer than a lock lasts; others pass their pages on."""
    monkeypatch.setattr(redis_kind, "LOCK_SECONDS", 1.0)
    monkeypatch.setattr(redisserver, "LOCK_SECONDS", 1.0)
    monkeypatch.setattr(redisserver, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(redis_kind, "WAIT_SECONDS", 0.2)
    url, calls = redis_server.url(), []
    with begin_crawl(url) as store, open_store(url) as other:

        def work(_: Documents) -> None:
            calls.append(1)
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                with pytest.raises(StoreUnavailableError, match="have been writing to the store"):
                    other.find_and_add([document("a", A)])

        store.write(work)
        assert len(calls) == 1
        assert add(other, "a", A) == "new"


def test_whoever_waits_longest_writes_next(redis_server: RedisServer) -> None:
    """Who has just written does not overtake one that waits."""
    url = redis_server.url()
    script = (
        "import sys, time\nfrom scrapy_simhash.stores.opening import open_store\n"
        "with open_store(sys.argv[1]) as store:\n"
        "    print('ready', flush=True)\n    sys.stdin.readline()\n"
        "    for _ in range(20):\n"
        "        store.write(lambda stored: (print(time.time()), time.sleep(0.02)))\n"
    )
    open_store(url).close()
    with running(script, url) as first, running(script, url) as second:
        for each in (first, second):
            each.tell("go")
        began = [[float(line) for line in each.read_whole_lines()] for each in (first, second)]
    order = sorted((moment, who) for who, moments in enumerate(began) for moment in moments)
    both = [who for moment, who in order if moment >= max(map(min, began))]
    changes = sum(one != other for one, other in pairwise(both))
    assert changes >= 0.8 * 2 * min(map(both.count, (0, 1)))


@pytest.mark.parametrize("rebuilt", [1, 9])
def test_what_is_read_beside_a_rebuild_is_whole_or_refused(
    redis_server: RedisServer, rebuilt: int
) -> None:
    """Tables of another design are written when the header was read: once, or each time."""
    url, designs = redis_server.url(), iter(["10", "4"] * 5)
    turns = iter(range(rebuilt))
    with begin_crawl(url) as store, open_store(url) as other:
        store.find_and_add([document("a", A), document("b", B)])

        def read(stored: Documents) -> list[int]:
            if next(turns, None) is not None:
                other.rebuild(next(designs))
            return [int(found) for _, found in stored.near(A ^ 1, 3).near]

        if rebuilt == 1:
            assert store.read(read) == [A]
        else:
            with pytest.raises(StoreUnavailableError, match="were rewritten while they were read"):
                store.read(read)


# Full


def test_a_full_server_takes_nothing_and_loses_nothing(either: RedisServer) -> None:
    """With more memory the store can be pruned."""
    pages = [document("a", A), document("twin", A ^ 1), document("b", B)]
    with begin_crawl(either.url()) as store:
        store.find_and_add(pages)
        store.end_crawl(CRAWL)
        works: list[Callable[[], object]] = [
            lambda: store.find_and_add([document("c", A >> 1)]),
            lambda: store.start_crawl("crawl-2", "spider"),
            lambda: store.delete([1]),
            store.rebuild,
            lambda: store.bulk_load(np.array([7], np.uint64)),
        ]
        for work in works:
            with (
                limit(either),
                pytest.raises(StoreUnavailableError, match=r"maxmemory\); give it more, then pr"),
            ):
                work()
        assert [match.document for match in store.query(A)] == [1]
        assert store.check() == []
        assert store.delete([1]) == 2
        assert store.query(A) == []
        assert store.check() == []


@pytest.mark.parametrize("work", ["judge", "rebuild", "bulk_load"])
def test_a_server_that_is_full_before_the_commit(
    either: RedisServer, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """Nothing of it is written, and the next writer need not wait for the lock."""
    commit = redis_kind.RedisEngine._commit

    def fill_and_commit(self: Any, *arguments: Any) -> bool:
        with limit(either):
            return commit(self, *arguments)

    url = either.url()
    with begin_crawl(url) as store, open_store(url) as other:
        store.find_and_add([document("a", A)])
        with monkeypatch.context() as patch:
            patch.setattr(redis_kind.RedisEngine, "_commit", fill_and_commit)
            works: dict[str, Callable[[], object]] = {
                "judge": lambda: store.find_and_add([document("b", B)]),
                "rebuild": lambda: store.rebuild("10"),
                "bulk_load": lambda: store.bulk_load(np.array([B], np.uint64)),
            }
            with pytest.raises(StoreUnavailableError, match="no memory left"):
                works[work]()
        assert store.query(B) == []
        began = time.monotonic()
        assert add(other, "twin", A ^ 1) == "near_duplicate"
        assert time.monotonic() - began < 3
        assert store.check() == []


# Lost data


def test_a_server_that_was_emptied_takes_the_next_crawl(redis_server: RedisServer) -> None:
    """The crawl that was at work there leaves nothing that hinders others."""
    url = redis_server.url()
    with begin_crawl(url) as store:
        store.find_and_add([document("a", A)])
        with redis_server.client() as client:
            client.flushall()
        for _ in range(2):
            with pytest.raises(StoreError, match="no header"):
                store.find_and_add([document("b", B)])
    with begin_crawl(url, crawl="crawl-2") as store:
        (verdict,) = store.find_and_add([document("b", B, crawl="crawl-2")])
        assert (verdict.status, store.check()) == ("new", [])


@pytest.mark.parametrize("seed", [7, 8])
def test_another_store_at_its_place_takes_nothing(redis_server: RedisServer, seed: int) -> None:
    """Fingerprints of another seed or recipe cannot be compared with those in it."""
    url = redis_server.url()
    with begin_crawl(url, seed=7) as store:
        with redis_server.client() as client:
            client.flushall()
        recipe = Recipe("html2txt") if seed == 7 else Recipe()
        with open_store(url, seed=seed, recipe=recipe) as other:
            with pytest.raises(StoreError, match="seed" if seed == 8 else "extractor"):
                store.find_and_add([document("a", A)])
            assert other.stats()["documents"] == 0


@pytest.mark.usefixtures("quick")
def test_a_failover_drops_no_page_for_one_that_was_lost(server: RedisServer) -> None:
    """The replica lacks the last pages: they come again, and so do those of other crawls."""
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
        with begin_crawl(url) as store, open_store(url) as other:
            (copied,) = store.find_and_add([document("copied", A)])
            with server.client() as client:
                assert client.execute_command("WAIT", 1, 5_000) == 1
            with replica.client() as client:
                client.replicaof("NO", "ONE")
            (lost,) = store.find_and_add([document("lost", B)])
            server.kill()
            door.unlink()
            door.symlink_to(replica.socket)
            wait_until(lambda: add(store, "twin of copied", A ^ 1) == "near_duplicate")
            # Its number goes to another document, which it does not mark.
            (new,) = other.find_and_add([document("new", A << 7, crawl="crawl-2")])
            assert copied.document < new.document
            store.mark_done([lost.document], CRAWL)
            assert add(store, "twin of lost", B ^ 1) == "new"
            assert add(store, "lost", B) == "near_duplicate"
            assert store.check() == []
