"""The spider middleware: what happens to a near-duplicate, and when a page is done."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.http import Request

from scrapy_simhash.actions import FOLLOW
from scrapy_simhash.config import read_config
from scrapy_simhash.downloadermiddlewares import (
    FLAG,
    META_KEY,
    SimhashDownloaderMiddleware,
    note_inherited_redirects,
)
from scrapy_simhash.exceptions import NearDuplicate
from scrapy_simhash.untrusted import quote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_simhash.delivery import Delivery

logger = logging.getLogger(__name__)


class SimhashSpiderMiddleware:
    """Drop near-duplicates or their outlinks; tell the detector which pages came through.

    Args:
        crawler: the running crawler.

    Raises:
        NotConfigured: switched off.
    """

    def __init__(self, crawler: Crawler) -> None:
        if not read_config(crawler.settings).enabled:
            raise NotConfigured
        self._crawler = crawler
        self._delivery: Delivery | None = None
        crawler.signals.connect(self.spider_opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware; called by Scrapy."""
        return cls(crawler)

    def spider_opened(self) -> None:
        """Find the downloader middleware, which gives the verdicts."""
        judge = self._crawler.get_downloader_middleware(SimhashDownloaderMiddleware)
        self._delivery = judge.delivery if judge else None

    def _count(self, key: str, by: int = 1) -> None:
        assert self._crawler.stats is not None  # noqa: S101 - there before any response
        self._crawler.stats.inc_value(f"simhash/{key}", by)

    def process_spider_input(self, response: Response) -> None:
        """Drop a near-duplicate before its callback runs.

        Raises:
            NearDuplicate: handed to the request's errback, if it has one.
        """
        verdict = find_verdict(response)
        if verdict is None:
            return
        if _action(response, verdict) != "drop":
            if self._delivery is not None:
                self._delivery.begin(response, verdict)
            return
        self._count("dropped")
        self._count("bytes_dropped", len(response.body))
        self._count("links_dropped", verdict["links"])
        logger.debug(
            "Dropped %s: near-duplicate of %s, %d bits",
            quote(response.url),
            quote(verdict["match_url"]),
            verdict["distance"],
            extra={"spider": self._crawler.spider},
        )
        raise NearDuplicate(response, verdict)

    def process_spider_exception(
        self, response: Response, exception: Exception
    ) -> AsyncIterator[Any] | None:
        """End a drop that no errback took quietly; withdraw a page whose callback failed."""
        if isinstance(exception, NearDuplicate):
            return _close_browser_page(response)
        if self._delivery is not None:
            self._delivery.fail(response)
        return None

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Drop the outlinks of a near-duplicate; tell which items and pages come through."""
        verdict = find_verdict(response)
        delivery = self._delivery if verdict is not None else None
        action = _action(response, verdict) if verdict is not None else ""
        async for entry in result:
            if action == "ignore-outlinks" and isinstance(entry, Request):
                self._count("outlinks_ignored")
                continue
            if action == FOLLOW and not isinstance(entry, Request):
                self._count("items_dropped")
                continue
            if isinstance(entry, Request):
                note_inherited_redirects(entry)
            elif entry is not None and delivery is not None:
                delivery.add_item(response)
            yield entry
        # Not reached when the callback fails: that ends in `process_spider_exception`.
        if delivery is not None:
            delivery.end(response)


def find_verdict(response: Response) -> dict[str, Any] | None:
    """Get the verdict of a response, or None where it was not looked at."""
    verdict = response.meta.get(META_KEY) if response.request is not None else None
    return verdict if isinstance(verdict, dict) else None


async def _close_browser_page(response: Response) -> AsyncIterator[Any]:
    """Close the page that scrapy-playwright left open for a callback that is not called.

    It downloads nothing more while too many are open, so the crawl would stand still.
    """
    page = response.meta.get("playwright_page")
    if page is not None:
        await page.close()
    return
    yield


def _action(response: Response, verdict: dict[str, Any]) -> str:
    # The flag belongs to the response and cannot be copied by a careless spider, as meta can.
    return str(verdict["action"]) if FLAG in response.flags else ""
