"""What a crawl does when it has nothing else to do: ask the store which requests are to be made.

::

    idle       the store is asked, in the writer's thread; the spider stays open until it answers
    answered   the requests are made; if there are none, and no page was judged meanwhile, the
               spider may close at the next idle moment, which is at once

The store may have to wait for the lock of another process, which the event loop must not.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import DontCloseSpider

from scrapy_simhash.crawl.policy import is_closing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request

    from scrapy_simhash.crawl.followers import Follower

logger = logging.getLogger(__name__)


class IdleWork:
    """Asks at idle moments for requests, one follower after the other until one has any."""

    def __init__(self, crawler: Crawler, followers: Sequence[Follower]) -> None:
        self._crawler = crawler
        self._followers = followers
        # Whether there may be requests that the last answer did not know of.
        self.outdated = True
        self._asking: asyncio.Future[None] | None = None
        crawler.signals.connect(self._spider_idle, signals.spider_idle)

    def _spider_idle(self, spider: Spider) -> None:
        """Ask, unless the answer is there; raises DontCloseSpider until it is."""
        if self._asking is not None and self._asking.done() and not self.outdated:
            self._asking = None
            return
        if self._asking is None or self._asking.done():
            self.outdated = False
            self._asking = asyncio.ensure_future(self._ask(spider))
        raise DontCloseSpider

    async def _ask(self, spider: Spider) -> None:
        engine = self._crawler.engine
        assert engine is not None  # noqa: S101 - it is idle
        slot = engine._slot  # noqa: SLF001 - nothing else wakes it
        assert slot is not None  # noqa: S101
        for follower in self._followers:
            requests = await self._list(follower, spider)
            if is_closing(self._crawler):
                return  # the spider's next crawl gets what this one asked for
            for request in requests:
                engine.crawl(request)
            # Another component may have found work meanwhile.
            self.outdated |= bool(requests) or not engine.spider_is_idle()
            if self.outdated:
                break
        slot.nextcall.schedule()  # else it would not look before five seconds are over

    async def _list(self, follower: Follower, spider: Spider) -> Sequence[Request]:
        try:
            return await follower.list_requests(spider)
        except Exception:
            logger.exception(
                "Could not read from the store which requests to repeat", extra={"spider": spider}
            )
            return ()

    def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
