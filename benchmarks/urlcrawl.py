"""A spider that notes what was fetched of a site, and what came to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.http import Response, TextResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

# Months of a calendar without end that a crawl asks for, as its owner would bound it.
_MONTHS = 60
SETTINGS = {
    # Breadth first, as the example crawl: a page is met before its copies.
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
}


class SiteSpider(Spider):
    """Follows every link of a site, and remembers which documents came."""

    name = "site"

    def __init__(self) -> None:
        super().__init__()
        self._months: set[str] = set()
        self.fetched: list[tuple[str, str, str]] = []  # address, document, the one behind a wall

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Listen to what is fetched, because a dropped page never comes to `parse`."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.note, signals.response_received)
        return spider

    def note(self, response: Response) -> None:
        """Remember what was fetched."""
        document, behind = _header(response, "Document"), _header(response, "Behind")
        self.fetched.append((response.url, document, behind))

    def parse(self, response: Response) -> Iterator[Any]:
        """Take a page, and follow its links; those of a calendar up to a bound."""
        if not isinstance(response, TextResponse):
            return
        yield {"url": response.url}
        for url in self._list_links(response):
            if "/calendar/" in url and url not in self._months:
                if len(self._months) == _MONTHS:
                    continue
                self._months.add(url)
            yield Request(url)

    def _list_links(self, response: TextResponse) -> Iterator[str]:
        """List the links of a page that are followed."""
        raise NotImplementedError


def _header(response: Response, name: str) -> str:
    return (response.headers.get(f"X-{name}") or b"").decode()
