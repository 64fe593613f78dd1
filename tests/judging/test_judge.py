"""What a store says of a page: new, near-duplicate or revisit, for each reader of its own.

Groups, distances and states are held against an oracle, see `storemachine`; here is what that one
does not know.
"""

from typing import Any

import pytest

from scrapy_simhash._printable import plural
from scrapy_simhash.judging.documents import Decision, Document, State
from scrapy_simhash.pages.facts import EVERYONE, NOBODY, Reader
from scrapy_simhash.pages.features import SKETCH_WINDOW, hash_shingles, read_words, sketch_text
from scrapy_simhash.stores import documents
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, judge, judge_one
from tests.helpers.pages import make_words

A, NEAR_A = 0x0123_4567_89AB_CDEF, 0x0123_4567_89AB_CDE8
B, C = A ^ 2**64 - 1, A ^ 2**32 - 1


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
    assert store.get_documents([1])[1].crawls == ("c", "e", "d", "f")


def test_a_page_that_leaves_its_scope(store: Store) -> None:
    judge(store, document("a", A, scope="one"))
    assert judge(store, document("a", A, scope="two")) == ["changed 1"]
    assert judge(store, document("b", A, scope="one")) == ["new 3"]
    assert judge(store, document("c", A, scope="two")) == ["near_duplicate 4 of 1"]


def test_one_fingerprint_of_several_documents(store: Store) -> None:
    """It leaves the tables with the last of them."""
    judge(store, document("a", A, scope="one"), document("b", A, scope="two"))
    judge(store, document("a", B, scope="one"))
    assert [each.number for _, each in store.query(A)] == [2]
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
    assert kept.crawls == ()
    changed = page_of("a for items", ITEMS, B, imported=b"imported")
    assert judge(store, changed) == ["changed 2"]
    assert judge(store, page_of("a for links", LINKS, imported=b"imported")) == ["unchanged 5"]
    assert judge(store, page_of("b", LINKS, B)) == ["new 6"]


def test_an_import_that_was_undone_is_not_dropped(store: Store) -> None:
    judge(store, page_of("a", EVERYONE), page_of("b", EVERYONE))
    store.spare([2])
    assert judge(store, page_of("b for items", ITEMS, imported=b"b")) == ["new 3"]


def page(name: str, fingerprint: int, *, seed: int = 0, more: str = "", **fields: Any) -> Document:
    """Make a document of 200 words that follow from a seed, and more."""
    text = " ".join(make_words(seed, 200))
    text = f"{text}\n{more}" if more else text
    hashes = read_words(text).hashes
    fields = {"sketch": sketch_text(hash_shingles(hashes, SKETCH_WINDOW)), "text": text, **fields}
    return document(name, fingerprint, **{"words": 200, "whole_words": 200, **fields})


def matched(store: Store, page: Document) -> Decision:
    decision = judge_one(store, page)
    assert decision.match_url
    return decision


def flip(count: int, lowest: int = 0) -> int:
    """Flip so many bits, spread over all blocks of the design."""
    return A ^ sum(1 << (lowest + 9 * number) % 64 for number in range(count))


@pytest.mark.parametrize("bits", range(8))
def test_near_duplicates_say_nothing_new(store: Store, bits: int) -> None:
    judge_one(store, page("a", A, more="one line more"))
    match = matched(store, page("b", flip(bits)))
    assert (match.match_document, match.distance) == (1, bits)
    assert (match.similarity, match.match_own_words) == (1.0, ["one", "line", "more"])
    says = "says nothing that the other one does not"
    assert match.tests == [f"distance {plural(bits, 'bit')}", says]


def test_a_kept_document_names_the_one_most_like_it_and_what_parted_them(store: Store) -> None:
    first = judge_one(store, page("a", A, title="Kiwi"))
    assert (first.match_url, first.nearest_url) == (None, None)
    kept = judge_one(store, page("b", flip(2), more="of its own", title="Kiwi"))
    assert kept.nearest_url == "http://site.example/a"
    assert kept.nearest_tests == ["distance 2 bits", "own words: 'of its own'"]
    named = judge_one(store, page("c", flip(3), title="Apple"))
    assert named.nearest_tests[1] == "two names: 'Apple' / 'Kiwi'"
    # Neither a near-duplicate has one, nor a revisit.
    dropped = judge_one(store, page("d", A, title="Kiwi"))
    assert dropped.match_url
    assert dropped.nearest_url is None
    assert judge_one(store, page("a", A, title="Kiwi")).nearest_url is None


