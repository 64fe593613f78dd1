"""The spider middlewares: drop near-duplicates or their outlinks, and follow the others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Request, Response
from scrapy.utils.asyncio import is_asyncio_available

from scrapy_simhash._printable import quote
from scrapy_simhash.config import read_config
from scrapy_simhash.crawl.policy import META_KEY, carries_item, mark_found
from scrapy_simhash.crawl.running import tell_half
from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
from scrapy_simhash.judge.log import DROPPING, FOLLOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_DROPS_TOLD = 3


class NearDuplicate(IgnoreRequest):
    """A page was dropped as a near-duplicate; the request's errback gets this.

    Args:
        response: the page.
        verdict: the value of `response.meta["simhash"]`.
    """

    def __init__(self, response: Response, verdict: dict[str, Any]) -> None:
        super().__init__(
            f"near-duplicate of {verdict.get('match_url')} at distance {verdict.get('distance')}"
        )
        self.response = response
        self.verdict = verdict


class SimhashSpiderMiddleware:
    """Drops near-duplicates or their outlinks; follows what becomes of pages."""

    def __init__(self, crawler: Crawler) -> None:
        if not read_config(crawler.settings).enabled or not is_asyncio_available():
            raise NotConfigured  # the other middleware says why
        self._crawler = crawler
        self._judging: SimhashDownloaderMiddleware | None = None
        self._told = 0  # number of drops
        crawler.signals.connect(self.spider_opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware; called by Scrapy."""
        return cls(crawler)

    def spider_opened(self) -> None:
        """Find the downloader middleware, which judges the pages."""
        self._judging = self._crawler.get_downloader_middleware(SimhashDownloaderMiddleware)
        callbacks = self._crawler.get_spider_middleware(SimhashCallbackMiddleware)
        if self._judging is None:
            tell_half("DOWNLOADER_MIDDLEWARES", "no page is judged")
        elif callbacks is not None:  # else the downloader middleware says so
            callbacks.judging = self._judging
            self._judging.delivery.followed = True

    def process_spider_input(self, response: Response) -> None:
        """Drop a near-duplicate before its callback runs; its errback, if any, gets the error."""
        judging, request, stats = self._judging, response.request, self._crawler.stats
        page = judging.pages.get(request) if judging is not None and request is not None else None
        if judging is None or page is None:
            return
        decision = page.decision
        if decision.match_url and decision.action in DROPPING:
            # Of the first ones, who watches a crawl sees what it does.
            level = logging.INFO if self._told < _DROPS_TOLD else logging.DEBUG
            both, extra = (decision.url, decision.match_url), {"spider": self._crawler.spider}
            logger.log(level, "Dropped %s, a near-duplicate of %s", *map(quote, both), extra=extra)
            self._told += 1
            stats.inc_value("simhash/dropped")
        if decision.action != "drop":
            judging.pages[response] = page
            return
        stats.inc_value("simhash/bytes_dropped", len(response.body))
        stats.inc_value("simhash/links_dropped", decision.links)
        raise NearDuplicate(response, response.meta.get(META_KEY) or decision.make_verdict())

    def process_spider_exception(
        self, response: Response, exception: Exception
    ) -> AsyncIterator[Any] | None:
        """End a drop silently if no errback handled it."""
        return _close_browser_page(response) if isinstance(exception, NearDuplicate) else None

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Drop the outlinks of a near-duplicate; report items, and the end of the callback."""
        judging = self._judging
        page = judging.pages.get(response) if judging is not None else None
        action = page.decision.action if page is not None else ""
        async for entry in result:
            if isinstance(entry, Request):
                if action == "ignore-outlinks":
                    self._crawler.stats.inc_value("simhash/outlinks_ignored")
                    continue
                mark_found(entry, response)
                if judging is not None:
                    judging.unfollowed.follows = True
                    judging.delivery.requested(entry)  # its signal comes after the callback's end
                    if page is not None and carries_item(entry):
                        judging.delivery.failed(page, "handed_on")
            elif action == FOLLOW:
                continue
            elif entry is not None and page is not None:
                page.items += 1
            yield entry
        # Not reached if the callback fails: the other middleware, or `spider_error`, handles that.
        if judging is not None and page is not None:
            judging.delivery.ended(page)


class SimhashCallbackMiddleware:
    """Sees next to the spider that a callback begins, and what it raises, whoever handles that.

    Attributes:
        judging: has the pages that were judged; None if there are none.
    """

    judging: SimhashDownloaderMiddleware | None = None

    def process_spider_input(self, response: Response) -> None:
        """Note that a page arrived."""
        if self.judging is not None and (page := self.judging.pages.get(response)):
            page.arrived = True

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """Forget a page whose callback failed."""
        del exception
        if self.judging is not None and (page := self.judging.pages.get(response)):
            self.judging.delivery.failed(page)


async def _close_browser_page(response: Response) -> AsyncIterator[Any]:
    """Close the page that scrapy-playwright left open for a callback that will not be called."""
    # While too many pages are open, it downloads nothing more and the crawl would stop.
    page = response.meta.get("playwright_page")
    if page is not None:
        await page.close()
    return
    yield
