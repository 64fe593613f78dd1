"""Request lost pages again, those that were dropped for pages whose items will not come."""

from __future__ import annotations

import logging
from collections import Counter, deque
from functools import cached_property, partial
from typing import TYPE_CHECKING

from scrapy_simhash._printable import plural, quote
from scrapy_simhash.crawl.followers import Follower
from scrapy_simhash.crawl.internals import is_closing
from scrapy_simhash.crawl.packing import (
    DELIVERED,
    LOST,
    Packing,
    set_mark,
    take_mark,
    unpack_request,
)
from scrapy_simhash.crawl.policy import PASS, count, spider_of
from scrapy_simhash.detector.writer import Note
from scrapy_simhash.judging.documents import Version
from scrapy_simhash.judging.rows import key_of_lost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.crawl.followers import JudgedPage
    from scrapy_simhash.detector.detector import Detector
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging.documents import Marked
    from scrapy_simhash.judging.rows import Lost
    from scrapy_simhash.stores.store import Store

logger = logging.getLogger(__name__)

# Actions that let a page pass with its items and its links.
_WHOLE = {"", "flag", PASS}
# Of pages that nobody will get.
_GONE = {404, 410}
# Made at one idle moment.
_MOST_MADE = 1_000
# Requests in memory, which may have credentials; of those beyond only the addresses are kept.
_MOST_HELD = 10_000


class LostPages(Follower):
    """Requests each page of a crawl again that was dropped for one that was never delivered."""

    def __init__(self, crawler: Crawler, detector: Detector) -> None:
        self._crawler = crawler
        self._detector = detector
        # Requests as they were, by the keys of their pages: some cannot be stored.
        self._held: dict[bytes, Request] = {}
        self._made: set[bytes] = set()
        # Those that are to be made, as of the last look.
        self._due: deque[bytes] = deque()
        # Whether there may be others; at first, those that an earlier crawl left.
        self._outdated = False
        self._began = False
        self._dropped = False  # whether this crawl dropped any
        # Documents on their way that pages were dropped for.
        self._awaited: set[int] = set()

    @cached_property
    def packing(self) -> Packing:
        """Packs requests of the crawl's spider."""
        return Packing(
            spider_of(self._crawler),
            cookies=self._crawler.settings.getbool("COOKIES_ENABLED"),
        )

    # What is lost

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Hold the request of a near-duplicate that may be lost; let one that is gone go."""
        decision = page.decision
        key = take_mark(request, LOST) if LOST in request.meta else None
        if decision.match_pending:
            own = key_of_lost(decision.document)
            if page.scheduled and decision.action not in _WHOLE:
                self._dropped = True
                self._awaited.add(decision.match_document)
                if len(self._held) < _MOST_HELD:
                    self._held[own] = request.copy()
            else:
                self._forget(own)
        if key and response.status in _GONE:
            count(self._crawler, "owed/gone")
            logger.warning(
                "Gone (%d): %s, which was dropped for a page whose items were never delivered",
                response.status,
                quote(response.url),
                extra={"spider": self._crawler.spider},
            )
            self._forget(key)
        elif key:
            set_mark(request, LOST, key)  # it has to reach the spider

    def _forget(self, key: bytes) -> None:
        self._held.pop(key, None)
        self._detector.note(Note(found=key))

    def arrived(self, response: Response, page: JudgedPage) -> None:
        """Let a page go that was lost and is about to reach its callback."""
        request, decision = response.request, page.decision
        assert request is not None  # noqa: S101 - it was judged
        again = take_mark(request, LOST)
        if again and decision.action in _WHOLE:
            self._forget(again)
        page.repeated = take_mark(request, DELIVERED) == decision.text_digest
        if decision.match_pending and decision.action == "ignore-outlinks":
            # Once its items came through, its links are lost all the same if its original is.
            page.on_done = partial(self._keep_links, request, decision)

    def _keep_links(self, request: Request, decision: Decision) -> None:
        """Record that of a lost page only the links are lost."""
        marks = {DELIVERED: [decision.text_digest, request.url]}  # as `set_mark` does
        key, packed = key_of_lost(decision.document), self.packing.pack(request, marks)
        if key in self._held:
            set_mark(self._held[key], DELIVERED, decision.text_digest)
        self._detector.note(Note(packed=(key, packed)))

    def settled(self, marked: Marked, *, done: bool) -> None:
        """Look again at what is lost once a document came through, or will not."""
        number = marked.document if isinstance(marked, Version) else marked
        self._outdated |= not done and self._may_have_any
        self._awaited.discard(number)

    @property
    def _may_have_any(self) -> bool:
        return self._dropped or self._detector.lost > 0

    # What is requested again

    def expects(self) -> bool:
        """Return whether there may be anything to request."""
        if not self._began and self._may_have_any:
            self._outdated = True
        return self._outdated or bool(self._due) or bool(self._awaited)

    async def list_requests(self, spider: Spider) -> list[Request]:
        """Make requests for lost pages."""
        detector = self._detector
        crawl = detector.crawl
        if self._outdated or not self._due:
            self._began, self._outdated = True, False
            self._awaited.clear()
            due = await detector.ask(lambda store: store.lost.find_due(crawl, spider.name), ())
            self._due = deque(key for key in due if key not in self._made)
        # Those that cannot be made must not keep the others waiting.
        while self._due and not is_closing(self._crawler):
            keys = [self._due.popleft() for _ in range(min(len(self._due), _MOST_MADE))]
            take = partial(_take, crawl=crawl, spider=spider.name, keys=keys)
            taken = await detector.ask(take, ())
            if is_closing(self._crawler):
                break  # the spider's next crawl gets them
            if made := self._make(taken, spider):
                return made
        return []

    def _make(self, taken: Iterable[tuple[bytes, Lost]], spider: Spider) -> list[Request]:
        """Make requests for pages that the crawl took, those that can be made."""
        made, lost = [], 0
        for key, row in taken:
            self._made.add(key)
            request = self._held.pop(key, None) or unpack_request(row.request, spider)
            if request is None:
                lost += 1
                continue
            request = request.replace(dont_filter=True)
            set_mark(request, LOST, key)
            count(self._crawler, "requested_again")
            made.append(request)
        if lost:
            logger.warning(
                "%s cannot be requested again: how to do so is not stored, because the request has "
                "credentials, or the spider has no such callback now; `scrapy simhash owed` lists "
                "them",
                plural(lost, "lost page"),
                extra={"spider": spider},
            )
        return made

    async def close(self) -> None:
        """Count the pages that are lost when the crawl ends, and warn about them."""
        spider, detector = self._crawler.spider, self._detector
        if spider is None:
            return
        left = await detector.ask(
            lambda store: store.lost.count_left(detector.crawl, spider.name), Counter[str]()
        )
        for name, number in left.items():
            count(self._crawler, f"owed/{name}", number)
        if lost := left["lost"]:
            logger.warning(
                "%s dropped for originals whose items were never delivered, not fetched again; "
                "`scrapy simhash owed` lists them, and the spider's next crawl makes the requests "
                "that could be stored",
                plural(lost, "page"),
                extra={"spider": spider},
            )


def _take(
    store: Store, crawl: str, spider: str, keys: Sequence[bytes]
) -> Sequence[tuple[bytes, Lost]]:
    return store.lost.take(crawl, spider, keys)
