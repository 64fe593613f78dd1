"""Links that only dropped pages had: how many there are, and requests for them at the end.

The paper ignores the links of a near-duplicate, which are nearly always those of its original. What
only dropped pages link to is never found, and nobody would see that. So it is remembered:

::

    judged       a kept page: its links are known. A dropped one: those that are not yet known are
                 found, with its address
    request      the crawl is idle, under `late`: links that are still unknown are requested
    close        what is left is kept in the store, and counted

A link is known when a kept page has it, when it was requested, or when this is true of its
counterpart in a place of which near-duplicates prove that it has the same pages (a mirror), or of
the address that proven URL rules make of it.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs
from scrapy.http import Request
from scrapy.linkextractors import IGNORED_EXTENSIONS
from scrapy.spiders import CrawlSpider
from scrapy.utils.job import job_dir

from scrapy_simhash.config import LATE
from scrapy_simhash.crawl.followers import Follower
from scrapy_simhash.crawl.places import Places
from scrapy_simhash.crawl.policy import (
    PASS,
    count,
    find_rule,
    identify_for,
    is_closing,
    spider_of,
)
from scrapy_simhash.crawl.refetch import Packing, unpack_request
from scrapy_simhash.judging.rows import Link
from scrapy_simhash.pages.addresses import split_url
from scrapy_simhash.pages.links import MOSTLY_NEW, digest_link

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from collections.abc import Set as AbstractSet

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from scrapy_simhash.config import Config
    from scrapy_simhash.crawl.followers import JudgedPage
    from scrapy_simhash.detector.detector import Detector
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.judging.documents import Reader
    from scrapy_simhash.pages.links import PageLinks


# A callback of a spider makes requests of few kinds; CrawlSpider has one for each rule.
_MOST_KINDS = 32
_MOST_FOLDERS = 1_000
# Meta that differs from link to link, and says nothing of the page behind it.
_OF_ONE_LINK = {"depth", "link_text"}
_OF_SCRAPY = ("_simhash", "download_")
_FILES = {f".{extension}" for extension in IGNORED_EXTENSIONS}


class _Kind:
    """Requests of one callback for one callback, in which only the address differs."""

    def __init__(self, first: Request) -> None:
        # A copy, because components write into the meta of the request that is made.
        self.template = first.copy()
        self.meta = _list_meta(first)
        # Data about single pages, which nobody knows of other links.
        self.differs = False
        self._folders: set[str] = set()
        self._endings: Counter[str] = Counter()

    def add(self, request: Request) -> None:
        """Note another request."""
        self.differs = (
            self.differs
            or request.cb_kwargs != self.template.cb_kwargs
            or _list_meta(request) != self.meta
        )
        folder, ending = _cut(request.url)
        if len(self._folders) < _MOST_FOLDERS:
            self._folders.add(folder)
        if len(self._endings) < _MOST_FOLDERS:
            self._endings[ending] += 1

    def admits(self, url: str) -> bool:
        """Whether such an address may be requested: files only if others like it were."""
        ending = _cut(url)[1]
        return ending not in _FILES or ending in self._endings

    def rank(self, url: str) -> tuple[int, int, int]:
        """Tell how much an address is like those of this kind: by folder, ending and number."""
        folder, ending = _cut(url)
        alike = folder
        while alike and alike not in self._folders:
            alike = alike.rpartition("/")[0]
        return len(alike), self._endings[ending], self._endings.total()


class SpidersRequests:
    """What a spider's callbacks requested, by the callbacks' names."""

    def __init__(self, settings: BaseSettings) -> None:
        self._depth = settings.getint("DEPTH_LIMIT")
        self._kinds: dict[str, dict[Any, _Kind]] = {}

    def learn(self, page: Request, request: Request, spider: Spider) -> None:
        """Note a request that the callback of a page made."""
        if request.method != "GET" or request.body:
            return
        kinds = self._kinds.setdefault(name_link_maker(page, spider), {})
        key = (name_link_maker(request, spider), request.meta.get("rule"))
        if key not in kinds:
            if len(kinds) >= _MOST_KINDS:
                return
            kinds[key] = _Kind(request)
        kinds[key].add(request)

    def make(self, link: Link) -> Request | None:
        """Make the request of a link as its page's callback would; None if that is not known."""
        depth = link.depth + 1
        kinds = self._kinds.get(link.callback, {}).values()
        if not kinds or depth > (self._depth or depth):
            return None
        kind = max(kinds, key=lambda each: each.rank(link.url))
        if kind.differs or not kind.admits(link.url):
            return None
        made = kind.template.replace(url=link.url, dont_filter=False)
        made.meta.pop("link_text", None)
        made.meta["depth"] = depth
        if "Referer" in made.headers:
            made.headers["Referer"] = link.page
        return made


