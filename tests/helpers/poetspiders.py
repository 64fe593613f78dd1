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


class WordsPage(WebPage[dict[str, Any]]):
    @field
    def words(self) -> int:
        return len(" ".join(self.css("article p::text").getall()).split())


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
        callbacks = {"/words": self.parse_words, "/nothing": self.parse_nothing}
        callbacks["/client"] = self.parse_more
        for number, request in enumerate(self.requests):
            callback = callbacks.get(path_of(request.url), self.parse_title)
            yield request.replace(callback=callback, priority=-number)

    async def parse_title(
        self, response: DummyResponse, page: TitlePage
    ) -> AsyncIterator[dict[str, Any]]:
        yield {**describe(response), **await page.to_item()}

    async def parse_words(
        self, response: DummyResponse, page: WordsPage
    ) -> AsyncIterator[dict[str, Any]]:
        yield {**describe(response), **await page.to_item()}

    def parse_nothing(self, response: DummyResponse) -> Iterator[dict[str, Any]]:
        yield describe(response)

    async def parse_more(
        self, response: DummyResponse, page: MorePage
    ) -> AsyncIterator[dict[str, Any]]:
        yield describe(response)
        yield await page.to_item()


class TwiceSpider(PoetSpider):
    """Asks for each page twice, for two page objects."""

    name = "twice"

    async def start(self) -> AsyncIterator[Request]:
        for number, request in enumerate(self.requests):
            yield request.replace(callback=self.parse_title, priority=-number)
            yield request.replace(callback=self.parse_words, priority=-number)
