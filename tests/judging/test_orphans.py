"""Records that do not count: orphans of dead crawls, withdrawn ones, duplicates fetched again."""

import pytest

from scrapy_simhash.judging import Document, Verdict, Version
from scrapy_simhash.stores import Store, open_store
from tests.helpers.documents import CRAWL, begin_crawl, document, plain_match

STORE_KINDS = ("lmdb", "redis", "cluster")
A, NEAR_A = 0x0123_4567_89AB_CDEF, 0x0123_4567_89AB_CDE8
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


def test_pending_records_of_a_dead_crawl_cause_no_drop(store: Store) -> None:
    add(store, document("orphan", A), document("done", B))
    store.mark_done([2], CRAWL)
    crawl = next_crawl(store)
    assert add_one(store, document("next", NEAR_A, crawl=crawl)) == Verdict("new", "", 3)
    assert add_one(store, document("other", B, crawl=crawl)).status == "near_duplicate"
    match = add_one(store, document("third", NEAR_A, crawl=crawl)).match
    assert match
    assert match.document == 3


def test_the_page_of_an_orphan_is_judged_afresh(store: Store) -> None:
    """Fetched again first, it is new; fetched after a similar page, it is that one's duplicate."""
    add(store, document("a", A), document("b", B))
    crawl = next_crawl(store)
    assert add_one(store, document("a", A, crawl=crawl)) == Verdict("new", "", 1)
    assert add_one(store, document("like b", B, crawl=crawl)) == Verdict("new", "", 3)
    verdict = add_one(store, document("b", B, crawl=crawl))
    assert verdict == Verdict(
        "near_duplicate", "", 2, plain_match(3, B, 0, "http://site.example/like b")
    )
    assert [match.document for match in store.query(B)] == [3]


def test_documents_outside_of_crawls_count_when_they_are_done(store: Store) -> None:
    assert add_one(store, document("a", A, crawl="")).status == "new"
    assert add_one(store, document("b", A, crawl="")).status == "new"
    store.mark_done([2], "")
    assert add_one(store, document("c", A, crawl="")).status == "near_duplicate"


def test_a_duplicate_fetched_again_stays_a_duplicate(store: Store) -> None:
    add(store, document("a", A), document("b", NEAR_A))
    store.mark_done([1], CRAWL)
    crawl = next_crawl(store)
    for page in (document("b", NEAR_A, crawl=crawl), document("b", A ^ 1, crawl=crawl)):
        verdict = add_one(store, page)
        assert (verdict.status, verdict.document) == ("near_duplicate", 2)
        assert verdict.match
        assert verdict.match.document == 1
    assert store.stats()["near_duplicates"] == 1


def test_a_duplicate_that_changed_is_judged_afresh(store: Store) -> None:
    add(store, document("a", A), document("b", NEAR_A))
    assert add_one(store, document("b", B)) == Verdict("new", "", 2)
    assert [match.document for match in store.query(B)] == [2]


def test_a_drop_for_another_text_of_the_same_page_is_lost(home: str) -> None:
    with begin_crawl(home, crawl="crawl-1") as store:
        pages = [document("a", A, crawl="crawl-1"), document("b", A ^ 1, crawl="crawl-1")]
        assert [verdict.status for verdict in store.find_and_add(pages)] == [
            "new",
            "near_duplicate",
        ]
    with begin_crawl(home, crawl="crawl-2") as store:
        other = document("a", ~A % 2**64, crawl="crawl-2", text_digest=b"another text")
        (verdict,) = store.find_and_add([other])
        assert verdict.status == "new"
        store.mark_done([verdict.document], "crawl-2")
        assert store.stats()["lost"] == 1
        (page,) = store.take_lost("crawl-2", "spider")
        assert page.url.endswith("/b")


def test_a_duplicate_whose_original_was_withdrawn_is_new(store: Store) -> None:
    add(store, document("a", A), document("b", NEAR_A))
    store.withdraw([1], CRAWL)
    assert add_one(store, document("b", NEAR_A)) == Verdict("new", "", 2)
    assert add_one(store, document("a", A)) == Verdict(
        "near_duplicate", "", 1, plain_match(2, NEAR_A, 3, "http://site.example/b")
    )


def test_withdrawn_and_fetched_again(store: Store) -> None:
    add(store, document("a", A))
    store.withdraw([1], CRAWL)
    assert add_one(store, document("a", A)) == Verdict("new", "", 1)
    assert add_one(store, document("b", A)).status == "near_duplicate"


