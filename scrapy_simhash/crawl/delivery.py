"""Follow each page until it is done: its callback has ended and its items passed the pipelines.

::

    judged    on its way to the spider; withdrawn if it has not arrived when the spider is idle
    arrived   its callback is called
    ended     the callback's output was consumed: done once the last item is scraped or dropped
    failed    callback, middleware or pipeline raised an exception: withdrawn
    unwanted  pipelines dropped all its items (`DropItem`): withdrawn, if copies may fare better
"""

from __future__ import annotations

import logging
from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import signals

from scrapy_simhash._printable import quote
from scrapy_simhash.crawl.policy import PASS, count
from scrapy_simhash.detector.messages import Mark
from scrapy_simhash.judging.documents import Version

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.crawl.lost import LostPages
    from scrapy_simhash.crawl.policy import JudgedPage, JudgedPages
    from scrapy_simhash.detector.detector import Detector
    from scrapy_simhash.judging.documents import Marked
    from scrapy_simhash.pages.facts import Reader

logger = logging.getLogger(__name__)

_MOST_UNWANTED = 10_000  # pages that wait, of a callback; those beyond are done
# Copies of one page that are tried for a callback of which no item came through: as often as Scrapy
# retries a page (`RETRY_TIMES`).
_MOST_TRIED = 2