def name_link_maker(request: Request, spider: Spider) -> str:
    """Name what makes requests of the links of a page: its callback, and if that follows any."""
    name = "parse" if request.callback is None else getattr(request.callback, "__name__", "")
    if isinstance(spider, CrawlSpider) and name in {"parse", "_callback"}:
        # All its pages have one callback, which follows links by the same rules, or follows none.
        rule = find_rule(spider, request)
        follows = rule is None or rule.follow
        return "_callback" if follows else "_callback without links"
    return name


def _list_meta(request: Request) -> dict[str, Any]:
    return {
        key: value
        for key, value in request.meta.items()
        if key not in _OF_ONE_LINK and not str(key).startswith(_OF_SCRAPY)
    }


def _cut(url: str) -> tuple[str, str]:
    """Cut an address into its folder, and what the rest ends in: `.html`, or ""."""
    parts = split_url(url)
    if parts is None:
        return "", ""
    folder, _, name = parts.path.rpartition("/")
    _, dot, extension = name.rpartition(".")
    return f"{parts.netloc}{folder}", f"{dot}{extension}".lower()


# Slots for digests, named by 21 bits; 8 MB once all are used, for some two million links.
_SLOT_BITS = 21
_SLOTS = 2**_SLOT_BITS - 1
_HALF = np.dtype("<u4")
_HALF_BITS = 32
# Links of dropped pages in memory, 300 bytes each. Those beyond are not remembered.
_MOST_FOUND = 50_000
# So many wait before they are written: a crawl that is killed forgets no more.
_MOST_UNWRITTEN = 500
_LONGEST = 2_000
# Requested by one crawl: what a site makes up, such as a calendar, ends there; not measured.
MOST_LATE = 1_000
_LOSING = {"drop", "ignore-outlinks"}
# In `spider.state`.
_STATE_KEY = "simhash_followed"


class SeenLinks:
    """Digests of addresses: 32 bits of each, in the slot that 21 others name."""

    # A later digest takes the slot of an earlier one. So none is found that was not added, but for
    # one in four billion, and of very large crawls some are forgotten: their links then count as
    # those of dropped pages only, until somebody asks whether they were requested.

    def __init__(self) -> None:
        self._tags = np.zeros(2**_SLOT_BITS, np.uint32)  # the system gives pages as they are used

    def add(self, digests: bytes) -> None:
        """Add the digests of a page's links, as `PageLinks` has them."""
        halves = np.frombuffer(digests, _HALF)
        self._tags[halves[::2] & _SLOTS] = halves[1::2]

    def add_url(self, url: str) -> None:
        """Add an address."""
        digest = digest_link(url)
        self._tags[digest & _SLOTS] = digest >> _HALF_BITS

    def find_new(self, digests: bytes) -> list[int]:
        """Find the places of the digests that were not added."""
        halves = np.frombuffer(digests, _HALF)
        new = self._tags[halves[::2] & _SLOTS] != halves[1::2]
        found: list[int] = np.flatnonzero(new).tolist()
        return found

    def __contains__(self, url: object) -> bool:
        digest = digest_link(str(url))
        return bool(self._tags[digest & _SLOTS] == digest >> _HALF_BITS)


