"""Candidates by name: which documents of a host have a part of a name, whatever happens to them."""

import xxhash

from scrapy_simhash import open_store
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.matching import MOST_CALLED
from scrapy_simhash.pages.facts import SKETCH_BYTES
from scrapy_simhash.stores.documents import CALLED, Documents
from scrapy_simhash.stores.keys import name_keys
from scrapy_simhash.stores.keyvalues import KEYS
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, judge, judge_one

FIRE = "Fire in the harbour"
SKETCH = bytes(SKETCH_BYTES)


def make_page(number: int, title: str, text: str = "a text") -> Document:
    """Make a page; those of other numbers have the same sketch, but are far from it."""
    bits = xxhash.xxh3_64_intdigest(b"%d" % number)
    return document(f"page/{number}/at/", bits, sketch=SKETCH, text=text, title=title)


def called(store: Store, title: str) -> list[list[int]]:
    """List the documents by the parts of a title."""
    page = make_page(0, title)

    def read(stored: Documents) -> list[list[int]]:
        groups = stored.list_groups(page.facts)
        return [found for _, found in stored.list_called(page.facts, groups)]

    return store.read(read)


def test_a_name_that_many_have_is_not_asked(store: Store) -> None:
    for number in range(1, 2 * CALLED):
        judge(store, make_page(number, f"{FIRE} - The Daily", f"text {number}"))
        found = list(range(1, min(number, CALLED) + 1))
        assert called(store, f"the daily | {FIRE}") == [found, found]
    facts = make_page(0, f"{FIRE} - The Daily").facts
    names = {*name_keys(facts, facts.group, store.seed)}
    rows = store.read(lambda stored: [row[0] for row in stored.values.scan(KEYS)])
    assert sum(key in names for key in rows) == 2 * CALLED
    with open_store("memory:") as memory:
        apart = [make_page(n, f"{FIRE} - {n}", "a text " * 20) for n in range(MOST_CALLED + 2)]
        memory.find_and_add(apart[:MOST_CALLED])
        near = [judge_one(memory, page).nearest for page in apart[MOST_CALLED:]]
        assert [each and each.tests[0].partition(" ")[0] for each in near] == ["called", "rare"]
