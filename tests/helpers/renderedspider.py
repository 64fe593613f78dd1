"""A spider that lets a browser draw its pages; imported only where there is scrapy-playwright."""

from collections.abc import AsyncIterator
from typing import Any

from scrapy.http import Request, Response

from tests.helpers.crawling import PagesSpider, describe, path_of


class RenderedSpider(PagesSpider):
    """Asks for browser pages where the path says `open`, for drops where it says `errback`.

    The callback of `/failing` raises.
    """

    name = "rendered"

    async def start(self) -> AsyncIterator[Request]:
        async for request in super().start():
            meta = {"playwright": True, "playwright_include_page": "open" in request.url}
            errback = self.hear if "errback" in request.url else None
            yield request.replace(meta=meta, errback=errback)

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        if path_of(response.url) == "/failing":
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
