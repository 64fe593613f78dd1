"""Choose what is judged, identities and actions, and ask for pages once more."""

from __future__ import annotations

import hashlib
import inspect
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from itemadapter import is_item
from scrapy.http import HtmlResponse, Request, Response
from scrapy.http.request import NO_CALLBACK
from scrapy.spiders import CrawlSpider

from scrapy_simhash.crawl.running import DEFAULT_CALLBACK, RULE_CALLBACK
from scrapy_simhash.pages.addresses import are_of_one_origin, find_site, host_of
from scrapy_simhash.pages.facts import EVERYONE, MOST_BYTES, NOBODY, Fetched, Reader

if TYPE_CHECKING:
    from weakref import WeakKeyDictionary

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import Decision

SUCCESS = range(200, 300)
_IDENTITY_BYTES = 16  # two pages of a trillion have one with a chance of 1 in 10**15


# Reasons why nobody expects a judgement: what is no page, did not come, or an option exempts.
LEFT_OUT = {"no_callback", "method", "not_html", "never_drop", "simhash_skip", "status"}


@dataclass(eq=False, slots=True, weakref_slot=True)
class JudgedPage:
    """A page that was judged, or passed over; it does not hold its request or response."""

    decision: Decision
    reader: Reader = NOBODY  # who is to get it
    number: int = 0  # by which its judge awaits what becomes of it; 0 if it does not
    urls: tuple[str, ...] = ()  # of its request, and of those that were redirected to it
    arrived: bool = False  # whether its callback is called
    items: int = 0  # number of items still in the pipelines
    scraped: bool = False  # whether one of them came through
    dropped: bool = False  # whether a pipeline dropped one of them (`DropItem`)
    ended: bool = False  # whether its callback has


# By their requests, and once they reach the spider by their responses, too: other middlewares may
# replace a response on the way, and a spider may yield a request once more.
JudgedPages: TypeAlias = "WeakKeyDictionary[Request | Response, JudgedPage]"


def carries_item(request: Request) -> bool:
    """Return whether a request carries an item, or an item loader, to its callback."""
    values = [
        *request.cb_kwargs.values(),
        *(
            value
            for key, value in request.meta.items()
            if not (isinstance(value, dict) and key.startswith(_OF_PLUGINS))
        ),
    ]
    return any(
        each and is_item_like(each)
        for value in values
        for each in (value if isinstance(value, (list, tuple)) else (value,))
    )


def is_item_like(value: Any) -> bool:
    """Return whether a value is an item, or an item loader."""
    # Most values of a meta are plain, and to ask for items takes 10 us each.
    if isinstance(value, (str, int, float)):
        return False
    return is_item(value) or hasattr(value, "load_item")


# Of keys of the meta whose dicts are no items, see the documentation of these plugins.
_OF_PLUGINS = ("_", "simhash", "playwright", "splash", "zyte_api", "selenium", "crawlera")
META_KEY = "simhash"
TEXT_KEY = "simhash_text"
FLAG = "near_duplicate"
_INHERITED = "_simhash_inherited_redirects"
_FOUND_ON = "_simhash_found_on"


def select_page(
    crawler: Crawler, config: Config, request: Request, response: Response, reader: Reader
) -> Fetched | str:
    """Make the page that a judge gets, for a reader, or return why it is not judged.

    Judged are final HTML pages with a callback that no option exempts. What a form or a search
    answers is no page of an address: only answers to GET are judged.
    """
    # This also sees robots.txt and downloads of media pipelines, and error pages after their last
    # retry, which HttpError filters only later.
    skipped = {
        "no_callback": request.callback is NO_CALLBACK,
        "method": request.method != "GET",
        "not_html": not isinstance(response, HtmlResponse),
        "status": response.status not in SUCCESS,
        "truncated": not {"dataloss", "partial", "download_stopped"}.isdisjoint(response.flags),
        "never_drop": any(re.search(each, response.url) for each in config.never_drop),
        "too_large": len(response.body) > MOST_BYTES,
    }
    for reason, holds in skipped.items():
        if holds:
            return reason
    found_on, redirected = request.meta.get(_FOUND_ON, ""), list_redirects(request)
    fingerprint = crawler.request_fingerprinter.fingerprint(request)
    return Fetched(
        url=response.url,
        encoding=find_encoding(response),
        identity=identify(fingerprint, reader),
        imported=identify(fingerprint),
        requested=redirected[0] if redirected else "",
        reader=reader,
        leads_on=not 0 < crawler.settings.getint("DEPTH_LIMIT") <= request.meta.get("depth", 0),
        foreign=bool(found_on) and find_site(found_on) != find_site(host_of(response.url)),
    )


def list_redirects(request: Request) -> list[str]:
    """List the addresses from which a request was redirected, the first one first."""
    redirects: list[str] = request.meta.get("redirect_urls", [])
    own = redirects[request.meta.get(_INHERITED, 0) :]
    return [url for url in own if isinstance(url, str)]  # a spider may keep other things there


