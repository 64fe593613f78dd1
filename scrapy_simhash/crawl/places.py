"""Which links lead to pages that are known, perhaps by other addresses.

A link is known if its page was requested or fetched, or if the same callback met it on a page of
which it followed others of its kind. Where it is not, one of its counterparts may be::

    in the place of the original    where `/a?print=1` is a near-duplicate of `/a`, and has the link
                                    `/b?print=1`: `/b`
    without idle parameters         sessions, say: pages differ from their originals in it only,
                                    and three quarters of these lead to nothing new

This is assumed where five pages were dropped for their counterparts, and hardly any was kept that
has another text: editions and translations have addresses as mirrors and sessions have. To find
that out, a sample of the links that are known in this way only is followed, and the first page of
it that is kept ends the belief.
"""

from __future__ import annotations

import re
from collections import Counter, deque
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
# With 3, 5 and 8 the late links of `bench_outlinks` take 396, 386 and 390 requests of `example`,
# 690 of `linked` each time, and leave nothing unreached: the sample refutes what is believed early.
_LEAST_PAGES = 5
_MOST_LEADING = 0.25
# Of those that were dropped, so many may have been kept beside their counterparts: one in 66 print
# views of the example site, one in 16 pages of an old edition.
_MOST_REFUTING = 0.05
# Of the pages that have another address, those that are requested by it all the same: some of each
# pair of places, and a share.
_LEAST_SAMPLED, _SAMPLE_SHARE = 3, 0.05
# What the addresses of a list differ in, and how its first page ends, which may have another one.
_COUNTING, _FIRST = re.compile(r"(?<==)[^&]+|\d+"), ("=0", "=1", "/1", "/1/")
_MOST_STEPS = 2
# Host and name: `a.example?sid`.
_Parameter: TypeAlias = str
# Two places.
_Pair: TypeAlias = "tuple[str, str]"
_Carry: TypeAlias = "Callable[[str], str]"


