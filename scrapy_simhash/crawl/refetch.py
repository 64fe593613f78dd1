"""Request pages again that were dropped for an original whose items were never delivered."""

from __future__ import annotations

import base64
import json
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from scrapy.http import Request
from scrapy.utils.request import request_from_dict

from scrapy_simhash._printable import describe_error, plural
from scrapy_simhash.crawl.followers import Follower
from scrapy_simhash.crawl.policy import count, is_closing, spider_of
from scrapy_simhash.detector.writer import Note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_simhash.crawl.followers import JudgedPage
    from scrapy_simhash.detector.detector import Detector
    from scrapy_simhash.judging.documents import LostPage

logger = logging.getLogger(__name__)


# Key in the meta of a page that is requested again: the number of the dropped document.
AGAIN = "_simhash_again"
# Another one: the digest of the text whose items came through already, under `ignore-outlinks`.
_DELIVERED = "_simhash_delivered"
# Keys in the meta of requests that URL rules lead to a known page, see `parking`: the URL with
# which a callback yielded it; the rules that it checks; where it was parked.
YIELDED, SAMPLED, PARKED = "_simhash_yielded", "_simhash_sampled", "_simhash_parked"
# Actions that let a page pass with its items and its links.
_WHOLE = {"", "flag"}
# Meta that components set for one download; the next download sets its own.
_OF_ONE_DOWNLOAD = {
    *(YIELDED, SAMPLED, PARKED),
    *("simhash", "simhash_text", "_simhash_inherited_redirects", AGAIN, _DELIVERED),
    *("download_latency", "redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons"),
    *("retry_times", "_auth_proxy"),
    # The first is a browser page, which cannot be serialized.
    *("playwright_page", "playwright_security_details", "playwright_suggested_filename"),
}


def set_mark(request: Request, name: str, value: Any) -> None:
    """Put a mark into the meta of a request; spiders copy meta, so it says whose mark it is."""
    request.meta[name] = (value, request.url)


def take_mark(request: Request, name: str) -> Any:
    """Take a mark of a request, or of that which was redirected here; None if there is none."""
    match request.meta.pop(name, None):
        case [value, url] if url in {request.url, *request.meta.get("redirect_urls", ())}:
            return value
    return None


class LostPages(Follower):
    """Keeps the requests of pages that were dropped for pending ones, and makes them again."""

    def __init__(self, crawler: Crawler, detector: Detector) -> None:
        self._crawler = crawler
        self._detector = detector
        self._asked_again: set[int] = set()

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:  # noqa: ARG002
        """Keep the request of a near-duplicate, unless its items are delivered anyway."""
        if page.decision.match_pending:
            dropped = page.scheduled and page.decision.action not in _WHOLE
            packed = pack_request(request, spider_of(self._crawler)) if dropped else None
            self._detector.note(Note(dropped=(page.decision.document, packed)))

    def arrived(self, response: Response, page: JudgedPage) -> None:
        """Note that a page reached the spider; if it was requested again, it is no longer lost."""
        request, decision = response.request, page.decision
        assert request is not None  # noqa: S101 - it was judged
        again = take_mark(request, AGAIN)
        if again is not None and decision.action in _WHOLE:
            self._detector.note(Note(dropped=(again, None)))
        page.repeated = take_mark(request, _DELIVERED) == decision.text_digest
        if decision.match_pending and decision.action == "ignore-outlinks":
            # Once its items came through, its links are lost all the same if its original is.
            noted = {_DELIVERED: [decision.text_digest, request.url]}  # as `set_mark` does
            packed = pack_request(request, spider_of(self._crawler), noted)
            kept = Note(dropped=(decision.document, packed))
            page.on_done.append(partial(self._detector.note, kept))

    async def list_requests(self, spider: Spider) -> list[Request]:
        """Make the requests of lost pages, each once a crawl."""
        requests = []
        lost = await self._list_lost(spider)
        for page in () if is_closing(self._crawler) else lost:
            request = unpack_request(page.request, spider)
            if request is not None and page.document not in self._asked_again:
                self._asked_again.add(page.document)
                count(self._crawler, "requested_again")
                set_mark(request, AGAIN, page.document)
                requests.append(request)
        return requests

    async def _list_lost(self, spider: Spider, *, ending: bool = False) -> Sequence[LostPage]:
        detector = self._detector
        return await detector.ask(
            lambda store: store.take_lost(detector.crawl, spider.name, ending=ending), ()
        )

    async def close(self) -> None:
        """Warn about pages that are still lost when the crawl ends; count those that may be."""
        spider, detector = self._crawler.spider, self._detector
        waiting = await detector.ask(lambda store: store.count_waiting(detector.crawl), 0)
        if waiting:
            count(self._crawler, "waiting", waiting)
        lost = await self._list_lost(spider, ending=True) if spider else []
        if lost:
            count(self._crawler, "lost", len(lost))
            bare = sum(not page.request for page in lost)
            only = f" but for {bare:,}, whose requests could not be stored," if bare else ""
            logger.warning(
                "%s dropped for originals whose items were never delivered, not fetched again; "
                "the spider's next crawl will try%s and `scrapy simhash undo --lost` lists them",
                plural(len(lost), "page"),
                only,
                extra={"spider": spider},
            )


def pack_request(request: Request, spider: Spider, noted: Mapping[str, Any] | None = None) -> bytes:
    """Pack a request for a later crawl of the spider; b"" if it would not be restored exactly."""
    # `noted` is added to its meta. This does not pickle: it refuses lambdas as callbacks, and
    # tuples or objects as arguments, which may raise whatever they like.
    try:
        fields = request.to_dict(spider=spider)
        fields["meta"] = {
            key: value for key, value in request.meta.items() if key not in _OF_ONE_DOWNLOAD
        } | dict(noted or {})
        packed = msgspec.msgpack.encode(fields, enc_hook=_make_plain)
        same = msgspec.msgpack.decode(packed) == fields
    except Exception:  # noqa: BLE001
        return b""
    return packed if same else b""


def _make_plain(value: object) -> str:
    """Turn a text of a kind of its own into a plain one."""
    # Scrapy's `LinkExtractor` gives the texts of links as lxml's, and `CrawlSpider` puts them into
    # the meta of each request.
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


def read_requests(path: str | Path, spider: Spider) -> Iterator[Request]:
    """Read the file that `scrapy simhash undo -o FILE` wrote, for a spider to start from.

    Args:
        path: JSON lines, or a text with a URL in each line.
        spider: that makes the requests; those of other spiders are left out.

    Yields:
        Requests past Scrapy's dupefilter: the original ones, with callback and arguments, where
        they were kept, else plain ones.

    Raises:
        ValueError: a line is neither of both; the message names it.
    """
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(map(str.strip, file), 1):
            try:
                page = json.loads(line) if line.startswith("{") else {"url": line}
                if page.get("spider") in {None, "", spider.name} and page["url"]:
                    packed = base64.b64decode(page.get("request") or "")
                    again = unpack_request(packed, spider) if packed else None
                    yield again or Request(page["url"], dont_filter=True)
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"{path}, line {number}: not a page to request again ({describe_error(error)});"
                    " write the file anew with `scrapy simhash undo`"
                ) from None


def unpack_request(packed: bytes, spider: Spider) -> Request | None:
    """Restore a request, past Scrapy's dupefilter; None if it cannot be made now."""
    try:
        request = request_from_dict(msgspec.msgpack.decode(packed), spider=spider)
        return request.replace(dont_filter=True)
    except Exception:  # noqa: BLE001 - the spider's code may have changed, also its Request
        return None
