"""What speaks against the near-duplicates of a crawl, for whoever looks at some of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy_simhash._printable import plural, printable, quote
from scrapy_simhash.crawl.followers import Follower
from scrapy_simhash.crawl.policy import PASS
from scrapy_simhash.detector.scopes import find_site
from scrapy_simhash.judging.rule import Deciding, Relation
from scrapy_simhash.pages.addresses import host_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Request, Response

    from scrapy_simhash.crawl.followers import JudgedPage
    from scrapy_simhash.detector.log import Decision

# In the example crawl 1 of 261 near-duplicates is less alike, and none is wrong.
_LEAST_ALIKE = 0.7
# Of one page with another title, translations are two or three.
_MANY_TITLES = 4
# Of a crawl that repeats less, or less often, before sites are known, nothing need be said.
_MANY_UNKNOWN, _SHARE_UNKNOWN = 10, 0.1
_MOST_REMEMBERED = 10_000  # originals, or sites
_MOST_TOLD = 3


class Doubts(Follower):
    """Counts near-duplicates that may be wrong, by what speaks against them."""

    def __init__(self) -> None:
        # By the addresses of their originals.
        self._unlike, self._titles = Counter[str](), Counter[str]()
        self._sites = Counter[str]()  # those of their originals, where these are others
        self._pages = self._unknown = self._unalike = 0

    async def judged(self, request: Request, response: Response, page: JudgedPage) -> None:  # noqa: ARG002
        """Count a page if it is a near-duplicate that is not kept for somebody else."""
        decision = page.decision
        if not decision.is_near_duplicate or decision.action == PASS:
            return
        self._pages += 1
        self._unalike += decision.similarity is not None and decision.similarity < _LEAST_ALIKE
        original, evidence = decision.match_url or "", decision.evidence
        if decision.sink:
            _add(self._unlike, original)
        if evidence is not None and evidence.deciding is Deciding.TEXTS:
            self._unknown += not evidence.known
            if Relation.DIFFER in (evidence.title, evidence.heading):
                _add(self._titles, original)
        if original and (site := _find_other_site(decision, original)):
            _add(self._sites, site)

    def describe(self) -> str:
        """Describe what speaks against most; "" if nothing does."""
        return "; ".join(list(self._list())[:_MOST_TOLD])

    def _list(self) -> Iterator[str]:
        for original, number in self._unlike.most_common(1):
            pages = plural(number, "page")
            yield f"{pages} at unlike addresses repeating {quote(original)} (a login, an error?)"
        for original, number in self._titles.most_common(1):
            if number >= _MANY_TITLES:
                yield f"{plural(number, 'page')} with other titles repeating {quote(original)}"
        for site, _ in self._sites.most_common(1):
            more = " and other sites" * (len(self._sites) > 1)
            pages = plural(self._sites.total(), "page")
            yield f"{pages} repeating those of {printable(site)}{more}"
        if self._unknown >= max(_MANY_UNKNOWN, _SHARE_UNKNOWN * self._pages):
            yield f"{plural(self._unknown, 'page')} from before their site was known"
        if self._unalike:
            yield f"{plural(self._unalike, 'page')} less than {100 * _LEAST_ALIKE:.0f} % alike"


def _add(counts: Counter[str], key: str) -> None:
    if key in counts or len(counts) < _MOST_REMEMBERED:
        counts[key] += 1


def _find_other_site(decision: Decision, original: str) -> str:
    """Return the site of a page's original, or "" if both are of one."""
    own, other = find_site(host_of(decision.url)), find_site(host_of(original))
    return other if other != own else ""
