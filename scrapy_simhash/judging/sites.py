"""What the pages of a site share: template and names, as a sample of its host's documents tells.

Two pages alone cannot tell which of their text is template. Some other documents of the host can:
what many of them have counts for little, in the text as in the names (docs/study.md).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from scrapy_simhash.judging.names import UNKNOWN_NAMES, NameShares, SiteNames
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.sketch import read_sketches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import PageFacts
    from scrapy_simhash.judging.interface import Reading

AnyPage = TypeVar("AnyPage")

# The most documents in the sample of a host.
SAMPLE = 16
# So many pages of one form of address come first: fewer than make anything template.
_OF_FORM = 2
# With fewer documents beside the two that are compared, nothing is known of their host. Better than
# 3 on two corpora, as good on the third (docs/study.md).
LEAST_KNOWN = 6
# A triple that so many of the sample have is template and weighs nothing; fewer weigh less each.
SHARE_OF_TEMPLATE = 0.2
LEAST_OF_TEMPLATE = 3
# Of 10 kB each. Each document of a sample may be one of two that are compared, and left out.
_SITES_REMEMBERED = 1_024


def draw_sample(
    pages: Iterable[AnyPage],
    describe: Callable[[AnyPage], tuple[int, Hashable]],
    most: int = SAMPLE,
) -> list[AnyPage]:
    """Draw the sample of a host from its pages, which are ordered by a secret.

    Args:
        pages: of the host.
        describe: returns how suspect a page is, see `PageFacts`, and the form of its address.
        most: that are drawn.

    Returns:
        Those of the least suspect pages that come first if two of each form are taken in turn, in
        the order given. A page that is not drawn is not drawn from more pages, either, so a sample
        and one more page make the next sample.
    """
    described = [(*describe(page), place, page) for place, page in enumerate(pages)]
    least = min((suspicion for suspicion, *_ in described), default=0)
    of_form = Counter["Hashable"]()
    ranked = []
    for suspicion, form, place, page in described:
        if suspicion == least:
            ranked.append((of_form[form] // _OF_FORM, place, page))
            of_form[form] += 1
    ranked.sort(key=lambda each: each[:2])
    return [page for *_, page in sorted(ranked[:most], key=lambda each: each[1])]


class Site:
    """A sample of a host's documents.

    Args:
        documents: some of them by their numbers, with sketches; fewer than six tell nothing.

    Attributes:
        known: whether there are enough.
        numbers: those of the documents, if there are.
        names: what is the site's in the names of its pages.
    """

    def __init__(self, documents: Mapping[int, PageFacts] = MappingProxyType({})) -> None:
        self.known = len(documents) >= LEAST_KNOWN
        self.numbers = tuple(documents) if self.known else ()
        known = [documents[number] for number in self.numbers]
        self._values = read_sketches([page.sketch for page in known]).values
        titles, headings = (page.title for page in known), (page.heading for page in known)
        self.names = SiteNames(NameShares(titles), NameShares(headings)) if known else UNKNOWN_NAMES

    def weigh(self, smallest: NDArray[np.uint16]) -> NDArray[np.float64]:
        """Weigh triples by how few of the sample have them, 0 to 1; all 1 where nothing is known.

        Args:
            smallest: of each bin of n pairs of sketches the triple that decides, shape (n, 256).
        """
        count = len(self._values)
        if not count:
            return np.ones(smallest.shape)
        values = self._values[:, np.newaxis]
        having = np.count_nonzero(values == smallest, axis=0)
        # A smaller triple hides whether the page has this one.
        telling = np.count_nonzero(values >= smallest, axis=0)
        had_by = count * having / np.maximum(1, telling)
        most = max(LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE * count)
        weights: NDArray[np.float64] = np.maximum(0.0, 1 - np.log1p(had_by) / np.log1p(most))
        return weights


UNKNOWN_SITE = Site()


class Sites:
    """Finds the sites of the documents in one store, and remembers those needed last.

    A site is remembered by what its sample says of each document, so a changed one is read again.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[tuple[int, bytes], ...], Site] = OrderedDict()

    def prepare(self, documents: Reading, pages: Iterable[PageFacts]) -> None:
        """Read what is not known of the sites of pages; one round trip, where reads are some."""
        hosts = {host_of(page.url) for page in pages} - {""}
        samples = [documents.sample(host) for host in hosts]
        unknown = [sample for sample in samples if tuple(sample.items()) not in self._found]
        documents.glance([number for sample in unknown for number in sample])
        for sample in unknown:
            self._make(documents, sample)

    def find(
        self, documents: Reading, urls: tuple[str, str], without: Collection[int]
    ) -> tuple[Site, Site]:
        """Find the sites of two documents by address, as all but certain documents tell them."""
        hosts = host_of(urls[0]), host_of(urls[1])
        found = {host: self._find(documents, host, without) for host in dict.fromkeys(hosts)}
        return found[hosts[0]], found[hosts[1]]

    def _find(self, documents: Reading, host: str, without: Collection[int]) -> Site:
        sample = documents.sample(host) if host else {}
        if not sample.keys().isdisjoint(without):
            sample = {number: facts for number, facts in sample.items() if number not in without}
        return self._make(documents, sample)

    def _make(self, documents: Reading, sample: Mapping[int, bytes]) -> Site:
        if len(sample) < LEAST_KNOWN:
            return UNKNOWN_SITE
        key = tuple(sample.items())
        site = self._found.pop(key, None)
        if site is None:
            there = documents.glance(sample)
            site = Site(there)
            if len(there) < len(sample):  # some are damaged, or deleted just now
                return site
        self._found[key] = site
        if len(self._found) > _SITES_REMEMBERED:
            self._found.popitem(last=False)
        return site
