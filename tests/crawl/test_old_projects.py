"""Projects that were written for older versions of Scrapy."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import Response

from tests.helpers.beside import run_block
from tests.helpers.crawling import PagesSpider, crawl
from tests.helpers.pages import page
from tests.helpers.server import Answers, serve

pytestmark = pytest.mark.usefixtures("warm_worker")

SITE: Answers = {"/one": page(1), "/one-again": page(1, menu="Other menu"), "/two": page(2)}
OLD = run_block("beside.md", "def start_requests")


class BridgedSpider(PagesSpider):
    """Has `start_requests`, and the `start` that the documentation advises."""

    start = OLD["OldSpider"].start

    def start_requests(self) -> Iterable[Request]:
        yield from self.requests


class OldMiddleware:
    """In both chains, with the argument `spider`, which Scrapy still passes."""

    def process_response(self, request: Request, response: Response, spider: Spider) -> Response:
        del request
        response.flags.append(f"after {spider.name}")
        return response

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any], spider: Spider
    ) -> AsyncIterator[Any]:
        del response
        async for item in result:
            yield {**item, "spider": spider.name}


@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
async def test_start_requests_and_old_middlewares_work(tmp_path: Path) -> None:
    old = f"{__name__}.OldMiddleware"
    with serve(SITE) as site:
        done = await crawl(
            tmp_path,
            site.urls(),
            BridgedSpider,
            DOWNLOADER_MIDDLEWARES={old: 543},
            SPIDER_MIDDLEWARES={old: 543},
        )
    assert done.paths == ["/one", "/two"]
    assert done.counted["dropped"] == 1
    assert [(item["flags"], item["spider"]) for item in done.items] == [
        (["after pages"], "pages")
    ] * 2
    assert "log_count/ERROR" not in done.stats
