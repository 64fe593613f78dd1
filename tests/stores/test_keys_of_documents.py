"""Candidates by rare triples and names, and samples of hosts, whatever happens to a store."""

from collections import Counter
from contextlib import nullcontext
from operator import itemgetter
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash import open_store
from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.hosts import Hosts, draw_sample
from scrapy_simhash.judging.matching import MOST_CALLED
from scrapy_simhash.judging.rule import Site
from scrapy_simhash.pages.facts import SKETCH_BYTES
from scrapy_simhash.pages.features import sketch_text
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keys import CALLED, KEYS_OF_A_PAGE, MOST_UNDER_KEY, make_keys, name_keys
from scrapy_simhash.stores.keyvalues import KEYS, number_of
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import alter, document, judge, judge_one

TEMPLATE = range(90_000, 90_200)


def sketch(shingles: Any) -> bytes:
    """Sketch a text of these shingles, as long as none of them hides another one."""
    hashes = np.array([*shingles], np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    return sketch_text(hashes)


def make_page(name: str, shingles: Any, **fields: Any) -> Document:
    """Make a page that is near to no other one, and has no name."""
    bits = hash(name) % 2**64
    facts = {"sketch": sketch(shingles), "words": 500, "whole_words": 600} | fields
    return document(name, bits, **facts)


def read_keys(store: Store) -> dict[int, set[int]]:
    """Read who is under each key; {0} is under one that is dissolved."""

    def read(stored: Documents) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for key, member in stored.values.scan(KEYS):
            found.setdefault(number_of(key), set()).add(number_of(member))
        return found

    return store.read(read)


def test_a_template_is_dissolved_by_its_seventeenth_page(home: str) -> None:
    """And then each page is under its own triples, and an edited copy of it finds it."""
    own = [range(100 * n, 100 * n + 40) for n in range(30)]
    pages = [make_page(f"page {n}", [*TEMPLATE, *some]) for n, some in enumerate(own)]
    with open_store(home, rule="plain") as store:
        judge(store, *pages[:16])
        assert 0 not in set().union(*read_keys(store).values())
        judge(store, *pages[16:])
        rows = read_keys(store)
        places = Counter(number for members in rows.values() for number in members)
        assert {places[number] for number in range(1, 31)} == {KEYS_OF_A_PAGE}
        assert max(map(len, rows.values())) <= MOST_UNDER_KEY
        template = {*make_keys(sketch(TEMPLATE), pages[0].facts.group)}
        assert sum(rows.get(key) == {0} for key in template) > 80
        for number in (0, 5, 29):
            edited = make_page("edited", [*TEMPLATE, *own[number][:30], *range(50_000, 50_010)])

            def find(stored: Documents, page: Document = edited) -> dict[int, int]:
                return stored.keys.propose(page.facts, [page.facts.group], KEYS_OF_A_PAGE)[0]

            found = store.read(find)
            assert next(iter(found)) == number + 1
            assert len(found) <= 8
        assert store.check() == []


def test_a_transaction_that_is_given_up_dissolves_nothing(home: str) -> None:
    pages = [make_page(f"page {n}", [*TEMPLATE, n]) for n in range(18)]

    def give_up(stored: Documents) -> None:
        for page in pages[16:]:
            stored.keys.enter(Document(page.facts, number=99), stored.glance)
            stored.keys.propose(page.facts, [page.facts.group], 64)  # reads what is dissolved
        raise ValueError("given up")

    with open_store(home, rule="plain") as store:
        judge(store, *pages[:16])
        with pytest.raises(ValueError, match="given up"):
            store.write(give_up)
        assert 0 not in set().union(*read_keys(store).values())
        judge(store, pages[16])
        assert store.check() == []


FIRE = "Fire in the harbour"
SKETCH = bytes(SKETCH_BYTES)


def make_named(number: int, title: str, text: str = "a text") -> Document:
    """Make a page; those of other numbers have the same sketch, but are far from it."""
    bits = xxhash.xxh3_64_intdigest(b"%d" % number)
    return document(f"page/{number}/at/", bits, sketch=SKETCH, text=text, title=title)


def called(store: Store, title: str) -> list[list[int]]:
    """List the documents by the parts of a title."""
    page = make_named(0, title)

    def read(stored: Documents) -> list[list[int]]:
        groups = [page.facts.group]
        return [found for _, found in stored.keys.propose(page.facts, groups, 64)[1]]

    return store.read(read)


def test_a_name_that_many_have_is_not_asked(store: Store) -> None:
    for number in range(1, 2 * CALLED):
        judge(store, make_named(number, f"{FIRE} - The Daily", f"text {number}"))
        found = list(range(1, min(number, CALLED) + 1))
        assert called(store, f"the daily | {FIRE}") == [found, found]
    facts = make_named(0, f"{FIRE} - The Daily").facts
    names = {*name_keys(facts, facts.group, store.seed)}
    rows = store.read(lambda stored: [number_of(row[0]) for row in stored.values.scan(KEYS)])
    assert sum(key in names for key in rows) == 2 * CALLED
    with open_store("memory:") as memory:
        apart = [make_named(n, f"{FIRE} - {n}", "a text " * 20) for n in range(MOST_CALLED + 2)]
        memory.find_and_add(apart[:MOST_CALLED])
        near = [judge_one(memory, page).nearest_tests for page in apart[MOST_CALLED:]]
        assert [tests[0].partition(" ")[0] for tests in near] == ["called", "rare"]


HOST = "site.example"
GIVEN_UP = "given up"


def make_pages(names: range, host: str = HOST, flipped: int = 0) -> list[Document]:
    """Make pages, of which those of other numbers are far from each other."""
    return [
        document(
            f"{host} {name}",
            xxhash.xxh3_64_intdigest(b"%d" % name) ^ flipped,
            url=f"http://{host}/{name}",
            sketch=SKETCH,
            text=f"{host} {name}",
        )
        for name in names
    ]


def test_what_another_changes_in_a_page_is_known_at_once(home: str) -> None:
    """And what a transaction saw that was given up is not kept."""
    pages, found = make_pages(range(8)), Hosts()
    new = alter(pages[3], title="new title", fingerprint=5, text_digest=b"new")

    def find(stored: Documents) -> Site:
        return found.find(stored, pages[0].facts.url, ())

    def change_and_give_up(stored: Documents) -> None:
        number = max(stored.find_numbers(new.facts.identity), default=0)
        stored.save(alter(stored.glance([number])[number], title=GIVEN_UP))
        assert find(stored) is not site
        raise ValueError(GIVEN_UP)

    with open_store(home, distance=0) as store:
        judge(store, *pages)
        site = store.read(find)
        assert store.read(find) is site
        with pytest.raises(ValueError, match=GIVEN_UP):
            store.write(change_and_give_up)
        assert store.read(find).pages == site.pages
        # A server has other users in this process, too.
        with open_store(home) if store.engine.shared else nullcontext(store) as other:
            judge(other, new)
            changed = store.read(find)
            assert changed is not site
            assert store.read(find) is changed
            judge(other, alter(new, title="another title"))
            assert store.read(find) is not changed
        words = sum(len(page.words.tokens) for page in site.pages)
        assert (len(found._sites), found._words) == (1, words)
        assert store.check() == []


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"))), st.integers(1, 8))
def test_drawn_two_of_a_form_in_turn_of_the_least_suspect(
    kinds: list[tuple[int, str]], most: int
) -> None:
    pages = [(number, *kind) for number, kind in enumerate(kinds)]
    least = min((suspicion for suspicion, _ in kinds), default=0)
    left = [page for page in pages if page[1] == least]
    expected: list[tuple[int, int, str]] = []
    while left:
        turn = [page for form in "abc" for page in [each for each in left if each[2] == form][:2]]
        expected += sorted(turn)
        left = [page for page in left if page not in turn]
    drawn: list[tuple[int, int, str]] = []
    for page in reversed(pages):
        drawn = draw_sample(sorted([*drawn, page]), itemgetter(1, 2), most)
    assert drawn == draw_sample(pages, itemgetter(1, 2), most) == sorted(expected[:most])
