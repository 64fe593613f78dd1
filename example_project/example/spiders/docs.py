"""A crawl of documentation that counts what scrapy-simhash keeps and drops."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from docsite import HOST, Site
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor

from example.summary import Fetched, Summary
from scrapy_simhash import signals


@dataclass
class Page:
    """One kept page; the local site says which document it is and in which disguise."""

    url: str
    better_url: str  # the one that the page itself calls canonical, if it is another
    title: str
    document: str
    variant: str


class DocsSpider(Spider):
    """Follows all links of one host.

    Args:
        start_url: Where to begin; the local site unless told otherwise.
        summary: A file that gets the numbers of the closing summary as JSON.
    """

    name = "docs"

    def __init__(
        self, start_url: str = f"http://{HOST}/", summary: str = "", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        host = urlsplit(start_url).hostname or ""
        self.start_url = start_url
        self.links = LinkExtractor(allow_domains=[host])
        self.summary = Summary(Site().documents if host == HOST else frozenset())
        self.summary_file = summary

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Listen to the plugin, because `parse` never sees a dropped page."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.near_duplicate_found, signals.near_duplicate_found)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """The start page, as a request that is remembered: many pages link back to it."""
        yield Request(self.start_url)

    def parse(self, response: Response) -> Iterator[Page | Request]:
        """Keep a page and follow its links."""
        if not isinstance(response, HtmlResponse):
            return
        # Absent when the plugin is off.
        verdict = response.meta.get("simhash", {})
        canonical = verdict.get("canonical", "")
        page = Page(
            url=response.url,
            better_url=canonical if canonical != response.url else "",
            title=response.css("title::text").get("").strip(),
            document=_header(response, "X-Document"),
            variant=_header(response, "X-Variant"),
        )
        # With the action "follow" the plugin drops the page, and follows its links.
        if verdict.get("action") != "follow":
            self.summary.keep(Fetched(page.url, page.document, page.variant), verdict)
        yield page
        for link in self.links.extract_links(response):
            yield Request(link.url)

    def near_duplicate_found(self, response: Response, verdict: dict[str, Any]) -> None:
        """Note a dropped page; with other actions it goes on to `parse`."""
        if verdict["action"] not in {"drop", "follow"}:
            return
        document, variant = _header(response, "X-Document"), _header(response, "X-Variant")
        self.summary.drop(Fetched(response.url, document, variant), verdict)

    def closed(self, reason: str) -> None:
        """Called by Scrapy at the end: print the summary."""
        stats = self.crawler.stats
        requests = stats.get_value("downloader/request_count", 0) if stats else 0
        print(self.summary.as_text(requests, reason))
        if self.summary_file:
            numbers = self.summary.as_dict(requests)
            Path(self.summary_file).write_text(json.dumps(numbers, indent=1), encoding="utf-8")


def _header(response: Response, name: str) -> str:
    return (response.headers.get(name) or b"").decode("latin-1")
