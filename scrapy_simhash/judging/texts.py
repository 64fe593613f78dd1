"""The texts of stored documents, and the templates of their sites, read once for many pages."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from scrapy_simhash.judging.own import UNKNOWN_TEMPLATE, Template, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from scrapy_simhash.judging.documents import PageFacts
    from scrapy_simhash.judging.interface import Reading
    from scrapy_simhash.judging.sites import Site
    from scrapy_simhash.pages.wording import Wording

_Made = TypeVar("_Made")

# Of some 40 kB a text of 1,000 words, and of 600 kB a template.
_TEXTS_REMEMBERED = 256
_TEMPLATES_REMEMBERED = 32
# So that nobody can make two words of one hash; these hashes do not leave the process.
_SEED = secrets.randbits(64)


class Texts:
    """Reads texts, and templates of sites, and remembers those that were needed last."""

    def __init__(self) -> None:
        self._texts: OrderedDict[Hashable, Text] = OrderedDict()
        self._templates: OrderedDict[Hashable, Template] = OrderedDict()

    def read(self, wording: Wording) -> Text:
        """Read a wording; only texts of one process can be compared."""

        def make() -> Text:
            return Text(*wording, seed=_SEED)

        return _remember(self._texts, wording, _TEXTS_REMEMBERED, make)

    def make_template(self, pages: Iterable[tuple[PageFacts, Wording]]) -> Template:
        """Make the template that a sample of pages shows."""
        pages = list(pages)
        return Template(
            [self.read(wording) for _, wording in pages],
            [page.url for page, _ in pages],
            [page.canonical for page, _ in pages],
        )

    def find_template(self, documents: Reading, site: Site) -> Template:
        """Find the template of a site in a store; unknown with the site."""
        if not site.known:
            return UNKNOWN_TEMPLATE

        def make() -> Template:
            pages, wordings = documents.glance(site.numbers), documents.get_wordings(site.numbers)
            both = pages.keys() & wordings.keys()
            return self.make_template((pages[number], wordings[number]) for number in sorted(both))

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
