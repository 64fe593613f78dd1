"""What a store says of a page: new, near-duplicate or revisit, and what becomes of orphans."""

import numpy as np
import pytest

from scrapy_simhash.judging import Document, Verdict
from scrapy_simhash.stores import Store
from tests.helpers.documents import CRAWL, begin_crawl, document, plain_match

STORE_KINDS = ("lmdb", "redis", "cluster")
A, NEAR_A, FAR_A = 0x0123_4567_89AB_CDEF, 0x0123_4567_89AB_CDE8, 0x0123_4567_89AB_CDE0
B = A ^ 2**64 - 1


def add(store: Store, *documents: Document) -> list[Verdict]:
    return store.find_and_add(documents)


def add_one(store: Store, page: Document) -> Verdict:
    (verdict,) = store.find_and_add([page])
    return verdict


def next_crawl(store: Store, crawl: str = "crawl-2") -> str:
    store.end_crawl(CRAWL)
    store.start_crawl(crawl, "spider")
    return crawl


def test_new_near_duplicate_and_new_again(store: Store) -> None:
    assert add(store, document("a", A), document("b", NEAR_A), document("c", FAR_A)) == [
        Verdict("new", "", 1),
        Verdict("near_duplicate", "", 2, plain_match(1, A, 3, "http://site.example/a")),
        Verdict("new", "", 3),
    ]


def test_a_duplicate_is_not_in_the_tables(store: Store) -> None:
    """So near-duplicates of it alone are new: distance 2 from `b` and 4 from `a`."""
    assert [verdict.status for verdict in add(store, document("a", 0), document("b", 3))] == [
        "new",
        "near_duplicate",
    ]
    assert add_one(store, document("c", 15)).status == "new"


def test_the_nearest_is_named_also_when_it_is_newer(store: Store) -> None:
    add(store, document("at 3 bits", 0b111), document("at 1 bit", 1 << 40))
    match = add_one(store, document("page", 0)).match
    assert match == plain_match(2, 1 << 40, 1, "http://site.example/at 1 bit")


def test_the_older_of_two_is_named(store: Store) -> None:
    add(store, document("a", 0), document("b", 0, scope="other"))
    assert add(store, document("c", 0, scope="other"), document("d", 0)) == [
        Verdict("near_duplicate", "", 3, plain_match(2, 0, 0, "http://site.example/b")),
        Verdict("near_duplicate", "", 4, plain_match(1, 0, 0, "http://site.example/a")),
    ]


@pytest.mark.parametrize("first", [0, 0b1111], ids=["smaller first", "larger first"])
def test_the_older_of_two_at_the_same_distance_is_named(store: Store, first: int) -> None:
    add(store, document("older", first), document("newer", first ^ 0b1111))
    match = add_one(store, document("page", 0b0011)).match
    assert match
    assert (match.document, match.distance) == (1, 2)


def test_what_was_last_fetched_before_a_time_makes_no_near_duplicate(store: Store) -> None:
    add(store, document("old", A, time=10.0))
    assert add_one(store, document("b", A, time=20.0, not_before=10.0)).status == "near_duplicate"
    assert add_one(store, document("c", A, time=20.0, not_before=10.5)).status == "new"
    # The one that took over, not the old one that is as near.
    match = add_one(store, document("d", A, time=21.0, not_before=11.0)).match
    assert match
    assert match.document == 3
    # Fetched once more, it counts again; it never is a near-duplicate of itself.
    assert add_one(store, document("old", A, time=30.0, not_before=25.0)).status == "revisit"
    match = add_one(store, document("e", A, time=30.0, not_before=25.0)).match
    assert match
    assert match.document == 1
    assert store.check() == []


def test_distance_of_the_store(home: str) -> None:
    with begin_crawl(home, distance=1) as store:
        statuses = [v.status for v in add(store, document("a", 0), document("b", 3))]
        assert statuses == ["new", "new"]
        assert add_one(store, document("c", 7)).status == "near_duplicate"


