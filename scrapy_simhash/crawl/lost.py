"""Request lost pages again, those that were dropped for pages whose items will not come.

So are pages dropped for what another page showed before the crawl, if that shows it no more.

Their requests are stored as `packing` makes them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from scrapy.exceptions import DontCloseSpider

from scrapy_simhash._printable import plural, quote
from scrapy_simhash.crawl.packing import (
    DELIVERED,
    LOST,
    Packing,
    set_mark,
    take_mark,
    unpack_request,
)
from scrapy_simhash.crawl.policy import PASS, count, spider_of
from scrapy_simhash.crawl.running import add_option, is_closing, keep_in_job, wake
from scrapy_simhash.detector.messages import Mark
from scrapy_simhash.errors import StoreError
from scrapy_simhash.judging.documents import number_of_mark
from scrapy_simhash.stores.rows import key_of_lost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.crawl.policy import JudgedPage
    from scrapy_simhash.detector.detector import Detector
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging.documents import Marked
    from scrapy_simhash.stores.rows import Lost

logger = logging.getLogger(__name__)

_WHOLE = {"", "flag", PASS}  # actions that let items and links of a page pass
_GONE = {404, 410}  # of pages that nobody will get
_MOST_MADE = 1_000  # at one idle moment
# Requests in memory, which may have credentials; of those beyond only the addresses are kept.
_MOST_HELD = 10_000
# A usual request takes 429. A larger one is held as it is: others share what it refers to.
_MOST_PACKED_BYTES = 6_400


class LostPages:
    """Requests each page of a crawl again that was dropped for one that was never delivered."""

    # When the crawl has nothing else to do, the judge reads the store, which may have to wait for
    # the lock of another process; the event loop must not. The spider stays open until it answers.
    # Then the requests are made, and the crawl is idle once more: if nothing is expected then, the
    # spider may close.

    def __init__(
        self, crawler: Crawler, detector: Detector, option: str, *, readonly: bool
    ) -> None:
        self._crawler = crawler
        self._readonly = readonly  # then no page is held, so none is lost
        self._detector = detector
        self._owed = add_option("`scrapy simhash owed`", option)  # where commands need it
        # Requests that are not in the store, by the keys of their pages: some cannot be.
        self._held: dict[bytes, Request] = {}
        self._made: dict[bytes, int] = {}  # with the documents that they were dropped for
        self._start_time = time.time()
        # Those that are to be made, as of the last look.
        self._due: deque[bytes] = deque()
        # Whether there may be others; at first, those that an earlier crawl left.
        self._outdated = False
        self._began = False
        self._asking: asyncio.Future[None] | None = None
        self._dropped = False  # whether this crawl dropped any
        # Documents on their way that pages were dropped for.
        self._awaited: set[int] = set()
        # How many pages are requested for a document, one by one, if not all at once.
        self._most: dict[int, float] = {}
        # URLs of copies that failed, too, by the document that the first of them was dropped for,
        # and that document for each of them; until one of a group comes through.
        self._failed: dict[int, str] = {}
        self._first: dict[int, int] = {}
        # At the end of the crawl, a page that one of the lost was dropped for, and one of these.
        self.failed_url = self.failed_copy = ""

    @cached_property
    def packing(self) -> Packing:
        """Packs requests of the crawl's spider."""
        return Packing(
            spider_of(self._crawler), cookies=self._crawler.settings.getbool("COOKIES_ENABLED")
        )

    @cached_property
    def _copies(self) -> dict[int, dict[int, tuple[bytes, str]]]:
        """Packed requests of pages dropped for documents that this crawl has not fetched yet.

        By these documents and their own, each with the digest of the text that such a one had. They
        are lost only if it has another one by then, whichever crawl saw that first.
        """
        return keep_in_job(self._crawler, f"simhash_copies_{self._detector.seed}")

    @cached_property
    def _room(self) -> int:
        return _MOST_HELD - sum(map(len, self._copies.values()))

    def decided(self, request: Request, page: JudgedPage) -> None:
        """Hold the request of a page dropped for one that this crawl has not fetched yet."""
        # Without waiting for anything: that one may be judged next, and overtake this page.
        decision = page.decision
        if (
            decision.action not in _WHOLE
            and not self._readonly
            and (decision.match_time or self._start_time) < self._start_time
            and self._room > 0
        ):
            copies = self._copies.setdefault(decision.match_document, {})
            self._room -= decision.document not in copies
            packed = self.packing.pack(request)
            packed = packed if len(packed) <= _MOST_PACKED_BYTES else b""
            copies[decision.document] = packed, decision.match_text_digest
            if not packed:
                self._hold(key_of_lost(decision.document), request.copy())

    def _let_copies_go(self, original: Decision) -> None:
        """Let the copies of a page go that was fetched now; if it has changed, they are lost."""
        room, copies = self._room, self._copies.pop(original.document, {})
        self._room = room + len(copies)
        for document, (packed, digest) in copies.items():
            key = key_of_lost(document)
            if digest == original.text_digest:
                self._held.pop(key, None)
            else:
                self._dropped = self._outdated = True
                self._awaited.add(original.document)
                self._detector.mark(Mark(lost=document, packed=(key, packed)))

    def _hold(self, key: bytes, request: Request) -> None:
        if len(self._held) < _MOST_HELD:
            self._held[key] = request

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Hold the request of a near-duplicate that may be lost; let one that is gone go."""
        if self._readonly:
            return
        decision = page.decision
        if decision.status == "revisit":
            self._let_copies_go(decision)
        key = take_mark(request, LOST) if LOST in request.meta else None
        if decision.match_pending:
            own = key_of_lost(decision.document)
            if decision.action not in _WHOLE:
                self._dropped = True
                self._awaited.add(decision.match_document)
                self._hold(own, request.copy())
                # A later crawl must know how to request the page before this one drops it.
                if packed := self.packing.pack(request):
                    self._detector.mark(Mark(packed=(own, packed)))
                    with suppress(StoreError):  # then only this crawl can request it
                        await self._detector.settle()
                        self._held.pop(own, None)
            else:
                self._forget(own)
        if key and response.status in _GONE:
            count(self._crawler, "owed/gone")
            logger.warning(
                "Gone (%d): %s, which was dropped for a page that failed or changed",
                response.status,
                quote(response.url),
                extra={"spider": self._crawler.spider},
            )
            self._forget(key)
        elif key:
            set_mark(request, LOST, key)  # it has to reach the spider

    def _forget(self, key: bytes) -> None:
        self._held.pop(key, None)
        self._detector.mark(Mark(found=key))

    def arrived(self, response: Response, page: JudgedPage) -> None:
        """Let a page go that was lost and is about to reach its callback."""
        request, decision = response.request, page.decision
        assert request is not None  # noqa: S101 - it was judged
        again = take_mark(request, LOST)
        page.again = self._made.get(again, -1) if again else 0
        if again and decision.action in _WHOLE:
            self._forget(again)
        page.repeated = take_mark(request, DELIVERED) == decision.text_digest
        is_copy = decision.document in self._copies.get(decision.match_document, ())
        if decision.action == "ignore-outlinks" and (decision.match_pending or is_copy):
            # Once its items came through, its links are lost all the same if its original is.
            page.on_done = partial(self._keep_links, request, decision)

    def _keep_links(self, request: Request, decision: Decision) -> None:
        """Record that of a lost page only the links are lost."""
        marks = {DELIVERED: [decision.text_digest, request.url]}  # as `set_mark` does
        key, packed = key_of_lost(decision.document), self.packing.pack(request, marks)
        if key in self._held:
            set_mark(self._held[key], DELIVERED, decision.text_digest)
        copies = self._copies.get(decision.match_document, {})
        if decision.document in copies:
            copies[decision.document] = packed, decision.match_text_digest
        self._detector.mark(Mark(packed=(key, packed)))

    def failed_again(self, page: JudgedPage) -> None:
        """Note that a page failed, as the one did that it had been dropped for."""
        first = self._first.get(page.again, page.again)
        self._first[number_of_mark(page.pending)] = first
        self._failed[first] = page.decision.url

    def settled(
        self, marked: Marked, *, done: bool, most: float | None = None, again: int = 0
    ) -> None:
        """Look again at what is lost once a document came through, or will not.

        What was dropped for it is requested at once; or, up to `most` pages, one by one: one may
        fare like the other, and would cause the drop of a third. The others are let go.
        """
        if most is not None:
            self._most[number_of_mark(marked)] = most
        self._outdated |= not done and self._may_have_any
        self._awaited.discard(number_of_mark(marked))
        if done:
            self._failed.pop(self._first.get(again, again), None)

    def is_awaited(self, marked: Marked) -> bool:
        """Return whether pages were dropped for a document on its way, since the last look."""
        return number_of_mark(marked) in self._awaited

    @property
    def _may_have_any(self) -> bool:
        return self._dropped or self._detector.lost > 0

    @property
    def has_due(self) -> bool:
        """Whether some may be due, as far as is known."""
        return self._outdated or bool(self._due)

    def spider_idle(self, spider: Spider) -> None:
        """Ask if there may be anything; raises DontCloseSpider until the answer is there."""
        if self._asking is None or self._asking.done():
            if not self._expects():
                return
            self._asking = asyncio.ensure_future(self._ask(spider))
        raise DontCloseSpider

    async def _ask(self, spider: Spider) -> None:
        requests: list[Request] = []
        try:
            requests = await self._list_requests(spider)
        except Exception:
            logger.exception(
                "Could not read from the store which requests to repeat", extra={"spider": spider}
            )
        if is_closing(self._crawler):
            return  # the spider's next crawl gets what this one requested
        for request in requests:
            self._crawler.engine.crawl(request)
        wake(self._crawler)

    def _expects(self) -> bool:
        """Return whether there may be anything to request."""
        if not self._began and self._may_have_any:
            self._outdated = True
        return self.has_due or bool(self._awaited)

    async def _list_requests(self, spider: Spider) -> list[Request]:
        """Make requests for lost pages."""
        detector = self._detector
        if self._outdated or not self._due:
            self._began, self._outdated = True, False
            self._awaited.clear()
            due = await detector.find_due()
            left = []
            for key, original in due:
                if self._most.get(original) == 0:
                    self._forget(key)
                    count(self._crawler, "owed/untried")
                elif key not in self._made:
                    left.append((key, original))
            first = {original: key for key, original in reversed(left) if original in self._most}
            self._due = deque(key for key, original in left if first.get(original, key) == key)
            self._outdated = len(self._due) < len(left)
        # Those that cannot be made must not keep the others waiting.
        while self._due and not is_closing(self._crawler):
            keys = [self._due.popleft() for _ in range(min(len(self._due), _MOST_MADE))]
            taken = await detector.take_lost(keys)
            if is_closing(self._crawler):
                break  # the spider's next crawl gets them
            if made := self._make(taken, spider):
                return made
        return []

    def _make(self, taken: Iterable[tuple[bytes, Lost]], spider: Spider) -> list[Request]:
        """Make requests for pages that the crawl took, those that can be made."""
        made, lost = [], 0
        for key, row in taken:
            self._made[key] = row.awaited
            request = self._held.pop(key, None) or unpack_request(row.request, spider)
            if request is None:
                lost += 1
                continue
            if row.awaited in self._most:
                self._most[row.awaited] -= 1
            request = request.replace(dont_filter=True)
            set_mark(request, LOST, key)
            count(self._crawler, "requested_again")
            made.append(request)
        if lost:
            logger.warning(
                "%s cannot be requested again: how to do so is not stored, because the request has "
                "credentials, or the spider has no such callback now; %s lists them",
                plural(lost, "lost page"),
                self._owed,
                extra={"spider": spider},
            )
        return made

    async def close(self) -> None:
        """Count the pages that are lost when the crawl ends."""
        if self._asking is not None:
            self._asking.cancel()
        if self._crawler.spider is None or self._readonly:
            return
        left, self.failed_url = await self._detector.count_left()
        self.failed_copy = next(iter(self._failed.values()), "")
        if self._failed:
            left["failed"] = len(self._failed)
        for name, number in left.items():
            count(self._crawler, f"owed/{name}", number)
