"""The sample of each host: up to 16 of its documents, whatever happens to a store."""

from contextlib import nullcontext

import numpy as np
import pytest
import xxhash
from msgspec import structs

from scrapy_simhash.judging.documents import Document
from scrapy_simhash.judging.sites import Site, Sites
from scrapy_simhash.pages.sketch import SKETCH_BYTES
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keyvalues import DOCUMENTS, SAMPLE, SITES, octets
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import ALL_KINDS, begin_crawl, document, judge, next_crawl
from tests.helpers.redisservers import count_trips

STORE_KINDS = ALL_KINDS
HOST, OTHER = "site.example", "other.example"
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
        )
        for name in names
    ]


def rank(store: Store, pages: list[Document]) -> list[bytes]:
    """Sort the identities of pages as a sample does."""
    identities = [page.identity for page in pages]
    return sorted(identities, key=lambda each: xxhash.xxh3_64_digest(each, store.seed))


def ask(store: Store, host: str = HOST) -> list[bytes]:
    """List the identities of the sample of a host."""

    def work(stored: Documents) -> list[bytes]:
        numbers = stored.sample(host)
        records = stored.glance(numbers)
        assert list(records) == list(numbers)
        return [records[number].identity for number in numbers]

    return store.read(work)


def delete(store: Store, identities: list[bytes]) -> None:
    def find(stored: Documents) -> list[int]:
        return [stored.find_number(each) or 0 for each in identities]

    assert store.delete(store.read(find)) == len(identities)


def give_title(stored: Documents, number: int, title: str) -> None:
    stored.put(number, structs.replace(stored.glance([number])[number], title=title))


def test_what_another_changes_in_a_page_is_known_at_once(home: str) -> None:
    """And what a transaction saw that was given up is not kept."""
    pages, found = make_pages(range(8)), Sites()
    new = structs.replace(pages[3], title="new title", fingerprints=(5,), text_digest=b"new")

    def find(stored: Documents) -> Site:
        return found.find(stored, (pages[0].url, pages[1].url), ())[0]

    def change_and_give_up(stored: Documents) -> None:
        number = stored.find_number(new.identity) or 0
        record = stored.glance([number])[number]
        stored.take_out(number, record)
        stored.add(number, structs.replace(record, title=GIVEN_UP))
        assert find(stored) is not site
        raise ValueError(GIVEN_UP)

    with begin_crawl(home, distance=0) as store:
        judge(store, *pages)
        site = store.read(find)
        assert store.read(find) is site
        with pytest.raises(ValueError, match=GIVEN_UP):
            store.write(change_and_give_up)
        assert store.read(find) is site
        with nullcontext(store) if home == "memory:" else open_store(home) as other:
            judge(other, new)
            changed = store.read(find)
            assert changed is not site
            assert (changed.numbers, store.read(find)) == (site.numbers, changed)
            judge(other, structs.replace(new, title="another title"))
            assert store.read(find) is not changed
        assert store.check() == []


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("group", [1, 7, 60])
def test_a_sample_depends_on_no_order(home: str, step: int, group: int) -> None:
    pages, others = make_pages(range(60)), make_pages(range(100, 103), "Other.example:8080")
    with begin_crawl(home, distance=0) as store:
        for at in range(0, 60, group):
            judge(store, *pages[::step][at : at + group])
        judge(store, *others)
        assert ask(store) == rank(store, pages)[:SAMPLE]
        assert ask(store, OTHER) == rank(store, others)
        assert ask(store, "nowhere.example") == ask(store, "") == []
        assert store.check() == []


def test_what_tells_nothing_is_in_no_sample(store: Store) -> None:
    page = make_pages(range(1))[0]
    outside = [
        structs.replace(page, identity=b"near"),
        document("stub", 77, stub=True, sketch=SKETCH),
        document("unsketched", 77 << 20),
        document("nowhere", 77 << 40, url="", sketch=SKETCH),
        document("broken", 55 << 20, url="http://[broken", sketch=SKETCH),
        document("file", 55 << 40, url="file:///folder/page", sketch=SKETCH),
    ]
    assert judge(store, page, *outside) == [
        "new 1",
        "near_duplicate 2 of 1",
        *(f"new {number}" for number in range(3, 8)),
    ]
    store.bulk_load(np.array([9 << 50], np.uint64))
    assert ask(store) == [page.identity]
    assert store.read(lambda stored: len(list(stored.values.scan(SITES)))) == 1


