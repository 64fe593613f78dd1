"""Beside scrapy-redis: its scheduler and duplicate filter, with a real server."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.exceptions import CloseSpider
from scrapy.http import Response

from scrapy_simhash.stores.opening import open_store
from tests.helpers.beside import settings_of
from tests.helpers.crawling import Crawl, crawl, describe, path_of
from tests.helpers.needing import require_modules
from tests.helpers.pages import make_groups, page
from tests.helpers.redisservers import RedisServer
from tests.helpers.server import Answer, Site

GROUPS, COPIES = 6, 3
ANSWERS = make_groups(GROUPS, COPIES)
# scrapy-redis 0.9.1 uses what Scrapy 2.19 is going to remove: works, and says so.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning"),
]


@pytest.fixture
def redis(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The settings for scrapy-redis, and an empty server."""
    require_modules("beside", "scrapy_redis")
    from scrapy_redis import connection  # noqa: PLC0415

    redis_server.empty()
    connect = connection.get_redis
    with ExitStack() as stack:
        # It never closes the clients of its scheduler, duplicate filter, spiders and stats.
        monkeypatch.setattr(
            connection, "get_redis", lambda **given: stack.enter_context(connect(**given))
        )
        yield settings_of("beside.md", "SCHEDULER") | {"REDIS_URL": f"unix://{redis_server.socket}"}


def groups(*crawls: Crawl) -> list[str]:
    return sorted(path.split("/")[1] for done in crawls for path in done.paths)


EACH_GROUP = [f"g{group}" for group in range(GROUPS)]


def assert_quiet(done: Crawl) -> None:
    assert "log_count/ERROR" not in done.stats
    # "finished" or, where it was told to stop, "closespider_pagecount".
    assert done.stats["finish_reason"] != "shutdown"


@pytest.mark.usefixtures("judge_apart")
@pytest.mark.parametrize("on_server", [False, True], ids=["folder", "server"])
async def test_two_crawls_of_one_queue_drop_what_either_got(
    site: Site, tmp_path: Path, redis: dict[str, Any], redis_server: RedisServer, *, on_server: bool
) -> None:
    """With a store on that server as on two machines: nothing else is shared."""
    store = redis_server.url("simhash") if on_server else str(tmp_path)
    crawls = [
        crawl(
            tmp_path,
            site.urls()[start::2],
            SIMHASH_STORE=store,
            SIMHASH_LOG=str(tmp_path / f"{start}.jsonl"),
            CONCURRENT_REQUESTS=4,
            **redis,
        )
        for start in range(2)
    ]
    done = await asyncio.gather(*crawls)
    # Two that come at one moment in two crawls may both be kept.
    assert sorted(set(groups(*done))) == EACH_GROUP
    assert all(len(set(groups(one))) == len(groups(one)) for one in done)
    assert sum(one.stats["scheduler/dequeued/redis"] for one in done) == GROUPS * COPIES
    for one in done:
        assert_quiet(one)
    with open_store(store, readonly=True) as opened:
        assert opened.check() == []


async def test_crawl_goes_on_where_it_stopped(
    site: Site, tmp_path: Path, redis: dict[str, Any]
) -> None:
    first = await crawl(tmp_path, site.urls(), CLOSESPIDER_PAGECOUNT=GROUPS + 2, **redis)
    assert first.stats["finish_reason"] == "closespider_pagecount"
    second = await crawl(tmp_path, [], **redis)
    assert groups(first, second) == EACH_GROUP
    assert first.stats["simhash/pages"] + second.stats["simhash/pages"] == GROUPS * COPIES
    assert second.stats["simhash/near_duplicate"] > 0
    # None was asked for twice, so none is a revisit.
    assert not [key for key in second.counted if key.startswith("revisit")]
    for done in (first, second):
        assert_quiet(done)


async def test_spider_that_is_fed_by_redis(
    site: Site, tmp_path: Path, redis: dict[str, Any], redis_server: RedisServer
) -> None:
    from scrapy_redis.spiders import RedisSpider  # noqa: PLC0415

    def parse(_: Spider, response: Response) -> Iterator[Any]:
        yield describe(response)
        if path_of(response.url) == "/last":
            raise CloseSpider("fed up")

    site.answers["/last"] = Answer(page(GROUPS).encode())
    with redis_server.client() as client:
        for url in site.urls():
            client.rpush("fed:start_urls", url)
    spider = type("FedSpider", (RedisSpider,), {"name": "fed", "parse": parse})
    done = await crawl(tmp_path, [], spider, CONCURRENT_REQUESTS=64, **redis)
    assert groups(done) == sorted([*EACH_GROUP, "last"])
    assert done.counted["dropped"] == GROUPS * (COPIES - 1)
