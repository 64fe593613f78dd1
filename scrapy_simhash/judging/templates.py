"""The templates of sites, as the texts of a sample show them, read once for many pages."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from scrapy_simhash.judging.sites import LEAST_KNOWN, LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE
from scrapy_simhash.judging.texts import NOTHING, Shared, Text
from scrapy_simhash.pages.addresses import last_segment, parse_address, part_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from scrapy_simhash.judging.documents import Reading
    from scrapy_simhash.judging.sites import Site
    from scrapy_simhash.judging.texts import Hashes
    from scrapy_simhash.pages.facts import Facts
    from scrapy_simhash.pages.wording import Wording

_Made = TypeVar("_Made")

# Of some 150 kB a text of 1,000 words, and of 600 kB a template. With four times as many texts, a
# seventh fewer are read twice.
_TEXTS_REMEMBERED = 64
_TEMPLATES_REMEMBERED = 16
# What so many pages of a part of a site have, three at least, is that part's.
_SHARE_OF_PART = 0.75
# Three digits, but no release, before the last name in a path.
_IDENTIFIER = re.compile(r"/((?=(?:[^/\d]*\d){3})(?![^/]*\d\.\d)[^/]+)/[^/]+$")


def _count(sets: Sequence[Hashes], least: float) -> tuple[Hashes, Hashes]:
    """List what is in any of n sets, and what is in so many."""
    if not sets:
        return NOTHING, NOTHING
    found, times = np.unique(np.concatenate(sets), return_counts=True)
    return found, found[times >= least]


class Template:
    """What the pages of a site share: triples of words, ends of addresses, what is beside the text.

    Args:
        texts: of a sample of its pages; fewer than six tell nothing.
        urls: addresses of these pages.
        declared: addresses that they declare, in their plain form.

    Attributes:
        known: whether there are enough.
        triples, masked: those that a fifth of the texts have, three at least, ascending.
        any_triples, any_masked: those that any has.
        beside: what so many have beside their texts.
        declared: as given.
    """

    def __init__(
        self,
        texts: Sequence[Text] = (),
        urls: Sequence[str] = (),
        declared: Iterable[str] = (),
    ) -> None:
        self.known = len(texts) >= LEAST_KNOWN
        known = texts if self.known else ()
        least = max(LEAST_OF_TEMPLATE, SHARE_OF_TEMPLATE * len(known))
        self.any_triples, self.triples = _count([text.triples_set for text in known], least)
        self.any_masked, self.masked = _count([text.masked_set for text in known], least)
        beside = Counter(each for text in known for each in set(text.beside))
        self.beside = {each for each, times in beside.items() if times >= least}
        self.declared = frozenset(declared)
        self._pages = [
            (address.path, text.triples_set, text.masked_set)
            for url, text in zip(urls, known, strict=False)
            if (address := parse_address(url))
        ]
        self._of_parts: dict[tuple[str, ...], tuple[Hashes, Hashes]] = {}
        tails = Counter(tail for url in urls for tail in _list_tails(url)) if self.known else {}
        self._tails = {tail for tail, times in tails.items() if times >= least}

    def share(self, url: str, other: str) -> Shared:
        """Return what the site tells of two of its addresses.

        Of the part of a site in which only the one lies, nearly all pages share a release, or the
        day on which it was made. A name that many have is the site's: "7" is that of "/7/view".
        """
        return Shared(
            self.known,
            self.triples,
            self.masked,
            self.any_triples,
            self.any_masked,
            [self._find_shared(part) for part in part_folders(url, other)],
            [self._find_name(each) for each in (url, other)],
            self.beside,
            self.declared,
        )

    def _find_shared(self, part: tuple[str, ...]) -> tuple[Hashes, Hashes]:
        within = [sets for path, *sets in self._pages if part and path[: len(part)] == part]
        if len(within) < LEAST_OF_TEMPLATE:  # of folders without end, few are remembered
            return NOTHING, NOTHING
        if part not in self._of_parts:
            least = max(LEAST_OF_TEMPLATE, _SHARE_OF_PART * len(within))
            triples, masked = (_count(sets, least)[1] for sets in zip(*within, strict=True))
            self._of_parts[part] = triples, masked
        return self._of_parts[part]

    def _find_name(self, url: str) -> str:
        tails = _list_tails(url)
        shared = next((n for n, tail in enumerate(tails) if tail not in self._tails), len(tails))
        rest = url.partition("#")[0].rstrip("/").rsplit("/", shared)[0]
        # What stands behind an identifier belongs to it in any case: "4022/view".
        before = _IDENTIFIER.search(rest.partition("?")[0])
        return f"{before[1]}/{last_segment(rest)}" if before else last_segment(rest)


def _list_tails(url: str) -> list[str]:
    """List the ends of a path, the shortest first, without the whole; none with a query."""
    address = parse_address(url)
    if address is None or address.query:
        return []
    path = "/".join(address.path).strip("/")
    return [path[place.start() + 1 :] for place in re.finditer("/", path)][::-1]


UNKNOWN_TEMPLATE = Template()


class Texts:
    """Reads texts, and templates of sites, and remembers those that were needed last."""

    def __init__(self) -> None:
        self._texts: OrderedDict[Hashable, Text] = OrderedDict()
        self._templates: OrderedDict[Hashable, Template] = OrderedDict()

    def read(self, wording: Wording) -> Text:
        """Read a wording."""

        def make() -> Text:
            return Text(*wording)

        return _remember(self._texts, wording, _TEXTS_REMEMBERED, make)

    def make_template(self, pages: Iterable[tuple[Facts, Wording]]) -> Template:
        """Make the template that a sample of pages shows."""
        pages = list(pages)
        return Template(
            [self.read(wording) for _, wording in pages],
            [page.url for page, _ in pages],
            chain.from_iterable(page.declared for page, _ in pages),
        )

    def find_template(self, documents: Reading, site: Site) -> Template:
        """Find the template of a site in a store; unknown with the site."""
        if not site.known:
            return UNKNOWN_TEMPLATE

        def make() -> Template:
            pages, wordings = documents.glance(site.numbers), documents.get_wordings(site.numbers)
            both = pages.keys() & wordings.keys()
            return self.make_template(
                (pages[number].facts, wordings[number]) for number in sorted(both)
            )

        return _remember(self._templates, site, _TEMPLATES_REMEMBERED, make)


def _remember(
    made: OrderedDict[Hashable, _Made], key: Hashable, most: int, make: Callable[[], _Made]
) -> _Made:
    """Return what was made for a key, or make it; forget what was not needed for longest."""
    found = made.pop(key, None)
    made[key] = found = make() if found is None else found
    if len(made) > most:
        made.popitem(last=False)
    return found
