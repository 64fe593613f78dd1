"""The links of near-duplicates: which are followed, and how many stay unseen.

The paper ignores them, because they are those of the page that was kept. Where that does not hold,
the page's own callback runs, its items are dropped, and its requests go on::

    at once    the page that was kept gave no links in this crawl, or was deeper under DEPTH_LIMIT;
               or most links are new, and SIMHASH_FOLLOW_NEW_LINKS is True
    late       any link is new, and it is "late": the requests wait, see `owed`

Those that wait are made when the crawl has nothing else to do; of those to pages that are known by
other addresses only a sample. What is left is counted. `places` says which links are new.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import xxhash
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.http import Request

from scrapy_simhash._printable import describe_error, quote
from scrapy_simhash.config import LATE
from scrapy_simhash.crawl.followers import Follower, sift
from scrapy_simhash.crawl.internals import list_asked
from scrapy_simhash.crawl.places import DroppedPage, KnownLinks
from scrapy_simhash.crawl.policy import (
    LOSING,
    PASS,
    count,
    depth_of,
    identify_for,
    list_redirects,
    spider_of,
)
from scrapy_simhash.pages.links import MOSTLY_NEW, leads_back

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_simhash.config import Config
    from scrapy_simhash.crawl.followers import JudgedPage
    from scrapy_simhash.crawl.owed import OwedRequests
    from scrapy_simhash.detector.detector import Detector
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging.documents import Reader
    from scrapy_simhash.pages.links import PageLinks

logger = logging.getLogger(__name__)

# In `spider.state`.
_STATE_KEY = "simhash_followed"
# Links of dropped pages in memory, 300 bytes each. Those beyond are only counted.
_MOST_REMEMBERED = 50_000
_LONGEST = _MOST_ASKED = 2_000


class Outlinks(Follower):
    """Decides whether the links of near-duplicates are followed, and counts those that are not."""

    def __init__(
        self, crawler: Crawler, config: Config, detector: Detector, owed: OwedRequests | None
    ) -> None:
        self._crawler = crawler
        self._config = config
        self._detector = detector
        self._owed = owed
        self._late = config.follow_new_links == LATE
        self._flags = config.action == "flag" and not config.follow_new_links
        self._depth_limit = crawler.settings.getint("DEPTH_LIMIT")
        self._known = KnownLinks()
        self._dropped: list[DroppedPage] = []
        self._remembered = 0
        self._missed: Counter[str] = Counter()  # by callback, those beyond
        # Callbacks that are at work on pages of earlier crawls or on copies, by callback and
        # document, each with the last copy that was dropped meanwhile.
        self._turns: dict[tuple[str, int], Request | None] = {}
        # Callbacks that were shown links, and whether they made requests.
        self._asks: dict[str, bool] = {}
        # Where near-duplicates are flagged, by identity: what no other pages lead to.
        self._flagged: set[bytes] = set()
        self._left_out: set[str] = set()  # links to pages that are known by other addresses
        self._outdated = False  # whether pages came since these were found
        # When the crawl has ended: the links that nobody saw, by the dropped pages that have them.
        self.unseen: dict[str, list[str]] = {}

    @cached_property
    def _followed(self) -> dict[str, dict[int, int]]:
        """The depth at which links of documents were followed, by callback and document."""
        # 80 bytes each. Scrapy keeps in `state` what the next run of a job must know; that may have
        # another store, so documents are named by their addresses as well.
        state = getattr(spider_of(self._crawler), "state", None)
        lasts = isinstance(state, dict) and bool(self._crawler.settings["JOBDIR"])
        followed: dict[str, dict[int, int]] = {}
        return state.setdefault(_STATE_KEY, followed) if state is not None and lasts else followed

    # What is followed

    def find_way(
        self, request: Request, reader: Reader, decision: Decision, links: PageLinks
    ) -> str:
        """Find how a near-duplicate that is dropped gives its links: "now", LATE, or "" (not)."""
        if self._config.follow_new_links is True and (decision.new_links or 0) >= MOSTLY_NEW:
            return "now"
        if self._is_end(request, reader, decision, links):
            return ""
        document = _original_of(decision)
        depth = self._followed.get(reader.callback, {}).get(document)
        if depth is None or (self._depth_limit > 0 and depth_of(request) < depth):
            return "now"
        if (reader.callback, document) in self._turns:
            self._turns[reader.callback, document] = request
        if not (self._late and self._list_new(decision, reader, links).links):
            return ""
        return LATE if self._owed else "now"  # a read-only crawl cannot keep them

    def _is_end(
        self, request: Request, reader: Reader, decision: Decision, links: PageLinks
    ) -> bool:
        """Whether a page is one of a wall, and has no new links but those that name the page."""
        own = (decision.url, *list_redirects(request))
        new = self._known.find_new(links, reader.callback) if decision.sink else []
        return decision.sink and all(leads_back(link, *own) for link in new)

    def _list_new(self, decision: Decision, reader: Reader, links: PageLinks) -> DroppedPage:
        page = DroppedPage(decision.url, decision.match_url or "", reader.callback, [])
        return page._replace(links=self._known.list_new(links, page))

    def failed(self, page: JudgedPage) -> None:
        """Let the next copy of a page give its links, or one that was dropped meanwhile."""
        document, callback = _original_of(page.decision), page.reader.callback
        if (callback, document) in self._turns:
            del self._followed[callback][document]
            copy = self._turns.pop((callback, document))
            if copy is not None:
                self._crawler.engine.crawl(copy.replace(dont_filter=True))

    def asked(self, request: Request, page: JudgedPage | None) -> None:
        """Note a request that a callback made; what waits was not made so far."""
        identity = self._identify(request) if self._flags else b""
        if page is not None and page.lost:
            self._flagged |= {identity} - list_asked(self._crawler)
        elif page is None or not page.late:
            self._known.add_asked(request.url)
            self._flagged.discard(identity)
        if page is not None:
            if len(page.asked) < _MOST_ASKED:
                page.asked.add(request.url)
            self._asks[page.reader.callback] = True

    def consumed(self, page: JudgedPage) -> None:
        """Note that the output of a page's callback was consumed; not reached if it fails."""
        if page.decision.action not in LOSING and not page.late:
            self._turns.pop((page.reader.callback, _original_of(page.decision)), None)
            # Other links it leaves out, on this page and on others. That is a guess, good enough
            # for a warning: late ones are left out by the callback itself.
            if page.asked and not (self._late or page.lost):
                callback, url = page.reader.callback, page.decision.url
                self._known.add_links(page.links, callback, url, page.asked)
            elif page.links.digests:
                self._asks.setdefault(page.reader.callback, False)

    def hold_back(self, entries: AsyncIterator[Any], page: JudgedPage) -> AsyncIterator[Any]:
        """Keep the requests of a callback's output until there is nothing else to do."""
        # Of a request past the filter nobody tells that it is known.
        keep = partial(self._keep, page=page)
        return sift(entries, lambda each: each.method == "GET" and not each.dont_filter, keep)

    async def _keep(self, requests: Sequence[Request], page: JudgedPage) -> list[Request]:
        """Keep requests that nobody made so far; returns those to be made at once."""
        decision, callback = page.decision, page.reader.callback
        made = list_asked(self._crawler)
        # Scrapy turns others away without a word to anybody.
        own = [each for each in requests if self._is_own(each)]
        others = [each for each in requests if each not in own]
        wanted = [each for each in own if self._identify(each) not in made]
        links = [request.url for request in wanted]
        self._remember(DroppedPage(decision.url, decision.match_url or "", callback, links))
        assert self._owed is not None  # noqa: S101 - or else nothing waits
        try:
            return others + await self._owed.keep_links(wanted, decision.url)
        except Exception as error:  # noqa: BLE001 - they are made, whatever it is
            count(self._crawler, "failed/links")
            logger.warning("Links are followed at once: %s", describe_error(error))
            return list(requests)

    def expects(self) -> bool:
        """Whether links that were left out may have to be made after all."""
        return self._outdated and bool(self._left_out)

    async def list_requests(self, spider: Spider) -> Sequence[Request]:  # noqa: ARG002
        """Leave out requests for pages that are known by other addresses; `owed` makes the rest."""
        if self._late and self._owed is not None and self._dropped:
            self._outdated = False
            _, elsewhere = await asyncio.to_thread(self._known.sort, self._dropped)
            self._left_out = {link for link, *_ in elsewhere} - self._known.draw(elsewhere)
            self._owed.leave_out(self._left_out)
        return ()

    # What is not

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:  # noqa: ARG002
        """Note a page that was judged, and its links if they are lost."""
        decision = page.decision
        losing = decision.action in LOSING
        reached = not self._flags or self._identify(request) not in self._flagged
        if decision.status != "unjudged" and not losing and not page.late:
            # Its links count as followed before they are, because copies are often fetched with
            # it. If its callback fails, a new page is withdrawn, and those that were dropped for it
            # are made again; of another one `failed` makes one again.
            document, callback = _original_of(decision), page.reader.callback
            followed = self._followed.setdefault(callback, {})
            if document not in followed and decision.status != "new" and decision.action != PASS:
                self._turns[callback, document] = None
            if self._flags and callback and document in followed:
                losing = decision.action == "flag"
            depth = depth_of(request)
            followed[document] = min(depth, followed.get(document, depth))
        page.lost = self._flags and (losing or not reached)
        if len(decision.url) > _LONGEST:
            return
        self._outdated = True
        counted = losing and not self._late
        if counted and not self._is_end(request, page.reader, decision, page.links):
            self._remember(self._list_new(decision, page.reader, page.links))
        if reached:
            kept = decision.status in {"new", "revisit"}
            self._known.add_page(decision.url, decision.text_digest if kept else "")

    def _remember(self, page: DroppedPage) -> None:
        left = max(0, _MOST_REMEMBERED - self._remembered)
        self._missed[page.callback] += len(page.links[left:])
        self._remembered += len(page.links[:left])
        if page.links:
            self._dropped.append(page._replace(links=page.links[:left]))

    async def close(self) -> None:
        """Find the links that nobody followed."""
        if not self._detector.is_open:
            return
        if self._late:  # the requests that are left are owed
            if self._owed is not None and not self._outdated:
                self._owed.forget_left_out()
        else:
            self.unseen = await asyncio.to_thread(self._find_unseen)
            missed = sum(n for each, n in self._missed.items() if self._asks.get(each, True))
            if number := sum(map(len, self.unseen.values())) + missed:
                count(self._crawler, "links/only_on_dropped_pages", number)
        if self._left_out and not self._flags:
            count(self._crawler, "links/known_elsewhere", len(self._left_out))

    def _find_unseen(self) -> dict[str, list[str]]:
        """Log the links that nobody requested; list them by the dropped pages that have them."""
        made, found = list_asked(self._crawler), set[str]()
        pages: dict[str, list[str]] = {}
        dropped = [page for page in self._dropped if self._asks.get(page.callback, True)]
        new, elsewhere = self._known.sort(dropped)
        self._left_out = {link for link, *_ in elsewhere}
        for page in new:
            if self._identify(page.url) in self._flagged:  # a crawl that drops would not reach it
                continue
            for url in set(page.links).difference(found):
                identity = self._identify(url)
                made_anyway = identity in made and identity not in self._flagged
                if identity and not made_anyway and self._is_own(Request(url)):
                    found.add(url)
                    pages.setdefault(page.url, []).append(url)
                    logger.debug("Unseen link on %s: %s", quote(page.url), quote(url))
        return pages

    def _is_own(self, request: Request) -> bool:
        """Whether Scrapy does not turn a request away because the spider stays on its domains."""
        offsite = self._crawler.get_downloader_middleware(OffsiteMiddleware)
        return offsite is None or offsite.should_follow(request, spider_of(self._crawler))

    def _identify(self, link: Request | str) -> bytes:
        """Make the identity of the page that a link leads to; b"" if there can be no request."""
        try:
            request = Request(link) if isinstance(link, str) else link
            return identify_for(self._crawler, request)
        except Exception:  # noqa: BLE001 - an invalid address, or the user's fingerprinter
            return b""


def _original_of(decision: Decision) -> int:
    """Name the document of a page, or of the one that it repeats."""
    # The next run of a job has to find these names, so they do not come from `hash`.
    name = f"{decision.document} {decision.url}"
    original = decision.match_fingerprint or decision.match_document  # bulk-loaded, or not
    if decision.action != PASS and original:
        name = f"{original} {decision.match_url or ''}"
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "replace"))
