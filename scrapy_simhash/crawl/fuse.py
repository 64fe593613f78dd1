"""Warn where most pages of a callback begin to repeat others, unlike in its last crawl."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash._printable import plural, quote, show_share
from scrapy_simhash.judge.log import PASS
from scrapy_simhash.pages.facts import LEAST_OF_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.crawl.policy import JudgedPage
    from scrapy_simhash.pages.facts import Reader, Share

_PAGES = LEAST_OF_SHARE  # of one callback
_MOST, _LEAST_BEFORE = 0.5, 0.25
_FIRST = 3


class _Recent(NamedTuple):
    """The last pages of a callback: "" for each, or the address of one that repeats another."""

    before: Share
    urls: deque[str]


class Fuse:
    """Finds callbacks most of whose last 200 judged pages repeat others, once each.

    A site that begins to answer with one page for all, or a template that hides what differs, looks
    so. Only a callback of which the last crawl dropped less than a quarter is watched.

    Args:
        shares: what the last crawls counted.
    """

    def __init__(self, shares: Iterable[Share] = ()) -> None:
        self._recent: dict[Reader, _Recent] = {
            share.reader: _Recent(share, deque(maxlen=_PAGES))
            for share in shares
            if share.judged >= _PAGES and share.repeated < _LEAST_BEFORE * share.judged
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
        if len(urls) < _PAGES or len(repeating) <= _MOST * _PAGES:
            return ""
        del self._recent[page.reader]
        return (
            f"Of the last {_PAGES} pages of {quote(before.reader.callback)}, {len(repeating)} "
            f"repeat another one; of the {plural(before.judged, 'page')} of its last crawl, "
            f"{show_share(before.repeated / before.judged)} did. Look at the first ones (scrapy "
            f"simhash explain URL): {', '.join(map(quote, repeating[:_FIRST]))}. "
            f'SIMHASH_ACTION = "flag" drops none'
        )
