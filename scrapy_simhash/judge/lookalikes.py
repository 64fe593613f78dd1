"""Kept pages that look like another kept page: what parts the two, and how many there are.

What changes by itself, such as a counter, makes another page of each copy. Nobody can tell that
from two pages, so such copies are kept; here a person learns of them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash._printable import plural, quote

if TYPE_CHECKING:
    from scrapy_simhash.judge.log import Decision

# Those that begin with the same words are counted together, whatever their numbers.
_WORDS_OF_KIND = 2
_MOST_KINDS = 1_000  # pages of others are counted only
_MOST_LISTED = 10
_NUMBER = re.compile(r"\d+")


class _Kind(NamedTuple):
    """The first page of those that are parted from others by words of one kind."""

    words: str
    url: str
    like: str


class LookAlikes:
    """Counts kept pages that look like another one, by the words that part them."""

    def __init__(self) -> None:
        self._pages = 0
        self._kinds: Counter[str] = Counter()
        self._first: dict[str, _Kind] = {}

    def add(self, decision: Decision) -> None:
        """Count a page that is one."""
        self._pages += 1
        words = _NUMBER.sub("0", decision.parted_by).split()
        kind = " ".join(words[:_WORDS_OF_KIND])
        if kind in self._first or len(self._first) < _MOST_KINDS:
            first = _Kind(decision.parted_by, decision.url, decision.nearest_url or "")
            self._first.setdefault(kind, first)
            self._kinds[kind] += 1

    def describe(self) -> str:
        """Describe how many there are, and what parts most; "" if there are none."""
        if not self._pages:
            return ""
        ((kind, pages),) = self._kinds.most_common(1)
        words, url, like = map(quote, self._first[kind])
        of_all = f" ({pages:,} of them)" * (pages < self._pages)
        return (
            f"{plural(self._pages, 'page')} that look{'s' * (self._pages == 1)} like another one "
            f"but for {words}{' and the like' * (self._pages > 1)}{of_all}: scrapy simhash explain "
            f"{url} (like {like}); SIMHASH_IGNORE leaves out what changes by itself"
        )

    def list_kinds(self) -> list[dict[str, Any]]:
        """List what parts most, ready for JSON."""
        ranked = self._kinds.most_common(_MOST_LISTED)
        return [{"pages": pages, **self._first[kind]._asdict()} for kind, pages in ranked]
