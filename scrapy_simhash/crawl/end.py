"""What a crawl ends with: links that nobody followed; and the fuse, which warns before."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from scrapy.http import Request

from scrapy_simhash._printable import plural, quote, show_share
from scrapy_simhash.crawl.running import list_asked
from scrapy_simhash.judge.log import PASS
from scrapy_simhash.judging.documents import JUDGED
from scrapy_simhash.pages import addresses
from scrapy_simhash.pages.facts import LEAST_OF_SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy.crawler import Crawler

    from scrapy_simhash.config import Config
    from scrapy_simhash.crawl.policy import JudgedPage
    from scrapy_simhash.judge.messages import Closed, LeftLink
    from scrapy_simhash.judging.documents import Decision
    from scrapy_simhash.pages.facts import Reader, Share

_MOST_HOSTS = 100_000
_MANY_ALIKE, _MOST_OTHERS, _MOST_KEPT = 10, 10_000, 100_000
_MOST_OF_PLACE = 0.9
# The fuse: pages of one callback, and the shares that repeat others now and before.
_RECENT, _MANY_RECENT, _FEW_BEFORE = LEAST_OF_SHARE, 0.5, 0.25
_MOST_NAMED = 3


class Unfollowed:
    """Finds the links that only dropped pages had, and whose pages did not come otherwise.

    A page may come from another address: without a session, or where a mirror has its original.
    What makes no difference in ten near-duplicates of one shape of address, makes none in others;
    unless it does in a tenth as many kept ones: behind the last page of a list all are alike. A
    place is a copy of another one if ten near-duplicates, or links on them, are there, too.

    Attributes:
        follows: whether a callback made a request.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler, self._config = crawler, config
        self._hosts: set[str] = set()  # of which a page came: the spider wants no other one
        self._idle = Counter[tuple[Any, str]]()  # parameters, by the shape of addresses
        # Those in which two kept pages differ, and addresses of kept pages without one of them.
        self._telling, self._kept = Counter[tuple[Any, str]](), set[int]()
        self._moves = Counter[tuple[str, str]]()
        self.follows = False

    def add(self, decision: Decision) -> None:
        """Note what a near-duplicate and its original differ in, and what kept pages do."""
        status, url, original = decision.status, decision.url, decision.match_url
        if status in JUDGED and len(self._hosts) < _MOST_HOSTS:
            self._hosts.update(map(addresses.host_of, (url, decision.requested_url)))
        if status == "new":
            # The parameters in which it differs from another page that was kept.
            for name, form in addresses.list_forms(url):
                seen = hash((name, form))
                if seen in self._kept:
                    self._telling[_shape_of(url), name] += 1
                elif len(self._kept) < _MOST_KEPT:
                    self._kept.add(seen)
        if status != "near_duplicate" or decision.reason or not original:
            return
        name = addresses.find_parameter(url, original)
        if name and len(self._idle) < _MOST_OTHERS:
            self._idle[_shape_of(url), name] += 1
        move = addresses.find_move(url, original)
        if move and len(self._moves) < _MOST_OTHERS:
            self._moves[move] += 1

    def find(self, closed: Closed) -> list[LeftLink]:
        """Find the links, of hosts that the crawl had.

        It takes 60 us a link; there are 50,000 at most.
        """
        if closed.has_kept_links and not self.follows:  # the spider follows none
            return []
        asked = list_asked(self._crawler)
        if self._config.action == "flag":  # what would be dropped came, and what it leads to
            asked = asked - {self._identify(link.url) for link in closed.left}
        self._add_links(closed.left, lambda url: self._identify(url) in asked)
        found = []
        for link in closed.left:
            same = map(self._identify, [link.url, *self._list_others(link)])
            if addresses.host_of(link.url) in self._hosts and asked.isdisjoint(same):
                found.append(link)
        return found

    def _identify(self, url: str) -> bytes:
        """Return the fingerprint of a request for a link, or b"" if there can be none."""
        try:
            return self._crawler.request_fingerprinter.fingerprint(Request(url))
        except Exception:  # noqa: BLE001 - an invalid address, or the user's fingerprinter
            return b""

    def _add_links(self, links: Iterable[LeftLink], came: Callable[[str], bool]) -> None:
        """Count the links of dropped pages whose pages came elsewhere, if most of a place did."""
        moved = [move for move in map(_move, links) if move is not None]
        of_place = Counter(place for place, _ in moved)
        elsewhere = Counter(place for place, url in moved if came(url))
        for place, number in elsewhere.items():
            if number >= _MOST_OF_PLACE * of_place[place]:
                self._moves[place] += number

    def _list_others(self, link: LeftLink) -> Iterator[str]:
        """List other addresses of the page that a link leads to."""
        move = _move(link)
        moved = [move[1]] if move and self._moves[move[0]] >= _MANY_ALIKE else []
        yield from moved
        for url in (link.url, *moved):
            shape = _shape_of(url)
            for name, form in addresses.list_forms(url):
                idle, telling = self._idle[shape, name], self._telling[shape, name]
                if idle >= max(_MANY_ALIKE, _MANY_ALIKE * telling):
                    yield form


def _move(link: LeftLink) -> tuple[tuple[str, str], str] | None:
    """Return where the place of a link's page moves to, and the link; None if it is elsewhere."""
    move = addresses.find_move(link.page_url, link.original_url)
    if move is None or not link.url.startswith(move[0]):
        return None
    return move, move[1] + link.url[len(move[0]) :]


def _shape_of(url: str) -> tuple[str, int, tuple[str, ...]] | None:
    places = addresses.find_places(url)
    return None if places is None else places[:3]


class Fuse:
    """Finds callbacks most of whose last 200 judged pages repeat others, once each.

    A site that begins to answer with one page for all, or a template that hides what differs, looks
    so. Only a callback of which the last crawl dropped less than a quarter is watched.

    Args:
        shares: what the last crawls counted.
    """

    def __init__(self, shares: Iterable[Share] = ()) -> None:
        # What the last crawl counted, and the last pages: "" for one that repeats no other.
        self._recent: dict[Reader, tuple[Share, deque[str]]] = {
            share.reader: (share, deque(maxlen=_RECENT))
            for share in shares
            if share.judged >= _RECENT and share.repeated < _FEW_BEFORE * share.judged
        }

    def add(self, page: JudgedPage) -> str:
        """Count a page; return what to warn of, or ""."""
        recent, decision = self._recent.get(page.reader), page.decision
        if recent is None or not decision.is_judged:
            return ""
        before, urls = recent
        # Not what SIMHASH_UNCHANGED drops: that repeats itself only.
        repeats = decision.status == "near_duplicate" and decision.action != PASS
        urls.append(decision.url if repeats else "")
        repeating = list(filter(None, urls))
        if len(urls) < _RECENT or len(repeating) <= _MANY_RECENT * _RECENT:
            return ""
        del self._recent[page.reader]
        return (
            f"Of the last {_RECENT} pages of {quote(before.reader.callback)}, {len(repeating)} "
            f"repeat another one; of the {plural(before.judged, 'page')} of its last crawl, "
            f"{show_share(before.repeated / before.judged)} did. Look at the first ones (scrapy "
            f"simhash explain URL): {', '.join(map(quote, repeating[:_MOST_NAMED]))}. "
            f'SIMHASH_ACTION = "flag" drops none'
        )
