"""The links of pages: which of a dropped page's links no kept page had.

A dropped page's links are those of the page that was kept, as the paper has it. Where most of them
are on no kept page, they are followed if SIMHASH_FOLLOW_NEW_LINKS is on; else they are remembered,
and those that no kept page has at the end of the crawl are counted and named.
"""

from __future__ import annotations

from mmap import mmap
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import xxhash

from scrapy_simhash.judge.log import LOSING
from scrapy_simhash.judge.messages import LeftLink
from scrapy_simhash.pages.facts import MOSTLY_NEW, PageLinks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Decision

# Slots for digests, named by 21 bits; 8 MB once all are used, for some two million links.
_SLOTS = np.uint64(2**21 - 1)
_TAG_BITS = np.uint64(32)
# Links of dropped pages in memory, 300 bytes each. Those beyond are only counted.
_MOST_REMEMBERED = 50_000


class LinkTable:
    """Digests of the links of pages that were kept: 32 bits of each, in a slot named by 21 others.

    A later digest takes the slot of an earlier one, so none is found that was not added, but for
    one in four billion. Links are those of one group, because other callbacks may not follow them.

    Args:
        flags: nothing is dropped: all pages come, and links count that would not be followed.
    """

    def __init__(self, *, flags: bool = False) -> None:
        self.flags = flags
        # The system gives pages as they are used.
        self._tags = np.frombuffer(mmap(-1, 4 * (int(_SLOTS) + 1)), np.uint32)
        # By group and digest.
        self._left: dict[tuple[str, int], LeftLink] = {}
        self._beyond = 0
        self.has_kept = False  # whether a page that was kept had links

    def note(self, decision: Decision, links: PageLinks, group: str) -> None:
        """Note the links of a page by what was decided, and that it came."""
        if not self.flags:
            digest = _digest(decision.url)
            self._tags[digest & _SLOTS] = digest >> _TAG_BITS
        if decision.action in LOSING or (self.flags and decision.action == "flag"):
            self._leave(decision, links, group)
        else:
            self.add(links, group)

    def add(self, links: PageLinks, group: str) -> None:
        """Add the links of a page that was kept."""
        digests = _read(links) ^ _digest(group)
        self.has_kept |= digests.size > 0
        self._tags[digests & _SLOTS] = digests >> _TAG_BITS

    def _find_new(self, digests: NDArray[np.uint64], group: str) -> NDArray[np.bool_]:
        """Return which links are neither on a kept page of a group nor came."""
        of_group = digests ^ _digest(group)
        came = self._tags[digests & _SLOTS] == digests >> _TAG_BITS
        new: NDArray[np.bool_] = ~came & (self._tags[of_group & _SLOTS] != of_group >> _TAG_BITS)
        return new

    def measure_new(self, links: PageLinks, group: str, *pages: str) -> float | None:
        """Return the share of a page's links that are new, 0 to 1; None if it has none.

        If most are, those that lead back to one of these pages are not.
        """
        new = self._find_new(_read(links), group)
        number = int(np.count_nonzero(new))
        if number and number >= MOSTLY_NEW * new.size:
            addresses = links.addresses.decode().split("\n")
            number = sum(not leads_back(addresses[n], *pages) for n in np.flatnonzero(new).tolist())
        return round(number / new.size, 3) if new.size else None

    def _leave(self, decision: Decision, links: PageLinks, group: str) -> None:
        """Remember the new links of a dropped page, but for those that lead back to it."""
        digests = _read(links)
        places = np.flatnonzero(self._find_new(digests, group)).tolist()
        addresses = links.addresses.decode().split("\n") if places else []
        of_page = decision.url, decision.match_url or "", decision.new_links or 0.0
        for place in places:
            key, link = (group, int(digests[place])), addresses[place]
            if key in self._left or leads_back(link, decision.url, decision.requested_url):
                continue
            if len(self._left) < _MOST_REMEMBERED:
                self._left[key] = LeftLink(link, *of_page)
            else:
                self._beyond += 1

    def list_left(self) -> tuple[list[LeftLink], int]:
        """List the links that no kept page had, and count those that were not remembered."""
        return [
            left
            for (group, digest), left in self._left.items()
            if self._find_new(np.array([digest], np.uint64), group).any()
        ], self._beyond


def _read(links: PageLinks) -> NDArray[np.uint64]:
    return np.frombuffer(links.digests, "<u8").astype(np.uint64, copy=False)


def _digest(name: str) -> NDArray[np.uint64]:
    return np.array([xxhash.xxh3_64_intdigest(name.encode("utf-8", "replace"))], np.uint64)


def leads_back(link: str, *pages: str) -> bool:
    """Return True if a link leads to one of these pages, or names it in a parameter (`?next=`)."""
    # As links spell them: whole, or without the host.
    own = {each for page in pages if page for each in (page, "/" + page.split("/", 3)[-1])}
    pairs = link.partition("?")[2].split("&")
    return not own.isdisjoint([link, *(unquote(pair.partition("=")[2]) for pair in pairs)])
