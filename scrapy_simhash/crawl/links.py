"""The links that nobody followed: at the end of a crawl, those that only dropped pages had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.http import Request

from scrapy_simhash.crawl.running import list_asked
from scrapy_simhash.pages.addresses import host_of, list_forms
from scrapy_simhash.pages.links import MOSTLY_NEW

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_simhash.judge.messages import Closed, LeftLink

_MOST_HOSTS = 100_000


class NotFollowed:
    """Finds the links that a crawl did not follow, because only dropped pages had them.

    Attributes:
        of_lists: how many of them are on pages of mostly new links, as lists are: so many
            SIMHASH_FOLLOW_NEW_LINKS would have followed.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._hosts: set[str] = set()  # of which a page came: the spider wants no other one
        self.follows = False  # whether a callback made a request
        self.of_lists = 0

    def came(self, *urls: str) -> None:
        """Note the addresses of a page that came."""
        if len(self._hosts) < _MOST_HOSTS:
            self._hosts.update(map(host_of, urls))

    def find(self, closed: Closed, idle: set[str]) -> list[LeftLink]:
        """Find those links of dropped pages that were not requested, of hosts that the crawl had.

        It takes 30 us a link; there are 50,000 at most.

        Args:
            closed: has the links that no kept page had.
            idle: parameters that make no difference: a link that differs from a requested one in
                one of these is no other.
        """
        if closed.has_kept_links and not self.follows:  # the spider follows none
            return []
        asked = list_asked(self._crawler)
        found = [
            link
            for link in closed.left
            if host_of(link.url) in self._hosts
            and asked.isdisjoint(map(self._identify, _list_same(link.url, idle)))
        ]
        self.of_lists = sum(link.new_links >= MOSTLY_NEW for link in found)
        return found

    def _identify(self, url: str) -> bytes:
        """Return the fingerprint of a request for a link, or b"" if there can be none."""
        try:
            return self._crawler.request_fingerprinter.fingerprint(Request(url))
        except Exception:  # noqa: BLE001 - an invalid address, or the user's fingerprinter
            return b""


def _list_same(url: str, idle: set[str]) -> list[str]:
    """List the addresses of the page that a link leads to."""
    return [url, *(form for name, form in list_forms(url) if name in idle)]
