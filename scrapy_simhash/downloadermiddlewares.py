"""The downloader middleware: has responses judged, and publishes their verdicts."""

from __future__ import annotations

import asyncio
import gc
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary, WeakSet

from msgspec import structs
from scrapy import Spider, signals
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.utils.asyncio import is_asyncio_available

from scrapy_simhash._printable import (
    MOST_ERROR_CHARACTERS,
    describe_error,
    plural,
    printable,
    quote,
)
from scrapy_simhash.config import ACTIONS, read_config
from scrapy_simhash.crawl import policy, running
from scrapy_simhash.crawl.delivery import Delivery
from scrapy_simhash.crawl.end import Fuse, Unfollowed
from scrapy_simhash.crawl.policy import JudgedPage
from scrapy_simhash.crawl.summary import Summary
from scrapy_simhash.errors import NotJudgedError, StoreError, StoreUnusableError
from scrapy_simhash.judge import log as logs
from scrapy_simhash.judge.client import Judges
from scrapy_simhash.judge.messages import EndWaits, Gone
from scrapy_simhash.pages.facts import MOSTLY_NEW, NOBODY, WHOLE_TEXT, Fetched
from scrapy_simhash.signals import near_duplicate_found
from scrapy_simhash.stores.opening import show_url

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.crawl.policy import JudgedPages
    from scrapy_simhash.judge.messages import Opened, ToJudge

logger = logging.getLogger(__name__)

CLOSE_REASON = "simhash_store_unusable"
_POLLING_SECONDS = 1.0
_GONE = {404, 410}
_MOST_LINKS_LOGGED = 1_000  # for people