@pytest.mark.parametrize(
    ("bits", "status"), [(0, "near_duplicate"), (3, "near_duplicate"), (4, "new")]
)
def test_without_words_only_the_distance_of_the_paper_counts(
    store: Store, bits: int, status: str
) -> None:
    judge_one(store, document("plain", B))
    verdict = judge_one(store, document("b", flip(bits) ^ A ^ B))
    assert verdict.status == status
    if verdict.match_url:
        assert verdict.similarity is None
        assert verdict.tests[0] == f"distance {plural(bits, 'bit')}"


DIGEST = b"s" * 16


def stub(name: str, fingerprint: int, **fields: Any) -> Document:
    """Make a page with too little text for a simhash."""
    return document(
        name, fingerprint, **{"stub": True, "text_digest": DIGEST, "text": "a few words", **fields}
    )


def test_stubs_and_others_never_match(store: Store) -> None:
    assert judge_one(store, stub("stub", A)).status == "new"
    assert judge_one(store, page("page", B)).status == "new"
    assert judge_one(store, stub("stub 2", B, text="other words")).status == "new"
    assert matched(store, page("page 2", B, text_digest=DIGEST)).match_document == 2


def test_a_revisit_whose_main_text_is_the_same_may_have_changed(store: Store) -> None:
    """Of a record that may be its footer: a stranger's shop had other prices in "unchanged" ones.

    The page is found by what it looks like now, and no more as before.
    """
    digest: dict[str, Any] = {"text_digest": b"main"}
    before, after = 0x5555 << 20, 0x3333_3333 << 30
    judge_one(store, page("a", before, more="2 euros", **digest))
    again = page("a", after, more="3 euros", title="Now", **digest)
    assert judge(store, again) == ["changed 1"]
    assert judge(store, again) == ["unchanged 1"]
    stored = store.get_documents([1])[1]
    assert stored.state == State.DONE
    assert (stored.facts.fingerprint, stored.facts.title) == (after, "Now")
    assert ([each.number for _, each in store.query(after)], store.query(before)) == ([1], [])
    assert matched(store, page("b", after ^ 1)).match_document == 1
    assert judge_one(store, page("c", before, seed=9)).status == "new"


def test_a_page_that_becomes_a_stub_and_back(store: Store) -> None:
    judge_one(store, page("a", A))
    assert judge_one(store, stub("a", B)).reason == "changed"
    assert judge_one(store, page("b", A)).status == "new"
    assert matched(store, stub("c", B)).match_document == 1
    assert judge_one(store, page("a", flip(20))).reason == "changed"
    assert judge_one(store, stub("d", B)).status == "new"


@pytest.mark.parametrize("same_fingerprint", [True, False])
def test_of_a_crowd_that_is_near_rare_triples_find_the_one(
    store: Store, *, same_fingerprint: bool
) -> None:
    """What more pages are near to than names may have proposes nothing; each page is judged."""
    crowd = [
        page(f"{n}", A if same_fingerprint else A ^ 1 << n, seed=n, title=title)
        for n, title in enumerate(make_words(300, 19))
    ]
    kept = store.find_and_add(crowd)
    assert [verdict.status for verdict in kept] == ["new"] * 19
    assert kept[-1].nearest_url is None
    copy = page("copy", crowd[0].facts.fingerprint, seed=0, title=crowd[0].facts.title)
    assert matched(store, copy).match_document == 1


def test_plain_simhash_compares_the_nearest_of_a_crowd(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page for which there were more is kept, and counted as not judged."""
    monkeypatch.setattr(documents, "MOST_CANDIDATES", 20)
    with open_store(home, rule="plain") as store:
        readers = [Reader("spider", f"{n}") for n in range(22)]
        crowd = [document(f"{n}", A ^ 1 << n, reader=reader) for n, reader in enumerate(readers)]
        reasons = [verdict.reason for verdict in store.find_and_add(crowd)]
        assert reasons == [""] * 21 + ["bucket_too_full"]
        assert judge_one(store, document("after", A, reader=readers[3])).status == "near_duplicate"
