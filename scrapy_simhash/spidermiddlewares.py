"""The spider middleware: drops near-duplicates or their outlinks, and notes delivered pages."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.http import Request, Response

from scrapy_simhash._printable import plural, quote
from scrapy_simhash.config import read_config
from scrapy_simhash.crawl.policy import FLAG, FOLLOW, META_KEY, clear_inherited, count
from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
from scrapy_simhash.exceptions import NearDuplicate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler

    from scrapy_simhash.crawl import Delivery, LostLinks

logger = logging.getLogger(__name__)


class SimhashSpiderMiddleware:
    """Drops near-duplicates or their outlinks; reports the progress of pages to `Delivery`."""

    def __init__(self, crawler: Crawler) -> None:
        if not read_config(crawler.settings).enabled:
            raise NotConfigured
        self._crawler = crawler
        self._delivery: Delivery | None = None
        self._links: LostLinks | None = None  # where it wants to know how links are requested
        crawler.signals.connect(self.spider_opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware; called by Scrapy."""
        return cls(crawler)

    def spider_opened(self) -> None:
        """Get the `Delivery` of the downloader middleware, which judges the pages."""
        judging = self._crawler.get_downloader_middleware(SimhashDownloaderMiddleware)
        if judging is not None:
            self._delivery = judging.delivery
            self._delivery.followed = True
            self._links = judging.links if judging.links.late else None

    def process_spider_input(self, response: Response) -> None:
        """Drop a near-duplicate before its callback runs; its errback, if any, gets the error."""
        verdict = find_verdict(response)
        if verdict is None:
            return
        if _action(response, verdict) != "drop":
            if self._delivery is not None:
                self._delivery.begin(response, verdict)
            return
        count(self._crawler, "dropped")
        count(self._crawler, "bytes_dropped", len(response.body))
        count(self._crawler, "links_dropped", verdict["links"])
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "Dropped %s: near-duplicate of %s, %s",
                quote(response.url),
                quote(verdict["match_url"]),
                plural(verdict["distance"], "bit"),
                extra={"spider": self._crawler.spider},
            )
        raise NearDuplicate(response, verdict)

    def process_spider_exception(
        self, response: Response, exception: Exception
    ) -> AsyncIterator[Any] | None:
        """End a drop silently if no errback handled it; withdraw a page whose callback failed."""
        if isinstance(exception, NearDuplicate):
            return _close_browser_page(response)
        if self._delivery is not None:
            self._delivery.fail(response)
        return None

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Drop the outlinks of a near-duplicate; report items, and the end of the callback.

        Requests whose pages are known by URL rules are parked.
        """
        verdict = find_verdict(response)
        delivery = self._delivery if verdict is not None else None
        entries = self._look_at(response, result, delivery)
        if self._delivery is not None and self._delivery.parked.skips:
            entries = self._delivery.parked.sift(entries)
        async for entry in entries:
            yield entry
        # Not reached if the callback fails: `process_spider_exception` handles that.
        if delivery is not None:
            delivery.end(response)

    async def _look_at(
        self, response: Response, result: AsyncIterator[Any], delivery: Delivery | None
    ) -> AsyncIterator[Any]:
        """Drop what the action on a near-duplicate drops, and note the rest."""
        verdict = find_verdict(response)
        action = _action(response, verdict) if verdict is not None else ""
        repeated = delivery is not None and delivery.is_repeated(response)
        async for entry in result:
            if action == "ignore-outlinks" and isinstance(entry, Request):
                count(self._crawler, "outlinks_ignored")
                continue
            if action == FOLLOW and not isinstance(entry, Request):
                count(self._crawler, "items_dropped")
                continue
            if isinstance(entry, Request):
                clear_inherited(entry, response)
                if self._delivery is not None:
                    self._delivery.parked.note_yielded(entry)
                if self._links is not None and response.request is not None:
                    self._links.learn(response.request, entry)
            elif entry is not None and delivery is not None:
                if repeated:
                    count(self._crawler, "items_not_repeated")
                    continue
                delivery.add_item(response)
            yield entry


def find_verdict(response: Response) -> dict[str, Any] | None:
    """Get the verdict of a response; None if it was not judged."""
    verdict = response.meta.get(META_KEY) if response.request is not None else None
    return verdict if isinstance(verdict, dict) else None


async def _close_browser_page(response: Response) -> AsyncIterator[Any]:
    """Close the page that scrapy-playwright left open for a callback that will not be called."""
    # While too many pages are open, it downloads nothing more and the crawl would stop.
    page = response.meta.get("playwright_page")
    if page is not None:
        await page.close()
    return
    yield


def _action(response: Response, verdict: dict[str, Any]) -> str:
    # The flag belongs to the response and cannot be copied by a careless spider, as meta can.
    return str(verdict["action"]) if FLAG in response.flags else ""
