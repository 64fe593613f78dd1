"""What a learner remembers of the last pages, bounded: those of a host, and proposed rules."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scrapy_simhash.judging.urls.records import UrlRule

# A rule that is born asks the last pages of its host: in them most forms have their pages together,
# and reading that many takes some milliseconds. What came before has its say when it is visited.
MOST_PAGES_OF_HOST = 2_000
# Some 4 MB.
MOST_PAGES = 20_000
MOST_PROPOSALS = 4_096


class Seen(NamedTuple):
    """A page that was judged.

    Attributes:
        number: of its document.
        url: its address.
        callback: of its request; "" where that is not known.
        new_links: share of its links that its original lacks, 0 to 1; None where nobody knows.
    """

    number: int
    url: str
    callback: str = ""
    new_links: float | None = None


class Memory:
    """The last pages by host, and the rules that one pair of pages proposed."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, deque[Seen]] = OrderedDict()
        self._total = 0
        self._proposals: OrderedDict[UrlRule, str] = OrderedDict()

    def add(self, host: str, page: Seen) -> None:
        """Remember a page; where there are too many, hosts go whose last page is longest ago."""
        pages = self._pages.get(host)
        if pages is None:
            pages = self._pages[host] = deque(maxlen=MOST_PAGES_OF_HOST)
        self._pages.move_to_end(host)
        self._total += len(pages) < MOST_PAGES_OF_HOST
        pages.append(page)
        while self._total > MOST_PAGES and len(self._pages) > 1:
            self._total -= len(self._pages.popitem(last=False)[1])

    def list_pages(self, host: str) -> list[Seen]:
        """List the pages of a host, oldest first."""
        return list(self._pages.get(host, ()))

    def propose(self, rule: UrlRule, form: str) -> bool:
        """Note that a pair of pages of this normal form proposes a rule; True for another one."""
        # A rule that explains a single pair is of no use, and most of what is proposed does.
        before = self._proposals.setdefault(rule, form)
        if before != form:
            return True
        if len(self._proposals) > MOST_PROPOSALS:
            self._proposals.popitem(last=False)
        return False
