"""A crawl in this process, whose pages come from memory; for all benchmarks that crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from scrapy import Request
    from scrapy.http import Response

AnySpider = TypeVar("AnySpider", bound=Spider)
PLUGIN = {"scrapy_simhash.Addon": 500}
_SETTINGS = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_DELAY": 0,
    "LOG_LEVEL": "ERROR",
    # Pages as they were captured may send on to their real hosts.
    "METAREFRESH_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
}


def answer_html(request: Request, body: bytes) -> HtmlResponse:
    """Answer a request with a page."""
    headers = {"Content-Type": "text/html"}
    return HtmlResponse(request.url, body=body, headers=headers, request=request)


def number_of(url: str) -> int:
    """Read the number that the address of a made-up page ends with."""
    return int(url.rpartition("/")[2])


def crawl(
    spider: type[AnySpider],
    answer: Callable[[Request], Awaitable[Response]],
    settings: Mapping[str, Any],
    **arguments: Any,
) -> AnySpider:
    """Run one crawl, and return its spider.

    Args:
        spider: its class.
        answer: gives the response to each request; nothing is fetched from anywhere.
        settings: beside the usual ones.
        arguments: of the spider.
    """

    class Handler:
        lazy = False

        @classmethod
        def from_crawler(cls, _: object) -> Self:
            return cls()

        async def download_request(self, request: Request) -> Response:
            return await answer(request)

        async def close(self) -> None:
            pass

    handlers = dict.fromkeys(("http", "https"), Handler)
    process = AsyncCrawlerProcess({**_SETTINGS, "DOWNLOAD_HANDLERS": handlers, **settings})
    crawler = process.create_crawler(spider)
    process.crawl(crawler, **arguments)
    process.start()
    assert isinstance(crawler.spider, spider)  # noqa: S101
    return crawler.spider
