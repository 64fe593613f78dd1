"""Walls that a crawl meets: counted, named once, and if it is asked for the end of it."""

from __future__ import annotations

import asyncio
import logging
import shlex
from typing import TYPE_CHECKING

from scrapy_simhash._printable import printable, quote
from scrapy_simhash.crawl.followers import Follower
from scrapy_simhash.crawl.policy import META_KEY, count
from scrapy_simhash.signals import sink_found

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.crawl.followers import JudgedPage

logger = logging.getLogger(__name__)

CLOSE_REASON = "simhash_sink"
_MOST_NAMED = 10


class Walls(Follower):
    """Notes the pages that show a wall; `closing` ends the crawl at the first one."""

    def __init__(self, crawler: Crawler, *, closing: bool) -> None:
        self._crawler = crawler
        self._closing = closing
        self._met: set[int] = set()  # numbers of their documents
        self._end: asyncio.Future[None] | None = None  # kept, because the loop does not

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Note a page, whatever it shows."""
        decision = page.decision
        if not decision.sink:
            return
        count(self._crawler, "sink")
        wall = decision.match_document or decision.document
        if wall not in self._met:
            self._met.add(wall)
            count(self._crawler, "sinks_found")
            self._warn(decision.match_url or decision.url)
            await self._crawler.signals.send_catch_log_async(
                sink_found,
                response=response,
                request=request,
                verdict=request.meta[META_KEY],
                spider=self._crawler.spider,
            )
        self._close()

    def _warn(self, url: str) -> None:
        """Name a wall; of many only the first ones."""
        if len(self._met) > _MOST_NAMED:
            if len(self._met) == _MOST_NAMED + 1:
                logger.warning(
                    "More walls are not named here; simhash/sinks_found counts them, "
                    "`scrapy simhash stats` and the report show them",
                    extra={"spider": self._crawler.spider},
                )
            return
        logger.warning(
            "Addresses that have nothing in common show one page, first seen at %s: perhaps a "
            'login, a captcha, "not found" or variants of a product; `scrapy simhash undo --sink '
            "%s` lists the pages that were dropped for it%s",
            quote(url),
            shlex.quote(printable(url)),
            "; the crawl ends" * self._closing,
            extra={"spider": self._crawler.spider},
        )

    def _close(self) -> None:
        """End the crawl, if that is wanted."""
        engine = self._crawler.engine
        if self._closing and self._end is None and engine is not None:
            # Not awaited: the engine waits for this page in turn.
            self._end = asyncio.ensure_future(engine.close_spider_async(reason=CLOSE_REASON))