class SeenLinks:
    """Digests of addresses: 32 bits of each, in a slot named by 21 others.

    An address is there for all callbacks, or for one of them only.
    """

    # A later digest takes the slot of an earlier one. So none is found that was not added, but for
    # one in four billion, and of very large crawls some are forgotten: their links then count as
    # those of dropped pages only, until somebody asks whether they were requested.

    def __init__(self) -> None:
        self._tags = np.zeros(2**_SLOT_BITS, np.uint32)  # the system gives pages as they are used

    def add(self, digests: bytes, callback: str) -> None:
        """Add the digests of a page's links, as `PageLinks` has them, for a callback."""
        halves = _read_halves(digests, callback)
        self._tags[halves[::2] & _SLOTS] = halves[1::2]

    def add_url(self, url: str) -> None:
        """Add an address for all callbacks."""
        digest = digest_link(url)
        self._tags[digest & _SLOTS] = digest >> _HALF_BITS

    def find_new(self, digests: bytes, callback: str) -> list[int]:
        """Find the places of the digests that are there neither for all nor for this callback."""
        new = np.ones(len(digests) // _DIGEST.itemsize, np.bool_)
        for each in ("", callback):
            halves = _read_halves(digests, each)
            new &= self._tags[halves[::2] & _SLOTS] != halves[1::2]
        found: list[int] = np.flatnonzero(new).tolist()
        return found

    def has(self, url: str, callback: str = "") -> bool:
        """Whether an address is there for all callbacks, or for this one."""
        digest = digest_link(url)
        ours = (digest, digest ^ digest_link(callback)) if callback else (digest,)
        return any(self._tags[each & _SLOTS] == each >> _HALF_BITS for each in ours)


_digest_name = lru_cache(maxsize=64)(digest_link)  # callbacks are few


def _digest(links: Sequence[str]) -> bytes:
    return np.fromiter(map(digest_link, links), _DIGEST).tobytes()


def _read_halves(digests: bytes, callback: str) -> NDArray[np.uint32]:
    read = np.frombuffer(digests, _DIGEST)
    return (read ^ _DIGEST.type(_digest_name(callback)) if callback else read).view(_HALF)


class DroppedPage(NamedTuple):
    """A page that was dropped, with those of its links that were new when it was."""

    url: str
    original: str
    callback: str
    links: list[str]


class KnownLinks:
    """Knows what a crawl requested, what its callbacks left out, and what else leads there."""

    def __init__(self) -> None:
        self._seen = SeenLinks()
        self._queried: list[str] = []  # pages with parameters
        # Pages that are no near-duplicates: all, and the last ones with digests of their texts.
        self._kept = SeenLinks()
        self._last_kept: deque[tuple[str, str]] = deque(maxlen=_MOST_KEPT)
        # Dropped pages by their place and that of their original, and by what they differ in.
        self._places: Counter[_Pair | None] = Counter()
        self._carries: dict[_Pair, tuple[_Carry, _Carry]] = {}  # to and fro, of folders and hosts
        self._differing: Counter[_Parameter] = Counter()
        self._refuted: set[_Pair | _Parameter] = set()
        self._idle: frozenset[_Parameter] = frozenset()
        self._bare: frozenset[str] = frozenset()  # the queried ones without idle parameters
        self._sampled: dict[str, str] = {}  # links, by the addresses that are known
        self._samples: Counter[_Pair | None] = Counter()

    def add_asked(self, url: str) -> None:
        """Note the address of a page that a callback requested."""
        self._seen.add_url(url.partition("#")[0])

    def add_links(self, links: PageLinks, callback: str, url: str, asked: Collection[str]) -> None:
        """Note what a callback left out of a page of which it requested some addresses."""
        # But if it took one or two links of a kind, it may come to others of them step by step.
        new = self.find_new(links, callback)
        numbers = Counter(_find_kind(address, url) for address in asked if new)
        steps = {kind for kind, number in numbers.items() if number <= _MOST_STEPS}
        left = [x for x in new if _find_kind(x, url) not in steps or x.endswith(_FIRST)]
        self._seen.add(_digest(left), callback)

    def add_page(self, url: str, kept_text: str = "") -> None:
        """Note a page that was fetched; of one that is no near-duplicate its text's digest."""
        self._seen.add_url(url)
        if "?" in url and len(self._queried) < _MOST_QUERIED:
            self._queried.append(url)
        if kept_text:
            self._kept.add_url(url)
            self._kept.add_url(f"{url} {kept_text}")
            self._last_kept.append((url, kept_text))

    def list_new(self, links: PageLinks, page: DroppedPage) -> list[str]:
        """List the links of a near-duplicate that are not known by themselves so far."""
        url, original = page.url, page.original
        if len(self._places) + len(self._differing) < _MOST_PLACES:
            pair, names = _find_places(url, original), _find_parameters(url, original)
            self._places[pair] += 1
            self._differing.update(names)
            if pair and not names and pair not in self._carries:
                to, fro = carry_over(url, original), carry_over(original, url)
                self._carries[pair] = to or str, fro or str
        return self.find_new(links, page.callback)

    def find_new(self, links: PageLinks, callback: str) -> list[str]:
        """Find the links that are not known by themselves so far, and note nothing."""
        places = self._seen.find_new(links.digests, callback)
        addresses = links.addresses.decode().split("\n") if places else []
        return [addresses[place] for place in places]

    def sort(
        self, pages: Sequence[DroppedPage]
    ) -> tuple[list[DroppedPage], list[tuple[str, str, _Pair | None]]]:
        """Sort out the links that are known by now; 20 us a link.

        Returns the pages with those that are not, and the links that are known by another address,
        each with that and the pair of places of its page.
        """
        self._find_refuted()
        pages = [page._replace(links=self._leave_out_seen(page)) for page in pages]
        self._find_idle(pages)
        elsewhere = [
            (link, known, _find_places(page.url, page.original))
            for page in pages
            for link, known in self._find_known(page)
            if known
        ]
        left = {link for link, *_ in elsewhere}
        new = [page._replace(links=[x for x in page.links if x not in left]) for page in pages]
        return [page for page in new if page.links], elsewhere

    def draw(self, elsewhere: Iterable[tuple[str, str, _Pair | None]]) -> set[str]:
        """Draw a sample of the links that are known by another address, the same ones each time."""
        # Of all links to one page only one: each answer may have other sessions.
        for link, known, pair in sorted(elsewhere, key=lambda each: digest_link(each[1])):
            drawn = digest_link(known) < _SAMPLE_SHARE * 2**64
            if known not in self._sampled and (drawn or self._samples[pair] < _LEAST_SAMPLED):
                self._sampled[known] = link
                self._samples[pair] += 1
        return set(self._sampled.values())

    def _leave_out_seen(self, page: DroppedPage) -> list[str]:
        new = self._seen.find_new(_digest(page.links), page.callback)
        return [page.links[place] for place in new]

    def _find_known(self, page: DroppedPage) -> list[tuple[str, str]]:
        """Find the addresses by which the links of a page are known, "" if by none."""
        carry = self._find_carry(page)
        return [
            (link, self._find_bare(link, page) or self._find_bare(carry(link), page))
            for link in page.links
        ]

    def _find_bare(self, address: str, page: DroppedPage) -> str:
        bare = _strip(address, self._idle)
        return bare if bare in self._bare or self._seen.has(bare, page.callback) else ""

    def _find_carry(self, page: DroppedPage) -> _Carry:
        """Find what makes the counterpart of a link in the place of the original."""
        pair = _find_places(page.url, page.original)
        proven = pair and self._count(pair) >= _LEAST_PAGES
        ways = {pair, pair and pair[::-1], *_find_parameters(page.url, page.original)}
        proven = proven and self._refuted.isdisjoint(ways)
        return (carry_over(page.url, page.original) if proven else None) or str

    def _find_refuted(self) -> None:
        """Find the places and parameters of which pages with two texts were kept."""
        names = {name for name, number in dict(self._differing).items() if number >= _LEAST_PAGES}
        carries, texts = dict(self._carries), dict[tuple[_Parameter, str], str]()
        refuting: Counter[_Pair | _Parameter] = Counter()
        sampled = set(self._sampled.values())
        for url, text in list(self._last_kept):
            ways: list[_Pair | _Parameter] = [
                pair
                for pair, both in carries.items()
                for other in [carry(url) for carry in both]
                if other != url and self._is_other(other, text)
            ]
            for name in names.intersection(_find_parameters(url, url.partition("?")[0])):
                bare = _strip(url, {name})
                if texts.setdefault((name, bare), text) != text or self._is_other(bare, text):
                    ways.append(name)
            refuting.update(dict.fromkeys(ways, len(self._last_kept) if url in sampled else 1))
        self._refuted = {
            way for way, number in refuting.items() if number > _MOST_REFUTING * self._count(way)
        }

    def _count(self, way: _Pair | _Parameter | None) -> int:
        """Count the pages that were dropped for their counterparts."""
        # Which of two mirrors is the original depends on which page comes first.
        if isinstance(way, str):
            return self._differing[way]
        return self._places[way] + self._places[way and way[::-1]]

    def _is_other(self, url: str, text: str) -> bool:
        """Whether a page was kept that has another text."""
        return self._kept.has(url) and not self._kept.has(f"{url} {text}")

    def _find_idle(self, pages: Sequence[DroppedPage]) -> None:
        """Find the idle parameters: as if all that may be are, which pages lead to new ones?"""
        number = dict(self._differing)
        names = {name for name in number if number[name] >= _LEAST_PAGES}
        self._set_idle(names - self._refuted)
        leading: Counter[_Parameter] = Counter()
        for page in pages:
            own = self._idle.intersection(_find_parameters(page.url, page.original))
            if own and not all(known for _, known in self._find_known(page)):
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
    pairs = set(query.split("&")) ^ set(other.split("&")) if path == other_path else ()
    return {_name_parameter(url, pair) for pair in pairs if pair}


def _name_parameter(url: str, pair: str) -> _Parameter:
    return f"{''.join(url.split('/', 3)[2:3])}?{pair.partition('=')[0]}"


def _find_kind(link: str, page: str) -> str:
    """Find what a link has in common with those to other pages of one list, as seen from a page."""
    folder, own = (each.rstrip("/").rpartition("/")[0] for each in (link, page))
    # In the first folder of a host there are logins and the like as well.
    chained = folder == own and "/" in folder.partition("://")[2] and "?" not in link + page
    return folder if chained else _COUNTING.sub("", link)


def _strip(url: str, idle: Collection[_Parameter]) -> str:
    """Take idle parameters off an address."""
    path, _, query = url.partition("?")
    if not query or not idle:
        return url
    kept = [pair for pair in query.split("&") if _name_parameter(url, pair) not in idle]
    return "?".join(filter(None, (path, "&".join(kept))))
