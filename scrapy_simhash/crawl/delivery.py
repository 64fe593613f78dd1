"""Follow each page until it is settled: its callback has ended and its items were scraped.

::

    expected  judged, on its way to the spider; failed if it has not arrived when the spider is idle
    arrived   its callback is called
    ended     the callback's output was consumed: settled once its last item is scraped or dropped
    failed    callback, middleware or pipeline raised an exception; the page is asked for again, or
              was and brings nothing; its item is handed on: nobody knows whether that comes
    unwanted  pipelines dropped all its items (`DropItem`)

Only what is done becomes an original; a failed page is forgotten. So is an unwanted one, because
pipelines may want the items of a copy; but where they dropped all items of the first 20 pages of a
callback, dropping is how the spider works: from then on such pages count until an item comes
through, and are written at the end of the crawl.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_simhash.judge.messages import Settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.crawl.policy import JudgedPage, JudgedPages
    from scrapy_simhash.pages.facts import Reader

_FIRST_UNWANTED = 20
# Addresses of 100 bytes each.
_MOST_AGAIN = 100_000


@dataclass(slots=True)
class _Pipelines:
    """What pipelines do with the items of a callback."""

    want: bool = False  # an item came through
    unwanted: int = 0  # pages of which they dropped all items, the first ones
    counting: list[int] = field(default_factory=list)  # those that count all the same


class Delivery:
    """Follows each judged page to the spider, and its items through the pipelines.

    Args:
        crawler: of the crawl.
        tell: tells the judges what became of a page.
        pages: those that were judged.
        forget: is called with a page that is forgotten, and the reason.
    """

    def __init__(
        self,
        crawler: Crawler,
        tell: Callable[[Settled], object],
        pages: JudgedPages,
        forget: Callable[[JudgedPage, str], object],
    ) -> None:
        # Whether a spider middleware reports on pages; if not, judged pages are done at once.
        self.followed = False
        self._crawler, self._pages = crawler, pages
        self._tell, self._forget = tell, forget
        self._open: set[JudgedPage] = set()  # young pages that are not settled
        # Addresses that were asked for again, as those of bans are: the last answer may be one.
        self._again: dict[str, None] = {}
        self._pipelines: defaultdict[Reader, _Pipelines] = defaultdict(_Pipelines)
        connect = crawler.signals.connect
        connect(self._item_scraped, signals.item_scraped)
        connect(self._item_dropped, signals.item_dropped)
        connect(self._response_failed, signals.item_error)
        connect(self._response_failed, signals.spider_error)
        connect(self._spider_idle, signals.spider_idle)
        connect(self.requested, signals.request_scheduled)

    def expect(self, page: JudgedPage) -> None:
        """Expect a young page at its callback."""
        if self.followed:
            self._open.add(page)
        else:
            self._tell(Settled(page.number, "done"))

    def requested(self, request: Request, *, inline: bool = False) -> None:
        """Look whether a request, or an inline download, asks for an unsettled page again.

        Takes time that grows with these, at most 10,000, for requests that are not filtered.
        """
        # The duplicate filter stops the links of pages to themselves.
        if not (inline or request.dont_filter or request.method != "GET"):
            return
        url = request.url.partition("#")[0]
        for page in [each for each in self._open if url in each.urls]:
            self._again[url] = None
            if request.method == "GET":  # a form may lead to the next page: see `_settle`
                self.failed(page, "asked_again")
        if len(self._again) > _MOST_AGAIN:
            del self._again[next(iter(self._again))]

    def ended(self, page: JudgedPage) -> None:
        """Settle a page once its last item is."""
        page.ended = True
        self._settle(page)

    def _item_scraped(self, response: Response | None) -> None:
        if page := self._find(response):
            page.scraped = True
            pipelines = self._pipelines[page.reader]
            pipelines.want = True
            for number in pipelines.counting:
                self._tell(Settled(number, "failed"))
            pipelines.counting.clear()
            page.items -= 1
            self._settle(page)

    def _item_dropped(self, response: Response | None) -> None:
        if page := self._find(response):
            page.dropped = True
            page.items -= 1
            self._settle(page)

    def _find(self, response: Response | None) -> JudgedPage | None:
        return self._pages.get(response) if response is not None else None  # None in `start`

    def _response_failed(self, response: Response | None) -> None:
        if page := self._find(response):
            self.failed(page)

    def failed(self, page: JudgedPage, reason: str = "failed") -> None:
        """Have a page forgotten, once."""
        if page in self._open:
            self._open.discard(page)
            self._tell(Settled(page.number, "failed"))
            self._crawler.stats.inc_value(f"simhash/forgotten/{reason}")
            self._forget(page, reason)

    def _settle(self, page: JudgedPage) -> None:
        # The count is negative if a middleware nearer to the engine added items. What has not
        # arrived ends with its errback.
        if not (page.arrived and page.ended) or page.items > 0 or page not in self._open:
            return
        pipelines = self._pipelines[page.reader]
        if not page.scraped and any(url in self._again for url in page.urls):
            self.failed(page, "asked_again")
        elif page.scraped or not page.dropped:
            self._open.discard(page)
            self._tell(Settled(page.number, "done"))
        elif pipelines.want or pipelines.unwanted < _FIRST_UNWANTED:
            pipelines.unwanted += 1
            self.failed(page, "unwanted")
        else:
            self._open.discard(page)
            pipelines.counting.append(page.number)
            self._tell(Settled(page.number, "unwanted"))

    def _spider_idle(self) -> None:
        """Have pages forgotten that never reached the spider: another middleware stopped them."""
        for page in [each for each in self._open if not each.arrived]:
            self.failed(page, "not_arrived")

    def close(self) -> None:
        """Settle what counts so far, when all pipelines have ended; what is open is no original."""
        for pipelines in self._pipelines.values():
            for number in pipelines.counting:
                self._tell(Settled(number, "done"))
