"""Brings the local site to life when a request asks for it."""

from contextlib import ExitStack
from typing import Self

from docsite import HOST, serve
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.utils.httpobj import urlparse_cached


class LocalSiteMiddleware:
    """Downloader middleware: requests for the host `manuals.example` go to the local site.

    The site listens on any free port and acts as the proxy of these requests. So the addresses
    of its pages are the same in every crawl, and a second crawl recognises the pages of the
    first. `scrapy shell` and `scrapy fetch` reach the site in the same way.
    """

    def __init__(self) -> None:
        self._running = ExitStack()
        self._proxy: str | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy."""
        middleware = cls()
        crawler.signals.connect(middleware.spider_closed, signals.spider_closed)
        return middleware

    def process_request(self, request: Request) -> None:
        """Send requests for the local site there, and let all others pass."""
        if urlparse_cached(request).hostname == HOST:
            if self._proxy is None:
                self._proxy = self._running.enter_context(serve())
            request.meta["proxy"] = self._proxy

    def spider_closed(self) -> None:
        """Stop the site."""
        self._running.close()