class SimhashDownloaderMiddleware:
    """Has final pages judged; verdicts go to `meta["simhash"]`, flags, stats and log."""

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
        self.config = running.resolve_paths(config)
        option = running.name_store(crawler.settings, self.config)
        self._details = f" Details: scrapy simhash report{option}"
        self._crawler = crawler
        self._given = running.make_open(self.config)
        self._judges: Judges | None = None  # while the store is open
        self._log = logs.CrawlLog()
        self._fuse = Fuse()
        self._looks = running.is_looking()  # for a page or two, which no crawl gets
        self._befell = set[str]()  # what is warned of once only
        self._ended = ""  # why
        self._polling: asyncio.TimerHandle | None = None
        # Requests that came from the scheduler. An inline download (`engine.download_async`) does
        # not, whatever meta it has, and no spider middleware will see its response.
        self._scheduled: WeakSet[Request] | None = None  # unknown: all of them
        self.pages: JudgedPages = WeakKeyDictionary()
        self.delivery = Delivery(crawler, self._tell, self.pages, self._write_forgotten)
        self.summary, self.unfollowed = Summary(), Unfollowed(crawler, self.config)
        connect = crawler.signals.connect
        connect(self._watch_scheduler, signals.spider_opened)
        connect(self.spider_opened, signals.spider_opened)
        connect(self.engine_started, signals.engine_started)
        connect(self.spider_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware; called by Scrapy."""
        return cls(crawler)

    # Opening

    async def spider_opened(self, spider: Spider) -> None:
        """Open store and log, and start the judges; stop the crawl if the store cannot be used."""
        if self._looks:
            return
        try:
            opened = await self._open(spider)
        except Exception as error:
            if self.config.readonly and isinstance(error, StoreUnusableError):
                self._logger.info("Pages are not judged: %s", error)
                return
            # Scrapy would log any other exception of a handler and continue the crawl.
            self._logger.error(  # noqa: TRY400 - no traceback for an expected error
                "Crawl stopped before it started; store %s: %s",
                show_url(self.config.store),
                error,
                exc_info=not isinstance(error, StoreError),
            )
            running.fail_command()
            raise CloseSpider(CLOSE_REASON) from error
        if self._ended:  # meanwhile, as by CLOSESPIDER_TIMEOUT
            await self.spider_closed(self._ended)
            return
        self._logger.info(
            "On near-duplicates: %s; store %s%s",
            self.config.action,
            show_url(self.config.store),
            " (read-only)" if self.config.readonly else "",
        )
        theirs = sorted(each.callback for each in opened.readers if each.spider == spider.name)
        if theirs and not any(hasattr(spider, name.partition(",")[0]) for name in theirs):
            self._logger.info(
                "The store has pages of %s, but of other callbacks (%s): they are compared with no "
                "page of this crawl",
                quote(spider.name),
                ", ".join(theirs),
            )

    def _watch_scheduler(self) -> None:
        """Record the requests that the engine takes from its scheduler; no signal has them."""
        scheduled: WeakSet[Request] = WeakSet()

        def take_and_record() -> Request | None:
            request: Request | None = next_request()
            if request is not None:
                scheduled.add(request)
            return request

        try:
            scheduler = running.find_scheduler(self._crawler)
            next_request = scheduler.next_request
            scheduler.next_request = take_and_record
            self._scheduled = scheduled
        except Exception as error:  # noqa: BLE001 - of an engine or a scheduler of another kind
            self._logger.warning(
                "The scheduler cannot be watched (%s): what a callback downloads itself counts as "
                "a page of its own, unless meta['simhash_skip'] is set",
                quote(repr(error)),
            )

    def engine_started(self) -> None:
        """Warn if pages are judged that nobody drops; the other middleware is open by now."""
        if self._judges is not None and not self.delivery.followed:
            running.tell_half("SPIDER_MIDDLEWARES", "no page is dropped")

    async def _open(self, spider: Spider) -> Opened:
        crawl = running.name_crawl(self._crawler, logs.new_crawl())
        given = structs.replace(self._given, crawl=crawl, spider=spider.name)
        judges = Judges(given, self.config.processes)
        try:
            opened = await judges.open()
            self._log = logs.CrawlLog(given.config.log, crawl, spider.name, opened.seed)
        except BaseException:
            await judges.close()
            raise
        self._judges = judges
        self._fuse = Fuse(opened.shares)
        # The garbage collector passes over what is there: 80,000 objects that stay, which else
        # hold the event loop for 30 ms every few hundred pages.
        gc.freeze()
        self._poll()
        return opened

    def _poll(self) -> None:
        """End all waits once the crawl closes."""
        loop = asyncio.get_running_loop()
        self._polling = loop.call_later(_POLLING_SECONDS, self._poll)
        # Else the spider would close only after them.
        if running.is_closing(self._crawler):
            self._tell(EndWaits())

    # Closing

    async def spider_closed(self, reason: str) -> None:
        """Write what is left, and log what a person should know of the crawl."""
        self._ended = reason
        if self._judges is not None:
            await self._close(self._judges)
        if self._looks:
            return
        for line in self.summary.list_lines():
            details = self._details * (line.about == "hosts" and self._log.path is not None)
            level = logging.WARNING if line.warns else logging.INFO
            self._logger.log(level, "%s%s", line.said, details)

    async def _close(self, judges: Judges) -> None:
        """Have everything written, and count and log the links that only dropped pages had."""
        if self._polling is not None:
            self._polling.cancel()
        self.delivery.close()
        self._judges = None
        closed = await judges.close()
        gc.unfreeze()
        if closed.unwritten:
            self._logger.warning(
                "%s not written: the store cannot be; their pages come again, or are kept twice",
                plural(closed.unwritten, "change"),
            )
        found = await asyncio.to_thread(self.unfollowed.find, closed)
        self.summary.of_lists = sum(link.new_links >= MOSTLY_NEW for link in found)
        self.summary.not_followed = number = len(found) + closed.beyond * bool(found)
        if number:
            self._crawler.stats.inc_value("simhash/links/only_on_dropped_pages", number)
        for link in found[:_MOST_LINKS_LOGGED]:
            found_on = {"match_url": link.page_url, "new_links": link.new_links, "links": number}
            self._log.write(self._log.pass_over(link.url, status=logs.NOT_FOLLOWED, **found_on))
        self._log.close()
        if self._log.lost:
            self._crawler.stats.inc_value("simhash/failed/log", self._log.lost)

    # Pages

    async def process_response(self, request: Request, response: Response) -> Response:
        """Have a response judged, and always pass it on."""
        # A spider may have copied the meta of another response, with its verdict.
        for key in (policy.META_KEY, policy.TEXT_KEY):
            request.meta.pop(key, None)
        if request.meta.get("simhash_skip"):
            self.pages.pop(request, None)  # if it was judged before
            self._crawler.stats.inc_value("simhash/not_judged/simhash_skip")
            return response
        if policy.AGAIN_KEY in request.meta:
            return response
        # Then its page reaches the spider.
        scheduled = self._scheduled is None or request in self._scheduled
        if self._scheduled is not None:
            self._scheduled.discard(request)  # a callback may download it once more
        if not scheduled:
            self.delivery.requested(request, inline=True)
        page = self.pages[request] = await self._judge(request, response, scheduled)
        decision = page.decision
        request.meta[policy.META_KEY] = decision.make_verdict()
        self._log.write(decision)
        if page.number:
            self.delivery.expect(page)
        for stat in self.summary.add(decision):
            self._crawler.stats.inc_value(stat)
        self.unfollowed.add(decision)
        if warning := self._fuse.add(page):
            self._logger.warning("%s", warning)
        if decision.status == "near_duplicate":
            response.flags.append(policy.FLAG)
            await self._crawler.signals.send_catch_log_async(
                near_duplicate_found,
                response=response,
                request=request,
                verdict=request.meta[policy.META_KEY],
                spider=self._crawler.spider,
            )
        return response

    async def _judge(self, request: Request, response: Response, scheduled: bool) -> JudgedPage:
        """Have a page judged; whatever breaks, it passes."""
        judges = self._judges
        pass_over = partial(self._log.pass_over, response.url, body_bytes=len(response.body))
        try:
            reader = policy.find_reader(self._crawler, self.config, request)
            asked = policy.select_page(self._crawler, self.config, request, response, reader)
            if isinstance(asked, str) or judges is None:
                if response.status in _GONE and scheduled:
                    fingerprint = self._crawler.request_fingerprinter.fingerprint(request)
                    self._tell(Gone(policy.identify(fingerprint, reader)))
                reason = asked if isinstance(asked, str) else "no_store"
                error = [f"HTTP {response.status}"] * (reason == "status")
                return JudgedPage(pass_over(reason=reason, tests=error))
            young, action = scheduled and reader != NOBODY, "flag"
            if young and self.delivery.followed:
                action = self._choose_action(request)
            if reader == NOBODY:
                self._warn(
                    "unnamed",
                    "The callback %s of %s is no method of the spider: none of its pages is "
                    "dropped, and no page is dropped for one of them",
                    quote(repr(request.callback)),
                    quote(request.url),
                )
            # A page from a cache says nothing of when its site changes.
            cached = "cached" in response.flags
            again = None if cached else partial(policy.ask_again, self._crawler, request)
            number, future = judges.ask(asked, response.body, action, young=young, refetch=again)
            said = await future
            decision = said.decision or pass_over(reason="failed")
            self._befell.discard("store_unavailable")
            if said.waited_seconds:
                stats, seconds = self._crawler.stats, said.waited_seconds
                stats.inc_value("simhash/waited_seconds", seconds)  # type: ignore[arg-type]
            # What is dropped needs no text, and no reader is as quick as the one that judges by.
            if self.config.hand_over_text and decision.action != "drop":
                request.meta[policy.TEXT_KEY] = await self._read_text(judges, asked, response)
            if not said.young:
                return JudgedPage(decision, reader)
            urls = (request.url.partition("#")[0], *policy.list_redirects(request))
            return JudgedPage(decision, reader, number, urls)
        except Exception as error:  # noqa: BLE001 - for instance of the user's fingerprinter
            reason, detail = "failed", describe_error(error)
            if isinstance(error, NotJudgedError):
                reason, detail = error.reason, printable(error.detail)[:MOST_ERROR_CHARACTERS]
            self._tell_not_judged(reason, detail, response.url)
            return JudgedPage(pass_over(reason=reason))

    def _choose_action(self, request: Request) -> str:
        """Choose what happens to a page that may be dropped; spiders name what they like."""
        # A page that carries an item of another page is needed for that.
        default = "flag" if policy.carries_item(request) else self.config.action
        action: Any = request.meta.get("simhash_action", default)
        if action in ACTIONS:
            return str(action)
        # The intention of the spider is unknown; flagging loses nothing.
        self._crawler.stats.inc_value("simhash/failed/action")
        told, admitted = "meta['simhash_action'] = %s of %s: must be %s", map(repr, ACTIONS)
        told += "; the page is only flagged"
        self._warn("action", told, quote(action), quote(request.url), " or ".join(admitted))
        return "flag"

    async def _read_text(self, judges: Judges, page: Fetched, response: Response) -> str:
        """Read the main text to hand over; all visible text where the reader fails, counted."""
        text = failed = ""
        for wanted in (self.config.text_reader, WHOLE_TEXT):
            try:
                text = (await judges.ask(page, response.body, wanted=wanted)[1]).text
            except NotJudgedError as error:
                failed = failed or printable(f"{error.reason}: {error.detail}")
            if text:
                break
            failed = failed or "no text"
        if failed:
            self._crawler.stats.inc_value("simhash/failed/text")
            told = "%s found no main text of %s, whose whole text is handed over: %s"
            self._warn("text", told, self.config.text_reader, quote(response.url), failed)
        return text

    def _tell_not_judged(self, reason: str, detail: str, url: str) -> None:
        """Warn of the first page that the user's code fails on, and of a store that does."""
        # One line without a traceback, because an error may quote the page.
        if reason == "store_unavailable":
            self._warn(reason, "Pages are not judged while the store fails: %s", detail)
        of_user = reason in {"failed", "scope_failed"}
        tell = partial(self._warn, reason) if of_user else self._logger.debug
        tell("Not judged: %s: %s: %s", quote(url), reason, detail)

    # What is told and written

    @property
    def _logger(self) -> logging.LoggerAdapter[logging.Logger]:
        return logging.LoggerAdapter(logger, {"spider": self._crawler.spider})

    def _warn(self, what: str, text: str, *given: str) -> None:
        """Warn of what befell a page, the first time; later it is a DEBUG line."""
        level = logging.DEBUG if what in self._befell else logging.WARNING
        self._befell.add(what)
        self._logger.log(level, text, *given)

    def _tell(self, message: ToJudge) -> None:
        if self._judges is not None:
            self._judges.tell(message)

    def _write_forgotten(self, page: JudgedPage, reason: str) -> None:
        """Write into the log that a page is no original after all."""
        url, document = page.decision.url, page.decision.document
        self.summary.forgotten += 1
        line = self._log.pass_over(url, reason=reason, status=logs.FORGOTTEN, document=document)
        self._log.write(line)
