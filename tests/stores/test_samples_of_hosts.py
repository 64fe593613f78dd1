"""The sample of each host: who is drawn, and what is known of a site; see `StoreMachine`, too."""

from contextlib import nullcontext
from operator import itemgetter

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.hosts import Hosts, draw_sample
from scrapy_simhash.judging.rule import Site
from scrapy_simhash.pages.facts import SKETCH_BYTES
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.opening import open_store
from tests.helpers.documents import alter, document, judge

HOST = "site.example"
SKETCH = bytes(SKETCH_BYTES)
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
    """And what a transaction saw that was given up is not kept, nor what was known before."""
    pages, found = make_pages(range(8)), Hosts()
    new = alter(pages[3], title="new title", fingerprint=5, text_digest=b"new")

    def find(stored: Documents) -> Site:
        return found.find(stored, pages[0].facts.url, ())

    def change_and_give_up(stored: Documents) -> None:
        number = stored.find_number(new.facts.identity) or 0
        record = stored.glance([number])[number]
        stored.save(number, alter(record, title=GIVEN_UP))
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
        assert len(found._sites) == 1
        assert found._sites._weight == 1 + sum(len(page.words) for page in site.pages)
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
