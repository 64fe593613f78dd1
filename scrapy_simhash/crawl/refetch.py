"""Ask for a kept page once more, to see what changes there by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached

from scrapy_simhash.crawl.policy import SUCCESS, find_encoding, is_item_like
from scrapy_simhash.pages.facts import MOST_BYTES, Page

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request

# Marks the request for the middlewares of this plugin.
AGAIN_KEY = "simhash_again"
# What other middlewares noted of the page whose request is the model.
_OF_THE_PAGE = ("simhash", "_simhash", "redirect_", "retry_times", "download_latency", "rule")
# A browser draws such pages; without it they are others.
_OF_BROWSERS = ("playwright", "splash", "zyte_api", "selenium", "pyppeteer")
_TIMEOUT_SECONDS = 30


async def ask_again(crawler: Crawler, request: Request, url: str) -> tuple[Page, bytes] | None:
    """Ask for a page once more, as another one was asked for; None if the answer proves nothing.

    All downloader middlewares, delays and bounds apply, but the scheduler is not asked: a request
    that waits there for a page that waits for it would hold the crawl.
    """
    engine = crawler.engine
    drawn = any(key.startswith(_OF_BROWSERS) for key in map(str, request.meta))
    if engine is None or request.method != "GET" or drawn:
        return None
    again = request.replace(
        url=url,
        callback=NO_CALLBACK,
        errback=None,
        cb_kwargs={},
        dont_filter=True,
        flags=[],
        meta=_make_meta(request),
    )
    mine, theirs = urlparse_cached(request), urlparse_cached(again)
    if (mine.scheme, mine.netloc) != (theirs.scheme, theirs.netloc):
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
    return (Page(answer.url, find_encoding(answer)), answer.body) if usable else None


def _make_meta(request: Request) -> dict[str, object]:
    kept = {
        key: value
        for key, value in request.meta.items()
        if not (str(key).startswith(_OF_THE_PAGE) or is_item_like(value))
    }
    return {
        **kept,
        AGAIN_KEY: True,
        "dont_retry": True,
        "dont_redirect": True,
        "dont_cache": True,
        "download_timeout": _TIMEOUT_SECONDS,
    }
