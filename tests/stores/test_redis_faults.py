"""Servers that die, stand still or are full: pages pass unjudged, and nothing is lost."""

import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import numpy as np
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from scrapy_simhash.errors import StoreError, StoreUnavailableError
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores.keyvalues import TABLES
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.redis import commits as redis_commit
from scrapy_simhash.stores.redis import leases as redis_lease
from scrapy_simhash.stores.redis import values as redis_values
from scrapy_simhash.stores.redis.commits import Commit, Committer
from scrapy_simhash.stores.redis.engine import RedisEngine
from scrapy_simhash.stores.redis.scripts import COMMIT, COMMIT_EVEN_WHEN_FULL, LEASE
from scrapy_simhash.stores.redis.server import Server
from scrapy_simhash.stores.redis.values import RedisValues, TableWriter
from scrapy_simhash.stores.store import Store
from tests.helpers.children import running
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.processes import wait_until
from tests.helpers.redisservers import RedisCluster, RedisServer, run_cluster, run_redis
from tests.stores.test_lmdb_store_processes import WRITER, compare

pytestmark = pytest.mark.slow

A, B = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a server up after a moment."""
    monkeypatch.setattr("scrapy_simhash.stores.redis.server.TIMEOUT_SECONDS", 1.0)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server for one test, that keeps what it acknowledges."""
    with run_redis(*DURABLE) as server:
        yield server


def test_a_server_that_dies_and_comes_back(server: RedisServer) -> None:
    with begin_crawl(server.url("store")) as store:
        store.find_and_add([document("a", A)])
        server.kill()
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match="cannot be reached"):
                store.find_and_add([document("b", A ^ 1)])
        server.restart()
        assert store.find_and_add([document("b", A ^ 1)])[0].status == "near_duplicate"
        assert store.check() == []


@pytest.mark.usefixtures("impatient")
def test_a_server_that_stands_still(server: RedisServer) -> None:
    """What it was sent before it stood still it may do when it goes on: that harms nothing."""
    with begin_crawl(server.url("store")) as store:
        store.find_and_add([document("a", A)])
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreUnavailableError, match=r"did not answer within 1 seconds"):
            store.find_and_add([document("b", B)])
        server.process.send_signal(signal.SIGCONT)
        assert store.find_and_add([document("c", A ^ 1)])[0].status == "near_duplicate"
        assert store.check() == []


def test_a_server_without_memory(server: RedisServer) -> None:
    with begin_crawl(server.url("store")) as store, server.client() as client:
        store.find_and_add([document("a", A)])
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailableError, match=r"no memory left \(maxmemory\)"):
            store.find_and_add([document("b", B)])
        assert [match.document for match in store.query(A)] == [1]
        assert store.query(B) == []
        client.config_set("maxmemory", 0)
        assert store.find_and_add([document("b", B)])[0].status == "new"
        assert store.check() == []


def test_scripts_that_the_server_forgot(redis_server: RedisServer) -> None:
    with begin_crawl(redis_server.url()) as store, redis_server.client() as client:
        client.script_flush()
        assert store.find_and_add([document("a", A)])[0].status == "new"


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
    monkeypatch.setattr(redis_lease, "LEASE_SECONDS", 1.0)
    url = server.url("store")
    shorter = "from scrapy_simhash.stores.redis import leases\nleases.LEASE_SECONDS = 1.0\n"
    with begin_crawl(url) as store:
        with running(shorter + WRITER, url, "crawl-dead") as writer:
            writer.tell("go")
            _, number, _ = writer.read().split(" ", 2)
            writer.kill()
        added = store.get_document(int(number))
        assert added
        wait_until(lambda: "crawl-dead" not in alive(store))
        twin = document("twin", added.fingerprints[0])
        assert store.find_and_add([twin])[0].status == "new"
        assert store.find_and_add([document("third", added.fingerprints[0])])[0].match
        assert store.check() == []


