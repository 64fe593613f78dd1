"""Crawls with a store on a cluster of six whose nodes die, change their roles, or move slots."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import crawl, read_lines
from tests.helpers.documents import begin_crawl, document
from tests.helpers.pages import page
from tests.helpers.processes import wait_until
from tests.helpers.redisservers import RedisCluster, run_cluster
from tests.helpers.server import serve

pytestmark = [
    pytest.mark.slow,
    # A replica that fails for a moment vanishes from CLUSTER SLOTS, and redis-py forgets its
    # connection without closing it; that is left to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

FIRST, LATER = range(12), range(12, 24)
# Of documents 1 to 255, see `stores.redis.places`.
FIRST_DOCUMENTS = "d" + 14 * "0"


@pytest.fixture
def six() -> Iterator[RedisCluster]:
    """Three primaries with a replica each, which keep what they acknowledge."""
    # A busy machine stands still for seconds; nobody is to be replaced for that.
    options = ("--appendonly", "yes", "--appendfsync", "always", "--cluster-node-timeout", "5000")
    with run_cluster(*options, replicas=True) as cluster:
        cluster.wait_for_copies()
        yield cluster
        # Here and not in a later test, which has to close what it opens.
        gc.collect()


def log_slot(six: RedisCluster, prefix: str) -> int:
    return six.find_slot(f"{{{prefix}}}:header")


def kill_primary(six: RedisCluster, prefix: str) -> None:
    """Kill the node with the log, which a replica replaces when the others have noticed."""
    six.wait_for_copies()
    six.nodes[six.find_owner(log_slot(six, prefix))].kill()
    wait_until(lambda: len(six.list_primaries()) == 3)
    six.wait()


def fail_over(six: RedisCluster, prefix: str) -> None:
    """Let each primary and its replica change their roles, as one does for upkeep."""
    del prefix
    for primary in six.list_primaries():
        six.fail_over(primary)


def move_slots(six: RedisCluster, prefix: str) -> None:
    """Move the log, documents and some identities to other nodes."""
    moving = [log_slot(six, prefix), six.find_slot(f"{{{prefix}:{FIRST_DOCUMENTS}}}")]
    moving += [six.find_slot(f"{{{prefix}:i{first:02x}}}") for first in range(0, 256, 8)]
    for slot in moving:
        six.move(slot, (six.find_owner(slot) + 1) % 3)


@pytest.mark.parametrize("change", [kill_primary, fail_over, move_slots])
async def test_a_crawl_loses_nothing_that_was_acknowledged(
    six: RedisCluster, tmp_path: Path, change: Callable[[RedisCluster, str], None]
) -> None:
    """Pages come before, meanwhile and after; a second crawl knows all that were judged."""
    # The node that the store is opened by must live.
    names = (f"crawl-{number}" for number in range(99))
    prefix = next(name for name in names if six.find_owner(log_slot(six, name)))
    settings: dict[str, Any] = {
        "SIMHASH_STORE": six.url(prefix),
        "SIMHASH_WORKERS": 0,
        "CONCURRENT_REQUESTS": 32,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
    }
    paths = [f"/{number}" for number in (*FIRST, *LATER)]
    with serve({path: page(int(path[1:])) for path in paths}) as site:
        gates = [Event() for _ in LATER]
        for number, gate in zip(LATER, gates, strict=True):
            answer = site.answers[f"/{number}"]
            site.answers[f"/{number}"] = replace(answer, gate=gate)
        log = tmp_path / "log.jsonl"
        crawling = asyncio.create_task(
            crawl(tmp_path, site.urls(), SIMHASH_LOG=str(log), **settings)
        )

        def change_meanwhile() -> None:
            wait_until(lambda: len(read_lines(log)) >= len(FIRST))
            for gate in gates[: len(gates) // 2]:
                gate.set()
            change(six, prefix)
            for gate in gates:
                gate.set()

        await asyncio.to_thread(change_meanwhile)
        done = await crawling
        assert sorted(done.paths) == sorted(paths)
        judged = {path for path, verdict in done.verdicts.items() if verdict == "new"}
        assert judged >= {f"/{number}" for number in FIRST}
        others = {verdict for path, verdict in done.verdicts.items() if path not in judged}
        assert others <= {"unjudged store_unavailable"}
        await crawl(tmp_path, site.urls(), SIMHASH_LOG=str(tmp_path / "again.jsonl"), **settings)
    verdicts = {
        line["url"].rpartition("/")[2]: line["status"]
        for line in read_lines(tmp_path / "again.jsonl")
    }
    assert {verdicts[path[1:]] for path in judged} == {"revisit"}
    assert set(verdicts.values()) <= {"revisit", "new"}
    with open_store(settings["SIMHASH_STORE"]) as store:
        assert store.check() == []


@pytest.mark.parametrize("key", ["{moving}:header", f"{{moving:{FIRST_DOCUMENTS}}}"])
def test_no_script_writes_to_a_slot_that_is_half_moved(six: RedisCluster, key: str) -> None:
    """It would make keys on the one node that are still on the other, which is not mended."""
    slot = six.find_slot(key)
    failed: list[str] = []
    pages = iter(document(f"page {number}", number << 40) for number in range(1, 5_000))

    def add() -> None:
        try:
            store.find_and_add([next(pages) for _ in range(200)])
        except StoreUnavailableError as error:
            failed.append(str(error))

    with begin_crawl(six.url("moving")) as store:
        add()
        assert failed == []
        six.move(slot, (six.find_owner(slot) + 1) % 3, add)
        assert failed
        assert all("is moving a slot to another node" in message for message in failed)
        failed.clear()
        add()
        assert failed == []
        assert store.check() == []
