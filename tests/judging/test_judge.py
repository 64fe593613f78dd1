"""What a store says of a page: new, near-duplicate or revisit.

Groups, distances, states and marks are also held against an oracle, see `storemachine`; here is
what that one does not know, and the plainest case of each.
"""

import numpy as np
import pytest

from scrapy_simhash.judging.documents import Verdict
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, document, judge, judge_one, plain_match

A, NEAR_A, FAR_A = 0x0123_4567_89AB_CDEF, 0x0123_4567_89AB_CDE8, 0x0123_4567_89AB_CDE0
B = A ^ 2**64 - 1


def test_new_near_duplicate_and_new_again(store: Store) -> None:
    assert store.find_and_add([document("a", A), document("b", NEAR_A), document("c", FAR_A)]) == [
        Verdict("new", "", 1),
        Verdict("near_duplicate", "", 2, plain_match(1, A, 3, "http://site.example/a")),
        Verdict("new", "", 3),
    ]
    # `b` is in no table: what is near to it alone is new.
    assert judge(store, document("d", NEAR_A ^ 0b111 << 30)) == ["new 4"]


def test_what_was_last_fetched_before_a_time_makes_no_near_duplicate(store: Store) -> None:
    judge(store, document("old", A, time=10.0))
    assert judge(store, document("b", A, time=20.0, not_before=10.0)) == ["near_duplicate 2 of 1"]
    assert judge(store, document("c", A, time=20.0, not_before=10.5)) == ["new 3"]
    # The one that took over, not the old one that is as near.
    assert judge(store, document("d", A, time=21.0, not_before=11.0)) == ["near_duplicate 4 of 3"]
    # Fetched once more, it counts again; it never is a near-duplicate of itself.
    assert judge(store, document("old", A, time=30.0, not_before=25.0)) == ["unchanged 1"]
    assert judge(store, document("e", A, time=30.0, not_before=25.0)) == ["near_duplicate 5 of 1"]


def test_redirects_to_a_page_of_the_same_text_are_revisits(store: Store) -> None:
    judge(store, document("old", A), document("target", B, aliases=(b"source", b"between")))
    assert judge(store, document("moved", NEAR_A, aliases=(b"old",))) == ["changed 1"]
    assert judge(store, document("moved", NEAR_A), document("old", NEAR_A)) == ["unchanged 1"] * 2
    for name in ("source", "between", "target"):
        assert judge(store, document(name, B)) == ["unchanged 2"]
    # With another text it is a document of its own.
    assert judge(store, document("source", 0), document("source", 0)) == ["new 3", "unchanged 3"]
    assert judge(store, document("target", B)) == ["unchanged 2"]


def test_redirect_to_a_login_page_is_not_the_document(store: Store) -> None:
    """Neither becomes the other: the articles keep their records, the login page has its own."""
    judge(store, document("article", A), document("article 2", B))
    store.mark_done([1, 2], CRAWL)
    login = 0xFFFF_0000_FFFF_0000
    assert judge(store, document("login", login, aliases=(b"article",))) == ["new 3"]
    assert judge(store, document("login", login, aliases=(b"article 2",))) == ["unchanged 3"]
    articles = [document("article", A), document("article 2", B)]
    assert judge(store, *articles) == ["unchanged 1", "unchanged 2"]


def test_only_documents_of_one_scope_are_compared(store: Store) -> None:
    scopes = ("", "one.example", "two.example")
    pages = [document(f"{n} {scope}", A, scope=scope) for n in "ab" for scope in scopes]
    near = [f"near_duplicate {number + 3} of {number}" for number in (1, 2, 3)]
    assert judge(store, *pages) == ["new 1", "new 2", "new 3", *near]


def test_a_page_that_leaves_its_scope(store: Store) -> None:
    judge(store, document("a", A, scope="one"))
    assert judge(store, document("a", A, scope="two")) == ["changed 1"]
    assert judge(store, document("b", A, scope="one")) == ["new 2"]
    assert judge(store, document("c", A, scope="two")) == ["near_duplicate 3 of 1"]


def test_one_fingerprint_of_several_documents(store: Store) -> None:
    """It leaves the tables with the last of them."""
    judge(store, document("a", A, scope="one"), document("b", A, scope="two"))
    judge(store, document("a", B, scope="one"))
    assert [match.document for match in store.query(A)] == [2]
    judge(store, document("b", B, scope="two"))
    assert store.query(A) == []


@pytest.mark.parametrize("page_first", [True, False])
def test_a_bulk_loaded_fingerprint_that_a_page_has_too(store: Store, *, page_first: bool) -> None:
    """It stays what it is: matching in every scope, whatever becomes of the page."""
    page = document("a", A if page_first else B, scope="one")
    if page_first:
        judge(store, page)
    store.bulk_load(np.array([A], np.uint64))
    if not page_first:
        judge(store, page)
    for fingerprint in (A, B)[page_first:]:
        assert judge(store, document("a", fingerprint, scope="one")) == ["changed 1"]
        assert judge_one(store, document("b", A, scope="two")).status == "near_duplicate"
        assert store.check() == []
    assert judge_one(store, document("c", A, scope="one")).status == "near_duplicate"