def test_a_gap_is_filled_by_what_comes_and_by_rebuilding(store: Store) -> None:
    pages = make_pages(range(40))
    judge(store, *pages)
    ranked = rank(store, pages)
    next_crawl(store)
    delete(store, ranked[3:6])
    left = ranked[:3] + ranked[6:]
    assert ask(store) == left[: SAMPLE - 3]
    assert store.check() == []
    more = make_pages(range(40, 42))
    judge(store, *more)
    in_sample = {*left[: SAMPLE - 3], *(page.identity for page in more)}
    assert ask(store) == [each for each in rank(store, pages + more) if each in in_sample]
    for _ in range(2):
        store.rebuild()
        assert (
            ask(store)
            == [each for each in rank(store, pages + more) if each not in ranked[3:6]][:SAMPLE]
        )


def test_a_page_that_is_judged_again_leaves_or_enters(store: Store) -> None:
    """A revisit may have another address, and a sketch or none; an orphan may be dropped."""
    page, twin = make_pages(range(1))[0], make_pages(range(1), OTHER)[0]
    bare = structs.replace(page, sketch=b"")
    for visit, host in ((page, HOST), (bare, ""), (page, HOST)):
        judge(store, visit)
        assert [each for each in (HOST, OTHER) if ask(store, each)] == [host] * bool(host)
    moved = structs.replace(page, url=f"http://{OTHER}/0")
    assert judge(store, moved, moved) == ["unchanged 1", "unchanged 1"]
    assert (ask(store), ask(store, OTHER)) == ([], [page.identity])
    next_crawl(store)
    late = structs.replace(page, crawl="crawl-2")
    assert judge(store, structs.replace(twin, crawl="crawl-2"), late) == [
        "new 2",
        "near_duplicate 1 of 2",
    ]
    assert (ask(store), ask(store, OTHER)) == ([], [twin.identity])


def test_glances_leave_out_what_cannot_be_read(store: Store) -> None:
    judge(store, *make_pages(range(3)))
    store.write(lambda stored: stored.values.put(DOCUMENTS, octets(2), b"damaged"))

    def work(stored: Documents) -> list[int]:
        assert stored.glance([]) == {}
        give_title(stored, 3, "new title")
        assert stored.glance([3])[3].title == "new title"
        return list(stored.glance([9, 3, 2, 1, 1]))

    assert store.write(work) == [3, 1]
    assert len(store.read(lambda stored: stored.sample(HOST))) == 3
    store.rebuild()
    assert sorted(store.read(lambda stored: stored.sample(HOST))) == [1, 3]
    store.write(lambda stored: stored.values.delete(DOCUMENTS, octets(2)))
    store.rebuild()


def test_a_sample_that_is_too_large_is_cut(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = make_pages(range(20))
    with begin_crawl(home) as store:
        with monkeypatch.context() as patch:
            patch.setattr("scrapy_simhash.stores.documents.SAMPLE", SAMPLE + 3)
            judge(store, *pages)
        assert ask(store) == rank(store, pages)[:SAMPLE]
        (said,) = store.check()
        assert said.startswith(f"sites has {SAMPLE + 3} documents, not {SAMPLE}, at key ")
        store.rebuild()
        assert store.check() == []
        assert store.read(lambda stored: len(list(stored.values.scan(SITES)))) == SAMPLE


@pytest.mark.parametrize("home", ["redis"], indirect=True)
def test_samples_are_mended_in_few_round_trips(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with begin_crawl(home) as store:
        judge(store, *(make_pages(range(at, at + 1), f"{at}.example")[0] for at in range(200)))
        trips = count_trips(monkeypatch)
        store.rebuild()
        assert trips[0] <= 100
        assert store.check() == []
