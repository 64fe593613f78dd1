"""What is known of hosts: the template of their pages, and what changes by itself on them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from functools import lru_cache
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, TypeVar

from scrapy_simhash.judging.noise import Noise
from scrapy_simhash.judging.rule import LEAST_KNOWN, MET, UNKNOWN, Site
from scrapy_simhash.judging.views import Views
from scrapy_simhash.judging.words import Page
from scrapy_simhash.pages.addresses import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from scrapy_simhash.judging.documents import Reading
    from scrapy_simhash.judging.slots import Change
    from scrapy_simhash.pages.facts import Facts

AnyPage = TypeVar("AnyPage")

# The most documents in the sample of a host.
SAMPLE = 16
# So many pages of one form of address come first: fewer than make anything template.
_OF_FORM = 2
# Of some 150 bytes each, 100 MB: samples of a hundred hosts; with 256 pages judging took 1.6 times
# as long on the third set.
_WORDS_REMEMBERED = 700_000
# Of some kB each.
_HOSTS_REMEMBERED = 10_000
# Of some 100 kB each.
_HOSTS_WITH_VIEWS = 256
# Pages with words of their own that are dropped for one declared address: two views of a page.
_MOST_CLAIMS = 2


def draw_sample(
    pages: Sequence[AnyPage],
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
    described = list(map(describe, pages))
    least = min((suspicion for suspicion, _ in described), default=0)
    of_form = Counter["Hashable"]()
    ranked = []
    for place, (suspicion, form) in enumerate(described):
        if suspicion == least:
            ranked.append((of_form[form] // _OF_FORM, place))
            of_form[form] += 1
    return [pages[place] for place in sorted(place for _, place in sorted(ranked)[:most])]


class Hosts:
    """Finds what is known of the hosts of the documents in one store; remembers it.

    Noise is that of this crawl: what a host's pages were seen to change in. What earlier ones saw
    is recalled where it is needed, but without `recalls`.
    """

    def __init__(self, *, recalls: bool = True) -> None:
        self._recalls = recalls
        # Of a host: what its sample and noise were, the pages of that with all words, and the site.
        self._sites = OrderedDict[str, tuple["Hashable", dict[tuple[int, bytes], Page], Site]]()
        self._words = 0  # of all these pages
        self._find_noise = lru_cache(_HOSTS_REMEMBERED)(lambda _: Noise())
        self._find_views = lru_cache(_HOSTS_WITH_VIEWS)(lambda _: Views())
        # By the address, the words that only pages have that were dropped where it was declared.
        self._find_claims = lru_cache(_HOSTS_REMEMBERED)(lambda _: dict[bytes, frozenset[str]]())

    def believes(self, declared: Iterable[str], page: Facts, own: frozenset[str]) -> bool:
        """Return whether a page with words of its own may be dropped for what one declares.

        An address that two pages were dropped for, each with words that no other has, is declared
        by whatever page of that host: the third one stays, and all after it.
        """
        for address in declared if own else ():
            claims = self._find_claims(address)
            others = [words for identity, words in claims.items() if identity != page.identity]
            if len(others) < _MOST_CLAIMS:
                claims[page.identity] = own
            elif own.difference(*others) and all(words - own for words in others):
                return False
        return True

    def get_noise(self, url: str) -> Noise:
        """Get what changes on the host of a page."""
        return self._find_noise(host_of(url))

    def recall(self, documents: Reading, url: str) -> Noise:
        """Get what changes on the host of a page, with what earlier crawls saw."""
        noise = self.get_noise(url)
        if self._recalls and not noise.is_recalled:
            noise.recall(documents.find_noise(host_of(url)))
        return noise

    def note(self, page: Page) -> None:
        """Note what a page shows of its host, whatever becomes of it."""
        self.get_noise(page.facts.url).note_page(page)
        self._find_views(host_of(page.facts.url)).note(page)

    def clean(self, page: Page) -> Page:
        """Return a page without all that changes by itself on its host."""
        url = page.facts.url
        return self.get_noise(url).choose((url,), inf).clean(page)

    def clean_both(self, page: Page, kept: Page) -> tuple[Page, Page]:
        """Return two pages without what changes by itself.

        That is what does in the folder of one of them, and is cut out of both, or copies in another
        folder would never be found; on another host it counts for the kept page alone. What was
        seen to change only within more time than is between them does not count; what changed at
        the address of one of the two itself does.
        """
        mine, theirs = page.facts.url, kept.facts.url
        seconds, urls = abs(page.facts.time - kept.facts.time), _list_urls(mine, theirs)
        slots = self.get_noise(mine).choose(urls, seconds, urls)
        if theirs not in urls:
            kept = self.get_noise(theirs).choose((theirs,), seconds).clean(kept)
        return slots.clean_both(page, kept)

    def list_noise(self, page: Page, kept: Page) -> list[Change]:
        """List what `clean_both` may leave out of a page."""
        url, seconds = page.facts.url, abs(page.facts.time - kept.facts.time)
        noise, urls = self.get_noise(url), _list_urls(url, kept.facts.url)
        listed = chain(
            *(noise.list_counting(url, seconds) for url in urls), *map(noise.list_own, urls)
        )
        return [*{each.slot: each for each in listed}.values()]

    def find(self, documents: Reading, url: str, without: Collection[int]) -> Site:
        """Find the site of a page, as all pages of its host's sample but some tell it.

        The last one of a host is remembered with what its sample says of each document, so a
        changed one is made again.
        """
        host = host_of(url)
        sample = documents.sample(host) if host else {}
        if len(sample) < LEAST_KNOWN:
            return MET if sample else UNKNOWN
        told = tuple(sample.items()), self.get_noise(url).version
        before, pages, site = self._sites.get(host, ((), {}, UNKNOWN))
        if before != told:
            words_before = _count_words(pages)
            # Most were in the sample before.
            missing = [number for number, digest in sample.items() if (number, digest) not in pages]
            records, wordings = documents.glance(missing), documents.get_wordings(missing)
            pages = pages | {
                (number, sample[number]): Page.make(records[number].facts, wordings[number])
                for number in records.keys() & wordings
            }
            pages = {each: pages[each] for each in sample.items() if each in pages}
            cleaned = {number: self.clean(page) for (number, _), page in pages.items()}
            site = Site(cleaned, views=self._find_views(host))
            self._sites[host] = told, pages, site
            self._words += _count_words(pages) - words_before
        self._sites.move_to_end(host)
        while self._words > _WORDS_REMEMBERED and len(self._sites) > 1:
            self._words -= _count_words(self._sites.popitem(last=False)[1][1])
        return site.without(without)

    def find_both(
        self, documents: Reading, page: Facts, kept: Facts, without: Collection[int]
    ) -> tuple[Site, Site]:
        """Find the sites of two pages, see `find`; where one is not known, none is."""
        mine = theirs = self.find(documents, page.url, without)
        if host_of(page.url) != host_of(kept.url):
            theirs = self.find(documents, kept.url, without)
        return (mine, theirs) if mine.known == theirs.known else (UNKNOWN, UNKNOWN)


def _list_urls(mine: str, theirs: str) -> tuple[str, ...]:
    """List the addresses whose noise counts for a page beside a kept one."""
    return (mine, theirs) if host_of(mine) == host_of(theirs) else (mine,)


def _count_words(pages: Mapping[tuple[int, bytes], Page]) -> int:
    return sum(len(page.words.tokens) for page in pages.values())
