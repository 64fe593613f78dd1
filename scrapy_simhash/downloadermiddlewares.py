"""The downloader middleware: which responses are judged, and where their verdicts show."""

from __future__ import annotations

import hashlib
import inspect
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.request import fingerprint

from scrapy_simhash.actions import Actions
from scrapy_simhash.config import Config, read_config
from scrapy_simhash.decisionlog import new_decision
from scrapy_simhash.delivery import Delivery
from scrapy_simhash.eligibility import Eligibility
from scrapy_simhash.paths import place_log, place_store
from scrapy_simhash.refetch import LostPages
from scrapy_simhash.signals import near_duplicate_found
from scrapy_simhash.store_urls import show_url
from scrapy_simhash.stored import MOST_IDENTITY_BYTES
from scrapy_simhash.stores import StoreError, StoreUnusableError
from scrapy_simhash.untrusted import describe_error, quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response
    from scrapy.statscollectors import StatsCollector

    from scrapy_simhash.detector import Detector

logger = logging.getLogger(__name__)

META_KEY = "simhash"
FLAG = "near_duplicate"
CLOSE_REASON = "simhash_store_unusable"
# Commands that fetch single pages to look at; they must not make a crawl believe it saw them.
_LOOKING_COMMANDS = {
    f"scrapy.commands.{name}" for name in ("shell", "fetch", "view", "parse", "check")
}
# Marks requests that went through the scheduler. An inline download (`engine.download_async`)
# never does, and no spider middleware will see its response.
_SCHEDULED = "_simhash_scheduled"
_INHERITED = "_simhash_inherited_redirects"


