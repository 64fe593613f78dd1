"""Who gets a page: each reader has what it got itself, and what was imported."""

from typing import Any

import pytest

from scrapy_simhash.judging.documents import Document
from scrapy_simhash.pages.facts import EVERYONE, NOBODY, Reader
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, judge

A = 0x0123_4567_89AB_CDEF
B = A ^ 2**64 - 1
ITEMS, LINKS, OTHERS = Reader("shop", "item"), Reader("shop", "follow"), Reader("other", "item")


def page(name: str, reader: Reader, fingerprint: int = A, **fields: Any) -> Document:
    return document(name, fingerprint, reader=reader, **fields)


@pytest.mark.parametrize("reader", [ITEMS, NOBODY])
def test_what_was_imported_counts_for_everyone(store: Store, reader: Reader) -> None:
    judge(store, page("imported", EVERYONE))
    assert judge(store, page("b", reader)) == ["near_duplicate 2 of 1"]
    assert judge(store, page("c", reader, scope="another")) == ["new 3"]


def test_a_page_that_was_imported_is_known_to_every_reader(store: Store) -> None:
    judge(store, page("imported", EVERYONE))
    again = page("a for items", ITEMS, imported=b"imported")
    # It is this reader's from then on; others did not get it.
    assert judge(store, again, again, crawl="crawl-1") == ["unchanged 2", "unchanged 2"]
    kept = store.get_documents([1])[1]
    assert (kept.facts.identity, kept.facts.reader) == (b"imported", EVERYONE)
    assert kept.record.crawls == ()
    changed = page("a for items", ITEMS, B, imported=b"imported")
    assert judge(store, changed) == ["changed 2"]
    assert judge(store, page("a for links", LINKS, imported=b"imported")) == ["unchanged 5"]
    assert judge(store, page("b", LINKS, B)) == ["new 6"]


def test_an_import_that_was_undone_is_not_dropped(store: Store) -> None:
    judge(store, page("a", EVERYONE), page("b", EVERYONE))
    store.spare([2])
    assert judge(store, page("b for items", ITEMS, imported=b"b")) == ["new 3"]
