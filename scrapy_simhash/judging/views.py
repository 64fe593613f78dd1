"""Views: addresses that are those of other pages with a part more, as of print and mobile views.

What all pages have in common whose addresses have one part is that of views, and no page's own.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from functools import reduce
from os.path import commonprefix
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import structs

from scrapy_simhash.pages.addresses import parse_address

if TYPE_CHECKING:
    from scrapy_simhash.judging.words import Hashes, Page
    from scrapy_simhash.pages.facts import Facts

# So many names of a path, from either end, may be parts that many addresses have.
_OUTER = 2
_MOST_PARAMETERS = 8
# Of so many pages what they have in common is no page's own, as of a template.
_LEAST = 3
# Of frames so many words at most, at either end, are remembered.
_LONGEST_FRAME = 200
# Of a host; each with some kB of the latest pages that had it.
_MOST_PARTS = 64
# Of what titles begin and end with, what signs set off: "Tea - Print", but not "Red tea".
_BEGIN, _END = re.compile(r".*[^\w\s]\s"), re.compile(r"\s[^\w\s].*| \(.*")
_DIGIT = re.compile(r"\d")


class ViewKind(NamedTuple):
    """What all pages have in common whose addresses have one part, see `list_parts`.

    Attributes:
        begin: of their titles.
        end: of these.
        words: hashes of pairs of words that all say where they begin or end, ascending.
        headings: of some of them, or titles.
    """

    begin: str
    end: str
    words: Hashes
    headings: frozenset[str]

    @classmethod
    def make(cls, page: Page) -> ViewKind:
        """Make what one page has."""
        title, frames = page.facts.title, (slice(_LONGEST_FRAME), slice(-_LONGEST_FRAME, None))
        words = np.unique(np.concatenate([page.words.hash_pairs(frame) for frame in frames]))
        return cls(title, title, words, frozenset((page.facts.heading or title,)))

    def join(self, other: ViewKind) -> ViewKind:
        """Return what these and other pages have in common."""
        return ViewKind(
            commonprefix([self.begin, other.begin]),  # noqa: RUF071 - of characters
            commonprefix([self.end[::-1], other.end[::-1]])[::-1],  # noqa: RUF071
            np.intersect1d(self.words, other.words, assume_unique=True),
            self.headings if self.is_known else self.headings | other.headings,
        )

    def merge(self, other: ViewKind) -> ViewKind:
        """Return what a page has that is of these and of others."""
        begins, ends = (self.begin, other.begin), (self.end, other.end)
        words = np.union1d(self.words, other.words)
        return self._replace(begin=max(begins, key=len), end=max(ends, key=len), words=words)

    @property
    def is_known(self) -> bool:
        """Whether enough pages were met to tell what is their own, the judged one aside."""
        return len(self.headings) > _LEAST

    def cut(self, title: str) -> str:
        """Cut out of a title what all have, in whole words."""
        begin, end = _BEGIN.match(self.begin), _END.search(self.end)
        size = len(end[0]) if end else 0
        return title[len(begin[0]) if begin else 0 : len(title) - size].strip()


def list_parts(url: str) -> set[str]:
    """List parts of an address that many pages may have: host, outer names, and parameters.

    >>> sorted(list_parts("http://a.example/print/jobs/17?lang=en"))
    ['-1/17', '-2/jobs', '//jobs', '/print', '?lang=en', 'a.example']
    """
    address = parse_address(url)
    if address is None:
        return set()
    path = [name for name in address.path if name]
    parts = {"/" * n + name for n, name in enumerate(path[:_OUTER], 1)}
    parts |= {f"-{n}/{name}" for n, name in enumerate(path[: -_OUTER - 1 : -1], 1)}
    return parts | {f"?{pair}" for pair in address.query[:_MOST_PARAMETERS]} | {address.host}


class Views:
    """What pages of a host have in common, by the parts of their addresses."""

    def __init__(self) -> None:
        self._kinds = OrderedDict[str, ViewKind]()

    def note(self, page: Page) -> None:
        """Note what a page has."""
        kinds, own = self._kinds, ViewKind.make(page)
        for part in list_parts(page.facts.url):
            kinds[part] = kinds[part].join(own) if part in kinds else own
            kinds.move_to_end(part)
        while len(kinds) > _MOST_PARTS:  # names of single pages go first
            names = (part for part, kind in kinds.items() if not kind.is_known)
            del kinds[next(names, next(iter(kinds)))]

    def find(self, mine: str, theirs: str) -> ViewKind | None:
        """Find what all such views have as the one of two addresses is of the other one's page.

        None if it is none: its address is that of the page with a name, host or parameter more.
        """
        one, other = parse_address(mine), parse_address(theirs)
        if one is None or other is None:
            return None
        rest, more = iter(one.path), {*one.path} - {*other.path}
        if any(map(_DIGIT.search, more)) or not all(name in rest for name in other.path):
            return None
        parts = list_parts(mine) - list_parts(theirs)
        # A parameter with several values chooses what a page shows.
        values = Counter(part.partition("=")[0] for part in self._kinds if part[0] == "?")
        if any(values[part.partition("=")[0]] > 1 for part in parts):
            return None
        kinds = [kind for part in parts if (kind := self._kinds.get(part)) and kind.is_known]
        return reduce(ViewKind.merge, kinds) if kinds else None


NO_VIEWS = Views()


def name_view(page: Facts, kept: Facts, views: Views) -> Facts:
    """Return a page, under the title of the kept one if it is a view of that with its heading.

    That is if what no other such view has in its title begins that of the page: "Tea - Print",
    "Tea | Board".
    """
    if page.heading == kept.heading != "":
        view = views.find(page.url, kept.url)
        own = view.cut(page.title) if view else ""
        if own and re.match(rf"{re.escape(own)}(?!\w)", kept.title):
            return structs.replace(page, title=kept.title)
    return page
