"""Buckets in Redis: rows found whole, and buckets that become too full and empty again."""

import pytest

from scrapy_simhash.stores.opening import open_store
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.redisservers import RedisServer

pytestmark = pytest.mark.slow


def test_a_bucket_that_is_too_full_and_empties_again(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("redis", "keyvalues"):
        monkeypatch.setattr(f"scrapy_simhash.stores.{module}.MOST_IN_BUCKET", 8)
    url = redis_server.url()
    with begin_crawl(url, tables="4") as store:
        # They share the first block, and are far from each other in the three others.
        crowd = [0x1111_1111_1111 * number for number in range(14)]
        store.find_and_add([document(f"page {each}", each, scope=f"{each}") for each in crowd])
        assert store.stats()["buckets_too_full"] == 1
        assert [match.document for match in store.query(crowd[3], 0)] == [4]
        assert store.check() == []
        store.end_crawl(CRAWL)
        assert store.delete(list(range(4, 15))) == 11
        assert store.stats()["buckets_too_full"] == 0
        assert store.check() == []
    with open_store(url) as store:
        assert store.fingerprints().tolist() == crowd[:3]
