"""What the plugin uses of what is private in Scrapy: each fails when Scrapy changes it."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import signals
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.exceptions import DontCloseSpider
from scrapy.http import HtmlResponse, Request, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

import scrapy_simhash
from scrapy_simhash.crawl import internals
from scrapy_simhash.crawl.policy import identify_for
from scrapy_simhash.errors import SettingError
from tests.helpers.crawling import SETTINGS, PagesSpider, crawl, describe
from tests.helpers.pages import page
from tests.helpers.server import Site

pytestmark = pytest.mark.usefixtures("warm_worker")
ANSWERS = {f"/{number}": page(number) for number in range(4)}
PACKAGE = Path(scrapy_simhash.__file__).parent


async def test_an_engine_says_that_it_is_closing(site: Site, tmp_path: Path) -> None:
    class Spider(PagesSpider):
        async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
            before = internals.is_closing(self.crawler)
            self.closing = asyncio.ensure_future(self.crawler.engine.close_spider_async())
            await asyncio.sleep(0)  # it has begun, and waits for this page
            self.seen = before, internals.is_closing(self.crawler)
            yield describe(response)

    done = await crawl(tmp_path, [site.url("/1")], Spider)
    assert done.spider.seen == (False, True)
    assert internals.is_closing(done.crawler)


async def test_an_engine_that_is_woken_looks_for_requests(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExecutionEngine, "_SLOT_HEARTBEAT_INTERVAL", 3_600.0)

    class Spider(PagesSpider):
        idle = 0

        @classmethod
        def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> "Spider":
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.wait, signals.spider_idle)
            return spider

        def wait(self) -> None:
            self.idle += 1
            if self.idle == 1:
                asyncio.get_running_loop().call_soon(internals.wake, self.crawler)
                raise DontCloseSpider

    done = await crawl(tmp_path, [site.url("/1")], Spider)
    assert done.spider.idle == 2


async def test_the_duplicate_filter_knows_what_was_asked_for(site: Site, tmp_path: Path) -> None:
    class Spider(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            self.seen = internals.list_asked(self.crawler)
            yield describe(response)

    done = await crawl(tmp_path, [site.url("/1")], Spider)
    assert done.spider.seen == {identify_for(done.crawler, Request(site.url("/1")))}


async def test_a_request_without_a_callback_goes_to_the_default_one(
    site: Site, tmp_path: Path
) -> None:
    class Spider(PagesSpider):
        def _parse(self, response: Response, **kwargs: Any) -> Any:
            yield describe(response) | {"by": kwargs}

    done = await crawl(tmp_path, [site.url("/1")], Spider)
    assert done.items[0]["by"] == {}
    assert Spider._parse.__name__ == internals.DEFAULT_CALLBACK


def test_the_rules_of_a_crawl_spider_share_their_callbacks() -> None:
    class Spider(CrawlSpider):
        name = "rules"
        rules = (Rule(LinkExtractor()),)

    spider = Spider()
    response = HtmlResponse("http://a.example/", body=b"<a href=/b>b</a>", encoding="utf-8")
    (made,) = spider._requests_to_follow(response)
    assert made is not None
    assert made.callback == getattr(spider, internals.RULE_CALLBACK)
    assert made.errback == getattr(spider, internals.RULE_ERRBACK)


def test_the_middleware_for_proxies_notes_one_with_credentials() -> None:
    request = Request("http://a.example/", meta={"proxy": "http://user:secret@b.example:80"})
    HttpProxyMiddleware().process_request(request)
    assert internals.PROXY_KEY in request.meta


async def test_what_keeps_a_crawl_of_a_process_from_beginning_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = dict.fromkeys(("ftp", "http", "https"))  # no session is left open
    bad = {"SIMHASH_STORE": str(tmp_path), "SIMHASH_DISTANCE": 9, "DOWNLOAD_HANDLERS": handlers}
    with pytest.raises(SettingError):
        await AsyncCrawlerRunner(SETTINGS | bad).crawl(PagesSpider)
    told = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
    assert len(told) == 1
    assert told[0].startswith("The crawl does not begin: SIMHASH_DISTANCE = 9")


def test_nothing_else_uses_what_is_private() -> None:
    """Ruff refuses private names but where a comment allows them; `getattr` gets round it."""
    pattern = re.compile(r"noqa: .*SLF001|getattr\([^\"]*\"_(?!_)")
    using = {path for path in PACKAGE.rglob("*.py") if pattern.search(path.read_text("utf-8"))}
    names = {path.relative_to(PACKAGE).as_posix() for path in using}
    # PySpark has no public way to its JVM, and lmdb's databases have no other class.
    others = {"batch/spark/pairs.py", "batch/spark/tasks.py", "stores/lmdb/values.py"}
    assert names - others == {"crawl/internals.py"}
