"""Find the rules by which several addresses lead to one page, from the pages of a store."""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.rule import Rule
from scrapy_simhash.pages.addresses import split_url
from scrapy_simhash.pages.scopes import find_site
from scrapy_simhash.stores.keyvalues import cut
from scrapy_simhash.stores.opening import open_as_it_is
from scrapy_simhash.urls.learning import learn
from scrapy_simhash.urls.proof import describe_missing, lower_bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.config import Config
    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.stores.store import Store
    from scrapy_simhash.urls.rules import UrlRuleRecord

# Of a site; 2.5 KB each.
_PAGES_OF_SITE = 2**15
# Some milliseconds: LMDB keeps the pages of its file that a reader sees.
_PAGES_PER_READ = 1_000


def find_rules(config: Config) -> list[UrlRuleRecord]:
    """Find the rules that the stored pages propose, those that are proven first.

    Reads all records twice; of a site the newest 32,768 pages, some 80 MB.
    """
    with open_as_it_is(config.store) as store:
        rule = Rule(store.distance, config.confirm)
        found = [record for pages in _read_sites(store) for record in learn(pages, rule)]
    return sorted(found, key=lambda each: (not each.directories, -each.same, each.rule.text))


def _read_sites(store: Store) -> Iterator[Iterator[StoredDocument]]:
    """Read the pages of each site, in the order in which they arrived."""
    sites: defaultdict[str, deque[int]] = defaultdict(partial(deque, maxlen=_PAGES_OF_SITE))

    def note(page: StoredDocument) -> None:
        parts = split_url(page.url)
        if parts is not None:
            sites[find_site(parts.netloc)].append(page.document)

    store.visit(note)
    return (_read_pages(store, numbers) for numbers in sites.values())


def _read_pages(store: Store, numbers: Iterable[int]) -> Iterator[StoredDocument]:
    """Read documents by their numbers, a thousand in each transaction."""
    for some in cut(numbers, _PAGES_PER_READ):
        try:
            yield from store.get_documents(some)
        except DamagedError:  # `check` lists it
            for number in some:
                with suppress(DamagedError):
                    yield from store.get_documents([number])


def describe_rule(record: UrlRuleRecord) -> dict[str, Any]:
    """Describe a rule for people, ready for JSON."""
    return {
        "rule": record.rule.text,
        "proven": bool(record.directories),
        "directories": record.directories,
        "same": record.same,
        "different": record.different,
        "grey": record.grey,
        "lower_bound": round(lower_bound(record.same, record.different), 4),
        "lacks": "" if record.directories else describe_missing(record),
        "pairs_different": record.conflicts,
        "pairs_same": record.examples,
    }
