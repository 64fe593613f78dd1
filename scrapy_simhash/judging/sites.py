"""What the pages of a site share: template and names, as a sample of its host's documents tells.

Two pages alone cannot tell which of their text is template. Some other documents of the host can:
what many of them have counts for little, in the text as in the names (docs/study.md).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from scrapy_simhash.judging.names import UNKNOWN_NAMES, NameShares, SiteNames
from scrapy_simhash.judging.texts import UNKNOWN_TEMPLATE, Template, make_template
from scrapy_simhash.judging.wordrule import LEAST_KNOWN, LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.sketch import read_sketches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Reading
    from scrapy_simhash.pages.facts import Facts

AnyPage = TypeVar("AnyPage")
_Key = TypeVar("_Key")
_Made = TypeVar("_Made")

# The most documents in the sample of a host.
SAMPLE = 16
# So many pages of one form of address come first: fewer than make anything template.
_OF_FORM = 2
# Of 10 kB each. Each document of a sample may be one of two that are compared, and left out.
_SITES_REMEMBERED = 1_024
# Of 600 kB each.
_TEMPLATES_REMEMBERED = 16


def draw_sample(
    pages: Iterable[AnyPage],
    describe: Callable[[AnyPage], tuple[int, Hashable]],
    most: int = SAMPLE,
) -> list[AnyPage]:
    """Draw the sample of a host from its pages, which are ordered by a secret.

    Args:
        pages: of the host.
        describe: returns how suspect a page is, see `Facts`, and the form of its address.
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
    """

    def __init__(self, documents: Mapping[int, Facts] = MappingProxyType({})) -> None:
        self.known = len(documents) >= LEAST_KNOWN
        self.numbers = tuple(documents) if self.known else ()
        known = [documents[number] for number in self.numbers]
        self._values = read_sketches([page.sketch for page in known]).values
        self._called = [(page.title, page.heading) for page in known]

    def without(self, numbers: Collection[int]) -> Site:
        """Make the site that all but some of the documents show."""
        kept = [place for place, number in enumerate(self.numbers) if number not in numbers]
        site = Site()
        if len(kept) >= LEAST_KNOWN:
            site.known, site.numbers = True, tuple(self.numbers[place] for place in kept)
            site._values = self._values[kept]
            site._called = [self._called[place] for place in kept]
        return site

    @cached_property
    def names(self) -> SiteNames:
        """What is the site's in the names of its pages."""
        if not self.known:
            return UNKNOWN_NAMES
        titles, headings = zip(*self._called, strict=True)
        return SiteNames(NameShares(titles), NameShares(headings))

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
    """Finds sites and templates of the documents in one store; remembers those needed last.

    A site is remembered by what its sample says of each document, so a changed one is read again.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[Hashable, Site] = OrderedDict()
        self._templates: OrderedDict[Site, Template] = OrderedDict()

    def find(
        self, documents: Reading, page: Facts, others: Mapping[int, Facts], own: int = 0
    ) -> dict[int, tuple[Site, Site]]:
        """Find the sites of a page and of each of some documents, as all but these two tell them.

        Args:
            documents: of the store.
            page: that is compared.
            others: with which it is compared, by number.
            own: the number of its own document, if it has one.
        """
        host = host_of(page.url)
        hosts = {number: host_of(other.url) for number, other in others.items()}
        samples = {each: documents.sample(each) if each else {} for each in {host, *hosts.values()}}
        found: dict[int, tuple[Site, Site]] = {}
        for number, other in hosts.items():
            mine = self._find(documents, samples[host], {own, number})
            theirs = mine if other == host else self._find(documents, samples[other], {own, number})
            found[number] = mine, theirs
        return found

    def _find(
        self, documents: Reading, sample: Mapping[int, bytes], without: Collection[int]
    ) -> Site:
        left_out = sample.keys() & without
        count = len(sample) - len(left_out)
        if count < LEAST_KNOWN:
            return UNKNOWN_SITE
        key = _key_of(sample, left_out)
        site = self._found.pop(key, None)
        if site is None and left_out:
            site = self._find(documents, sample, ()).without(left_out)
        elif site is None:
            records = documents.glance(sample)
            site = Site({number: record.facts for number, record in records.items()})
        if len(site.numbers) < count:  # some are damaged, or deleted just now
            return site
        _remember(self._found, key, site, _SITES_REMEMBERED)
        return site

    def find_template(self, documents: Reading, sites: tuple[Site, Site]) -> Template:
        """Find the template of two documents by their sites; unknown of two sites."""
        site = sites[0]
        if not site.known or sites[1] is not site:
            return UNKNOWN_TEMPLATE
        template = self._templates.pop(site, None)
        if template is None:
            pages, wordings = documents.glance(site.numbers), documents.get_wordings(site.numbers)
            both = sorted(pages.keys() & wordings.keys())
            template = make_template((pages[number].facts, wordings[number]) for number in both)
        _remember(self._templates, site, template, _TEMPLATES_REMEMBERED)
        return template


def _remember(found: OrderedDict[_Key, _Made], key: _Key, made: _Made, most: int) -> None:
    """Remember what was made for a key; forget what was not needed for longest."""
    found[key] = made
    if len(found) > most:
        found.popitem(last=False)


def _key_of(sample: Mapping[int, bytes], left_out: Collection[int] = ()) -> Hashable:
    """Return what a site is remembered by: its sample, and which of it does not count."""
    return tuple(sample.items()), frozenset(left_out)
