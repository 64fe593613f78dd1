"""When a page is done: its callback's output was consumed and each item reached its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.extensions.feedexport import FeedExporter
from scrapy.utils.defer import ensure_awaitable

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

Verdict: TypeAlias = dict[str, Any]
# Of feeds: their URI template, and the number of the batch.
Batch: TypeAlias = tuple[str, int]
Batches: TypeAlias = set[Batch]
# Is never stored.
_NOWHERE = ("", -1)


class Judge(Protocol):
    """Whom pages are reported to."""

    def arrived(self, response: Response, decision: Verdict) -> None:
        """Note that a page reached the spider."""

    def mark_done(self, decision: Verdict) -> None:
        """Note that the items of a page came through."""

    def withdraw(self, decision: Verdict) -> None:
        """Note that they never will."""


@dataclass(eq=False, slots=True)
class _Page:
    """A page whose callback was called.

    Attributes:
        verdict: of the page.
        items: that it yielded and that are in the pipelines still.
        batches: of feeds that have some of them.
        consumed: whether there will be no more of them.
    """

    verdict: Verdict
    items: int = 0
    batches: Batches = field(default_factory=set)
    consumed: bool = False


class Delivery:
    """Follows the items of each judged page through the pipelines.

    An item that a pipeline drops on purpose (`DropItem`) has reached its end; one that a pipeline
    failed on has not, and its page is withdrawn.

    Args:
        crawler: whose signals tell what becomes of items.
        judge: told which pages are done.
        on_feed: pages are done only when their items are in the feeds' storages.
    """

    def __init__(self, crawler: Crawler, judge: Judge, *, on_feed: bool) -> None:
        self._judge = judge
        # Only bound methods are connected to signals, and these do not keep their object.
        self._gate = FeedGate(crawler, judge.mark_done) if on_feed else None
        self._pages: WeakKeyDictionary[Response, _Page] = WeakKeyDictionary()
        self._open: set[_Page] = set()
        connect = crawler.signals.connect
        connect(self.item_scraped, signals.item_scraped)
        connect(self.item_ended, signals.item_dropped)
        connect(self.item_failed, signals.item_error)
        connect(self.spider_failed, signals.spider_error)

    def begin(self, response: Response, verdict: Verdict) -> None:
        """Note that the callback of a page was called."""
        self._judge.arrived(response, verdict)
        page = self._pages[response] = _Page(verdict)
        self._open.add(page)

    def add_item(self, response: Response) -> None:
        """Note an item that goes to the pipelines."""
        if page := self._pages.get(response):
            page.items += 1

    def end(self, response: Response) -> None:
        """Note that the callback's output was consumed."""
        if page := self._pages.get(response):
            page.consumed = True
            self._settle(page)

    def item_scraped(self, response: Response | None) -> None:
        """Note that an item was scraped."""
        batches = self._gate.list_batches() if self._gate else set()
        page = self._pages.get(response) if response is not None else None
        if page:
            page.batches |= batches
        self.item_ended(response)

    def item_ended(self, response: Response | None) -> None:
        """Note that an item was scraped, or dropped on purpose."""
        page = self._pages.get(response) if response is not None else None
        if page:
            page.items -= 1
            self._settle(page)

    def item_failed(self, response: Response | None) -> None:
        """Withdraw the page of an item that a pipeline raised for."""
        if response is not None:
            self.fail(response)

    def spider_failed(self, response: Response | None) -> None:
        """Withdraw a page whose callback, or a middleware on its output, raised."""
        if response is not None:  # as when `start` raised
            self.fail(response)

    def fail(self, response: Response) -> None:
        """Withdraw a page, once."""
        page = self._pages.get(response)
        if page and page in self._open:
            self._open.discard(page)
            self._judge.withdraw(page.verdict)

    def _settle(self, page: _Page) -> None:
        # A middleware beyond ours may have put items in: fewer than none are left then.
        if page.consumed and page.items <= 0 and page in self._open:
            self._open.discard(page)
            if self._gate:
                self._gate.hold(page.verdict, page.batches)
            else:
                self._judge.mark_done(page.verdict)

    def close(self) -> None:
        """Settle what is left when all pipelines have ended: a middleware beyond ours kept it."""
        for page in list(self._open):
            if page.consumed:
                page.items = 0
                self._settle(page)


@dataclass(eq=False, slots=True)
class _Held:
    """A page, and the batches with its items that are not stored yet."""

    verdict: Verdict
    left: Batches


class FeedGate:
    """Holds pages back until the feeds with their items are stored.

    What no feed could take stays pending.

    Args:
        crawler: with the feed exporter.
        release: called with each page that is done.
    """

    def __init__(self, crawler: Crawler, release: Callable[[Verdict], None]) -> None:
        self._crawler = crawler
        self._release = release
        self._held: dict[Batch, list[_Held]] = {}
        self._stored: Batches = set()
        # Of each feed, the batch and the number of its items when they were last looked at.
        self._seen: dict[str, tuple[int, int]] = {}
        crawler.signals.connect(self.list_batches, signals.spider_opened)

    def list_batches(self) -> Batches:
        """List the batches of feeds that an item was just written to.

        The exporter was asked first. Its filters are not asked again: they may count.
        """
        exporter = self._crawler.get_extension(FeedExporter)
        slots = exporter.slots if exporter else []
        written: Batches = set()
        for slot in slots:
            batch, items = self._seen.get(slot.uri_template, (0, 0))
            if slot.batch_id > batch:
                self._watch(slot)
            batch = batch or slot.batch_id
            if slot.batch_id > batch or slot.itemcount > items:
                # The item that fills a batch ends it.
                written.add((slot.uri_template, batch))
            self._seen[slot.uri_template] = (slot.batch_id, slot.itemcount)
        return written or ({_NOWHERE} if slots else set())

    def _watch(self, slot: Any) -> None:
        """Note when a batch is stored; the signal that a feed was closed tells no failure."""
        batch, store = (slot.uri_template, slot.batch_id), slot.storage.store

        async def store_and_note(file: Any) -> None:
            await ensure_awaitable(store(file))
            self._note_stored(batch)

        slot.storage.store = store_and_note

    def hold(self, verdict: Verdict, batches: Batches) -> None:
        """Wait until these are stored."""
        # All that marking it takes: there may be many until the crawl ends.
        slim = {key: verdict[key] for key in ("status", "document")}
        page = _Held(slim, batches - self._stored)
        for batch in page.left:
            self._held.setdefault(batch, []).append(page)
        if not page.left:
            self._release(slim)

    def _note_stored(self, batch: Batch) -> None:
        self._stored.add(batch)
        for page in self._held.pop(batch, ()):
            page.left.discard(batch)
            if not page.left:
                self._release(page.verdict)