def engine_of(store: Store) -> RedisEngine:
    """Get the engine of a store on a server."""
    assert isinstance(store.engine, RedisEngine)
    return store.engine


def alive(store: Store) -> set[str]:
    """List the crawls that are alive, of those that tests begin."""
    crawls = store.read(lambda stored: stored.list_crawls())
    return set(filter(store.engine.leases.alive, crawls))


def test_a_lease_is_kept_while_its_process_lives(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_lease, "LEASE_SECONDS", 2.0)
    url = redis_server.url()
    with begin_crawl(url) as store, open_store(url) as other:
        store.find_and_add([document("a", A)])
        with pytest.raises(ValueError, match="a crawl with this id is running"):
            other.start_crawl(CRAWL, "spider")
        deadline = time.monotonic() + 4.5
        while time.monotonic() < deadline:
            assert CRAWL in alive(other)
        store.end_crawl(CRAWL)
        assert CRAWL not in alive(other)


@pytest.fixture
def lost_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed or leased is sent again, with a new connection: the answer was lost."""
    run = Server._run

    def run_twice(self: Server, commands: Sequence[Sequence[Any]]) -> list[Any]:
        if commands[0][1] in {COMMIT, LEASE}:
            run(self, commands)
        return run(self, commands)

    monkeypatch.setattr(Server, "_run", run_twice)


@pytest.mark.usefixtures("lost_answers")
def test_what_is_sent_again_is_done_once(redis_server: RedisServer) -> None:
    """The server knows it: a lease that was taken, and a commit that was made."""
    with begin_crawl(redis_server.url()) as store:
        assert alive(store) == {CRAWL}
        assert store.find_and_add([document("a", A)])[0].status == "new"
        assert store.find_and_add([document("a", A)])[0].status == "revisit"
        assert store.stats()["documents"] == 1


@pytest.mark.parametrize("work", ["bulk_load", "rebuild"])
def test_what_was_committed_is_no_failure(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """The server is gone right after that, for the rest: old tables, the lock, the new header."""
    url, run = redis_server.url(), Server._run
    gone: list[bool] = []

    def be_gone_after_the_commit(self: Server, commands: Sequence[Any]) -> list[Any]:
        if gone:
            raise RedisConnectionError("gone")
        done = run(self, commands)
        if commands[0][1] == COMMIT_EVEN_WHEN_FULL:
            gone.append(True)
        return done

    monkeypatch.setattr(redis_commit, "LOCK_SECONDS", 0.5)
    with begin_crawl(url) as store:
        store.find_and_add([document("a", A)])
        with monkeypatch.context() as patch:
            patch.setattr(Server, "_run", be_gone_after_the_commit)
            if work == "bulk_load":
                assert store.bulk_load(np.array([B], np.uint64)) == 1
            else:
                assert store.rebuild("10")["fingerprints"] == 1
        assert gone
        assert store.check() == []
        assert store.rebuild()["tables"] == (4 if work == "bulk_load" else 10)


def test_mending_goes_in_parts(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a server that lost much would stand still for all crawls while it is mended."""
    draw = random.Random(7)  # noqa: S311 - reproducible
    pages = [document(f"page {n}", draw.getrandbits(64)) for n in range(300)]
    url, run, longest, most = redis_server.url("lost"), Server._run, [0], [0]

    def measure(self: Server, commands: Sequence[Any]) -> list[Any]:
        lengths = [sum(len(part) for part in each if isinstance(part, bytes)) for each in commands]
        longest[0] = max(longest[0], *lengths)
        most[0] = max(most[0], *map(len, commands))
        return run(self, commands)

    with begin_crawl(url, distance=0) as store, redis_server.client() as client:
        store.find_and_add(pages)
        for name in ("i*", "f*", "u*"):
            client.delete(*client.keys(f"{{lost:{name}"))
        monkeypatch.setattr(redis_values, "_BYTES_PER_CALL", 2_000)
        monkeypatch.setattr(redis_values, "_FIELDS_PER_CALL", 50)
        monkeypatch.setattr(Server, "_run", measure)
        assert store.rebuild()["fingerprints"] == 300
        assert longest[0] < 20_000
        assert store.check() == []
        assert {each.status for each in store.find_and_add(pages)} == {"revisit"}
        # Rows that are followed have hash, field and prefix; a hash has up to 256 documents.
        assert most[0] < 300


