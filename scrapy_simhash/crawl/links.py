"""The links of near-duplicates: which are followed, and which nobody will see.

A dropped page's links are those of the page that was kept, as the paper has it. They are followed
(its callback runs, its items are dropped, its requests are made) where that does not hold: the page
that was kept gave no links in this crawl, or was deeper under DEPTH_LIMIT; or most links are new,
and SIMHASH_FOLLOW_NEW_LINKS is on. Links that no kept page had and nobody requested are counted, if
they lead to a host of which a page came: the spider wants no other one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import cached_property
from itertools import islice
from mmap import mmap
from struct import unpack
from typing import TYPE_CHECKING, NamedTuple

import xxhash
from scrapy.http import Request

from scrapy_simhash.crawl.policy import (
    LOSING,
    PASS,
    count,
    depth_of,
    identify_for,
    list_redirects,
)
from scrapy_simhash.crawl.running import keep_in_job, list_asked
from scrapy_simhash.detector.log import PARAMETER
from scrapy_simhash.pages.addresses import host_of, list_forms
from scrapy_simhash.pages.links import MOSTLY_NEW, PageLinks, digest_link, digest_links, leads_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_simhash.config import Config
    from scrapy_simhash.crawl.policy import JudgedPage
    from scrapy_simhash.detector.detector import Detector
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.pages.facts import Reader

# Links of dropped pages in memory, 300 bytes each. Those beyond are only counted.
_MOST_REMEMBERED = 50_000
_MOST_NOTED = 1_000  # in the log, for people
# Slots for digests, named by 21 bits; 8 MB once all are used, for some two million links.
_SLOTS = 2**21 - 1


class SeenLinks:
    """Digests of addresses: 32 bits of each, in a slot named by 21 others.

    An address is there for all callbacks, or for one of them only. A later digest takes the slot of
    an earlier one, so none is found that was not added, but for one in four billion.
    """

    def __init__(self) -> None:
        # The system gives pages as they are used.
        self._tags = memoryview(mmap(-1, 4 * (_SLOTS + 1))).cast("I")

    def add(self, digests: bytes, callback: str) -> None:
        """Add the digests of links, as `PageLinks` has them, for a callback."""
        for slot, tag in _split(digests, callback):
            self._tags[slot] = tag

    def add_url(self, url: str) -> None:
        """Add an address for all callbacks."""
        digest = digest_link(url)
        self._tags[digest & _SLOTS] = digest >> 32

    def has_url(self, url: str) -> bool:
        """Return whether an address is there for all callbacks."""
        digest = digest_link(url)
        return self._tags[digest & _SLOTS] == digest >> 32

    def list_new(self, links: PageLinks, callback: str) -> list[str]:
        """List the links that are there neither for all nor for this callback."""
        places = zip(_split(links.digests, ""), _split(links.digests, callback), strict=True)
        tags = self._tags
        at = [
            number
            for number, both in enumerate(places)
            if all(tags[slot] != tag for slot, tag in both)
        ]
        addresses = links.addresses.decode().split("\n") if at else []
        return [addresses[number] for number in at]


def _split(digests: bytes, callback: str) -> list[tuple[int, int]]:
    """Return slot and tag of each digest, for a callback."""
    name = digest_link(callback) if callback else 0
    read = (number ^ name for number in unpack(f"<{len(digests) // 8}Q", digests))
    return [(number & _SLOTS, number >> 32) for number in read]


# As many votes as a URL rule needs, and of ten one at most against it: some copies are kept.
_LEAST_VOTES, _MOST_AGAINST = 11, 0.1
_MOST_PARAMETERS = 10_000  # of hosts, with votes
_MOST_SAMPLED = 32


class Parameters:
    """Which parameters make no difference, as the pages of a crawl show: sessions, trackers.

    A page that is dropped for one whose address differs in a parameter votes for it, also behind a
    semicolon, unless most of its new links lead on, as those of a list do; one that is kept beside
    such a page votes against it.
    """

    def __init__(self) -> None:
        self._judged, self._asked = SeenLinks(), SeenLinks()
        self._votes: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    def vote(self, url: str, original: str | None, new_links: Sequence[str]) -> None:
        """Let a page vote that was kept (None), or is a near-duplicate of another one."""
        own, others = list(list_forms(url)), list(list_forms(original or ""))
        for name, form in own:
            if original is None:
                votes = self._judged.has_url(form)
            else:
                known = [self._is_asked_without(link, name) for link in _sample(new_links)]
                repeats = form in {original, *(other for _, other in others)}
                votes = repeats and sum(known) >= MOSTLY_NEW * len(known)
            key = host_of(url), name
            if votes and (key in self._votes or len(self._votes) < _MOST_PARAMETERS):
                self._votes[key][original is not None] += 1
            self._judged.add_url(form)
        self._judged.add_url(url)
        self._add_asked(url, own)

    def _is_asked_without(self, link: str, name: str) -> bool:
        forms = (form for each, form in list_forms(link) if each == name)
        return any(map(self._asked.has_url, forms))

    def add_asked(self, url: str) -> None:
        """Note an address that was requested."""
        self._add_asked(url, list_forms(url))

    def _add_asked(self, url: str, forms: Iterable[tuple[str, str]]) -> None:
        for _, form in forms:
            self._asked.add_url(form)
        self._asked.add_url(url)

    def is_known(self, url: str) -> bool:
        """Whether an address differs from a requested one only in what makes no difference."""
        return any(
            self._asked.has_url(form) and self._is_idle(host_of(url), name)
            for name, form in list_forms(url)
        )

    def _is_idle(self, host: str, name: str) -> bool:
        against, votes = self._votes.get((host, name), (0, 0))
        return votes >= _LEAST_VOTES and against <= _MOST_AGAINST * votes


def _sample(links: Sequence[str]) -> Sequence[str]:
    """Choose some links of a page, evenly: each takes ten microseconds."""
    return links[:: len(links) // _MOST_SAMPLED + 1]


class _DroppedPage(NamedTuple):
    """A page that was dropped, with those of its links that were new when it was."""

    url: str
    new_links: float  # as of `Decision`
    callback: str
    links: list[str]


class Links:
    """Decides whether the links of near-duplicates are followed, and counts those nobody sees."""

    def __init__(self, crawler: Crawler, config: Config, detector: Detector) -> None:
        self._crawler = crawler
        self._config = config
        self._detector = detector
        self._flags = config.action == "flag" and not config.follow_new_links
        self._depth_limit = crawler.settings.getint("DEPTH_LIMIT")
        self._seen, self._parameters = SeenLinks(), Parameters()
        self._dropped: list[_DroppedPage] = []
        self._remembered = self._beyond = 0
        # Whether kept pages had links, and whether any callback made a request.
        self._has_links = self._follows = False
        # Callbacks that are at work on pages of earlier crawls or on copies, by callback and
        # document, each with the last copy that was dropped meanwhile.
        self._turns: dict[tuple[str, int], Request | None] = {}
        # At the end of the crawl, how many of the links that nobody saw are on pages of mostly new
        # ones, as lists are.
        self.of_lists = 0
        # Where near-duplicates are flagged, by identity: what no other pages lead to.
        self._flagged: set[bytes] = set()

    @cached_property
    def _followed(self) -> dict[str, dict[int, int]]:
        """The depth at which links of documents were followed, by callback and document."""
        # The next run may have another store, so documents are named by their addresses as well.
        return keep_in_job(self._crawler, "simhash_followed")

    def decided(self, request: Request, page: JudgedPage) -> None:
        """Have the callback called for a near-duplicate whose links are followed."""
        if page.decision.action in LOSING and self._follows_those(request, page):
            page.decision.action = LOSING[page.decision.action]

    def _follows_those(self, request: Request, page: JudgedPage) -> bool:
        """Return whether the links of a near-duplicate that is dropped are followed."""
        decision, reader, links = page.decision, page.reader, page.links
        mostly_new = (decision.new_links or 0) >= MOSTLY_NEW
        if self._config.follow_new_links and mostly_new and self._leads_on(reader, links):
            return True
        if decision.sink and self._is_end(request, reader, decision.url, links):
            return False
        document = _original_of(decision)
        depth = self._followed.get(reader.callback, {}).get(document)
        if depth is None or (self._depth_limit > 0 and depth_of(request) < depth):
            return True
        if (reader.callback, document) in self._turns:
            self._turns[reader.callback, document] = request
        return False

    def _leads_on(self, reader: Reader, links: PageLinks) -> bool:
        """Return whether most new links differ from requested ones in more than a session."""
        new = _sample(self._seen.list_new(links, reader.callback))
        return sum(map(self._parameters.is_known, new)) <= len(new) * (1 - MOSTLY_NEW)

    def _is_end(self, request: Request, reader: Reader, url: str, links: PageLinks) -> bool:
        """Return whether the only new links of a wall name the page itself."""
        new = self._seen.list_new(links, reader.callback)
        return all(leads_back(link, url, *list_redirects(request)) for link in new)

    def failed(self, page: JudgedPage) -> None:
        """Let the next copy of a page give its links, or one that was dropped meanwhile."""
        document, callback = _original_of(page.decision), page.reader.callback
        if (callback, document) in self._turns:
            del self._followed[callback][document]
            if copy := self._turns.pop((callback, document)):
                self._crawler.engine.crawl(copy.replace(dont_filter=True))

    def requested(self, request: Request, page: JudgedPage | None) -> None:
        """Count what a callback requested as seen."""
        self._follows = True
        identity = self._identify(request) if self._flags else b""
        if page is not None and page.lost:
            self._flagged |= {identity} - list_asked(self._crawler)
        else:
            url = request.url.partition("#")[0]
            self._seen.add_url(url)
            self._parameters.add_asked(url)
            self._flagged.discard(identity)

    def ended(self, page: JudgedPage) -> None:
        """End the turn of a page that gives its links."""
        if page.decision.action not in LOSING:
            self._turns.pop((page.reader.callback, _original_of(page.decision)), None)

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:  # noqa: ARG002
        """Count the links of a page that is kept as seen, or remember those that are lost."""
        decision, callback = page.decision, page.reader.callback
        losing = decision.action in LOSING
        reached = not self._flags or self._identify(request) not in self._flagged
        if reached and decision.status != "not_judged" and not decision.reason:
            original = (decision.match_url or "") if decision.status == "near_duplicate" else None
            lists = original and "=" in decision.url
            new = self._seen.list_new(page.links, callback) if lists else []
            self._parameters.vote(decision.url, original, new)
        if decision.status != "not_judged" and not losing:
            # Its links count as followed before they are, because copies are often fetched with
            # it. If its callback fails, a copy is made again.
            document = _original_of(decision)
            followed = self._followed.setdefault(callback, {})
            if document not in followed and decision.status != "new" and decision.action != PASS:
                self._turns[callback, document] = None
            if self._flags and callback and document in followed:
                losing = decision.action == "flag"
            depth = depth_of(request)
            followed[document] = min(depth, followed.get(document, depth))
        page.lost = self._flags and (losing or not reached)
        end = request, page.reader, decision.url, page.links
        leads_on = not 0 < self._depth_limit <= depth_of(request)
        if losing and leads_on and not (decision.sink and self._is_end(*end)):
            links = self._seen.list_new(page.links, callback)
            left = max(0, _MOST_REMEMBERED - self._remembered)
            self._beyond += sum(map(self._is_wanted, links[left:]))
            self._remembered += len(links[:left])
            if links:
                share = decision.new_links or 0.0
                self._dropped.append(_DroppedPage(decision.url, share, callback, links[:left]))
        for url in (decision.url, *list_redirects(request)):
            self._seen.add_url(f"//{host_of(url)}")  # in the form of no address
        if reached:
            self._seen.add_url(decision.url)
        if not (losing or page.lost):
            self._has_links |= bool(page.links.digests)
            self._seen.add(page.links.digests, callback)

    async def close(self) -> None:
        """Find the links that nobody saw, and count them, unless the spider follows none."""
        if not self._follows and self._has_links:
            return
        unseen, others = await asyncio.to_thread(self._list_unseen)
        self.of_lists = sum(page.new_links >= MOSTLY_NEW for page in unseen.values())
        for reason, found in ("", unseen), (PARAMETER, others):
            number = len(found) + self._beyond * (not reason)
            if number:
                kind = "parameter" if reason else "only"
                count(self._crawler, f"links/{kind}_on_dropped_pages", number)
            for url, page in islice(found.items(), _MOST_NOTED):
                self._detector.note_link(url, page.url, page.new_links, reason, number)

    def _list_unseen(self) -> tuple[dict[str, _DroppedPage], dict[str, _DroppedPage]]:
        """List the links that nobody requested, each with a page that has it.

        Apart stand those that differ from requested ones only in what makes no difference.
        """
        made = list_asked(self._crawler) - self._flagged | {b""}
        found: tuple[dict[str, _DroppedPage], dict[str, _DroppedPage]] = ({}, {})
        for page in self._dropped:
            if self._identify(page.url) in self._flagged:  # a crawl that drops would not reach it
                continue
            targets = [link.encode("utf-8", "replace") for link in page.links]
            links = PageLinks(digest_links(targets), b"\n".join(targets))
            for url in self._seen.list_new(links, page.callback):
                if self._identify(url) not in made and self._is_wanted(url):
                    found[self._parameters.is_known(url)].setdefault(url, page)
        return found

    def _is_wanted(self, url: str) -> bool:
        """Return whether a page of the link's host came."""
        return self._seen.has_url(f"//{host_of(url)}")

    def _identify(self, link: Request | str) -> bytes:
        """Return the identity of the page that a link leads to, or b"" if there can be none."""
        try:
            return identify_for(self._crawler, Request(link) if isinstance(link, str) else link)
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
