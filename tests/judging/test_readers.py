"""Who got a page: records that count for their own readers, and near-duplicates that are kept."""

from typing import Any

import pytest

from scrapy_simhash.judging.documents import Document, StoredDocument, Version
from scrapy_simhash.judging.judge import list_readers, stands_for
from scrapy_simhash.pages.facts import EVERYONE, NOBODY, Reader
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, document, judge, next_crawl
from tests.helpers.losing import take_lost

A, NEAR_A = 0x0123_4567_89AB_CDEF, 0x0123_4567_89AB_CDE8
ITEMS, LINKS = Reader("shop", "parse_item"), Reader("shop", "follow")
OTHERS = Reader("other", "parse_item")


def page(name: str, reader: Reader, **fields: Any) -> Document:
    return document(name, A, reader=reader, **fields)


def mark(number: int, reader: Reader) -> Version:
    return Version(number, page("-", reader).facts.text_digest, reader)


def done(store: Store, number: int, reader: Reader, crawl: str = CRAWL) -> None:
    store.mark_done([mark(number, reader)], crawl)


def get(store: Store, number: int) -> StoredDocument:
    stored = store.get_document(number)
    assert stored
    return stored


@pytest.mark.parametrize(
    ("reader", "other", "alone", "across"),
    [
        (ITEMS, ITEMS, True, True),
        (ITEMS, LINKS, False, False),
        (ITEMS, OTHERS, False, True),
        (EVERYONE, ITEMS, True, True),
        (ITEMS, EVERYONE, False, False),
        (NOBODY, ITEMS, False, False),
        (ITEMS, NOBODY, True, True),
        (NOBODY, EVERYONE, False, False),
        (EVERYONE, EVERYONE, True, True),
    ],
)
def test_whose_page_stands_for_whose(
    reader: Reader, other: Reader, alone: bool, across: bool
) -> None:
    assert stands_for(reader, other) == alone
    assert stands_for(reader, other, across_spiders=True) == across


def test_a_page_kept_for_another_reader_whose_crawl_dies_stands_for_nothing(store: Store) -> None:
    judge(store, page("a", ITEMS))
    done(store, 1, ITEMS)
    assert judge(store, page("b", LINKS)) == ["other_callback 2 of 1"]
    crawl = next_crawl(store)
    assert judge(store, page("c", LINKS, crawl=crawl)) == ["other_callback 3 of 1"]


def test_while_a_second_reader_gets_a_page_the_first_one_keeps_it(store: Store) -> None:
    judge(store, page("a", ITEMS))
    done(store, 1, ITEMS)
    assert judge(store, page("a", LINKS)) == ["undelivered 1"]
    verdicts = store.find_and_add([page("b", ITEMS), page("c", LINKS)])
    assert [each.match and each.match.pending for each in verdicts] == [False, True]
    # Its callback fails: what was dropped for it is lost, and nothing else.
    store.withdraw([mark(1, LINKS)], CRAWL)
    assert list_readers(get(store, 1).record) == (ITEMS,)
    assert judge(store, page("d", ITEMS), page("e", LINKS)) == [
        "near_duplicate 4 of 1",
        "other_callback 5 of 1",
    ]
    assert [lost.url[-1] for _, lost in take_lost(store, CRAWL, "shop")] == ["c"]


@pytest.mark.parametrize("first_fails", [False, True])
def test_of_two_readers_of_a_page_in_flight_each_counts_for_itself(
    store: Store, first_fails: bool
) -> None:
    judge(store, page("a", ITEMS), page("b", ITEMS))
    assert judge(store, page("a", LINKS)) == ["undelivered 1"]
    settle = store.withdraw if first_fails else store.mark_done
    settle([mark(1, ITEMS)], CRAWL)
    done(store, 1, LINKS)
    assert set(list_readers(get(store, 1).record)) == ({LINKS} if first_fails else {ITEMS, LINKS})
    # What was dropped for the first one waits for it alone.
    assert [lost.url[-1] for _, lost in take_lost(store, CRAWL, "shop")] == ["b"] * first_fails


def test_a_kept_copy_that_changes_is_a_copy_no_more(store: Store) -> None:
    judge(store, page("a", ITEMS), page("b", LINKS))
    done(store, 2, LINKS)
    assert get(store, 2).record.original == 1
    assert judge(store, document("b", A ^ 2**64 - 1, reader=LINKS)) == ["changed 2"]
    assert get(store, 2).record.original == 0
