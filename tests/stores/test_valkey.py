"""A store on Valkey: what the tests of Redis rely on holds there, too."""

from pathlib import Path

import numpy as np
import pytest

from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import crawl
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.pages import page
from tests.helpers.redisservers import RedisCluster, RedisServer, free_port, run_redis
from tests.helpers.server import serve
from tests.stores.test_lmdb_store_processes import race_for_twins
from tests.stores.test_redis_memory import limit, nodes_of

pytestmark = pytest.mark.slow

A, B = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
both = pytest.mark.parametrize("kind", ["valkey_server", "valkey_cluster_server"])


def find(request: pytest.FixtureRequest, kind: str) -> RedisServer | RedisCluster:
    found: RedisServer | RedisCluster = request.getfixturevalue(kind)
    return found


@both
def test_of_each_group_of_twins_exactly_one_is_new(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """Commits overtake each other."""
    race_for_twins(find(request, kind).url(), processes=3, groups=20)


@both
def test_scripts_know_when_its_memory_is_full(request: pytest.FixtureRequest, kind: str) -> None:
    """They have flags: what only deletes is done, what writes is refused."""
    server = find(request, kind)
    with begin_crawl(server.url()) as store:
        store.find_and_add([document("a", A), document("twin", A ^ 1)])
        store.end_crawl(CRAWL)
        with limit(*nodes_of(server)):
            with pytest.raises(StoreUnavailableError, match=r"no memory left \(maxmemory\)"):
                store.start_crawl("crawl-2", "spider")
            assert store.delete([1]) == 2
        store.bulk_load(np.array([B], np.uint64))
        assert store.rebuild()["fingerprints"] == 1
        assert store.check() == []


async def test_a_crawl_by_its_own_scheme(tmp_path: Path) -> None:
    port = free_port()
    options = ("--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes")
    with (
        run_redis(*options, program="valkey-server"),
        serve({"/one": page(1), "/two": page(1, menu="Another menu")}) as site,
    ):
        url = f"valkey://127.0.0.1:{port}/0?prefix=docs"
        done = await crawl(
            tmp_path,
            [site.url("/one"), site.url("/two")],
            SIMHASH_STORE=url,
            SIMHASH_LOG=str(tmp_path / "log.jsonl"),
            SIMHASH_WORKERS=0,
            CONCURRENT_REQUESTS=1,
        )
        assert sorted(done.verdicts.values()) == ["near_duplicate", "new"]
        with open_store(url, readonly=True) as store:
            assert store.stats()["done"] == 1
