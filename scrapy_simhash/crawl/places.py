"""Which links lead to pages that are known, perhaps by other addresses.

A link is known if a callback asked for its page, if that was fetched, or if a page that was kept
has it and went to the same callback, which would do the same with it again. Otherwise one of its
counterparts may be known::

    in the place of the original    where `/a?print=1` is a near-duplicate of `/a`, and has the link
                                    `/b?print=1`: `/b`
    without idle parameters         sessions, say: pages differ from their originals in it only,
                                    and three quarters of these lead to nothing new

That holds where enough pages were dropped for their counterparts, and hardly any was kept beside
it: pages of a list, translations and editions have addresses as mirrors and sessions have. A few of
the links that are known in this way only are followed all the same, to find that out.
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

    from numpy.typing import NDArray

    from scrapy_simhash.pages.links import PageLinks


# Slots for digests, named by 21 bits; 8 MB once all are used, for some two million links.
_SLOT_BITS = 21
_SLOTS = 2**_SLOT_BITS - 1
_HALF, _DIGEST = np.dtype("<u4"), np.dtype("<u8")
_HALF_BITS = 32
_MOST_PLACES = 20_000
_MOST_QUERIED = 5_000
_MOST_KEPT = 20_000
_LEAST_PAGES = 5
_MOST_LEADING = 0.25
# So many pages that were kept beside their counterparts, for each that was dropped.
_MOST_REFUTING = 0.05
# Of the links that are known by a counterpart only, those that are followed all the same: the first
# of each way, and a share.
_FIRST_SAMPLED, SAMPLE_SHARE = 3, 0.05
# Host and name: `a.example?sid`.
_Parameter: TypeAlias = str
# Two places.
_Pair: TypeAlias = "tuple[str, str]"


class SeenLinks:
    """Digests of addresses: 32 bits of each, in the slot that 21 others name.

    Some are added and found for a callback only.
    """

    # A later digest takes the slot of an earlier one. So none is found that was not added, but for
    # one in four billion, and of very large crawls some are forgotten: their links then count as
    # those of dropped pages only, until somebody asks whether they were requested.

    def __init__(self) -> None:
        self._tags = np.zeros(2**_SLOT_BITS, np.uint32)  # the system gives pages as they are used

    def add(self, digests: bytes, callback: str = "") -> None:
        """Add the digests of a page's links, as `PageLinks` has them."""
        halves = _read_halves(digests, callback)
        self._tags[halves[::2] & _SLOTS] = halves[1::2]

    def add_url(self, url: str) -> None:
        """Add an address."""
        digest = digest_link(url)
        self._tags[digest & _SLOTS] = digest >> _HALF_BITS

    def find_new(self, digests: bytes, callback: str = "") -> list[int]:
        """Find the places of the digests that were not added, nor for this callback."""
        new = np.ones(len(digests) // _DIGEST.itemsize, np.bool_)
        for each in {"", callback}:
            halves = _read_halves(digests, each)
            new &= self._tags[halves[::2] & _SLOTS] != halves[1::2]
        found: list[int] = np.flatnonzero(new).tolist()
        return found

    def __contains__(self, url: object) -> bool:
        digest = digest_link(str(url))
        return bool(self._tags[digest & _SLOTS] == digest >> _HALF_BITS)


_digest_name = lru_cache(maxsize=64)(digest_link)  # callbacks are few


def _read_halves(digests: bytes, callback: str) -> NDArray[np.uint32]:
    """Read digests as those that they are for a callback."""
    read = np.frombuffer(digests, _DIGEST)
    return (read ^ _DIGEST.type(_digest_name(callback)) if callback else read).view(_HALF)


class DroppedPage(NamedTuple):
    """A page that was dropped, with those of its links that were new when it was."""

    url: str
    original: str
    links: list[str]
    callback: str = ""


class KnownLinks:
    """Knows what a crawl asked for and which links its pages had, and what else leads there."""

    def __init__(self) -> None:
        self._seen = SeenLinks()
        self._kept = SeenLinks()
        self._kept_urls: list[str] = []
        self._queried: list[str] = []  # pages with parameters
        # Dropped pages by their place and that of their original, and by what they differ in.
        self._places: Counter[_Pair | None] = Counter()
        self._carries: dict[_Pair, Callable[[str], str]] = {}
        self._differing: Counter[_Parameter] = Counter()
        self._refuted: frozenset[_Pair | _Parameter] = frozenset()
        self._idle: frozenset[_Parameter] = frozenset()
        self._bare: frozenset[str] = frozenset()  # the queried ones without idle parameters
        self._sampled: set[str] = set()
        self._samples: Counter[_Pair | None] = Counter()

    def add_asked(self, url: str) -> None:
        """Note that a callback asked for a page."""
        self._seen.add_url(url)

    def add_page(self, url: str, digests: bytes = b"", callback: str = "") -> None:
        """Note a page that was fetched; of one whose links are followed, their digests, too."""
        self._seen.add_url(url)
        self._seen.add(digests, callback)
        if "?" in url and len(self._queried) < _MOST_QUERIED:
            self._queried.append(url)

    def add_kept(self, url: str) -> None:
        """Note that a page is no near-duplicate."""
        self._kept.add_url(url)
        if len(self._kept_urls) < _MOST_KEPT:
            self._kept_urls.append(url)

    def list_new(self, links: PageLinks, page: DroppedPage) -> list[str]:
        """List the links of a near-duplicate that are not known by themselves so far."""
        url, original = page.url, page.original
        if len(self._places) + len(self._differing) < _MOST_PLACES:
            pair = _find_places(url, original)
            self._places[pair] += 1
            carry = carry_over(url, original) if pair and pair not in self._carries else None
            if pair and carry:
                self._carries[pair] = carry
            self._differing.update(_find_parameters(url, original))
        places = self._seen.find_new(links.digests, page.callback)
        addresses = links.addresses.decode().split("\n") if places else []
        return [addresses[place] for place in places]

    def list_unknown(self, pages: Sequence[DroppedPage]) -> list[tuple[str, DroppedPage]]:
        """List the links that are still not known, each with its page; 20 us a link."""
        self._find_refuted()
        self._find_idle(pages)
        return [(link, page) for page in pages for link in self._leave_out_known(page)]

    def sort(self, pages: Sequence[DroppedPage]) -> tuple[list[DroppedPage], set[str]]:
        """Leave out the links that are known by now; list those known by a counterpart only.

        Some of these, a sample, are not listed.
        """
        left = [page._replace(links=self._leave_out_seen(page)) for page in pages]
        left = [page for page in left if page.links]
        unknown = {link for link, _ in self.list_unknown(left)}
        elsewhere: set[str] = set()
        for page in left:
            pair = _find_places(page.url, page.original)
            for link in page.links:
                if link in unknown or link in self._sampled:
                    continue
                drawn = digest_link(link) < SAMPLE_SHARE * 2**64
                if drawn or self._samples[pair] < _FIRST_SAMPLED:
                    self._samples[pair] += not drawn
                    self._sampled.add(link)
                else:
                    elsewhere.add(link)
        return left, elsewhere

    def find_counterparts(self, link: str, page: DroppedPage) -> set[str]:
        """Find the addresses of the page that a link leads to, its own among them."""
        carry = self._find_carry(page)
        return {form for each in {link, carry(link)} for form in (each, _strip(each, self._idle))}

    def _leave_out_seen(self, page: DroppedPage) -> list[str]:
        digests = np.fromiter(map(digest_link, page.links), _DIGEST).tobytes()
        return [page.links[place] for place in self._seen.find_new(digests, page.callback)]

    def _leave_out_known(self, page: DroppedPage) -> list[str]:
        new = self._leave_out_seen(page)
        carry = self._find_carry(page) if new else str
        return [
            link for link in new if not (self._has_bare(link) or self._is_known(carry(link), link))
        ]

    def _find_carry(self, page: DroppedPage) -> Callable[[str], str]:
        """Find what makes the counterpart of a link in the place of the original."""
        pair = _find_places(page.url, page.original)
        proven = pair and self._count(pair) >= _LEAST_PAGES and pair not in self._refuted
        return (carry_over(page.url, page.original) if proven else None) or str

    def _count(self, way: _Pair | _Parameter) -> int:
        """Count the pages that were dropped for their counterparts."""
        # Which of two mirrors is the original depends on which page comes first.
        if isinstance(way, str):
            return self._differing[way]
        return self._places[way] + self._places[way[::-1]]

    def _is_known(self, carried: str, link: str) -> bool:
        return carried != link and (carried in self._seen or self._has_bare(carried))

    def _has_bare(self, link: str) -> bool:
        bare = _strip(link, self._idle)
        return bare in self._bare or (bare is not link and bare in self._seen)

    def _find_refuted(self) -> None:
        """Find the ways that lead from pages that were kept to others that were, too."""
        names = {name for name, number in self._differing.items() if number >= _LEAST_PAGES}
        carries = [
            (pair, carry)
            for pair, carry in self._carries.items()
            if self._count(pair) >= _LEAST_PAGES and "?" not in f"{pair}"
        ]
        refuting: Counter[_Pair | _Parameter | None] = Counter()
        met: dict[tuple[_Parameter, str], str] = {}
        for url in self._kept_urls:
            for name in names.intersection(_list_parameters(url)):
                bare = _strip(url, {name})
                other = bare if bare in self._kept else met.get((name, bare))
                met[name, bare] = url
                if other is not None:
                    refuting.update((name, find_places(url, other)))
            for pair, carry in carries:
                other = carry(url)
                refuting[pair] += other != url and other in self._kept
        self._refuted = frozenset(
            each
            for way, number in refuting.items()
            if way is not None and number > _MOST_REFUTING * self._count(way)
            for each in ((way,) if isinstance(way, str) else (way, way[::-1]))
        )

    def _find_idle(self, pages: Sequence[DroppedPage]) -> None:
        """Find the idle parameters: as if all that may be are, which pages lead to new ones?"""
        number = dict(self._differing)
        names = {name for name in number if number[name] >= _LEAST_PAGES}
        self._set_idle(names - self._refuted)
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


def _list_parameters(url: str) -> list[_Parameter]:
    """List the parameters of an address."""
    query = url.partition("?")[2]
    host = _host_of(url) if query else ""
    return [f"{host}?{pair.partition('=')[0]}" for pair in query.split("&") if pair]


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
