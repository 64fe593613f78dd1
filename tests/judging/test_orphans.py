"""Records that do not count: orphans of dead crawls, withdrawn ones, duplicates fetched again.

Who may mark what, and what becomes of it, is held against an oracle, see `storemachine`.
"""

from functools import partial

from scrapy_simhash.judging.documents import Document, Version
from scrapy_simhash.stores.lost import take
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import (
    CRAWL,
    READER,
    begin_crawl,
    document,
    judge,
    judge_one,
    next_crawl,
)
from tests.helpers.losing import take_lost

A, NEAR_A = 0x0123_4567_89AB_CDEF, 0x0123_4567_89AB_CDE8
B = A ^ 2**64 - 1


def test_pending_records_of_a_dead_crawl_cause_no_drop(store: Store) -> None:
    judge(store, document("orphan", A), document("done", B))
    store.mark_done([2], CRAWL)
    crawl = next_crawl(store)
    assert judge(store, document("next", NEAR_A, crawl=crawl)) == ["new 3"]
    assert judge(store, document("other", B, crawl=crawl)) == ["near_duplicate 4 of 2"]
    assert judge(store, document("third", NEAR_A, crawl=crawl)) == ["near_duplicate 5 of 3"]
    # The orphan's page itself is judged afresh.
    assert judge(store, document("orphan", A, crawl=crawl)) == ["near_duplicate 1 of 3"]
    assert [match.document for match in store.query(A)] == [3]


def test_documents_outside_of_crawls_count_when_they_are_done(store: Store) -> None:
    pages = [document(name, A, crawl="") for name in "ab"]
    assert judge(store, *pages) == ["new 1", "new 2"]
    store.mark_done([2], "")
    assert judge(store, document("c", A, crawl="")) == ["near_duplicate 3 of 2"]


def test_lost_pages_are_handed_over_again_to_a_crawl_that_got_no_answer(home: str) -> None:
    """Its judge may die between the commit and the answer."""
    with begin_crawl(home) as store:
        assert judge(store, document("a", A), document("b", NEAR_A)) == [
            "new 1",
            "near_duplicate 2 of 1",
        ]
    with begin_crawl(home, crawl="crawl-2") as store:
        keys = [key for key, _ in take_lost(store, "crawl-2")]
        again = store.write(partial(take, crawl="crawl-2", spider="spider", keys=keys))
        assert [key for key, _ in again] == keys != []
        assert take_lost(store, "crawl-2") == []


def test_a_drop_for_another_text_of_the_same_page_is_lost(home: str) -> None:
    with begin_crawl(home) as store:
        pages = document("a", A), document("b", A ^ 1)
        assert judge(store, *pages) == ["new 1", "near_duplicate 2 of 1"]
    with begin_crawl(home, crawl="crawl-2") as store:
        other = document("a", B, crawl="crawl-2", text_digest=b"another text")
        assert judge(store, other) == ["new 1"]
        store.mark_done([1], "crawl-2")
        assert store.stats()["lost"] == 1
        ((_, lost),) = take_lost(store, "crawl-2")
        assert lost.url.endswith("/b")


def test_done_and_withdrawn_come_first_in_a_group(store: Store) -> None:
    judge(store, document("a", A), document("b", B))
    verdicts = store.find_and_add(
        [document("like a", A), document("like b", B)], crawl=CRAWL, done=[1], withdrawn=[1, 2]
    )
    assert [verdict.status for verdict in verdicts] == ["near_duplicate", "new"]


def state(store: Store, number: int) -> str:
    stored = store.get_document(number)
    assert stored
    return stored.state


def two_texts(crawl: str = CRAWL) -> tuple[Document, Document]:
    """One page, fetched twice: its text changed in between."""
    first = document("a", A, crawl=CRAWL, text_digest=b"first")
    return first, document("a", B, crawl=crawl, text_digest=b"second")


def test_marks_of_an_earlier_text_leave_the_later_one_pending(store: Store) -> None:
    """Both are in flight in one crawl."""
    assert judge(store, *two_texts()) == ["new 1", "changed 1"]
    store.mark_done([Version(1, b"first", READER)], CRAWL)
    assert state(store, 1) == "pending"
    store.withdraw([Version(1, b"second", READER)], CRAWL)
    assert judge(store, document("like the second", B)) == ["new 2"]


def test_an_earlier_text_that_fails_takes_the_later_one_not_back(store: Store) -> None:
    judge(store, *two_texts())
    (verdict,) = store.find_and_add(
        [document("like the second", B)], crawl=CRAWL, withdrawn=[Version(1, b"first", READER)]
    )
    assert verdict.status == "near_duplicate"
    store.find_and_add([], crawl=CRAWL, done=[Version(1, b"second", READER)])
    assert state(store, 1) == "done"
    assert store.stats()["lost"] == 0


def test_marks_leave_the_text_alone_that_another_process_fetched(home: str, store: Store) -> None:
    """Nor that which its own crawl fetched after that."""
    first, theirs = two_texts("theirs")
    third = document("a", A ^ B >> 32, text_digest=b"third")
    with open_store(home) as other:
        other.start_crawl("theirs", "spider")
        number = judge_one(store, first).document
        judge(other, theirs)
        for mark in (store.mark_done, store.withdraw):
            mark([Version(number, b"first", READER)], CRAWL)
            assert state(store, number) == "pending"
        assert judge_one(store, document("like theirs", B)).status == "near_duplicate"
        judge(store, third)
        for mark, other_mark in (
            (store.mark_done, other.mark_done),
            (store.withdraw, other.withdraw),
        ):
            mark([Version(number, b"first", READER)], CRAWL)
            other_mark([Version(number, b"second", READER)], "theirs")
            assert state(store, number) == "pending"
        like_third = document("like the third", A ^ B >> 32)
        assert judge_one(store, like_third).status == "near_duplicate"
        store.mark_done([Version(number, b"third", READER)], CRAWL)
        assert state(store, number) == "done"


def test_what_was_withdrawn_is_not_done_by_work_outside_of_crawls(store: Store) -> None:
    """Withdrawn records must not be taken for those added with no crawl."""
    judge(store, document("a", A))
    store.withdraw([1], CRAWL)
    store.mark_done([1], "")
    assert judge(store, document("b", A)) == ["new 2"]