@pytest.mark.parametrize("first", [0, 1])
def test_no_document_is_lost_to_another_of_its_number(
    redis_server: RedisServer, first: int
) -> None:
    """A server that failed over counts from an earlier number again."""
    redis_server.empty()
    url = redis_server.url("counted")
    with begin_crawl(url) as store, open_store(url) as other:
        # It reserves more numbers than it uses: a revisit needs none.
        store.find_and_add([document("page", B), *[document("page", B)] * 3])
        with redis_server.client() as client:
            assert client.delete("{counted}:next")
        stores = [store, other]
        numbers = [
            stores[(first + turn) % 2].find_and_add([document(f"page {turn}", A << turn)])[0]
            for turn in range(4)
        ]
        assert len({1, *(verdict.document for verdict in numbers)}) == 5
        assert store.stats()["documents"] == 5
        assert store.check() == []


def test_no_document_is_lost_that_the_counter_forgot(redis_server: RedisServer) -> None:
    """After a failover: what reads all documents and deletes what leads to none sees each."""
    draw = random.Random(7)  # noqa: S311 - reproducible
    pages = [document(f"page {n}", draw.getrandbits(64)) for n in range(1_100)]
    redis_server.empty()
    url = redis_server.url("counted")
    with begin_crawl(url, distance=0) as store, redis_server.client() as client:
        store.find_and_add(pages)
        assert client.delete("{counted}:next")
        assert store.stats()["documents"] == 1_100
        assert len(store.list_documents()) == 1_100
        store.rebuild()
        assert store.check() == []
        again = {verdict.status for verdict in store.find_and_add(pages[-30:])}
        assert again == {"revisit"}
        assert store.find_and_add([document("b", B)])[0].document == 1_101


@pytest.mark.parametrize(("rebuilt", "half"), [(1, False), (1, True), (9, False)])
def test_what_is_read_beside_a_rebuild_is_whole_or_refused(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, rebuilt: int, half: bool
) -> None:
    """Its tables are deleted while it reads them: once, or each time; all, or half of them."""
    url = redis_server.url()
    turns = iter(range(rebuilt))

    rows = RedisValues.rows

    def rebuild_and_read(self: RedisValues, table: str, *rest: Any, **options: Any) -> Any:
        self.run([])  # it begins to read
        if table == TABLES and self._server is own and next(turns, None) is not None:
            other.rebuild()
            if half:
                raise StoreError("the tables are damaged")
        return rows(self, table, *rest, **options)

    with begin_crawl(url) as store, open_store(url) as other:
        own = engine_of(store)._server
        store.find_and_add([document("a", A), document("b", B)])
        monkeypatch.setattr(RedisValues, "rows", rebuild_and_read)
        if rebuilt == 1:
            assert store.fingerprints().tolist() == [A, B]
        else:
            with pytest.raises(StoreUnavailableError, match="try again when no rebuild"):
                store.fingerprints()


def test_a_server_that_was_emptied_takes_the_next_crawl(redis_server: RedisServer) -> None:
    """The crawl that was at work there leaves its counter, and nothing that hinders others."""
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


def test_nobody_writes_beside_who_is_alone(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_commit, "WAIT_SECONDS", 0.2)
    url = redis_server.url()
    with begin_crawl(url) as store, open_store(url) as other:
        with engine_of(store)._committer.alone():
            with pytest.raises(StoreUnavailableError, match="rewritten by another process"):
                other.find_and_add([document("a", A)])
            assert store.find_and_add([document("b", A)])[0].status == "new"
        assert other.find_and_add([document("a", A)])[0].status == "near_duplicate"


