"""What others offer against duplicate addresses, ready for a crawl of bench_urls.

MaybeDont is the package itself, with its defaults and for all requests. One line of it is mended,
without which Python 3.11 stops it: a sample is no longer drawn from a set. duplicate-url-discarder
has the public rules of its rules package, and asks nobody for the list of public suffixes.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import maybedont.predict
import tldextract
from maybedont.scrapy_middleware import AvoidDupContentMiddleware

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy.http import Request, Response


def _sample(population: Collection[str], count: int) -> list[str]:
    return random.sample(sorted(population), count)


maybedont.predict.random = SimpleNamespace(sample=_sample)
_offline = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
setattr(tldextract.tldextract, "extract", _offline)  # noqa: B010 - of another type


class MaybeDontMiddleware(AvoidDupContentMiddleware):  # type: ignore[misc]
    """The package's middleware, for every request, as Scrapy 2.19 calls it."""

    def skip(self, request: Request) -> bool:  # noqa: ARG002 - its signature
        """Leave no request out, where the package asks for a word in its meta."""
        return False

    def process_request(self, request: Request) -> None:
        """Stop a request that the package takes for a duplicate."""
        super().process_request(request, None)

    def process_response(self, request: Request, response: Response) -> Any:
        """Let the package learn from a page."""
        return super().process_response(request, response, None)


MAYBE_DONT = {
    "AVOID_DUP_CONTENT_ENABLED": True,
    "DOWNLOADER_MIDDLEWARES": {MaybeDontMiddleware: 200},
}
DISCARDER = {"ADDONS": {"duplicate_url_discarder.Addon": 600}}
