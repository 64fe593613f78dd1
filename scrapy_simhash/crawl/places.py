"""Places that have the same pages: links that lead to pages which are known elsewhere."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.pages.addresses import carry_over, find_places

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from scrapy_simhash.judging.rows import Link
    from scrapy_simhash.urls.applying import ActingRules

_MOST_PAIRS = 10_000
_MOST_KEPT = 10_000
# Near-duplicates that wait to be counted; a hundred take some 7 ms of the event loop.
_MOST_UNCOUNTED = 100
# A place has the pages of another one if this many of its pages are near-duplicates of pages there,
# and three quarters of those of which both were fetched.
_LEAST_PAGES = 3
_LEAST_SHARE = 0.75
_MOST_MIRRORS = 50
_STALE = 1.5


class _Pair(NamedTuple):
    """Two places: pages of the first one are near-duplicates of pages of the second."""

    place: str
    original: str

    @property
    def is_of_parameters(self) -> bool:
        """Whether the first place is a print view, a session or the like, not a folder or host."""
        return self.place.endswith("=*")

    def carry(self, url: str) -> str:
        """Carry an address over to the second place, or take off parameters; "" if elsewhere."""
        place, _, parameters = self.place.partition("*")
        if not url.startswith(place):
            return ""
        if not parameters:
            return self.original[:-1] + url[len(place) :]
        path, _, query = url.partition("?")
        if not any(name in query for name in _list_names(parameters)):
            return ""  # nearly always, and what follows is slow
        names = {f"?{pair.partition('=')[0]}=*": pair for pair in query.split("&")}
        rest = "&".join(pair for name, pair in names.items() if name not in parameters)
        return "" if len(rest) == len(query) else path + "?" * bool(rest) + rest


class Places:
    """Learns which places have the same pages, from near-duplicates and kept pages."""

    # Links of a place of *parameters* are known if they are without these. So a list is told from a
    # print view by where its pages lead: those of a print view lead to nothing new.

    def __init__(self, seen: Container[str]) -> None:
        self._seen = seen
        self._pairs: Counter[_Pair] = Counter()
        self._leading: Counter[_Pair] = Counter()
        self._kept: dict[str, None] = {}
        self._bare: set[str] = set()  # addresses of kept pages without the parameters of places
        self._dropped = 0
        self._uncounted: list[tuple[str, str, Iterable[str]]] = []
        self._proven: list[_Pair] = []
        self._proven_at = 0

    def add_page(self, url: str) -> None:
        """Note a page that was kept."""
        if len(self._kept) < _MOST_KEPT:
            self._kept[url] = None

    def add_near_duplicate(self, url: str, original: str, links: Iterable[str] = ()) -> None:
        """Note a page that was dropped, with those of its links that are not known so far."""
        self._dropped += 1
        self._uncounted.append((url, original, links))
        if len(self._uncounted) >= _MOST_UNCOUNTED:
            self._count()

    def _count(self) -> None:
        """Count the pages that were dropped, by the places that they relate."""
        for url, original, links in self._uncounted:
            pair = _find_pair(url, original)
            if pair and (len(self._pairs) < _MOST_PAIRS or pair in self._pairs):
                self._pairs[pair] += 1
                self._leading[pair] += self._lead_on(pair, links)
        self._uncounted.clear()

    def recount(self, links: Iterable[Link]) -> None:
        """Count again how many pages lead to new ones, now that more links are known."""
        self._count()
        self._leading.clear()
        self._bare = {
            bare
            for pair, number in self._pairs.most_common(_MOST_MIRRORS)
            if pair.is_of_parameters and number >= _LEAST_PAGES
            for url in self._kept
            if (bare := pair.carry(url))
        }
        pages: dict[tuple[str, str], list[str]] = {}
        for link in links:
            pages.setdefault((link.page, link.original), []).append(link.url)
        for page, urls in pages.items():
            if pair := _find_pair(*page):
                self._leading[pair] += self._lead_on(pair, urls)
        self._prove()

    def _lead_on(self, pair: _Pair, links: Iterable[str]) -> bool:
        """Whether any link is neither known nor of the place itself."""
        return pair.is_of_parameters and not all(self._is_known(pair.carry(url)) for url in links)

    def _is_known(self, carried: str) -> bool:
        return carried in self._seen or carried in self._bare

    def _prove(self) -> None:
        self._count()
        self._proven_at = self._dropped
        # Which of two mirrors is the original depends on which page comes first.
        both = self._pairs.copy()
        for pair, pages in self._pairs.items():
            if not pair.is_of_parameters:
                both[_Pair(pair.original, pair.place)] += pages
        self._proven = [
            pair
            for pair, pages in both.most_common(_MOST_MIRRORS)
            if pages >= _LEAST_PAGES and self._is_proven(pair, pages)
        ]

    def _is_proven(self, pair: _Pair, pages: int) -> bool:
        """Whether enough pages speak for a pair, and not too many kept ones against it.

        These are kept pages of the first place whose counterpart was kept, too.
        """
        bearable = math.floor((pages - self._leading[pair]) / _LEAST_SHARE) - pages
        if bearable < 0:
            return False
        conflicts = (url for url in self._kept if pair.carry(url) in self._kept)
        return sum(1 for _ in islice(conflicts, bearable + 1)) <= bearable

    def list_known(self, links: Iterable[Link], acting: ActingRules | None) -> list[str]:
        """List those of some links that are known, or whose counterpart is."""
        # To prove takes up to 0.3 s, so it is done again when there is half as much more.
        if self._dropped > _STALE * self._proven_at:
            self._prove()
        return [
            link.url
            for link in links
            if link.url in self._seen or any(map(self._is_known, self.find(link, acting)))
        ]

    def find(self, link: Link, acting: ActingRules | None) -> Iterator[str]:
        """Find the counterparts of a link in proven places, and by the URL rules that act."""
        if _find_pair(link.page, link.original) in self._proven:
            carry = _carry_over(link.page, link.original)
            if carry is not None and (carried := carry(link.url)) != link.url:
                yield carried
        yield from filter(None, (pair.carry(link.url) for pair in self._proven))
        if acting is not None:
            target = acting.find_target(link.url)
            yield from () if target is None else (target.form,)


@lru_cache(maxsize=1_024)
def _list_names(parameters: str) -> list[str]:
    """List the names in the parameters of a place: `sid` of `?sid=*`."""
    return [name[1:] for name in parameters.split("=*")[:-1]]


# The links of a page come one after the other.
_carry_over = lru_cache(maxsize=16)(carry_over)


@lru_cache(maxsize=16)
def _find_pair(url: str, original: str) -> _Pair | None:
    places = find_places(url, original)
    if places is None:
        return None
    pair = _Pair(*places)
    # A page that came after its print view says the same as one that came before it.
    other = _Pair(pair.original, pair.place)
    return other if other.is_of_parameters and not pair.is_of_parameters else pair
