"""Which links lead to pages that are known, perhaps by other addresses.

A link is known if a page that was kept has it, if its page was fetched, or if this is true of one
of its counterparts::

    in the place of the original    where `/a?print=1` is a near-duplicate of `/a`, and has the link
                                    `/b?print=1`: `/b`
    without idle parameters         sessions, say: three pages or more differ from their originals
                                    in it only, and three quarters of these lead to nothing new

Pages of a list differ in their number only, too, but they lead to something.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from scrapy_simhash.pages.addresses import carry_over, find_places
from scrapy_simhash.pages.links import digest_link

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from scrapy_simhash.pages.links import PageLinks


# Slots for digests, named by 21 bits; 8 MB once all are used, for some two million links.
_SLOT_BITS = 21
_SLOTS = 2**_SLOT_BITS - 1
_HALF = np.dtype("<u4")
_HALF_BITS = 32
_MOST_PLACES = 20_000
_MOST_QUERIED = 5_000
_LEAST_PAGES = 5
_MOST_LEADING = 0.25
# Host and name: `a.example?sid`.
_Parameter: TypeAlias = str


class SeenLinks:
    """Digests of addresses: 32 bits of each, in the slot that 21 others name."""

    # A later digest takes the slot of an earlier one. So none is found that was not added, but for
    # one in four billion, and of very large crawls some are forgotten: their links then count as
    # those of dropped pages only, until somebody asks whether they were requested.

    def __init__(self) -> None:
        self._tags = np.zeros(2**_SLOT_BITS, np.uint32)  # the system gives pages as they are used

    def add(self, digests: bytes) -> None:
        """Add the digests of a page's links, as `PageLinks` has them."""
        halves = np.frombuffer(digests, _HALF)
        self._tags[halves[::2] & _SLOTS] = halves[1::2]

    def add_url(self, url: str) -> None:
        """Add an address."""
        digest = digest_link(url)
        self._tags[digest & _SLOTS] = digest >> _HALF_BITS

    def find_new(self, digests: bytes) -> list[int]:
        """Find the places of the digests that were not added."""
        halves = np.frombuffer(digests, _HALF)
        new = self._tags[halves[::2] & _SLOTS] != halves[1::2]
        found: list[int] = np.flatnonzero(new).tolist()
        return found

    def __contains__(self, url: object) -> bool:
        digest = digest_link(str(url))
        return bool(self._tags[digest & _SLOTS] == digest >> _HALF_BITS)


class DroppedPage(NamedTuple):
    """A page that was dropped, with those of its links that were new when it was."""

    url: str
    original: str
    links: list[str]


class KnownLinks:
    """Knows the links of the pages that a crawl kept, and what else leads to their pages."""

    def __init__(self) -> None:
        self._seen = SeenLinks()
        self._queried: list[str] = []  # pages with parameters
        # Dropped pages by their place and that of their original, and by what they differ in.
        self._places: Counter[tuple[str, str] | None] = Counter()
        self._differing: Counter[_Parameter] = Counter()
        self._idle: frozenset[_Parameter] = frozenset()
        self._bare: frozenset[str] = frozenset()  # the queried ones without idle parameters

    def add_page(self, url: str, digests: bytes = b"") -> None:
        """Note a page that was fetched, with the digests of its links if these are followed."""
        self._seen.add_url(url)
        self._seen.add(digests)
        if "?" in url and len(self._queried) < _MOST_QUERIED:
            self._queried.append(url)

    def list_new(self, links: PageLinks, url: str, original: str) -> list[str]:
        """List the links of a near-duplicate that are not known so far."""
        if len(self._places) + len(self._differing) < _MOST_PLACES:
            self._places[_find_places(url, original)] += 1
            self._differing.update(_find_parameters(url, original))
        places = self._seen.find_new(links.digests)
        addresses = links.addresses.decode().split("\n") if places else []
        return self._leave_out_known(
            DroppedPage(url, original, [addresses[place] for place in places])
        )

    def list_unknown(self, pages: Sequence[DroppedPage]) -> list[tuple[str, DroppedPage]]:
        """List the links that are still not known, each with its page; 20 us a link."""
        self._find_idle(pages)
        return [(link, page) for page in pages for link in self._leave_out_known(page)]

    def find_counterparts(self, link: str, page: DroppedPage) -> set[str]:
        """Find the addresses of the page that a link leads to, its own among them."""
        carry = self._find_carry(page)
        return {form for each in {link, carry(link)} for form in (each, _strip(each, self._idle))}

    def _leave_out_known(self, page: DroppedPage) -> list[str]:
        carry = self._find_carry(page) if page.links else str
        return [
            link for link in page.links if not (self._is_known(link) or self._is_known(carry(link)))
        ]

    def _find_carry(self, page: DroppedPage) -> Callable[[str], str]:
        """Find what makes the counterpart of a link in the place of the original."""
        # Which of two mirrors is the original depends on which page comes first.
        pair = _find_places(page.url, page.original)
        proven = self._places[pair] + self._places[pair and pair[::-1]] >= _LEAST_PAGES
        return (carry_over(page.url, page.original) if proven else None) or str

    def _is_known(self, link: str) -> bool:
        if link in self._seen:
            return True
        bare = _strip(link, self._idle)
        return bare in self._bare or (bare is not link and bare in self._seen)

    def _find_idle(self, pages: Sequence[DroppedPage]) -> None:
        """Find the idle parameters: as if all that may be are, which pages lead to new ones?"""
        number = dict(self._differing)
        self._set_idle(name for name in number if number[name] >= _LEAST_PAGES)
        leading: Counter[_Parameter] = Counter()
        for page in pages:
            own = self._idle.intersection(_find_parameters(page.url, page.original))
            if own and self._leave_out_known(page):
                leading.update(own)
        self._set_idle(n for n in self._idle if leading[n] <= _MOST_LEADING * number[n])

    def _set_idle(self, parameters: Iterable[_Parameter]) -> None:
        self._idle = frozenset(parameters)
        self._bare = frozenset(_strip(url, self._idle) for url in self._queried if self._idle)


# The links of a page come one after the other.
_find_places = lru_cache(maxsize=16)(find_places)


def _find_parameters(url: str, original: str) -> set[_Parameter]:
    """Find the parameters in which two addresses differ; none if more than these differs."""
    path, _, query = url.partition("?")
    other_path, _, other = original.partition("?")
    if path != other_path or query == other:
        return set()
    host = _host_of(url)
    differing = set(query.split("&")) ^ set(other.split("&"))
    return {f"{host}?{pair.partition('=')[0]}" for pair in differing if pair}


def _strip(url: str, idle: Collection[_Parameter]) -> str:
    """Take idle parameters off an address."""
    path, _, query = url.partition("?")
    if not query or not idle:
        return url
    host, pairs = _host_of(url), query.split("&")
    kept = [pair for pair in pairs if f"{host}?{pair.partition('=')[0]}" not in idle]
    return url if len(kept) == len(pairs) else f"{path}?{'&'.join(kept)}".rstrip("?")


def _host_of(url: str) -> str:
    return url.split("/", 3)[2] if url.count("/") > 1 else ""