class Delivery:
    """Follows each judged page to the spider, and its items through the pipelines."""

    # Pipelines that drop items on purpose may want those of a copy. Some drop all there are: until
    # an item of a callback came through, its unwanted pages wait, and two copies of one are tried
    # when the crawl has nothing else to do. So where pipelines drop all, a callback costs two
    # requests at most, and saves those for links that only dropped pages have; else each dropped
    # page is requested again at most once.

    def __init__(
        self, crawler: Crawler, detector: Detector, pages: JudgedPages, lost: LostPages
    ) -> None:
        # Whether a spider middleware reports on pages; if not, judged pages are done at once.
        self.followed = False
        self._crawler = crawler
        self._detector = detector
        self._pages = pages
        self._lost = lost
        # Requests that came from the scheduler. An inline download (`engine.download_async`) does
        # not, whatever meta it has, and no spider middleware will see its response.
        self._scheduled: WeakSet[Request] | None = None  # unknown: all of them
        self._expected: set[Marked] = set()
        self._open: set[JudgedPage] = set()
        self._passing: set[Reader] = set()  # whose items came through
        self._tried: set[Reader] = set()
        self._unwanted: defaultdict[Reader, list[JudgedPage]] = defaultdict(list)
        connect = crawler.signals.connect
        connect(self._watch_scheduler, signals.spider_opened)
        connect(self._item_scraped, signals.item_scraped)
        connect(self._item_dropped, signals.item_dropped)
        connect(self._response_failed, signals.item_error)
        connect(self._response_failed, signals.spider_error)
        connect(self._spider_idle, signals.spider_idle)

    def _watch_scheduler(self) -> None:
        """Record the requests that the engine takes from its scheduler; no signal has them."""
        scheduled: WeakSet[Request] = WeakSet()

        def take_and_record() -> Request | None:
            request: Request | None = next_request()
            if request is not None:
                scheduled.add(request)
            return request

        try:
            scheduler: Any = self._crawler.engine.scheduler
            next_request = scheduler.next_request
            scheduler.next_request = take_and_record
            self._scheduled = scheduled
        except Exception as error:  # noqa: BLE001 - of an engine or a scheduler of another kind
            logger.warning(
                "The scheduler cannot be watched (%s): what a callback downloads itself counts as "
                "a page of its own, unless meta['simhash_skip'] is set",
                quote(repr(error)),
                extra={"spider": self._crawler.spider},
            )

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:  # noqa: ARG002
        """Expect a page that was judged at its callback, if its items are to come through."""
        decision = page.decision
        if decision.document and (decision.status != "near_duplicate" or decision.action == PASS):
            digest = bytes.fromhex(decision.text_digest)
            page.pending = Version(decision.document, digest, page.reader)
            if page.scheduled:
                self._expected.add(page.pending)
            else:
                self._detector.mark(Mark(done=page.pending))

    def is_scheduled(self, request: Request) -> bool:
        """Whether a spider middleware will see a page, and report what becomes of it."""
        if self._scheduled is None:
            return self.followed
        scheduled = request in self._scheduled
        self._scheduled.discard(request)  # a callback may download it once more
        return scheduled and self.followed

    def arrived(self, response: Response, page: JudgedPage) -> None:  # noqa: ARG002
        """Wait for the items of a page whose callback is about to be called."""
        self._expected.discard(page.pending)
        self._open.add(page)

    def ended(self, page: JudgedPage) -> None:
        """Let a page be done once its last item is."""
        page.consumed = True
        self._end_if_done(page)

    def _item_scraped(self, response: Response | None) -> None:
        if page := self._find(response):
            if page in self._open:
                page.without_items = False
                self._passing.add(page.reader)
                for unwanted in self._unwanted.pop(page.reader, ()):
                    self._withdraw(unwanted.pending, most=inf)
            self._item_ended(page)

    def _item_dropped(self, response: Response | None) -> None:
        if page := self._find(response):
            page.unwanted = True
            self._item_ended(page)

    def _item_ended(self, page: JudgedPage) -> None:
        page.items -= 1
        self._end_if_done(page)

    def _find(self, response: Response | None) -> JudgedPage | None:
        return self._pages.get(response) if response is not None else None  # None in `start`

    def _response_failed(self, response: Response | None) -> None:
        if page := self._find(response):
            self.failed(page)

    def failed(self, page: JudgedPage) -> None:
        """Withdraw a page, once."""
        if page in self._open:
            self._open.discard(page)
            self._withdraw(page.pending)
            if page.again:
                self._lost.failed_again(page)

    def _withdraw(self, marked: Marked, *, most: float | None = None) -> None:
        self._detector.mark(Mark(withdrawn=marked))
        self._lost.settled(marked, done=False, most=most)

    def _end_if_done(self, page: JudgedPage) -> None:
        # The count is negative if a middleware nearer to the engine added items.
        if page.consumed and page.items <= 0 and page in self._open:
            self._open.discard(page)
            self._settle(page)

    def _settle(self, page: JudgedPage) -> None:
        """Let a page be done, unless all its items were dropped and those of a copy may not be."""
        reader, unwanted = page.reader, page.unwanted and page.without_items and page.pending
        if not unwanted:
            self._came_through(page)
        elif reader in self._passing:
            self._withdraw(page.pending, most=inf)
        elif reader not in self._tried and len(self._unwanted[reader]) < _MOST_UNWANTED:
            self._unwanted[reader].append(page)
        elif page.again:  # the next copy must not be dropped for it
            self._withdraw(page.pending, most=0)
        else:
            self._came_through(page)

    def _came_through(self, page: JudgedPage) -> None:
        done = page.pending
        if isinstance(done, Version) and page.without_items and not page.repeated:
            done = done._replace(without_items=True)
            count(self._crawler, "without_items")
        self._detector.mark(Mark(done=done))
        self._lost.settled(page.pending, done=True, again=page.again)
        if page.on_done is not None:
            page.on_done()

    def _spider_idle(self) -> None:
        """Withdraw pages that never reached the spider; those dropped for them are lost then."""
        # No page is on its way any more: another middleware stopped these.
        for document in self._expected:
            self._withdraw(document)
        self._expected.clear()
        if self._lost.has_due:
            return
        for reader, pages in self._unwanted.items():
            awaited = (page for page in pages if self._lost.is_awaited(page.pending))
            if reader not in self._tried and (first := next(awaited, None)):
                self._tried.add(reader)
                pages.remove(first)
                self._withdraw(first.pending, most=_MOST_TRIED)
            else:
                self._accept(pages)

    def _accept(self, pages: list[JudgedPage]) -> None:
        """Let pages be done whose items the pipelines dropped, as they do with those of copies."""
        for page in pages:
            self._came_through(page)
        pages.clear()

    async def close(self) -> None:
        """End open pages when all pipelines have ended."""
        for page in list(self._open):
            if page.consumed:  # a middleware nearer to the engine removed its items
                page.items = 0
                self._end_if_done(page)
        for pages in self._unwanted.values():
            self._accept(pages)
