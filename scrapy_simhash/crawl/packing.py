"""How requests are stored: packed for a later crawl, without credentials, and marked when made."""

from __future__ import annotations

import base64
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from scrapy import Spider
from scrapy.http import Request
from scrapy.spiders import CrawlSpider
from scrapy.utils.request import request_from_dict

from scrapy_simhash._printable import describe_error, mask_password
from scrapy_simhash.crawl.running import PROXY_KEY, RULE_CALLBACK, RULE_ERRBACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Keys in the meta of requests. The key of a lost page, in the store.
LOST = "_simhash_lost"
# The digest of the text whose items came through already, under `ignore-outlinks`.
DELIVERED = "_simhash_delivered"
# Meta that components set for one download; the next download sets its own.
_OF_ONE_DOWNLOAD = {
    *(LOST, DELIVERED),
    *("simhash", "simhash_text", "_simhash_inherited_redirects"),
    *("download_latency", "redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons"),
    *("retry_times", PROXY_KEY),
    # The first is a browser page, which cannot be serialized.
    *("playwright_page", "playwright_security_details", "playwright_suggested_filename"),
}
# Headers that are no credentials, and the beginnings of others. Any other may be one, such as
# X-Api-Key, whatever its name.
_HARMLESS = {
    *(b"Accept", b"Accept-Charset", b"Accept-Encoding", b"Accept-Language", b"Cache-Control"),
    *(b"Connection", b"Content-Length", b"Content-Type", b"Dnt", b"Host"),
    *(b"If-Modified-Since", b"If-None-Match", b"Origin", b"Pragma", b"Priority", b"Range"),
    *(b"Referer", b"Te", b"Upgrade-Insecure-Requests", b"User-Agent", b"X-Requested-With"),
}
_HARMLESS_BEGINNINGS = (b"Sec-Ch-", b"Sec-Fetch-")


def set_mark(request: Request, name: str, value: Any) -> None:
    """Put a mark into the meta of a request; spiders copy meta, so it names its own request."""
    request.meta[name] = (value, request.url)


def take_mark(request: Request, name: str) -> Any:
    """Take a mark of a request, or of that which was redirected here; None if there is none."""
    match request.meta.pop(name, None):
        case [value, url] if url in {request.url, *request.meta.get("redirect_urls", ())}:
            return value
    return None


class Packing:
    """Packs the requests of a spider.

    Args:
        spider: the one that has their callbacks as methods.
        cookies: Scrapy's middleware sets the header of cookies, of its own.
    """

    def __init__(self, spider: Spider, *, cookies: bool) -> None:
        self._spider = spider
        self._cookies = cookies

    def has_credentials(self, request: Request) -> bool:
        """Whether a request has anything that must not be stored."""
        headers = request.headers.copy()
        if self._sets_cookies(request):
            headers.pop("Cookie", None)
        proxy = str(request.meta.get("proxy") or "")
        return (
            bool(request.cookies)
            or not all(
                name in _HARMLESS or name.startswith(_HARMLESS_BEGINNINGS) for name in headers
            )
            or any(mask_password(url) != url for url in (request.url, proxy))
        )

    def _sets_cookies(self, request: Request) -> bool:
        return self._cookies and not request.meta.get("dont_merge_cookies")

    def pack(self, request: Request, noted: Mapping[str, Any] | None = None) -> bytes:
        """Pack a request; b"" if it has credentials, or would not be restored exactly."""
        # `noted` is added to its meta. This does not pickle: it refuses lambdas as callbacks, and
        # tuples or objects as arguments, which may raise whatever they like.
        try:
            if self.has_credentials(request):
                return b""
            fields = request.to_dict(spider=self._spider)
            if self._sets_cookies(request):
                fields["headers"].pop(b"Cookie", None)
            fields["meta"] = {
                key: value for key, value in request.meta.items() if key not in _OF_ONE_DOWNLOAD
            } | dict(noted or {})
            packed = msgspec.msgpack.encode(fields, enc_hook=_make_plain)
            same = _are_same(msgspec.msgpack.decode(packed), fields)
            return packed if same and unpack_request(packed, self._spider) else b""
        except Exception:  # noqa: BLE001
            return b""


def _make_plain(value: object) -> str:
    """Turn a text of lxml into a plain one."""
    if isinstance(value, str) and _is_of_lxml(value):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _is_of_lxml(value: object) -> bool:
    # Scrapy's `LinkExtractor` gives the texts of links as lxml's, and `CrawlSpider` puts them into
    # the meta of each request.
    return type(value).__module__ == "lxml.etree"


def _are_same(made: Any, value: Any) -> bool:
    """Whether a restored value is equal to the one that was packed, and of the same types."""
    # A `defaultdict` or a `StrEnum` would be restored as something that callbacks cannot use alike.
    if type(made) is not type(value) and not _is_of_lxml(value):
        return False
    if isinstance(made, dict):
        made, value = [*made, *made.values()], [*value, *value.values()]
    if isinstance(made, list):
        return len(made) == len(value) and all(map(_are_same, made, value))
    return bool(made == value)


def unpack_request(packed: bytes, spider: Spider) -> Request | None:
    """Restore a request; None if it cannot be made now, or is not of a kind that is ever packed.

    Whoever can write to the store chooses its URL, its arguments and which of the spider's public
    methods gets the page; but no module is imported, and nothing but a web page is fetched.
    """
    try:
        fields = msgspec.msgpack.decode(packed)
        if urlsplit(fields["url"]).scheme not in {"http", "https"}:
            return None
        if not all(_may_be_called(fields.get(name), spider) for name in ("callback", "errback")):
            return None
        module, _, name = fields.get("_class", "scrapy.Request").rpartition(".")
        if not issubclass(getattr(sys.modules[module], name), Request):
            return None
        return request_from_dict(fields, spider=spider)
    except Exception:  # noqa: BLE001 - the spider's code may have changed, also its Request
        return None


def _may_be_called(name: object, spider: Spider) -> bool:
    """Whether a callback is one that a spider's own code could have named."""
    if name is None:
        return True
    if isinstance(spider, CrawlSpider) and name in {RULE_CALLBACK, RULE_ERRBACK}:
        return True
    if not isinstance(name, str) or name.startswith("_"):
        return False
    # Scrapy calls the methods of its class itself, but for `parse`, which is there to be replaced.
    if hasattr(Spider, name) and name != "parse":
        return False
    found = inspect.getattr_static(type(spider), name, None)  # runs no property
    return inspect.isroutine(found) and inspect.ismethod(getattr(spider, name))


def read_requests(path: str | Path, spider: Spider) -> Iterator[Request]:
    """Read what `scrapy simhash owed --json` printed to a file, for a spider to start from.

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
                    yield (again or Request(page["url"])).replace(dont_filter=True)
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"{path}, line {number}: not a page to request again ({describe_error(error)});"
                    " write the file anew: `scrapy simhash owed --json > FILE`"
                ) from None
