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
from typing import TYPE_CHECKING, TypeAlias

from scrapy import signals
from scrapy.exceptions import DontCloseSpider

from scrapy_simhash.crawl.policy import is_closing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request

logger = logging.getLogger(__name__)

_Source: TypeAlias = "Callable[[Spider], Awaitable[Sequence[Request]]]"


class IdleWork:
    """Asks at idle moments for requests, one source after the other until one has any."""

    def __init__(self, crawler: Crawler, sources: Sequence[_Source]) -> None:
        self._crawler = crawler
        self._sources = sources
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
        for source in self._sources:
            requests = await self._list(source, spider)
            if is_closing(self._crawler):
                return  # the spider's next crawl gets what this one asked for
            for request in requests:
                engine.crawl(request)
            # Another component may have found work meanwhile.
            self.outdated |= bool(requests) or not engine.spider_is_idle()
            if self.outdated:
                break
        slot.nextcall.schedule()  # else it would not look before five seconds are over

    async def _list(self, source: _Source, spider: Spider) -> Sequence[Request]:
        try:
            return await source(spider)
        except Exception:
            logger.exception("Requests to be made again are not known", extra={"spider": spider})
            return ()

    def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
