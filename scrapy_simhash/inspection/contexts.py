"""The context in which two pages are compared: the rest of a store, or of a labelled folder."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

import xxhash

from scrapy_simhash.inspection.evaluation.labels import LabelledDocuments
from scrapy_simhash.judging.comparison import (
    NO_CONTEXT,
    Context,
    make_context,
)
from scrapy_simhash.judging.judge import MOST_CALLED
from scrapy_simhash.judging.names import list_parts
from scrapy_simhash.judging.sites import LEAST_KNOWN, UNKNOWN_SITE, Site, Sites
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.stores.keyvalues import SAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy_simhash.inspection.evaluation.labels import Corpus
    from scrapy_simhash.judging.documents import Document, PageFacts, StoredDocument
    from scrapy_simhash.judging.interface import Reading
    from scrapy_simhash.stores.store import Store

_SITES_REMEMBERED = 256


class StoredContexts:
    """Finds the context of two documents of a store, as when it judged them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sites = Sites()

    def find(self, first: StoredDocument, second: StoredDocument) -> Context:
        """Find the context of two documents."""
        # No page finds a near-duplicate by its name, so that one is the page that was judged.
        page, other = (first, second) if first.original else (second, first)
        return self._store.read(lambda stored: self._find(stored, page, other))

    def _find(self, stored: Reading, page: StoredDocument, other: StoredDocument) -> Context:
        names = (
            name
            for name, numbers in stored.list_called(page)
            if other.document in numbers and len(numbers) <= MOST_CALLED
        )
        two = {page.document, other.document}
        sites = self._sites.find(stored, (page.url, other.url), two)
        return make_context(*sites, next(names, ""))


class FolderContexts:
    """Finds the context of two pages of a folder, without all pages of their documents.

    Args:
        corpus: its pages.
        documents: those by id; None for one that passes unjudged.
        seed: another one chooses other pages for the samples.
    """

    def __init__(
        self,
        corpus: Corpus,
        documents: Mapping[str, Document | None],
        seed: int = 0,
    ) -> None:
        self._document_of = LabelledDocuments(corpus).find
        # A person finds a page by its row; the first one is 1.
        self._numbers = {name: number for number, name in enumerate(corpus.pages, 1)}
        self._pages: dict[str, PageFacts] = {
            name: document for name, document in documents.items() if document is not None
        }
        self._by_host: defaultdict[str, list[str]] = defaultdict(list)
        # Which pages of a host have a part of a name.
        self._called: defaultdict[tuple[str, object], list[str]] = defaultdict(list)
        for name in sorted(
            self._pages, key=lambda name: xxhash.xxh3_64_digest(name.encode(), seed)
        ):
            page = self._pages[name]
            host = host_of(page.url)
            if host and page.sketch:
                if not page.stub:
                    self._by_host[host].append(name)
                for part in list_parts(page.title, page.heading):
                    self._called[host, part].append(name)
        self._make_site = lru_cache(_SITES_REMEMBERED)(self._sample)

    def find(self, first: str, second: str) -> Context:
        """Find the context of two pages by their ids."""
        if first not in self._pages or second not in self._pages:
            return NO_CONTEXT
        mine, theirs = self._pages[first], self._pages[second]
        without = frozenset(map(self._document_of, (first, second)))
        names = (
            name
            for page, other in ((mine, second), (theirs, first))
            for name, called in self._list_called(page, without)
            if other in called
        )
        site, other_site = (self._find_site(host_of(page.url), without) for page in (mine, theirs))
        return make_context(site, other_site, next(names, ""))

    def _list_called(self, page: PageFacts, two: frozenset[str]) -> Iterator[tuple[str, list[str]]]:
        """List the parts of a page's names by which pages are found, each with its pages."""
        host = host_of(page.url) if page.sketch else ""  # as a store does
        for part, name in list_parts(page.title, page.heading).items():
            called = self._called.get((host, part), [])
            # Of the two documents, the one that is kept has it.
            if len({*map(self._document_of, called)} - two) < MOST_CALLED:
                yield name, called

    def _find_site(self, host: str, without: frozenset[str]) -> Site:
        """Find the site of a host, by one page of each of its other documents."""
        sample: dict[str, str] = {}
        for name in self._by_host[host]:
            document = self._document_of(name)
            if document not in without:
                sample.setdefault(document, name)
            if len(sample) == SAMPLE:
                break
        return self._make_site(tuple(sample.values()))

    def _sample(self, names: tuple[str, ...]) -> Site:
        if len(names) < LEAST_KNOWN:
            return UNKNOWN_SITE
        return Site({self._numbers[name]: self._pages[name] for name in names})
