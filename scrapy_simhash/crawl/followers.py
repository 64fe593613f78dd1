"""A page on its way from the judgement to its last item, and what follows it there.

When a crawl has nothing else to do, it asks the followers which requests are to be made::

    idle       the judge reads the store; the spider stays open until it answers
    answered   the requests are made, and the crawl is idle once more: if no follower expects to
               find anything then, the spider may close

The store may have to wait for the lock of another process, which the event loop must not.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from scrapy import signals
from scrapy.exceptions import DontCloseSpider

from scrapy_simhash.crawl.running import is_closing, wake
from scrapy_simhash.pages.facts import NOBODY, Reader
from scrapy_simhash.pages.links import NO_LINKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from weakref import WeakKeyDictionary

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging.documents import Marked
    from scrapy_simhash.pages.links import PageLinks

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True, weakref_slot=True)
class JudgedPage:
    """A page that was judged, or passed over; it does not hold its request or response."""

    decision: Decision
    reader: Reader = NOBODY  # who is to get it
    scheduled: bool = False  # whether a spider middleware will see it
    links: PageLinks = NO_LINKS
    pending: Marked = 0  # the document whose items have to be delivered, with its text
    repeated: bool = False  # whether its items, with this text, came through before
    items: int = 0  # number of items still in the pipelines
    without_items: bool = True  # whether none of them came through
    unwanted: bool = False  # whether a pipeline dropped one of them (`DropItem`)
    again: int = 0  # the document that it was dropped for, if it was requested again
    lost: bool = False  # whether its requests would be lost if near-duplicates were dropped
    consumed: bool = False  # whether its callback has ended
    on_done: Callable[[], object] | None = None  # called once its items came through


# By their requests, and once they reach the spider by their responses, too: other middlewares may
# replace a response on the way, and a spider may yield a request once more.
JudgedPages: TypeAlias = "WeakKeyDictionary[Request | Response, JudgedPage]"


class Follower:
    """Something that follows each page from the judgement to its last item."""

    def decided(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Correct what was decided on a page, before anybody sees it."""

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Act on a page that was judged and goes on to the spider."""

    def arrived(self, response: Response, page: JudgedPage) -> None:
        """Act before the callback of a page is called."""

    def requested(self, request: Request, page: JudgedPage | None) -> None:
        """Act on a request that a callback yielded; no page if that is unknown."""

    def ended(self, page: JudgedPage) -> None:
        """Act once the output of a page's callback was consumed; not reached if it fails."""

    def failed(self, page: JudgedPage) -> None:
        """Act once callback, middleware or pipeline raised an exception, perhaps repeatedly."""

    def expects(self) -> bool:
        """Return whether there may be requests to make when the crawl has nothing else to do."""
        return False

    async def list_requests(self, spider: Spider) -> Sequence[Request]:  # noqa: ARG002
        """List requests to make when the crawl has nothing else to do."""
        return ()

    async def close(self) -> None:
        """End what is open; the store is still there."""


class IdleWork:
    """Asks at idle moments for requests, one follower after the other until one has any."""

    def __init__(self, crawler: Crawler, followers: Sequence[Follower]) -> None:
        self._crawler = crawler
        self._followers = followers
        self._asking: asyncio.Future[None] | None = None
        crawler.signals.connect(self._spider_idle, signals.spider_idle)

    def _spider_idle(self, spider: Spider) -> None:
        """Ask if there may be anything; raises DontCloseSpider until the answer is there."""
        if self._asking is None or self._asking.done():
            if not any(follower.expects() for follower in self._followers):
                return
            self._asking = asyncio.ensure_future(self._ask(spider))
        raise DontCloseSpider

    async def _ask(self, spider: Spider) -> None:
        engine = self._crawler.engine
        for follower in self._followers:
            requests = await self._list(follower, spider)
            if is_closing(self._crawler):
                return  # the spider's next crawl gets what this one requested
            for request in requests:
                engine.crawl(request)
            if requests or not engine.spider_is_idle():  # another component may have found work
                break
        wake(self._crawler)

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
