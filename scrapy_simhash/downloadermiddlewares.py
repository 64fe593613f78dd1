"""The downloader middleware: judges responses and publishes their verdicts."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

from scrapy import Spider, signals
from scrapy.exceptions import CloseSpider, IgnoreRequest, NotConfigured
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import is_asyncio_available

from scrapy_simhash._printable import describe_error, quote
from scrapy_simhash.config import describe_unknown, read_config
from scrapy_simhash.crawl.delivery import Delivery
from scrapy_simhash.crawl.links import Links
from scrapy_simhash.crawl.logstats import End, Found, describe_limits
from scrapy_simhash.crawl.lost import LostPages
from scrapy_simhash.crawl.policy import (
    FLAG,
    META_KEY,
    TEXT_KEY,
    Actions,
    JudgedPage,
    count,
    find_encoding,
    find_reader,
    is_page,
    look,
    spider_of,
)
from scrapy_simhash.crawl.running import (
    add_option,
    fail_command,
    is_looking,
    name_store,
    place_log,
    place_store,
    tell_bad_setting,
    tell_half,
)
from scrapy_simhash.detector.detector import Detector
from scrapy_simhash.detector.log import describe_look
from scrapy_simhash.errors import SettingError, StoreError, StoreUnusableError
from scrapy_simhash.pages.facts import NOBODY, Page
from scrapy_simhash.pages.links import NO_LINKS
from scrapy_simhash.signals import near_duplicate_found, sink_found
from scrapy_simhash.stores.opening import show_url

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.crawl.policy import JudgedPages
    from scrapy_simhash.detector.log import Decision
    from scrapy_simhash.detector.worker import Answer
    from scrapy_simhash.pages.facts import Reader

logger = logging.getLogger(__name__)

CLOSE_REASON = "simhash_store_unusable"


class SimhashDownloaderMiddleware:
    """Judges final pages and files; the verdict goes to `meta["simhash"]`, flags, stats and log."""

    # `SimhashSpiderMiddleware` does the dropping, so that a near-duplicate counts as received,
    # shows its flag in the "Crawled" line and reaches its errback.

    def __init__(self, crawler: Crawler) -> None:
        config = read_config(crawler.settings)
        if not config.enabled:
            raise NotConfigured
        if not is_asyncio_available():
            raise NotConfigured(
                "scrapy_simhash needs asyncio, but TWISTED_REACTOR names another reactor; "
                "set it to twisted.internet.asyncioreactor.AsyncioSelectorReactor"
            )
        if unknown := describe_unknown(crawler.settings):
            logger.warning("Ignored %s", unknown)
        self.looking = is_looking()
        if self.looking:  # write neither to the store nor to its log
            config = replace(config, readonly=True, log=None)
        self.config = place_log(place_store(config))
        self._text_reader = config.text_reader
        self._option = name_store(crawler.settings, self.config)
        self._crawler = crawler
        self._detector = Detector(self.config, here=self.looking)
        self._warned_of_unnamed = self._warned_of_text = False
        self._ended = ""  # why
        self.pages: JudgedPages = WeakKeyDictionary()
        self._actions = Actions(crawler, self.config, looking=self.looking)
        self.lost = LostPages(crawler, self._detector, self._option, readonly=config.readonly)
        self.delivery = Delivery(crawler, self._detector, self.pages, self.lost)
        self.links = Links(crawler, self.config, self._detector)
        self._parts = self.delivery, self.links, self.lost
        self._walls: set[int] = set()  # documents that showed one
        connect = crawler.signals.connect
        connect(self.lost.spider_idle, signals.spider_idle)  # after that of `delivery`
        connect(self.spider_opened, signals.spider_opened)
        connect(self.spider_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware; called by Scrapy."""
        try:
            return cls(crawler)
        except SettingError as error:
            tell_bad_setting(error)
            raise

    async def spider_opened(self, spider: Spider) -> None:
        """Open store, log and workers; stop the crawl if the store cannot be used."""
        try:
            await self._detector.open(spider.name)
        except Exception as error:
            if self.config.readonly and isinstance(error, StoreUnusableError):
                logger.info("Pages are not judged: %s", error, extra={"spider": spider})
                return
            # Scrapy would log any other exception of a handler and continue the crawl.
            logger.error(  # noqa: TRY400 - no traceback for an expected error
                "Crawl stopped before it started; store %s: %s",
                show_url(self.config.store),
                error,
                exc_info=not isinstance(error, StoreError),
                extra={"spider": spider},
            )
            fail_command()
            raise CloseSpider(CLOSE_REASON) from error
        if self._ended:  # meanwhile, as by CLOSESPIDER_TIMEOUT
            await self.spider_closed(self._ended)
            return
        if not self.delivery.followed and not self.looking:
            tell_half("SPIDER_MIDDLEWARES", "no page is dropped")
        logger.info(
            "Candidates within %d bits%s; near-duplicates: %s; store %s%s",
            self._detector.distance,
            ", or of one host with a name in common" if self.config.confirm is not None else "",
            self.config.action,
            show_url(self.config.store),
            " (read-only)" if self.config.readonly else "",
            extra={"spider": spider},
        )

    async def spider_closed(self, reason: str) -> None:
        """Write pending data, and log what a person should know of the crawl."""
        self._ended = reason
        stats = self._crawler.stats
        limits = describe_limits(stats, reason, self._crawler.settings.getint("DEPTH_LIMIT"))
        doubts = await self._close(limits) if self._detector.is_open else ""
        if self.looking:  # each page had a line of its own
            return
        found = Found(
            self._detector.has_log,
            self._actions.not_fetched.count(),
            doubts,
            self.lost.failed_url,
            self.lost.failed_copy,
            self.links.of_lists,
        )
        for said in End(stats, self.config, self._actions.chosen).list_lines(found, limits):
            text = add_option(said.text, self._option)
            logger.log(said.level, "%s", text, extra={"spider": self._crawler.spider})

    async def _close(self, limits: str) -> str:
        """Settle what is open, and write what was noted; find what speaks against drops."""
        try:
            for part in self._parts:
                try:
                    await part.close()
                except Exception as error:  # noqa: BLE001 - it costs the others nothing
                    self._report("Not settled at the end of the crawl", type(part).__name__, error)
            if limits:
                self._detector.note_limits(limits)
            doubts = await self._detector.describe_doubts()
        finally:  # whatever breaks, what was noted is written
            await self._detector.close()
        if lost := self._detector.lost_lines:
            count(self._crawler, "failed/log", lost)
        return doubts

    async def process_response(self, request: Request, response: Response) -> Response:
        """Judge a response, and always pass it on."""
        # A spider may have copied the meta of another response, with its verdict.
        for key in (META_KEY, TEXT_KEY):
            request.meta.pop(key, None)
        if request.meta.get("simhash_skip"):
            self.pages.pop(request, None)  # if it was judged before
            count(self._crawler, "not_judged/simhash_skip")
            return response
        reader, scheduled = NOBODY, self.delivery.is_scheduled(request)
        if scheduled and not self.looking:
            reader = self._find_reader(request)
        page = self.pages[request] = await self._judge(request, response, reader)
        if self.looking:
            logger.info("%s", describe_look(page.decision))
        page.scheduled = scheduled
        decision = page.decision
        request.meta[META_KEY] = decision.make_verdict()
        if self._detector.is_open:
            self._detector.write(decision)
        for part in self._parts:
            try:
                await part.judged(request, response, page)
            except Exception as error:  # noqa: BLE001 - the page passes, whatever it is
                self._not_followed(response, error)
        if decision.status == "near_duplicate":
            response.flags.append(FLAG)
            await self._announce(request, response, decision)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Note in the log a page that did not come, once Scrapy has given up."""
        unwanted = request.callback is NO_CALLBACK or request.meta.get("simhash_skip")
        refused = isinstance(exception, IgnoreRequest)  # by another middleware
        if not (unwanted or refused) and self._detector.is_open:
            decision = self._detector.pass_over(request.url, 0, "not_fetched")
            decision.tests = [type(exception).__name__]
            self._actions.count(decision)
            self._detector.write(decision)

    async def _announce(self, request: Request, response: Response, decision: Decision) -> None:
        """Send the signals of a near-duplicate; of a wall at the first page that shows it."""
        sent = [near_duplicate_found]
        if decision.sink and decision.match_document not in self._walls:
            self._walls.add(decision.match_document)
            count(self._crawler, "walls")
            sent.insert(0, sink_found)
        for signal in sent:
            await self._crawler.signals.send_catch_log_async(
                signal,
                response=response,
                request=request,
                verdict=request.meta[META_KEY],
                spider=self._crawler.spider,
            )

    def arrived(self, response: Response, page: JudgedPage) -> None:
        """Note that a page reaches its callback, whatever fails here."""
        self.pages[response] = page
        for part in (self.delivery, self.lost):
            try:
                part.arrived(response, page)
            except Exception as error:  # noqa: BLE001 - the page passes, whatever it is
                self._not_followed(response, error)

    def _find_reader(self, request: Request) -> Reader:
        """Find who gets a page; warn once of callbacks that have no name."""
        reader = NOBODY
        try:
            reader = find_reader(spider_of(self._crawler), request)
        except Exception as error:  # noqa: BLE001 - the page passes, however odd its callback is
            self._report("Callback without a name", quote(request.url), error)
        if reader == NOBODY and not self._warned_of_unnamed and request.callback is not NO_CALLBACK:
            self._warned_of_unnamed = True
            logger.warning(
                "The callback %s of %s is no method of the spider: its pages are only flagged, and "
                "none is dropped for them",
                quote(repr(request.callback)),
                quote(request.url),
                extra={"spider": self._crawler.spider},
            )
        return reader

    async def _judge(self, request: Request, response: Response, reader: Reader) -> JudgedPage:
        """Decide on a page, and what to do with it; whatever breaks, it passes."""
        read: list[Answer] = []
        try:
            asked = look(self._crawler, self.config, request, response, reader)
            if isinstance(asked, str) or not self._detector.is_open:
                reason = asked if isinstance(asked, str) else "no_store"
                decision = self._detector.pass_over(response.url, len(response.body), reason)
                decision.tests = [f"HTTP {response.status}"] * (reason == "status")
            else:
                decision = await self._detector.judge(asked, on_read=read.append)
            page = JudgedPage(decision, reader, links=read[0].targets if read else NO_LINKS)
            decision.action = self._actions.choose(request, reader, decision)
            self.links.decided(request, page)
            self.lost.decided(request, page)
        except Exception as error:  # noqa: BLE001 - the page passes, whatever it is
            # For instance if the user's request fingerprinter fails.
            self._report("Not judged", quote(response.url), error)
            decision = self._detector.pass_over(response.url, len(response.body), "failed")
            page = JudgedPage(decision, reader)
        self._actions.count(decision)
        for made in read:
            if made.second_opinion:
                count(self._crawler, f"second_opinion/{made.second_opinion}")
            # What is dropped needs no text, and no reader is as quick as the one that judges by.
            if self._text_reader and is_page(response) and page.decision.action != "drop":
                request.meta[TEXT_KEY] = await self._read_text(response)
        return page

    async def _read_text(self, response: Response) -> str:
        """Read the main text to hand over; all visible text where the reader fails, counted."""
        page = Page(response.url, response.body, find_encoding(response))
        text, failed = await self._detector.read_text(page)
        if failed:
            count(self._crawler, "failed/text")
            logger.log(
                logging.DEBUG if self._warned_of_text else logging.WARNING,
                "%s found no main text of %s, whose whole text is handed over: %s",
                self._text_reader,
                quote(response.url),
                failed,
                extra={"spider": self._crawler.spider},
            )
            self._warned_of_text = True
        return text

    def _not_followed(self, response: Response, error: Exception) -> None:
        count(self._crawler, "failed/page")
        self._report("Not noted", quote(response.url), error)

    def _report(self, what: str, about: str, error: Exception) -> None:
        # One line without a traceback, because the error may quote the page.
        extra = {"spider": self._crawler.spider}
        logger.error("%s: %s: %s", what, about, describe_error(error), extra=extra)