@pytest.mark.parametrize("done", [False, True])
def test_revisits(store: Store, done: bool) -> None:
    add(store, document("a", A))
    if done:
        store.mark_done([1], CRAWL)
    assert add_one(store, document("a", A)) == Verdict("revisit", "unchanged", 1)
    assert add_one(store, document("a", NEAR_A)) == Verdict("revisit", "changed", 1)
    assert add_one(store, document("a", B)) == Verdict("revisit", "changed", 1)
    assert add_one(store, document("a", B, text_digest=b"x")) == Verdict("revisit", "changed", 1)
    assert add_one(store, document("b", B)).status == "near_duplicate"
    assert add_one(store, document("c", A)).status == "new"


def test_a_page_is_never_its_own_duplicate_within_one_group(store: Store) -> None:
    verdicts = add(store, document("a", A), document("a", A), document("a", NEAR_A))
    assert [(v.status, v.reason, v.document) for v in verdicts] == [
        ("new", "", 1),
        ("revisit", "unchanged", 1),
        ("revisit", "changed", 1),
    ]


def test_a_revisit_in_the_next_crawl(store: Store) -> None:
    add(store, document("a", A))
    store.mark_done([1], CRAWL)
    crawl = next_crawl(store)
    assert add_one(store, document("a", A, crawl=crawl)) == Verdict("revisit", "unchanged", 1)
    assert add_one(store, document("b", A, crawl=crawl)).status == "near_duplicate"


def test_a_changed_page_counts_again_only_when_it_is_done_again(store: Store) -> None:
    add(store, document("a", A))
    store.mark_done([1], CRAWL)
    crawl = next_crawl(store)
    assert add_one(store, document("a", B, crawl=crawl)).reason == "changed"
    next_crawl_of = "crawl-3"
    store.end_crawl(crawl)
    store.start_crawl(next_crawl_of, "spider")
    assert add_one(store, document("b", B, crawl=next_crawl_of)).status == "new"
    assert add_one(store, document("a", B, crawl=next_crawl_of)).status == "revisit"


def test_a_changed_page_that_comes_again_unchanged_is_taken_over(store: Store) -> None:
    """The crawl that saw the change died; the next one's items make the page count."""
    add(store, document("a", A))
    store.mark_done([1], CRAWL)
    add(store, document("a", B))
    store.end_crawl(CRAWL)
    store.start_crawl("crawl-2", "spider")
    assert add_one(store, document("a", B, crawl="crawl-2")) == Verdict("revisit", "unchanged", 1)
    store.mark_done([1], "crawl-2")
    store.end_crawl("crawl-2")
    assert add_one(store, document("b", B, crawl="crawl-3")).status == "near_duplicate"


def test_redirect_to_a_moved_page_is_a_revisit(store: Store) -> None:
    """`old` was stored; now its request is redirected to `moved` with the same text."""
    add(store, document("old", A))
    assert add_one(store, document("moved", NEAR_A, aliases=(b"old",))) == Verdict(
        "revisit", "changed", 1
    )
    assert add_one(store, document("moved", NEAR_A)).status == "revisit"
    assert add_one(store, document("old", NEAR_A)).status == "revisit"


def test_a_page_first_seen_through_a_redirect(store: Store) -> None:
    add(store, document("target", A, aliases=(b"source", b"between")))
    for name in ("source", "between", "target"):
        assert add_one(store, document(name, A)) == Verdict("revisit", "unchanged", 1)


