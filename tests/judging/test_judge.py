"""What a store says of a page: new, near-duplicate or revisit, for each reader of its own.

Groups, distances and states are also held against an oracle, see `storemachine`; here is
what that one does not know, and the plainest case of each.
"""

from typing import Any

import pytest

from scrapy_simhash.judging.documents import Document, Verdict
from scrapy_simhash.pages.facts import EVERYONE, NOBODY, Reader
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, judge, plain_match

A, NEAR_A = 0x0123_4567_89AB_CDEF, 0x0123_4567_89AB_CDE8
B, C = A ^ 2**64 - 1, A ^ 2**32 - 1


def test_new_near_duplicate_and_new_again(store: Store) -> None:
    assert store.find_and_add([document("a", A), document("b", NEAR_A), document("c", B)]) == [
        Verdict("new", "", 1),
        Verdict("near_duplicate", "", 2, plain_match(1, A, 3, "http://site.example/a")),
        Verdict("new", "", 3),
    ]
    # `b` is in no table: what is near to it alone is new.
    assert judge(store, document("d", NEAR_A ^ 0b111 << 30)) == ["new 4"]


def test_who_got_another_text_did_not_get_this_one(store: Store) -> None:
    """Of a page that was kept, and of one that was dropped."""
    first = {"crawl": "first", "incremental": False}
    judge(store, document("latest", A), document("copy", NEAR_A), **first)
    changed = [document("latest", B), document("copy", C)]
    assert judge(store, *changed, crawl="second") == ["changed 1", "new 2"]
    copies = [document("article", B), document("another", C)]
    assert judge(store, *copies, **first) == ["first_copy 5 of 1", "first_copy 6 of 2"]


def test_the_last_four_crawls_of_a_document_are_known(store: Store) -> None:
    for crawl in "abcdedf":
        judge(store, document("page", A), crawl=crawl)
    assert store.get_documents([1])[1].record.crawls == ("c", "e", "d", "f")


def test_a_page_that_leaves_its_scope(store: Store) -> None:
    judge(store, document("a", A, scope="one"))
    assert judge(store, document("a", A, scope="two")) == ["changed 1"]
    assert judge(store, document("b", A, scope="one")) == ["new 3"]
    assert judge(store, document("c", A, scope="two")) == ["near_duplicate 4 of 1"]


def test_one_fingerprint_of_several_documents(store: Store) -> None:
    """It leaves the tables with the last of them."""
    judge(store, document("a", A, scope="one"), document("b", A, scope="two"))
    judge(store, document("a", B, scope="one"))
    assert [match.document for match in store.query(A)] == [2]
    judge(store, document("b", B, scope="two"))
    assert store.query(A) == []


ITEMS, LINKS = Reader("shop", "item"), Reader("shop", "follow")


def page_of(name: str, reader: Reader, fingerprint: int = A, **fields: Any) -> Document:
    return document(name, fingerprint, reader=reader, **fields)


@pytest.mark.parametrize("reader", [ITEMS, NOBODY])
def test_what_was_imported_counts_for_everyone(store: Store, reader: Reader) -> None:
    judge(store, page_of("imported", EVERYONE))
    assert judge(store, page_of("b", reader)) == ["near_duplicate 2 of 1"]
    assert judge(store, page_of("c", reader, scope="another")) == ["new 3"]


def test_a_page_that_was_imported_is_known_to_every_reader(store: Store) -> None:
    judge(store, page_of("imported", EVERYONE))
    again = page_of("a for items", ITEMS, imported=b"imported")
    # It is this reader's from then on; others did not get it.
    assert judge(store, again, again, crawl="crawl-1") == ["unchanged 2", "unchanged 2"]
    kept = store.get_documents([1])[1]
    assert (kept.facts.identity, kept.facts.reader) == (b"imported", EVERYONE)
    assert kept.record.crawls == ()
    changed = page_of("a for items", ITEMS, B, imported=b"imported")
    assert judge(store, changed) == ["changed 2"]
    assert judge(store, page_of("a for links", LINKS, imported=b"imported")) == ["unchanged 5"]
    assert judge(store, page_of("b", LINKS, B)) == ["new 6"]


def test_an_import_that_was_undone_is_not_dropped(store: Store) -> None:
    judge(store, page_of("a", EVERYONE), page_of("b", EVERYONE))
    store.spare([2])
    assert judge(store, page_of("b for items", ITEMS, imported=b"b")) == ["new 3"]
