"""Spiders with page objects; imported only where there is scrapy-poet."""

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urljoin

from attrs import define
from scrapy.http import Request
from scrapy_poet.api import DummyResponse
from web_poet import HttpClient, WebPage, field

from tests.helpers.crawling import PagesSpider, describe, path_of


class TitlePage(WebPage[dict[str, Any]]):
    @field
    def title(self) -> str:
        return str(self.css("title::text").get(""))


@define
class MorePage(WebPage[dict[str, Any]]):
    """Asks for another page itself."""

    client: HttpClient

    async def to_item(self) -> dict[str, Any]:
        more = await self.client.get(urljoin(str(self.url), "/more"))
        return {"path": "more", "bytes": len(more.body)}


class PoetSpider(PagesSpider):
    """Its callbacks take page objects, and not all of them the page itself."""

    name = "poet"

    async def start(self) -> AsyncIterator[Request]:
        callbacks: dict[str, Any] = {"/nothing": self.parse_nothing, "/client": self.parse_more}
        for number, request in enumerate(self.requests):
            callback = callbacks.get(path_of(request.url), self.parse_title)
            yield request.replace(callback=callback, priority=-number)

    async def parse_title(
        self, response: DummyResponse, page: TitlePage
    ) -> AsyncIterator[dict[str, Any]]:
        yield {**describe(response), **await page.to_item()}

    def parse_nothing(self, response: DummyResponse) -> Iterator[dict[str, Any]]:
        yield describe(response)

    async def parse_more(
        self, response: DummyResponse, page: MorePage
    ) -> AsyncIterator[dict[str, Any]]:
        yield describe(response)
        yield await page.to_item()
