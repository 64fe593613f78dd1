"""Walls: pages that a site answers with whatever it is asked for, such as a login or a captcha.

A document is a wall of a host if five addresses of that host that have nothing in common led to it
in this crawl. What is behind a wall, the crawl did not get.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from scrapy_simhash.crawl.followers import Follower
from scrapy_simhash.crawl.policy import META_KEY, count, is_page, list_redirects
from scrapy_simhash.pages.addresses import names_in, parse_address
from scrapy_simhash.pages.links import MOSTLY_NEW
from scrapy_simhash.signals import sink_found

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from scrapy_simhash.crawl.followers import JudgedPage
    from scrapy_simhash.detector.log import Decision

# Of 123 documents with several addresses in two labelled corpora, 3 have two that are unlike, and
# none has more; the two walls of the example crawl have 5 and 14.
UNLIKE_ADDRESSES = 5
# Documents on hosts, 600 bytes each; beyond, those that repeated no page for longest are forgotten.
_MOST_REMEMBERED = 10_000


class Walls(Follower):
    """Marks the pages that show a wall, and sends a signal for each wall of a crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        # Digests of the forms of the addresses that led to a document on a host, five at most.
        self._forms: OrderedDict[tuple[int, str], set[int]] = OrderedDict()
        self._found: set[int] = set()  # numbers of the documents that are walls

    def decided(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Mark a page that shows a wall."""
        page.decision.sink = self._is_shown(request, response, page.decision)

    def _is_shown(self, request: Request, response: Response, decision: Decision) -> bool:
        """Return whether a page repeats a wall, of which its address may be the last proof."""
        # A page of mostly new links says where to go on. A file is a picture or an empty answer.
        document, new_links = decision.match_document, decision.new_links or 0.0
        if not document or new_links >= MOSTLY_NEW or not is_page(response):
            return False
        # The address that was asked for: after a redirect, all those of a login page are alike.
        asked = next(iter(list_redirects(request)), decision.url)
        led_here, original = _find_form(asked, decision.canonical), _find_form(decision.match_url)
        if led_here is None:
            return False
        host, form = led_here
        forms = self._forms.setdefault((document, host), set())
        self._forms.move_to_end((document, host))
        if len(self._forms) > _MOST_REMEMBERED:
            self._forms.popitem(last=False)
        if len(forms) < UNLIKE_ADDRESSES and original is not None and original[0] == host:
            forms.add(hash(original[1]))
        if len(forms) < UNLIKE_ADDRESSES:
            forms.add(hash(form))
        return len(forms) >= UNLIKE_ADDRESSES

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:
        """Count a wall, and send its signal, at the first page that shows it."""
        decision = page.decision
        if not decision.sink or decision.match_document in self._found:
            return
        self._found.add(decision.match_document)
        count(self._crawler, "walls")
        await self._crawler.signals.send_catch_log_async(
            sink_found,
            response=response,
            request=request,
            verdict=request.meta[META_KEY],
            spider=self._crawler.spider,
        )


def _find_form(url: str | None, canonical: str = "") -> tuple[str, str] | None:
    """Return the host of an address, and the last name in its path; None for an odd address.

    The rest of an address may well vary for one page: parameters, sessions, the folders. A page's
    canonical address stands for its own, unless that is a home page; but the host is its own,
    because a page may name any other.

    >>> _find_form("http://a.example/b/Fire;sid=1/index.html?x=1")
    ('a.example', 'fire')
    """
    own, address = parse_address(url or ""), parse_address(canonical)
    if own is None:
        return None
    if address is None or address.path == ("",):  # many sites name their home page everywhere
        address = own
    return own.host, next(reversed(names_in(address)), "")