def end_lock(server: RedisServer, store: Store) -> None:
    """Let the lock end, as it does when its holder stands still for long."""
    with server.client() as client:
        assert client.delete(engine_of(store)._places.lock)


def test_whoever_was_alone_for_too_long_commits_nothing(redis_server: RedisServer) -> None:
    """It stood still, and another process may be at the same thing."""
    with begin_crawl(redis_server.url()) as store:
        with engine_of(store)._committer.alone():
            end_lock(redis_server, store)
            with pytest.raises(
                Exception, match="another process may have begun to write; try again"
            ):
                store.find_and_add([document("a", A)])
        assert store.stats()["documents"] == 0


def test_whoever_works_for_long_stays_alone(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a large store takes longer than a lock lasts."""
    monkeypatch.setattr(redis_commit, "LOCK_SECONDS", 2.0)
    monkeypatch.setattr(redis_commit, "WAIT_SECONDS", 0.1)
    url = redis_server.url()
    with begin_crawl(url) as store, open_store(url) as other:
        with engine_of(store)._committer.alone():
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                with pytest.raises(StoreUnavailableError, match="rewritten by another process"):
                    other.find_and_add([document("a", A)])
        assert other.find_and_add([document("a", A)])[0].status == "new"


@pytest.mark.parametrize("work", ["bulk_load", "rebuild"])
def test_tables_are_not_replaced_by_ones_without_what_came_meanwhile(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """Who wrote them stood still after it had read what belongs into them."""
    url = redis_server.url()
    begin = TableWriter.begin

    def stand_still_and_begin(self: TableWriter) -> Any:
        end_lock(redis_server, store)
        assert other.find_and_add([document("b", B)])[0].status == "new"
        return begin(self)

    def run() -> None:
        loaded = np.array([A ^ 0xFFFF], np.uint64)
        _ = store.bulk_load(loaded) if work == "bulk_load" else store.rebuild()

    with begin_crawl(url) as store, open_store(url) as other:
        store.find_and_add([document("a", A)])
        with monkeypatch.context() as patch:
            patch.setattr(TableWriter, "begin", stand_still_and_begin)
            with pytest.raises(StoreError, match="others may have written"):
                run()
        twins = [document("twin of a", A), document("twin of b", B)]
        assert [each.status for each in store.find_and_add(twins)] == ["near_duplicate"] * 2
        run()
        assert store.check() == []
        assert [match.distance for match in store.query(B)] == [0]


@pytest.mark.parametrize("lost", [False, True])
def test_tables_in_use_are_not_deleted(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """By who was overtaken by another one, before its tables were the store's or after."""
    url = redis_server.url()
    commit = Committer.commit

    def commit_and_stand_still(self: Committer, values: RedisValues, **options: bool) -> bool:
        if self is not own:
            return commit(self, values, **options)
        done = not lost and commit(self, values, **options)
        end_lock(redis_server, store)
        other.rebuild()
        return done

    with begin_crawl(url) as store, open_store(url) as other:
        own = engine_of(store)._committer
        store.find_and_add([document("a", A)])
        with monkeypatch.context() as patch:
            patch.setattr(Committer, "commit", commit_and_stand_still)
            with nullcontext() if not lost else pytest.raises(StoreError, match="lost its last"):
                store.bulk_load(np.array([B], np.uint64))
        assert store.find_and_add([document("twin", A)])[0].status == "near_duplicate"
        assert store.check() == []


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """A cluster whose nodes are killed, and keep what they acknowledged."""
    with run_cluster(*DURABLE) as cluster:
        yield cluster


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("number", range(3))
def test_a_node_that_dies_and_comes_back(cluster: RedisCluster, number: int) -> None:
    """Whichever it is: what was acknowledged is there, what was not is judged again."""
    draw = random.Random(number)  # noqa: S311 - reproducible
    pages = [document(f"page {n}", draw.getrandbits(64)) for n in range(60)]
    with begin_crawl(cluster.url(f"killed-{number}")) as store:
        assert {verdict.status for verdict in store.find_and_add(pages[:30])} == {"new"}
        node = cluster.nodes[(number + 1) % 3]  # not the one that is asked for the others
        node.kill()
        failed = 0
        for page in pages[30:33]:
            try:
                store.find_and_add([page])
            except StoreUnavailableError:
                failed += 1
        assert failed
        node.restart()
        cluster.wait()
        assert {verdict.status for verdict in store.find_and_add(pages[33:])} == {"new"}
        again = [verdict.status for verdict in store.find_and_add(pages)]
        assert again[:30] + again[33:] == ["revisit"] * 57
        assert set(again[30:33]) <= {"new", "revisit"}
        assert store.check() == []


@pytest.mark.usefixtures("impatient")
def test_a_node_that_stands_still(cluster: RedisCluster) -> None:
    """First it does not answer; then the others know it, and refuse what is asked of them."""
    with begin_crawl(cluster.url("still")) as store, ExitStack() as stack:
        store.find_and_add([document("a", A)])
        clients = [stack.enter_context(node.client()) for node in cluster.nodes]
        for client in clients:
            stack.callback(client.config_set, "cluster-require-full-coverage", "no")
            stack.callback(client.config_set, "cluster-node-timeout", 2_000)
        asked_first = [bool(client.keys("{still}:header")) for client in clients]
        still = cluster.nodes[asked_first.index(False)].process
        clients.pop(asked_first.index(False)).config_set("cluster-node-timeout", 500)
        still.send_signal(signal.SIGSTOP)
        stack.callback(cluster.wait)
        stack.callback(still.send_signal, signal.SIGCONT)
        with pytest.raises(StoreUnavailableError, match=r"did not answer within 1 seconds"):
            store.find_and_add([document("b", B)])
        for client in clients:
            client.config_set("cluster-require-full-coverage", "yes")
            client.config_set("cluster-node-timeout", 500)
        for client in clients:
            wait_until(lambda c=client: b"state:fail" in c.execute_command("CLUSTER", "INFO"))  # type: ignore[misc]
        with pytest.raises(StoreUnavailableError, match="has a node down; start it"):
            store.find_and_add([document("b", B)])
        stack.close()
        assert store.find_and_add([document("c", A ^ 1)])[0].status == "near_duplicate"
        assert store.check() == []


def add_and_die(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a document, and come no further than to the log."""
    with monkeypatch.context() as patch:
        patch.setattr(Committer, "apply_committed", lambda *_: None)
        store.find_and_add([document("a", A)])


def test_a_process_that_dies_between_its_commit_and_the_slots(
    cluster_server: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one to begin brings it there, and judges by it."""
    url = cluster_server.url()
    with begin_crawl(url) as store, open_store(url) as other:
        add_and_die(store, monkeypatch)
        assert other.find_and_add([document("b", A ^ 1)])[0].status == "near_duplicate"
        assert other.check() == []


def test_whoever_comes_late_to_a_slot_changes_nothing(
    cluster_server: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stood still while others did its work and went on."""
    applied: list[Sequence[Commit]] = []
    apply = Committer._apply

    def note(self: Committer, commits: Sequence[Commit]) -> None:
        applied.append(commits)
        apply(self, commits)

    monkeypatch.setattr(Committer, "_apply", note)
    with begin_crawl(cluster_server.url()) as store:
        store.find_and_add([document("a", A)])
        first = applied[-1]
        store.find_and_add([document("a", B)])
        apply(engine_of(store)._committer, first)
        assert store.query(A) == []
        assert [match.document for match in store.query(B)] == [1]
        assert store.check() == []
