"""From a page of an import to the one that a crawl would judge: same identity, same rules.

Scrapy itself says what its class, encoding and request fingerprint are, the project's own request
fingerprinter and add-ons included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Request
from scrapy.http.headers import Headers
from scrapy.responsetypes import responsetypes
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_simhash.detector import Page
from scrapy_simhash.downloadermiddlewares import find_encoding, shorten_identity
from scrapy_simhash.eligibility import Eligibility
from scrapy_simhash.scopes import find_scope_of_url

if TYPE_CHECKING:
    from scrapy.http import Response
    from scrapy.settings import Settings

    from scrapy_simhash.config import Config
    from scrapy_simhash.sources import SourcePage

# Undone by the source; a crawl's response has none of it left either.
_UNDONE = (b"Content-Encoding", b"Transfer-Encoding")


class PageMaker:
    """Makes pages for the detector.

    Args:
        config: the plugin's settings.
        settings: all of them.
    """

    def __init__(self, config: Config, settings: Settings) -> None:
        crawler = Crawler(Spider, settings)
        # Add-ons may bring a request fingerprinter of their own.
        crawler.addons.load_settings(crawler.settings)
        self._fingerprinter = build_from_crawler(
            load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"]), crawler
        )
        self._eligibility = Eligibility(config.max_bytes, config.never_drop)
        self._scope = config.scope

    def __call__(self, page: SourcePage) -> Page | str:
        """Make the page, or say why a crawl would not look at it."""
        try:
            request = Request(page.url)
        except ValueError:
            return "bad_url"
        response = _respond(request.url, page)
        if reason := self._eligibility.find_skip_reason(request, response):
            return reason
        return Page(
            url=request.url,
            body=response.body,
            encoding=find_encoding(response),
            identity=self._identify(request),
            time=page.time,
        )

    def place(self, url: str) -> tuple[bytes, str] | None:
        """Make identity and scope of a URL whose page is not there; None where it is no URL.

        Raises:
            ValueError: the scope asks for the page.
        """
        try:
            request = Request(url)
        except ValueError:
            return None
        return self._identify(request), find_scope_of_url(self._scope, request.url)

    def _identify(self, request: Request) -> bytes:
        return shorten_identity(self._fingerprinter.fingerprint(request))


def _respond(url: str, page: SourcePage) -> Response:
    if page.html:
        return HtmlResponse(url, page.status, body=page.body, encoding=page.encoding)
    headers = Headers()
    for name, value in page.headers:
        headers.appendlist(name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
    for undone in _UNDONE:
        headers.pop(undone, None)
    kind = responsetypes.from_args(headers=headers, url=url, body=page.body)
    return kind(url, page.status, headers=headers, body=page.body)
