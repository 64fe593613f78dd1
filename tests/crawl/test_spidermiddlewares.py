"""The spider middleware: what is dropped, who is told, and when a page counts as done."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from twisted.python.failure import Failure

from scrapy_simhash import NearDuplicate
from tests.helpers.crawling import Crawl, FollowingSpider, PagesSpider, crawl, describe
from tests.helpers.pages import page
from tests.helpers.server import Site

LINKS = ["/deeper/1", "/deeper/2"]
ANSWERS = {
    "/one": page(1),
    "/one-again": page(1, menu="Other menu", links=LINKS),
    "/one-more": page(1, menu="One more"),
    "/two": page(2),
    "/deeper/1": page(11),
    "/deeper/2": page(12),
}


def errors(done: Crawl) -> int:
    return int(done.stats.get("log_count/ERROR", 0))


async def test_dropped_page_reaches_no_callback(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    urls = site.urls("/one", "/one-again", "/two", "/one-more")
    done = await crawl(tmp_path, urls, FollowingSpider)
    assert done.paths == ["/one", "/two"]
    assert "/deeper/1" not in site.asked
    sizes = [len(site.answers[path].body) for path in ("/one-again", "/one-more")]
    twice = ("new", "near_duplicate", "distance/0", "dropped", "links_dropped")
    counted = dict.fromkeys((*twice, "links/only_on_dropped_pages"), 2)
    assert done.counted == {"pages": 4, "bytes_dropped": sum(sizes), **counted}
    assert (done.stats["response_received_count"], errors(done)) == (4, 0)
    assert "spider_exceptions/count" not in done.stats
    own = [r for r in caplog.records if r.name == "scrapy_simhash.spidermiddlewares"]
    why = f"a near-duplicate of {site.url('/one')!r}"
    assert [(r.levelname, r.getMessage()) for r in own] == [
        ("INFO", f"Dropped {site.url(path)!r}, {why}") for path in ("/one-again", "/one-more")
    ]
    assert not [r for r in caplog.records if r.exc_info]


class ErrbackSpider(PagesSpider):
    """Asks with an errback, which notes what it gets and yields."""

    async def start(self) -> AsyncIterator[Request]:
        self.failures: list[Any] = []
        async for request in super().start():
            yield request.replace(errback=self.note)

    def note(self, failure: Failure) -> Iterator[Any]:
        self.failures.append(failure.value)
        yield {"path": "from the errback"}
        yield Request(self.requests[0].url.replace("/one", "/two"))


async def test_errback_gets_response_and_verdict(site: Site, tmp_path: Path) -> None:
    done = await crawl(tmp_path, site.urls("/one", "/one-again"), ErrbackSpider)
    (failure,) = done.spider.failures
    assert (type(failure), isinstance(failure, IgnoreRequest)) == (NearDuplicate, True)
    assert failure.response.url == site.url("/one-again")
    assert failure.response.body == site.answers["/one-again"].body
    assert failure.verdict == done.published[1] == failure.response.meta["simhash"]
    assert str(failure) == f"near-duplicate of {site.url('/one')} at distance 0"
    assert done.paths == ["/one", "from the errback", "/two"]
    assert errors(done) == 0


class CarelessSpider(PagesSpider):
    """Copies the meta of a near-duplicate to a page that is none."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        if response.url.endswith("/one-again"):
            meta = {"simhash": response.meta["simhash"], "simhash_skip": True}
            yield Request(response.urljoin("/two"), meta=meta)


async def test_copied_verdict_drops_nothing(site: Site, tmp_path: Path) -> None:
    copy = Request(site.url("/one-again"), meta={"simhash_action": "flag"})
    done = await crawl(tmp_path, [site.url("/one"), copy], CarelessSpider)
    assert done.paths == ["/one", "/one-again", "/two"]
    assert done.items[2]["verdict"] is None