def test_done_and_withdrawn_come_first_in_a_group(store: Store) -> None:
    add(store, document("a", A), document("b", B))
    verdicts = store.find_and_add(
        [document("like a", A), document("like b", B)], crawl=CRAWL, done=[1], withdrawn=[1, 2]
    )
    assert [verdict.status for verdict in verdicts] == ["near_duplicate", "new"]


def state(store: Store, number: int) -> str:
    stored = store.get_document(number)
    assert stored
    return stored.state


@pytest.mark.parametrize("crawl", ["another", "crawl-2", ""])
def test_only_the_own_crawl_marks_done_or_withdraws(store: Store, crawl: str) -> None:
    add(store, document("a", A), document("b", B))
    store.mark_done([1], crawl)
    store.withdraw([2], crawl)
    assert [state(store, number) for number in (1, 2)] == ["pending", "pending"]
    assert add_one(store, document("like b", B)).status == "near_duplicate"


def two_texts(crawl: str = CRAWL) -> tuple[Document, Document]:
    """One page, fetched twice: its text changed in between."""
    first = document("a", A, crawl=CRAWL, text_digest=b"first")
    return first, document("a", B, crawl=crawl, text_digest=b"second")


def test_marks_of_an_earlier_text_leave_the_later_one_pending(store: Store) -> None:
    """Both are in flight in one crawl."""
    verdicts = add(store, *two_texts())
    assert [(each.reason, each.document) for each in verdicts] == [("", 1), ("changed", 1)]
    store.mark_done([Version(1, b"first")], CRAWL)
    assert state(store, 1) == "pending"
    store.withdraw([Version(1, b"second")], CRAWL)
    assert add_one(store, document("like the second", B)).status == "new"


def test_an_earlier_text_that_fails_takes_the_later_one_not_back(store: Store) -> None:
    add(store, *two_texts())
    (verdict,) = store.find_and_add(
        [document("like the second", B)], crawl=CRAWL, withdrawn=[Version(1, b"first")]
    )
    assert verdict.status == "near_duplicate"
    store.find_and_add([], crawl=CRAWL, done=[Version(1, b"second")])
    assert state(store, 1) == "done"
    assert store.stats()["lost"] == 0


def test_a_text_that_comes_back_is_done_by_its_first_delivery(store: Store) -> None:
    """Two others may be in flight by then; what counts is that its items came through."""
    first, second = two_texts()
    add(store, first, second, first)
    store.mark_done([Version(1, b"first")], CRAWL)
    assert state(store, 1) == "done"


def test_marks_leave_the_text_alone_that_another_process_fetched(home: str, store: Store) -> None:
    """Nor that which its own crawl fetched after that."""
    first, theirs = two_texts("theirs")
    third = document("a", A ^ B >> 32, text_digest=b"third")
    with open_store(home) as other:
        other.start_crawl("theirs", "spider")
        add(store, first)
        add(other, theirs)
        for mark in (store.mark_done, store.withdraw):
            mark([Version(1, b"first")], CRAWL)
            assert state(store, 1) == "pending"
        assert add_one(store, document("like theirs", B)).status == "near_duplicate"
        add(store, third)
        for mark in (store.mark_done, store.withdraw):
            mark([Version(1, b"first")], CRAWL)
            other_mark = other.mark_done if mark == store.mark_done else other.withdraw
            other_mark([Version(1, b"second")], "theirs")
            assert state(store, 1) == "pending"
        assert add_one(store, document("like the third", A ^ B >> 32)).status == "near_duplicate"
        store.mark_done([Version(1, b"third")], CRAWL)
        assert state(store, 1) == "done"


def test_what_is_done_cannot_be_withdrawn_nor_a_duplicate_be_done(store: Store) -> None:
    add(store, document("a", A), document("b", A))
    store.mark_done([1, 2, 77], CRAWL)
    store.withdraw([1, 2, 77], CRAWL)
    assert [state(store, number) for number in (1, 2)] == ["done", "duplicate"]


def test_what_was_withdrawn_is_not_done_by_work_outside_of_crawls(store: Store) -> None:
    """Withdrawn records must not be taken for those added with no crawl."""
    add(store, document("a", A))
    store.withdraw([1], CRAWL)
    store.mark_done([1], "")
    assert add_one(store, document("b", A)).status == "new"


def test_crawls_at_the_same_time_see_each_other(home: str, store: Store) -> None:
    with open_store(home) as other:
        other.start_crawl("theirs", "spider")
        add(other, document("a", A, crawl="theirs"))
        assert add_one(store, document("b", A)).status == "near_duplicate"
        other.end_crawl("theirs")
        assert add_one(store, document("c", A)).status == "new"
