"""A crawl with a store on Valkey; other tests of servers run on it, too."""

from pathlib import Path

import pytest

from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import crawl
from tests.helpers.pages import page
from tests.helpers.redisservers import free_port, run_redis
from tests.helpers.server import serve

pytestmark = pytest.mark.slow


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