class Outlinks(Follower):
    """Decides whose links are followed, and remembers those that only dropped pages have."""

    def __init__(self, crawler: Crawler, config: Config, detector: Detector) -> None:
        self._crawler = crawler
        self._config = config
        self._detector = detector
        self._seen = SeenLinks()
        self._places = Places(self._seen)
        self._hosts: set[str] = set()
        self._found: dict[str, Link] = {}
        self._unwritten: dict[str, Link] = {}
        self._written: set[str] = set()
        self._asked: set[str] = set()
        self._missed = 0
        self._changed = True
        self._loaded = False
        self._made = SpidersRequests(crawler.settings)
        self.late = config.follow_new_links == LATE
        self._limits_depth = crawler.settings.getint("DEPTH_LIMIT") > 0

    @cached_property
    def _followed(self) -> dict[str, dict[int, int]]:
        """The depth at which links of documents were followed, by callback and document."""
        # 80 bytes each. Scrapy keeps in `state` what the next run of a job must know.
        state = getattr(spider_of(self._crawler), "state", None)
        lasts = isinstance(state, dict) and job_dir(self._crawler.settings) is not None
        followed: dict[str, dict[int, int]] = {}
        return state.setdefault(_STATE_KEY, followed) if state is not None and lasts else followed

    def are_followed(
        self,
        request: Request,
        reader: Reader,
        decision: Decision,
        links: PageLinks,  # noqa: ARG002
    ) -> bool:
        """Whether a near-duplicate that is dropped gives its links.

        It does if its original was not fetched in this crawl, or was at the limit of the depth; or
        if most are new, and SIMHASH_FOLLOW_NEW_LINKS is True.
        """
        if self._config.follow_new_links is True and (decision.new_links or 0) >= MOSTLY_NEW:
            return True
        if decision.sink:
            return False
        followed = self._followed.get(reader.callback, {}).get(_original_of(decision))
        return followed is None or (self._limits_depth and _depth_of(request) < followed)

    def note_followed(self, request: Request, page: JudgedPage) -> None:
        """Note that a page gives its links, so no near-duplicate has to give them."""
        if document := _original_of(page.decision):
            followed = self._followed.setdefault(page.reader.callback, {})
            depth = _depth_of(request)
            followed[document] = min(depth, followed.get(document, depth))

    def consumed(self, request: Request, page: JudgedPage) -> None:
        """Note that the output of a page's callback was consumed; not reached if it fails."""
        if page.decision.action not in _LOSING:
            self.note_followed(request, page)

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:  # noqa: ARG002
        """Note the links of a page that was judged."""
        decision, links = page.decision, page.links
        if not decision.is_near_duplicate or decision.action == PASS:
            # Its links count as followed before they are: if its callback fails, the page is
            # withdrawn, and those that were dropped for it are made again.
            self.note_followed(request, page)
        url = decision.url
        if len(url) > _LONGEST:
            return
        self._hosts.add(_host_of(url))
        self._seen.add_url(url)
        self._changed = True
        if decision.action not in _LOSING:
            self._seen.add(links.digests)
            self._places.add_page(url)
            return
        original = decision.match_url or ""
        addresses = links.addresses.decode().split("\n")
        new = [addresses[place] for place in self._seen.find_new(links.digests)]
        self._places.add_near_duplicate(url, original, new)
        if new:
            spider = spider_of(self._crawler)
            dropped = Link(
                "",
                page=url,
                time=decision.time,
                crawl=decision.crawl,
                spider=spider.name,
                original=original,
                callback=name_link_maker(request, spider),
                depth=request.meta.get("depth", 0),
            )
            self._add(dropped, new)

    def _add(self, page: Link, addresses: Iterable[str]) -> None:
        """Remember the links of a dropped page that were not known when it came."""
        for url in addresses:
            if url in self._found:
                continue
            if len(self._found) >= _MOST_FOUND:
                self._missed += 1
                continue
            self._found[url] = self._unwritten[url] = structs.replace(page, url=url)
        if len(self._unwritten) >= _MOST_UNWRITTEN:
            self._forget_known(self._unwritten.values())
            self._write(())

    def _forget_known(self, links: Iterable[Link]) -> list[str]:
        """Forget those of some links that are known by now; returns their addresses."""
        return self._forget(self._places.list_known(links, self._detector.acting))

    def _forget(self, urls: list[str]) -> list[str]:
        for url in urls:
            self._found.pop(url, None)
            self._unwritten.pop(url, None)
        return urls

    def _write(self, gone: Collection[str]) -> None:
        """Keep in the store what it has not yet, and take out what is gone."""
        links, self._unwritten = list(self._unwritten.values()), {}
        if self._config.readonly:
            return
        if self.late:  # another crawl may have to request them
            packing = Packing(spider_of(self._crawler), self._config.secret_headers, cookies=True)
            for link in links:
                request = self._made.make(link)
                link.request = packing.pack(request) if request else b""
        if links or gone:
            self._detector.tell(lambda store: store.keep_links(links, gone))
        self._written.update(link.url for link in links)

    def learn(self, page: Request, request: Request) -> None:
        """Note a request that the callback of a page made, as an example."""
        try:
            self._made.learn(page, request, spider_of(self._crawler))
        except Exception:  # noqa: BLE001 - the spider's meta may hold anything
            count(self._crawler, "failed/links")

    def expects(self) -> bool:
        """Whether pages were judged since the last look."""
        return self.late and self._changed and len(self._asked) < MOST_LATE

    async def list_requests(self, spider: Spider) -> list[Request]:
        """Make requests of unknown links, when there is nothing else to do."""
        left = MOST_LATE - len(self._asked)
        made: list[Request] = []
        if not self.late or not self._changed or left <= 0:
            return made
        self._changed = False
        links = await self._settle()
        for link in () if is_closing(self._crawler) else links:
            foreign = _host_of(link.url) not in self._hosts
            if len(made) >= left or link.url in self._asked or foreign:
                continue
            request = self._made.make(link) or unpack_request(link.request, spider)
            if request is not None:
                self._asked.add(link.url)
                made.append(request.replace(dont_filter=False))
        if made:
            count(self._crawler, "links/requested_late", len(made))
        return made

    async def close(self) -> None:
        """Keep in the store what nobody requested, and count it."""
        if self._detector.is_open and (left := len(await self._settle()) + self._missed):
            count(self._crawler, "links/only_on_dropped_pages", left)

    async def _settle(self) -> list[Link]:
        """Sort out what is known by now; returns the links that are left, oldest first."""
        await self._load()
        gone = self._forget_known(self._found.values())
        self._places.recount(self._found.values())
        gone += self._forget_known(self._found.values())
        self._forget([url for url in self._unwritten if _host_of(url) not in self._hosts])
        gone += self._forget(await self._list_requested())
        self._write(self._written.intersection(gone))
        self._written.difference_update(gone)
        return sorted(self._found.values(), key=lambda link: link.time)

    async def _load(self) -> None:
        """Add the links that earlier crawls of the spider found, once."""
        name = spider_of(self._crawler).name
        kept = [] if self._loaded else await self._detector.ask(lambda s: s.list_links(name), ())
        self._loaded = True
        earlier = [link for link in kept if link.crawl != self._detector.crawl]
        for page in {(link.page, link.original) for link in earlier}:
            self._places.add_near_duplicate(*page)
        self._found |= {link.url: link for link in earlier}
        self._written.update(link.url for link in earlier)

    async def _list_requested(self) -> list[str]:
        """List the links that were requested, or a counterpart of them was."""
        acting = self._detector.acting
        asked = {
            url: {self._identify(each) for each in (url, *self._places.find(link, acting))}
            for url, link in self._found.items()
        }
        identities = set().union(*asked.values()) - {b""}
        known = identities & self._list_filtered()
        others = sorted(identities - known)
        known |= await self._detector.ask(lambda store: store.find_known(others), set())
        return [url for url, each in asked.items() if b"" in each or not known.isdisjoint(each)]

    def _list_filtered(self) -> AbstractSet[bytes]:
        """List the fingerprints that Scrapy's duplicate filter has; none of another filter."""
        # No method asks it without adding to it. Only there are requests of which neither a kept
        # page nor the store knows: their addresses were made up, and they failed.
        scheduler = getattr(getattr(self._crawler.engine, "_slot", None), "scheduler", None)
        found = getattr(getattr(scheduler, "df", None), "_fingerprints", None)
        return found if isinstance(found, set) else set()

    def _identify(self, url: str) -> bytes:
        """Make the identity of a page as a plain request has it; b"" if there can be no request."""
        try:
            return identify_for(self._crawler, Request(url))
        except Exception:  # noqa: BLE001 - an invalid address, or the user's fingerprinter
            return b""


def _original_of(decision: Decision) -> int:
    """Get the document of a page, or of the one that it repeats; bulk-loaded ones have none."""
    if decision.action == PASS:
        return decision.document
    return decision.match_document or decision.document


def _depth_of(request: Request) -> int:
    depth = request.meta.get("depth", 0)
    return depth if isinstance(depth, int) else 0


def _host_of(url: str) -> str:
    return url.split("/", 3)[2] if url.count("/") > 1 else ""
