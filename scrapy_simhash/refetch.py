"""Drops are taken back that were made for a page whose items never came through, see `lost`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from scrapy import signals
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.request import request_from_dict

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.config import Config
    from scrapy_simhash.detector import Detector

logger = logging.getLogger(__name__)


# In the meta of a page that is requested again: the number of the document that was dropped.
AGAIN = "_simhash_again"
# What components note of a download; the next one has its own.
_OF_ONE_DOWNLOAD = {
    *("simhash", "_simhash_scheduled", "_simhash_inherited_redirects", AGAIN),
    *("download_latency", "redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons"),
    *("retry_times", "_auth_proxy"),
    # The first is a window of a browser, which nobody can write.
    *("playwright_page", "playwright_security_details", "playwright_suggested_filename"),
}


class LostPages:
    """Keeps the requests of what is dropped for pending pages, and makes them again if need be.

    Args:
        crawler: the running crawler.
        config: the settings.

    Attributes:
        detector: set once it is open; until then, and in a read-only crawl, nothing is done.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self.detector: Detector | None = None
        self._crawler = crawler
        self._readonly = config.readonly
        self._expected: dict[int, dict[str, Any]] = {}
        self._asked_again: set[int] = set()
        crawler.signals.connect(self.spider_idle, signals.spider_idle)

    def keep(self, request: Request, document: int, *, dropped: bool) -> None:
        """Keep the request of a near-duplicate, unless its items come through anyway."""
        if self.detector is not None:
            assert self._crawler.spider is not None  # noqa: S101 - it has made the request
            packed = pack_request(request, self._crawler.spider) if dropped else None
            self.detector.keep_request(document, packed)

    def expect(self, decision: dict[str, Any]) -> None:
        """Note a page that was judged and is on its way to the spider."""
        if decision["document"] and decision["status"] != "near_duplicate":
            self._expected[decision["document"]] = decision

    def arrived(self, response: Response, decision: dict[str, Any]) -> None:
        """Note that a page reached the spider; requested again, it is lost no more."""
        self._expected.pop(decision["document"], None)
        again = response.meta.pop(AGAIN, None)
        whole = decision["action"] in {"", "flag"}
        if again is not None and whole and self.detector is not None and not self._readonly:
            self.detector.keep_request(again, None)

    def spider_idle(self, spider: Spider) -> None:
        """Request what was lost again, once a crawl.

        Raises:
            DontCloseSpider: there was something.
        """
        # Nothing is on its way any more: another middleware turned these pages away.
        for decision in self._expected.values():
            if self.detector is not None:
                self.detector.withdraw(decision)
        self._expected.clear()
        asked = len(self._asked_again)
        for document, packed in self._list_lost(spider):
            request = unpack_request(packed, spider)
            if request is not None and document not in self._asked_again:
                self._asked_again.add(document)
                self._count("requested_again")
                request.meta[AGAIN] = document
                assert self._crawler.engine is not None  # noqa: S101 - it is idle
                self._crawler.engine.crawl(request)
        if len(self._asked_again) > asked:
            raise DontCloseSpider

    def _list_lost(self, spider: Spider, *, ending: bool = False) -> list[tuple[int, bytes]]:
        if self.detector is None or self._readonly:
            return []
        pages = self.detector.take_lost(spider.name, ending=ending)
        return [(page.document, page.request) for page in pages]

    def warn(self) -> None:
        """Say what is still lost when the crawl ends."""
        spider = self._crawler.spider
        lost = len(self._list_lost(spider, ending=True)) if spider else 0
        if lost:
            self._count("lost", lost)
            logger.warning(
                "%d pages were dropped for pages whose items never came through, and were not "
                "fetched again; the spider's next crawl tries to, `undo --lost` lists them",
                lost,
                extra={"spider": spider},
            )

    def _count(self, key: str, by: int = 1) -> None:
        assert self._crawler.stats is not None  # noqa: S101 - there before any page
        self._crawler.stats.inc_value(f"simhash/{key}", by)


def pack_request(request: Request, spider: Spider) -> bytes:
    """Write a request such that a crawl of the same spider can make it again.

    Returns:
        MessagePack of `Request.to_dict`; b"" where callback or arguments cannot be written such
        that they come back the same (a lambda, a tuple, an object): nothing is pickled.
    """
    try:
        fields = request.to_dict(spider=spider)
        fields["meta"] = {
            key: value for key, value in request.meta.items() if key not in _OF_ONE_DOWNLOAD
        }
        packed = msgspec.msgpack.encode(fields)
        same = msgspec.msgpack.decode(packed) == fields
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return b""
    return packed if same else b""


def unpack_request(packed: bytes, spider: Spider) -> Request | None:
    """Make a request that was written by `pack_request`; it passes Scrapy's dupefilter.

    Returns:
        None where there is none, or where the spider has no such callback any more.
    """
    try:
        request = request_from_dict(msgspec.msgpack.decode(packed), spider=spider)
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, ImportError, NameError):
        return None
    return request.replace(dont_filter=True)