class SimhashDownloaderMiddleware:
    """Judge every final HTML page; leave the verdict in `meta["simhash"]`, flag, stats and log.

    Nothing is dropped here: that is for `SimhashSpiderMiddleware`, so that a near-duplicate counts
    as received, shows its flag in the "Crawled" line and reaches its errback.

    Args:
        crawler: the running crawler.

    Raises:
        NotConfigured: switched off, or the event loop is not asyncio's.
        SettingError: a setting has a value it cannot have.
    """

    def __init__(self, crawler: Crawler) -> None:
        config = read_config(crawler.settings)
        if not config.enabled:
            raise NotConfigured
        if not is_asyncio_available():
            raise NotConfigured(
                "scrapy_simhash needs asyncio, and TWISTED_REACTOR names another reactor; "
                "set it to twisted.internet.asyncioreactor.AsyncioSelectorReactor"
            )
        self.looking = _is_looking()
        self.config = _prepare(config, looking=self.looking)
        from scrapy_simhash.detector import Detector  # noqa: PLC0415 - loads trafilatura, lmdb

        self._crawler = crawler
        self._eligibility = Eligibility(self.config.max_bytes, self.config.never_drop)
        self._unopened = Detector(self.config)
        self._detector: Detector | None = None
        self._done_at_once = False
        self._actions = Actions(crawler, self.config, looking=self.looking)
        self._lost_pages = LostPages(crawler, self.config)
        on_feed = self.config.done_on == "feed"
        self.delivery = Delivery(crawler, self, on_feed=on_feed)
        connect = crawler.signals.connect
        connect(self.spider_opened, signals.spider_opened)
        # The feeds are stored while handlers of `spider_closed` run.
        connect(self.spider_closed, signals.engine_stopped if on_feed else signals.spider_closed)
        if on_feed:
            connect(self.closed_at_opening, signals.spider_closed)
        connect(self.request_scheduled, signals.request_scheduled)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware; called by Scrapy."""
        return cls(crawler)

    @property
    def _stats(self) -> StatsCollector:
        assert self._crawler.stats is not None  # noqa: S101 - there before any response
        return self._crawler.stats

    def _count(self, key: str, by: int = 1) -> None:
        self._stats.inc_value(f"simhash/{key}", by)

    async def spider_opened(self, spider: Spider) -> None:
        """Open store, log and workers; stop the crawl when the store cannot be used."""
        from scrapy_simhash.spidermiddlewares import (  # noqa: PLC0415 - imports this module
            SimhashSpiderMiddleware,
        )

        self._done_at_once = self._crawler.get_spider_middleware(SimhashSpiderMiddleware) is None
        detector = self._unopened
        try:
            await detector.open(spider.name)
        except Exception as error:
            if self.config.readonly and isinstance(error, StoreUnusableError):
                logger.info("Pages are not judged: %s", error, extra={"spider": spider})
                return
            # Scrapy logs any other exception of a handler and goes on with the crawl.
            logger.error(  # noqa: TRY400 - a traceback only for what we did not foresee
                "Crawl stopped before it started; store %s: %s",
                show_url(self.config.store),
                error,
                exc_info=not isinstance(error, StoreError),
                extra={"spider": spider},
            )
            raise CloseSpider(CLOSE_REASON) from error
        self._detector = self._lost_pages.detector = detector
        logger.info(
            "Near-duplicates within %d bits: %s; store %s%s",
            detector.distance,
            self.config.action,
            show_url(self.config.store),
            " (read-only)" if self.config.readonly else "",
            extra={"spider": spider},
        )

    async def closed_at_opening(self) -> None:
        """Close even so where the engine was never started, and never stops."""
        if self._crawler.engine is None or not self._crawler.engine.running:
            await self.spider_closed()

    async def spider_closed(self) -> None:
        """Write what is left, and say in one line what came of it."""
        self.delivery.close()
        detector, self._detector = self._detector, None
        spider = self._crawler.spider
        if detector is None or spider is None:
            return
        self._lost_pages.warn()
        log_path = detector.log_path
        await detector.close()
        if detector.log_lines_lost:
            self._count("log_lines_lost", detector.log_lines_lost)
        self._summarise(spider, f"; decisions in {log_path}" if log_path else "")

    def _summarise(self, spider: Spider, where: str) -> None:
        def get(key: str) -> int:
            return int(self._stats.get_value(f"simhash/{key}", 0))

        pages, duplicates = get("pages"), get("near_duplicate")
        logger.info(
            "Near-duplicates: %d of %d pages judged (%.1f %%), %d dropped with %s bytes and %d "
            "links not followed, %d items dropped of pages whose links were followed, %d requests "
            "not made because outlinks were ignored%s",
            duplicates,
            pages,
            100 * duplicates / max(1, pages),
            get("dropped"),
            f"{get('bytes_dropped'):,}",
            get("links_dropped"),
            get("items_dropped"),
            get("outlinks_ignored"),
            where,
            extra={"spider": spider},
        )

    def request_scheduled(self, request: Request) -> None:
        """Mark what goes through the scheduler, see `_SCHEDULED`."""
        request.meta[_SCHEDULED] = True

    async def process_response(self, request: Request, response: Response) -> Response:
        """Judge a response; it always passes on."""
        # A spider may have copied the meta of another response; no verdict outlives its page.
        request.meta.pop(META_KEY, None)
        if request.meta.get("simhash_skip"):
            self._count("skipped/simhash_skip")
            return response
        try:
            decision = await self._decide(request, response)
        except Exception as error:  # noqa: BLE001 - the page passes, whatever it is
            # For instance a request fingerprinter of the user's that raises.
            logger.error(  # noqa: TRY400 - in one line, because the error may quote the page
                "Not judged: %s: %s",
                quote(response.url),
                describe_error(error),
                extra={"spider": self._crawler.spider},
            )
            crawl = self._detector.crawl if self._detector else ""
            decision = new_decision(response.url, crawl, "failed", len(response.body))
        request.meta[META_KEY] = decision
        self._count_decision(decision)
        # Not to be copied with the meta into an inline download.
        scheduled = bool(request.meta.pop(_SCHEDULED, False)) and not self._done_at_once
        lost = decision["action"] not in {"", "flag"} and scheduled
        if self._detector is not None:
            self._detector.note(decision)
            if scheduled:
                self._lost_pages.expect(decision)
            else:
                self._detector.mark_done(decision)
            if decision["match_pending"]:
                self._lost_pages.keep(request, decision["document"], dropped=lost)
        if decision["status"] == "near_duplicate":
            response.flags.append(FLAG)
            await self._crawler.signals.send_catch_log_async(
                near_duplicate_found,
                response=response,
                request=request,
                verdict=decision,
                spider=self._crawler.spider,
            )
        return response

    def arrived(self, response: Response, decision: dict[str, Any]) -> None:
        """Note that a page reached the spider."""
        self._lost_pages.arrived(response, decision)

    def mark_done(self, decision: dict[str, Any]) -> None:
        """Note that the items of a page came through."""
        if self._detector is not None:
            self._detector.mark_done(decision)

    def withdraw(self, decision: dict[str, Any]) -> None:
        """Note that the callback of a page failed."""
        if self._detector is not None:
            self._detector.withdraw(decision)

    async def _decide(self, request: Request, response: Response) -> dict[str, Any]:
        from scrapy_simhash.detector import Page  # noqa: PLC0415 - loaded by now

        reason = self._eligibility.find_skip_reason(request, response)
        if reason is None and self._detector is None:
            reason = "no_store"
        if reason is not None or self._detector is None:
            self._count(f"skipped/{reason}")
            crawl = self._detector.crawl if self._detector else ""
            return new_decision(response.url, crawl, f"skipped: {reason}", len(response.body))
        identity = self._identify(request)
        decision = await self._detector.judge(
            Page(
                url=response.url,
                body=response.body,
                encoding=find_encoding(response),
                identity=identity,
                aliases=tuple(a for a in self._list_aliases(request) if a != identity),
            )
        )
        if decision["status"] == "near_duplicate":
            decision["action"] = self._actions.choose(request, decision)
        return decision

    def _identify(self, request: Request) -> bytes:
        assert self._crawler.request_fingerprinter is not None  # noqa: S101
        return shorten_identity(self._crawler.request_fingerprinter.fingerprint(request))

    def _list_aliases(self, request: Request) -> Iterator[bytes]:
        """List the other identities under which this page may have been stored."""
        for url in _own_redirects(request):
            yield self._identify(request.replace(url=url))
        # A page asked for twice is no duplicate of itself where the user's fingerprinter tells the
        # requests apart: that of scrapy-poet does so by what their callbacks take.
        yield fingerprint(request)

    def _count_decision(self, decision: dict[str, Any]) -> None:
        status, reason = decision["status"], decision["reason"]
        if status == "unjudged":
            if not reason.startswith("skipped: "):
                self._count(f"unjudged/{reason}")
            return
        self._count("pages")
        self._count(f"{status}/{reason}" if status == "revisit" else status)
        if status == "near_duplicate":
            self._count(f"distance/{decision['distance']}")


def note_inherited_redirects(request: Request) -> None:
    """Note how many redirects a spider copied into a new request along with other meta."""
    if "redirect_urls" in request.meta:
        request.meta[_INHERITED] = len(request.meta["redirect_urls"])


def _own_redirects(request: Request) -> list[str]:
    """List the URLs that were redirected to this request itself."""
    urls: list[str] = request.meta.get("redirect_urls", [])
    return urls[request.meta.get(_INHERITED, 0) :]


def shorten_identity(identity: bytes) -> bytes:
    """Make a request fingerprint, which may be a user's own, an identity that a store takes."""
    if len(identity) <= MOST_IDENTITY_BYTES:
        return identity
    return hashlib.blake2b(identity, digest_size=MOST_IDENTITY_BYTES).digest()


def find_encoding(response: Response) -> str | None:
    """Get the encoding of a response as Scrapy finds it, or None."""
    encoding = None
    with suppress(Exception):  # a charset that is none makes Scrapy raise; the worker finds out
        encoding = getattr(response, "encoding", None)
    return encoding


def _is_looking() -> bool:
    """Say whether this runs under `scrapy shell`, `fetch`, `view`, `parse` or `check`.

    Scrapy tells components neither by a setting nor in `sys.argv`, where it removes the command.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") in _LOOKING_COMMANDS:
            return True
        frame = frame.f_back
    return False


def _prepare(config: Config, *, looking: bool) -> Config:
    """Resolve paths; looking at pages neither writes to the store nor to its log."""
    if looking:
        config = replace(config, readonly=True, log=None)
    return place_log(place_store(config))