def find_reader(crawler: Crawler, config: Config, request: Request) -> Reader:
    """Find who gets a response: the spider, and the name that its callback has there.

    It is the name of the method, whatever attribute of the spider it is. Lambdas, functions and
    partials have none: NOBODY. Where settings say so, the spider's name makes no difference.
    """
    spider = crawler.spider
    assert spider is not None  # noqa: S101 - there before any request
    name = _name_method(spider, request.callback or getattr(spider, DEFAULT_CALLBACK))
    if isinstance(spider, CrawlSpider):
        if name == DEFAULT_CALLBACK:
            name = "parse_start_url, follow"
        elif name == RULE_CALLBACK:
            # All rules have this one, and what each does with its pages behind it.
            name = _name_callback_of_rule(spider, request)
    elif name == DEFAULT_CALLBACK:
        name = "parse"
    return Reader("" if config.across_spiders else spider.name, name) if name else NOBODY


def _name_method(spider: Spider, callback: Any) -> str:
    """Name a method as an attribute of the spider; "" if it is none."""
    if getattr(callback, "__self__", None) is not spider:
        return ""
    name = getattr(callback, "__name__", "")
    if getattr(spider, name, None) == callback:
        return str(name)
    members = inspect.getmembers_static(spider)  # decorated, or the method of another class
    method = getattr(callback, "__func__", None)
    return next((name for name, member in members if method and member is method), "")


def _name_callback_of_rule(spider: CrawlSpider, request: Request) -> str:
    """Name what the rule that found a page does with it; "" if its callback has no name."""
    place = request.meta.get("rule")  # a spider may keep other things under this name
    if not isinstance(place, int) or not 0 <= place < len(spider.rules):
        return ""
    rule, own = spider.rules[place], spider.rules[place].callback
    callback = getattr(spider, own, None) if isinstance(own, str) else own
    name = _name_method(spider, callback)
    parts = (name, "follow" * rule.follow) if name or callback is None else ()
    return ", ".join(filter(None, parts))


def identify(fingerprint: bytes, reader: Reader = EVERYONE) -> bytes:
    """Make the identity of a page: a digest of its request's fingerprint and of who gets it.

    Else one request that two callbacks get would change the document of the other each time.
    """
    name = f"{reader.spider}\0{reader.callback}\0".encode("utf-8", "replace")
    return hashlib.blake2b(name + fingerprint, digest_size=_IDENTITY_BYTES).digest()


def find_encoding(response: Response) -> str | None:
    """Get the encoding that Scrapy finds for a response, or None."""
    with suppress(Exception):  # Scrapy raises for an unknown charset; the judge detects it
        return getattr(response, "encoding", None)
    return None


def mark_found(request: Request, response: Response) -> None:
    """Mark a new request with the host that it was found on, and as none that was redirected."""
    request.meta[_FOUND_ON] = host_of(response.url)
    # The text would go with it into the queue on the disk.
    if request.meta is not response.meta:
        request.meta.pop(TEXT_KEY, None)
    # The redirects stay, because others use them, but their number is noted.
    if "redirect_urls" in request.meta:
        request.meta[_INHERITED] = len(request.meta["redirect_urls"])


# Marks the request for the middlewares of this plugin.
AGAIN_KEY = "simhash_again"
# What other middlewares noted of the page whose request is the model.
_OF_THE_PAGE = ("simhash", "_simhash", "redirect_", "retry_times", "download_latency", "rule")
# A browser draws such pages; without it they are others.
_OF_BROWSERS = ("playwright", "splash", "zyte_api", "selenium", "pyppeteer")
# An answer may take so many times as long as that of the page which waits for it, so that no site
# that is slow the second time holds up others: all of CONCURRENT_REQUESTS may wait.
_TIMES_AS_LONG, _LEAST_SECONDS, _MOST_SECONDS = 10, 3, 30


async def ask_again(crawler: Crawler, request: Request, url: str) -> tuple[Fetched, bytes] | None:
    """Ask for a page once more, as another one was asked for; None if the answer proves nothing.

    All downloader middlewares, delays and bounds apply, but the scheduler is not asked: a request
    that waits there for a page that waits for it would hold the crawl.
    """
    engine = crawler.engine
    drawn = any(key.startswith(_OF_BROWSERS) for key in map(str, request.meta))
    if engine is None or drawn:
        return None
    meta = {
        key: value
        for key, value in request.meta.items()
        if not (str(key).startswith(_OF_THE_PAGE) or is_item_like(value))
    }
    meta.update(dont_retry=True, dont_redirect=True, dont_cache=True)
    long_seconds = _TIMES_AS_LONG * request.meta.get("download_latency", _MOST_SECONDS)
    timeout_seconds = min(max(long_seconds, _LEAST_SECONDS), _MOST_SECONDS)
    meta.update({AGAIN_KEY: True}, download_timeout=timeout_seconds)
    new: dict[str, Any] = {"callback": NO_CALLBACK, "errback": None, "cb_kwargs": {}, "flags": []}
    again = request.replace(url=url, dont_filter=True, meta=meta, **new)
    if not are_of_one_origin(request.url, again.url):
        return None
    crawler.stats.inc_value("simhash/refetched")
    answer = await engine.download_async(again)
    usable = (
        answer.status in SUCCESS
        and answer.url == again.url
        and isinstance(answer, HtmlResponse)
        and "cached" not in answer.flags
        and 0 < len(answer.body) <= MOST_BYTES
    )
    return (Fetched(answer.url, find_encoding(answer)), answer.body) if usable else None