def test_redirect_to_a_login_page_is_not_the_document(store: Store) -> None:
    """Neither becomes the other: the articles keep their records, the login page has its own."""
    add(store, document("article", A), document("article 2", B))
    store.mark_done([1, 2], CRAWL)
    login = 0xFFFF_0000_FFFF_0000
    assert add_one(store, document("login", login, aliases=(b"article",))) == Verdict("new", "", 3)
    again = add_one(store, document("login", login, aliases=(b"article 2",)))
    assert again == Verdict("revisit", "unchanged", 3)
    assert add_one(store, document("article", A)) == Verdict("revisit", "unchanged", 1)
    assert add_one(store, document("article 2", B)) == Verdict("revisit", "unchanged", 2)


def test_an_alias_with_other_text_becomes_a_document_of_its_own(store: Store) -> None:
    add(store, document("target", A, aliases=(b"source",)))
    assert add_one(store, document("source", B)) == Verdict("new", "", 2)
    assert add_one(store, document("source", B)) == Verdict("revisit", "unchanged", 2)
    assert add_one(store, document("target", A)) == Verdict("revisit", "unchanged", 1)


def test_only_documents_of_one_scope_are_compared(store: Store) -> None:
    pages = [
        document(f"{name} {scope}", A, scope=scope)
        for name in ("first", "second")
        for scope in ("", "one.example", "two.example")
    ]
    verdicts = add(store, *pages)
    assert [verdict.status for verdict in verdicts] == ["new"] * 3 + ["near_duplicate"] * 3
    assert [v.match and v.match.document for v in verdicts] == [None, None, None, 1, 2, 3]


def test_a_page_that_leaves_its_scope(store: Store) -> None:
    add(store, document("a", A, scope="one"))
    assert add_one(store, document("a", A, scope="two")).reason == "changed"
    assert add_one(store, document("b", A, scope="one")).status == "new"
    assert add_one(store, document("c", A, scope="two")).status == "near_duplicate"


def test_several_fingerprints_of_a_document(store: Store) -> None:
    add(store, document("a", A, B), document("b", 0, 0), document("c", 0xFF << 40, 0xFF << 40 | 1))
    assert store.check() == []
    for number, fingerprints in enumerate([(B,), (FAR_A, A), (0x5555 << 24, B ^ 1)]):
        match = add_one(store, document(f"near {number}", *fingerprints)).match
        assert match
        assert match.document == 1
    assert add_one(store, document("c", 0xFF << 50)).reason == "changed"
    assert store.query(0xFF << 40) == []
    assert [match.document for match in store.query(0xFF << 50)] == [3]


def test_one_fingerprint_of_several_documents(store: Store) -> None:
    """It leaves the tables with the last of them."""
    add(store, document("a", A, scope="one"), document("b", A, scope="two"))
    add(store, document("a", B, scope="one"))
    assert [match.document for match in store.query(A)] == [2]
    add(store, document("b", B, scope="two"))
    assert store.query(A) == []


def test_bulk_loaded_fingerprints_match_in_every_scope(store: Store) -> None:
    store.bulk_load(np.array([A], np.uint64))
    for scope in ("", "one"):
        page = document(f"page {scope}", NEAR_A, scope=scope)
        assert add_one(store, page).match == plain_match(0, A, 3, None)


def test_a_bulk_loaded_fingerprint_that_a_page_has_too(store: Store) -> None:
    """It stays what it is: matching in every scope, whatever becomes of the page."""
    add(store, document("a", A, scope="one"))
    store.bulk_load(np.array([A], np.uint64))
    assert add_one(store, document("b", A, scope="two")).status == "near_duplicate"
    assert add_one(store, document("a", B, scope="one")).reason == "changed"
    assert add_one(store, document("c", A, scope="one")).status == "near_duplicate"


def test_a_bulk_loaded_fingerprint_that_a_page_has_for_a_while(store: Store) -> None:
    store.bulk_load(np.array([A], np.uint64))
    add(store, document("a", B, scope="one"))
    for fingerprint in (A, B):
        assert add_one(store, document("a", fingerprint, scope="one")).reason == "changed"
        assert add_one(store, document("b", A, scope="two")).status == "near_duplicate"
        assert store.check() == []
