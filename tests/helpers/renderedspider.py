"""A spider that lets a browser draw its pages; imported only where there is scrapy-playwright."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_simhash.signals import near_duplicate_found
from tests.helpers.crawling import PagesSpider, describe, path_of


class RenderedSpider(PagesSpider):
    """Asks for browser pages where the path says `open`, for drops where it says `errback`.

    The callback of `/failing` waits for its copy to be dropped, and raises.
    """

    name = "rendered"
    copy_dropped: asyncio.Event

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.copy_dropped = asyncio.Event()
        crawler.signals.connect(spider.near_duplicate_found, near_duplicate_found)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        async for request in super().start():
            meta = {"playwright": True, "playwright_include_page": "open" in request.url}
            errback = self.hear if "errback" in request.url else None
            yield request.replace(meta=meta, errback=errback)

    def near_duplicate_found(self, response: Response) -> None:
        if path_of(response.url).startswith("/failing"):
            self.copy_dropped.set()

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        if path_of(response.url) == "/failing":
            await self.copy_dropped.wait()
            raise RuntimeError("the callback failed")
        page = response.meta.get("playwright_page")
        yield {**describe(response), "open": len(page.context.pages) if page else None}
        if page:
            await page.close()

    async def hear(self, failure: Any) -> AsyncIterator[Any]:
        page = failure.request.meta["playwright_page"]
        path = path_of(failure.value.response.url)
        yield {"path": f"errback {path}", "closed": page.is_closed(), "title": await page.title()}
        await page.close()
