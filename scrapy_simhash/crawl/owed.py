"""Make the requests that are owed, when the crawl has nothing else to do."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from functools import cached_property, partial
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_simhash._printable import mask_password, plural, quote
from scrapy_simhash.config import LATE
from scrapy_simhash.crawl.followers import Follower
from scrapy_simhash.crawl.internals import is_closing
from scrapy_simhash.crawl.policy import (
    PASS,
    SUCCESS,
    count,
    find_reader,
    identify_for,
    spider_of,
)
from scrapy_simhash.crawl.refetch import (
    DELIVERED,
    OWED,
    Packing,
    set_mark,
    take_mark,
    unpack_request,
)
from scrapy_simhash.detector.writer import Note
from scrapy_simhash.judging.documents import Version
from scrapy_simhash.judging.rows import Owed, Why, key_of_lost
from scrapy_simhash.pages.addresses import host_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.config import Config
    from scrapy_simhash.crawl.followers import JudgedPage
    from scrapy_simhash.detector.detector import Detector
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging.documents import Marked
    from scrapy_simhash.stores.owed import Allowance, TakenRequest

logger = logging.getLogger(__name__)

# Actions that let a page pass with its items and its links.
_WHOLE = {"", "flag", PASS}
# Of pages that nobody will get.
_GONE = {404, 410}
# Made at one idle moment.
_MOST_MADE = 1_000
# Requests with credentials, in memory; of those beyond only the addresses are kept.
_MOST_HELD = 10_000
# Links requested by one crawl, and of one host: what a site makes up, such as a calendar, ends
# there; not measured.
MOST_LATE, MOST_LATE_OF_HOST = 1_000, 500
# As stats count what is made.
_COUNTED = {Why.LOST: "requested_again", Why.LINK: "links/requested_late"}


class OwedRequests(Follower):
    """Keeps the requests of a crawl that may have to be made, and makes them."""

    def __init__(self, crawler: Crawler, config: Config, detector: Detector) -> None:
        self._crawler = crawler
        self._config = config
        self._detector = detector
        # Requests whose rows say nothing of how to make them, by their keys.
        self._held: dict[bytes, Request] = {}
        self._links: dict[str, bytes] = {}  # keys of links that wait, by their addresses
        self._left_out: set[bytes] = set()  # those that are not made for now
        self._made: set[bytes] = set()
        # Those that are to be made, as of the last look.
        self._due: deque[bytes] = deque()
        # Whether there may be others; at first, those that an earlier crawl left.
        self._outdated = False
        self._began = False
        self._owes = False  # anything of this crawl
        # Documents on their way that pages were dropped for.
        self._awaited: set[int] = set()
        self._late: Counter[str] = Counter()  # links that were made, by host
        # Of errors that may pass: who asks later may get the page.
        self._no_answers = set(map(int, crawler.settings.getlist("RETRY_HTTP_CODES")))
        crawler.signals.connect(self.refused, signals.request_dropped)

    @cached_property
    def packing(self) -> Packing:
        """Packs requests of the crawl's spider."""
        return Packing(
            spider_of(self._crawler),
            cookies=self._crawler.settings.getbool("COOKIES_ENABLED"),
        )

    # What is owed

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Note what becomes of the request of a near-duplicate, or of one that was owed."""
        decision = page.decision
        key = take_mark(request, OWED) if OWED in request.meta else None
        lost = decision.match_pending and page.scheduled and decision.action not in _WHOLE
        if decision.match_pending:
            owed = key_of_lost(decision.document)
            if lost:
                self._owes = True
                self._awaited.add(decision.match_document)
                self.hold(owed, request)
            else:
                self._forget(owed)
        if key and key.startswith(Why.LOST.letter) and response.status in _GONE:
            self._note_gone(key, response)
        elif key and key.startswith(Why.LOST.letter):
            set_mark(request, OWED, key)  # it has to reach the spider
        elif key and response.status not in self._no_answers:  # or else a later crawl makes it
            # Another one never reaches its callback.
            arrives = page.scheduled and decision.action != "drop" and response.status in SUCCESS
            if arrives or (page.scheduled and page.pending):
                page.on_done.append(partial(self._forget, key))
            else:
                self._forget(key)

    def skipped(self, request: Request, response: Response) -> None:
        """Note the answer to a request that no follower hears of."""
        if (key := take_mark(request, OWED)) and response.status not in self._no_answers:
            self._forget(key)

    def refused(self, request: Request) -> None:
        """Forget a request that the scheduler has already."""
        key = take_mark(request, OWED)
        if key and not key.startswith(Why.LOST.letter):  # that one it let through before
            self._forget(key)

    def hold(self, key: bytes, request: Request) -> None:
        """Hold a request as it is as long as the crawl runs; some cannot be stored."""
        if len(self._held) < _MOST_HELD:
            self._held[key] = request.copy()

    def _note_gone(self, key: bytes, response: Response) -> None:
        """Note that a lost page cannot be fetched again, so that no later crawl asks for it."""
        count(self._crawler, "owed/gone")
        logger.warning(
            "Gone (%d): %s, which was dropped for a page whose items were never delivered",
            response.status,
            quote(response.url),
            extra={"spider": self._crawler.spider},
        )
        self._forget(key)

    def _forget(self, key: bytes) -> None:
        self._held.pop(key, None)
        self._detector.note(Note(made=key))

    def arrived(self, response: Response, page: JudgedPage) -> None:
        """Note that the callback of a page is about to be called."""
        request, decision = response.request, page.decision
        assert request is not None  # noqa: S101 - it was judged
        again = take_mark(request, OWED)
        if again and decision.action in _WHOLE:
            self._forget(again)
        page.repeated = take_mark(request, DELIVERED) == decision.text_digest
        if decision.match_pending and decision.action == "ignore-outlinks":
            # Once its items came through, its links are lost all the same if its original is.
            page.on_done.append(partial(self._keep_links, request, decision))

    def _keep_links(self, request: Request, decision: Decision) -> None:
        """Note that of a lost page only the links are owed."""
        noted = {DELIVERED: [decision.text_digest, request.url]}  # as `set_mark` does
        key, packed = key_of_lost(decision.document), self.packing.pack(request, noted)
        if key in self._held:
            set_mark(self._held[key], DELIVERED, decision.text_digest)
        self._detector.note(Note(packed=(key, packed)))

    async def keep_links(self, requests: Sequence[Request], page: str) -> list[Request]:
        """Keep requests that a dropped page led to until the crawl has nothing else to do.

        They are in the store, or in memory if they have credentials, when this returns.

        Args:
            requests: as the page's callback yielded them.
            page: URL of the dropped page.

        Returns:
            Those to be made at once: they could not be made later.
        """
        from scrapy_simhash.stores.owed import put  # noqa: PLC0415 - loads tldextract

        at_once: list[Request] = []
        kept: list[tuple[Request, Owed]] = []
        for request in requests:
            packed = self.packing.pack(request)
            if packed or self.packing.has_credentials(request):
                kept.append((request, self._describe(request, packed, page)))
            else:
                at_once.append(request)
        if not kept:
            return at_once
        keys = await self._detector.commit(partial(put, rows=[owed for _, owed in kept]), None)
        if keys is None:
            return list(requests)
        for key, (request, _) in zip(keys, kept, strict=True):
            if not key:  # the table is full
                at_once.append(request)
                continue
            self._links[request.url] = key
            # Made from the store, it would have copies of what it shares with other requests.
            self.hold(key, request)
        self._owes = self._outdated = True
        return at_once

    def leave_out(self, urls: AbstractSet[str]) -> None:
        """Do not make these of the links that wait, for now."""
        left_out = {self._links[url] for url in urls & self._links.keys()}
        self._outdated |= bool(self._left_out - left_out)
        self._left_out = left_out

    def forget_left_out(self) -> None:
        """Forget the links that were left out, unless they are under way."""
        for key in self._left_out - self._made:
            self._forget(key)

    def _describe(self, request: Request, packed: bytes, page: str) -> Owed:
        return Owed(
            url=mask_password(request.url),
            why=Why.LINK,
            spider=spider_of(self._crawler).name,
            crawl=self._detector.crawl,
            request=packed,
            found_on=mask_password(page),
            time=time.time(),
            identity=identify_for(self._crawler, request),
            reader=find_reader(spider_of(self._crawler), request),
        )

    def settled(self, marked: Marked, *, done: bool) -> None:
        """Note that a document came through, or will not."""
        number = marked.document if isinstance(marked, Version) else marked
        self._outdated |= not done and self._owes_any
        self._awaited.discard(number)

    @property
    def _owes_any(self) -> bool:
        return self._owes or self._detector.owed > 0

    # What is made

    def expects(self) -> bool:
        """Whether there may be anything to make."""
        if not self._began and self._owes_any:
            self._outdated = True
        return self._outdated or bool(self._due) or bool(self._awaited)

    async def list_requests(self, spider: Spider) -> list[Request]:
        """Make requests that are owed: those of lost pages first."""
        detector = self._detector
        if self._outdated or not self._due:
            self._began, self._outdated = True, False
            self._awaited.clear()
            links = self._allow_links()
            found = await detector.ask(
                lambda store: store.owed.find_due(detector.crawl, spider.name, links), None
            )
            if found is None:
                return []
            for key in found.spent:
                self._forget(key)
            self._due = deque(key for key in found.due if key not in self._made)
        # Those that cannot be made must not keep the others waiting.
        while self._due and not is_closing(self._crawler):
            keys = [self._due.popleft() for _ in range(min(len(self._due), _MOST_MADE))]
            taken = await self._take(keys)
            if is_closing(self._crawler):
                break  # the spider's next crawl gets them
            if made := self._make(taken, spider):
                return made
        return []

    async def _take(self, keys: Sequence[bytes]) -> Sequence[TakenRequest]:
        """Take requests over, as far as they have to be made."""
        crawl, spider = self._detector.crawl, spider_of(self._crawler).name
        return await self._detector.ask(lambda store: store.owed.take(crawl, spider, keys), ())

    def _allow_links(self) -> Allowance | None:
        """Say how many links may still be asked for; None for none."""
        if self._config.follow_new_links != LATE:
            return None
        from scrapy_simhash.stores.owed import Allowance  # noqa: PLC0415 - loads tldextract

        most = MOST_LATE - self._late.total()
        return Allowance(most, MOST_LATE_OF_HOST, self._late, self._left_out)

    def _make(self, taken: Iterable[TakenRequest], spider: Spider) -> list[Request]:
        """Make requests that the crawl took, those that can be made."""
        made, lost = [], 0
        for key, owed in taken:
            self._made.add(key)
            request = self._held.pop(key, None) or unpack_request(owed.request, spider)
            if request is None:
                lost += 1
                continue
            # A link may have been asked for meanwhile; one that an earlier crawl made is known to
            # the filter of its job by that.
            if owed.why is not Why.LINK or owed.taken:
                request = request.replace(dont_filter=True)
            set_mark(request, OWED, key)
            count(self._crawler, _COUNTED[owed.why])
            if owed.why is Why.LINK:
                self._late[host_of(owed.url)] += 1
            made.append(request)
        if lost:
            logger.warning(
                "%s cannot be made: how to make them is not stored, because they have credentials, "
                "or the spider has no such callback now; `scrapy simhash owed` lists them",
                plural(lost, "request that is owed"),
                extra={"spider": spider},
            )
        return made

    async def close(self) -> None:
        """Count what is still owed when the crawl ends, and warn about lost pages."""
        spider, detector = self._crawler.spider, self._detector
        if spider is None:
            return
        left = await detector.ask(
            lambda store: store.owed.count_left(detector.crawl, spider.name), Counter[str]()
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
