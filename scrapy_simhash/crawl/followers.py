"""A page on its way from the judgement to its last item, and what follows it there.

When a crawl has nothing else to do, it asks the followers which requests are to be made::

    idle       the store is read, in the writer's thread; the spider stays open until it answers
    answered   the requests are made, and the crawl is idle once more: if no follower expects to
               find anything then, the spider may close

The store may have to wait for the lock of another process, which the event loop must not.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy import signals
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Request

from scrapy_simhash._printable import printable, quote
from scrapy_simhash.crawl.internals import is_closing, wake
from scrapy_simhash.crawl.policy import META_KEY, count, list_redirects
from scrapy_simhash.judging.documents import NOBODY, Reader
from scrapy_simhash.pages.links import NO_LINKS
from scrapy_simhash.signals import sink_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from weakref import WeakKeyDictionary

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging.documents import Marked
    from scrapy_simhash.pages.links import PageLinks

logger = logging.getLogger(__name__)

_MOST_WALLS_NAMED = 10
_MOST_HELD = 64


@dataclass(eq=False, slots=True, weakref_slot=True)
class JudgedPage:
    """A page that was judged, or passed over; it does not hold its request or response."""

    decision: Decision
    reader: Reader = NOBODY  # who is to get it
    scheduled: bool = False  # whether a spider middleware will see it
    links: PageLinks = NO_LINKS
    late: bool = False  # whether its requests wait until the crawl has nothing else to do
    pending: Marked = 0  # the document whose items have to be delivered, with its text
    repeated: bool = False  # whether its items, with this text, came through before
    items: int = 0  # number of items still in the pipelines
    without_items: bool = True  # whether none of them came through
    asked: set[str] = field(default_factory=set)  # addresses that its callback requested
    lost: bool = False  # whether its requests would be lost if near-duplicates were dropped
    consumed: bool = False  # whether its callback has ended
    on_done: list[Callable[[], object]] = field(default_factory=list)


# By their requests, and once they reach the spider by their responses, too: other middlewares may
# replace a response on the way, and a spider may yield a request once more.
JudgedPages: TypeAlias = "WeakKeyDictionary[Request | Response, JudgedPage]"


class Follower:
    """Something that follows pages; in a read-only crawl there are fewer."""

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Note a page that was judged and goes on to the spider."""

    def arrived(self, response: Response, page: JudgedPage) -> None:
        """Note that the callback of a page is about to be called."""

    def expects(self) -> bool:
        """Whether there may be requests to make when the crawl has nothing else to do."""
        return False

    async def list_requests(self, spider: Spider) -> Sequence[Request]:  # noqa: ARG002
        """List requests to make when the crawl has nothing else to do."""
        return ()

    async def close(self) -> None:
        """Settle what is open; the store is still there."""


async def sift(
    entries: AsyncIterator[Any],
    may_be_held: Callable[[Request], bool],
    choose: Callable[[Sequence[Request]], Awaitable[Sequence[Request]]],
) -> AsyncIterator[Any]:
    """Pass on a callback's output, but of some requests, 64 at a time, only those chosen."""
    # They come last, so that one commit is enough for them.
    held: list[Request] = []
    try:
        async for entry in entries:
            if not isinstance(entry, Request) or not may_be_held(entry):
                yield entry
                continue
            held.append(entry)
            if len(held) == _MOST_HELD:
                chosen, held = held, []
                for request in await choose(chosen):
                    yield request
    except Exception:  # of the callback: what it yielded before is chosen from all the same
        for request in await choose(held):
            yield request
        raise
    for request in await choose(held):
        yield request


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


class Walls(Follower):
    """Notes the pages that show a wall; `closing` ends the crawl once all its hosts show one."""

    def __init__(self, crawler: Crawler, *, closing: bool) -> None:
        self._crawler = crawler
        self._closing = closing
        self._met: set[int] = set()  # numbers of their documents
        self._open: set[str] = set()  # hosts of requested pages that show no wall so far
        self._shut: set[str] = set()  # hosts that show one
        if closing:
            crawler.signals.connect(self._note_host, signals.request_scheduled)
        self._end: asyncio.Future[None] | None = None  # kept, because the loop does not

    def _note_host(self, request: Request) -> None:
        """Note the host of a request, unless a redirect led there."""
        host = _host_asked(request)
        if host not in self._shut and not list_redirects(request):
            self._open.add(host)

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Note a page, whatever it shows."""
        decision = page.decision
        if not decision.sink:
            return
        host = _host_asked(request)
        self._shut.add(host)
        self._open.discard(host)
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
        if len(self._met) > _MOST_WALLS_NAMED:
            if len(self._met) == _MOST_WALLS_NAMED + 1:
                logger.warning(
                    "More walls are not named here; simhash/sinks_found counts them, "
                    "`scrapy simhash stats` and the report show them",
                    extra={"spider": self._crawler.spider},
                )
            return
        logger.warning(
            "Addresses that have nothing in common show one page, first seen at %s: perhaps a "
            'login, a captcha, "not found" or variants of a product; `scrapy simhash undo --sink '
            "%s` lists the pages that were dropped for it; if they are different pages, `undo "
            "--original %s` lets them pass%s",
            quote(url),
            *[shlex.quote(printable(url))] * 2,
            "; the crawl ends" * self._is_over,
            extra={"spider": self._crawler.spider},
        )

    @property
    def _is_over(self) -> bool:
        """Whether the crawl is to end: walls of one site are no reason not to crawl others."""
        return self._closing and not self._open

    def _close(self) -> None:
        """End the crawl, if that is wanted."""
        if self._is_over and self._end is None:
            # Not awaited: the engine waits for this page in turn.
            closing = self._crawler.engine.close_spider_async(reason="simhash_sink")
            self._end = asyncio.ensure_future(closing)


def _host_asked(request: Request) -> str:
    """Get the host, with a port, to which the first request for a page went."""
    url = next(iter(list_redirects(request)), request.url)
    return url.partition("://")[2].partition("/")[0]
