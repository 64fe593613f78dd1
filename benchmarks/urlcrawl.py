"""One crawl of a site, in this process: what was fetched, and what came to the spider."""

from __future__ import annotations

import random
import re
from html import unescape
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urldefrag, urlsplit

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response, TextResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler

_LINK = re.compile(r"""<a\b[^>]*?\shref=["']([^"']*)""")
# Months of a calendar without end that a crawl asks for, as its owner would bound it.
_MONTHS = 60
SETTINGS = {
    # Breadth first, as the example crawl: a page is met before its copies.
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_DELAY": 0,
    "LOG_LEVEL": "WARNING",
    "RETRY_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
}


class ProxyMiddleware:
    """Sends every request to the server of the site; at 740, before the one for proxies."""

    def __init__(self, address: str) -> None:
        self._address = address

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the address from the settings."""
        return cls(crawler.settings["BENCH_SERVER"])

    def process_request(self, request: Request) -> None:
        """Name the server as the proxy."""
        request.meta["proxy"] = self._address


class SiteSpider(Spider):
    """Follows every link of a site, and remembers which documents came."""

    name = "site"

    def __init__(self, start_url: str, domain: str) -> None:
        super().__init__()
        self.start_url = start_url
        self._domain = domain
        self._months: set[str] = set()
        self.fetched: list[tuple[str, str, str]] = []  # address, document, the one behind a wall
        self.delivered: list[tuple[str, str]] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Listen to what is fetched, because a dropped page never comes to `parse`."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.note, signals.response_received)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Begin at the start page, which many pages link back to."""
        yield Request(self.start_url)

    def note(self, response: Response) -> None:
        """Remember what was fetched."""
        document, behind = _header(response, "Document"), _header(response, "Behind")
        self.fetched.append((response.url, document, behind))

    def parse(self, response: Response) -> Iterator[Any]:
        """Take a page, and follow its links; those of a calendar up to a bound."""
        if not isinstance(response, TextResponse):
            return
        self.delivered.append((response.url, _header(response, "Document")))
        yield {"url": response.url}
        for url in self._list_links(response):
            if "/calendar/" in url and url not in self._months:
                if len(self._months) == _MONTHS:
                    continue
                self._months.add(url)
            yield Request(url)

    def _list_links(self, response: TextResponse) -> Iterator[str]:
        """List the links of a page to hosts of the domain."""
        # Scrapy's extractor takes half of such a crawl's time.
        for link in dict.fromkeys(map(unescape, _LINK.findall(response.text))):
            url = urldefrag(response.urljoin(link)).url
            if f".{urlsplit(url).hostname}".endswith(f".{self._domain}"):
                yield url


def _header(response: Response, name: str) -> str:
    return (response.headers.get(f"X-{name}") or b"").decode()


def crawl(start_url: str, domain: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Run one crawl in this process.

    Args:
        start_url: of the site.
        domain: links to other ones are not followed.
        settings: beside `SETTINGS`; `BENCH_SERVER` is the address of the site's server.
        seed: of the chance that a peer uses.
    """
    random.seed(seed)
    own = {ProxyMiddleware: 740, **settings.pop("DOWNLOADER_MIDDLEWARES", {})}
    process = AsyncCrawlerProcess({**SETTINGS, **settings, "DOWNLOADER_MIDDLEWARES": own})
    crawler = process.create_crawler(SiteSpider)
    process.crawl(crawler, start_url, domain)
    process.start()
    spider, stats = crawler.spider, crawler.stats
    assert isinstance(spider, SiteSpider)  # noqa: S101
    assert stats is not None  # noqa: S101
    counted = stats.get_stats()
    return {
        "fetched": spider.fetched,
        "delivered": spider.delivered,
        "seconds": counted["elapsed_time_seconds"],
        "errors": counted.get("log_count/ERROR", 0),
        "reason": counted["finish_reason"],
        "counted": {k[8:]: v for k, v in counted.items() if k.startswith("simhash/")},
    }
