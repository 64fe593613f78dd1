"""A store that confirms: what the sketches decide, and what still depends on the distance alone."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from scrapy_simhash._printable import plural
from scrapy_simhash.judging import judge
from scrapy_simhash.judging.documents import Document, Match, Verdict
from scrapy_simhash.pages.facts import Reader
from scrapy_simhash.pages.sketch import sketch_text
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import alter, document, judge_one
from tests.helpers.pages import make_words

A = 0x0123_4567_89AB_CDEF
B = A ^ 2**64 - 1
POOL = np.random.default_rng(1).integers(0, 2**64, 40_000, np.uint64, endpoint=False)


def sketch(start: int) -> bytes:
    """Sketch 2,000 shingles, main and whole text the same; starts 100 apart are .9 alike."""
    text = POOL[start : start + 2_000]
    return sketch_text(text, text)


def page(name: str, fingerprint: int, *, start: int = 0, **fields: Any) -> Document:
    """Make a document with sketches and enough words to be an article."""
    fields = {"sketch": sketch(start), "words": 1_000, "whole_words": 1_000, **fields}
    return document(name, fingerprint, **fields)


@pytest.fixture
def store(home: str) -> Iterator[Store]:
    with open_store(home, confirm=0.8, distance=7) as store:
        yield store
        assert store.check() == []


def matched(store: Store, page: Document) -> Match:
    match = judge_one(store, page).match
    assert match
    return match


def flip(count: int, lowest: int = 0) -> int:
    """Flip so many bits, spread over all blocks of the design."""
    return A ^ sum(1 << (lowest + 9 * number) % 64 for number in range(count))


@pytest.mark.parametrize("bits", range(8))
def test_near_duplicates_are_confirmed_by_their_sketches(store: Store, bits: int) -> None:
    judge_one(store, page("a", A))
    match = matched(store, page("b", flip(bits), start=40))
    assert (match.document, match.distance, match.fingerprint) == (1, bits, A)
    assert match.similarity == pytest.approx(0.96, abs=0.03)
    assert match.tests[0] == f"distance {plural(bits, 'bit')}"
    assert match.tests[1:3] == ("content agrees", "titles: silent; headings: silent")
    assert match.tests[3].startswith("main text 0.96 alike, whole text 0.96; site not known: ")


def test_a_kept_document_names_the_one_most_like_it_and_what_parted_them(store: Store) -> None:
    first = judge_one(store, page("a", A, title="Kiwi"))
    assert (first.match, first.nearest) == (None, None)
    nearer = judge_one(store, page("b", flip(2), start=1_000, title="Kiwi"))
    assert nearer.nearest
    assert (nearer.nearest.document, nearer.nearest.distance) == (1, 2)
    assert nearer.nearest.tests[1:3] == ("main texts differ", "titles: same; headings: silent")
    kept = judge_one(store, page("c", flip(3), start=100, title="Apple"))
    assert (kept.status, kept.match) == ("new", None)
    assert kept.nearest
    # The other one is 1 bit away, but less alike.
    assert (kept.nearest.document, kept.nearest.distance) == (1, 3)
    assert kept.nearest.similarity == pytest.approx(0.9, abs=0.06)
    assert kept.nearest.tests[0] == "distance 3 bits"
    assert kept.nearest.tests[1:3] == ("names differ", "titles: differ; headings: silent")
    # Neither a near-duplicate has one, nor a revisit.
    dropped = judge_one(store, page("d", A, title="Kiwi"))
    assert dropped.match
    assert dropped.nearest is None
    assert judge_one(store, page("a", A, title="Kiwi")).nearest is None


def test_what_has_no_sketch_is_named_as_the_nearest_too(store: Store) -> None:
    store.bulk_load(np.array([A], np.uint64))
    nearest = judge_one(store, page("a", flip(5))).nearest
    assert nearest
    assert (nearest.document, nearest.url, nearest.similarity) == (0, None, None)
    assert nearest.tests[0] == "distance 5 bits"
    assert "no sketch" in nearest.tests[1]


def test_the_most_alike_candidate_wins_not_the_nearest(store: Store) -> None:
    judge_one(store, page("near", flip(1), heading="Kiwi", start=200))
    judge_one(store, page("alike", flip(6), heading="Apples"))
    match = matched(store, page("page", A))
    assert (match.document, match.distance) == (2, 6)
    assert match.similarity == pytest.approx(1.0)


def test_of_equally_alike_candidates_the_nearest_then_the_oldest_wins(store: Store) -> None:
    """Their names keep the candidates apart; the page has none."""
    judge_one(store, page("far", flip(2), heading="Kiwi"))
    judge_one(store, page("near", flip(1, 5), heading="Apples"))
    judge_one(store, page("also near", flip(1), heading="Plums"))
    assert matched(store, page("page", A)).document == 2


@pytest.mark.parametrize(
    ("bits", "status"), [(0, "near_duplicate"), (3, "near_duplicate"), (4, "new")]
)
def test_without_sketches_only_the_distance_of_the_paper_counts(
    store: Store, bits: int, status: str
) -> None:
    """One of the two has none, or one was bulk-loaded."""
    loaded = A ^ 0xFF << 30
    store.bulk_load(np.array([loaded], np.uint64))
    judge_one(store, page("a", A))
    judge_one(store, document("plain", B))
    plain, sketched = document("b", flip(bits)), page("c", flip(bits) ^ A ^ B, start=9_000)
    tests = (f"distance {plural(bits, 'bit')}",)
    for each in (plain, sketched, page("d", flip(bits) ^ A ^ loaded, start=20_000)):
        verdict = judge_one(store, each)
        assert verdict.status == status
        if verdict.match:
            assert (verdict.match.similarity, verdict.match.tests) == (None, tests)


def test_a_confirmed_match_is_named_before_a_nearer_plain_one(store: Store) -> None:
    store.bulk_load(np.array([A], np.uint64))
    store.find_and_add([page("a", flip(7))])
    assert matched(store, page("b", A, start=40)).document == 1


DIGEST = b"s" * 16


def stub(name: str, fingerprint: int, **fields: Any) -> Document:
    """Make a page with too little text for a simhash."""
    return page(name, fingerprint, **{"stub": True, "text_digest": DIGEST, **fields})


def test_stubs_and_others_never_match(store: Store) -> None:
    store.bulk_load(np.array([A], np.uint64))
    assert judge_one(store, stub("stub", A)).status == "new"
    assert judge_one(store, page("page", B)).status == "new"
    assert judge_one(store, stub("stub 2", B)).status == "new"
    with_digest = page("page 2", B, text_digest=DIGEST)
    assert matched(store, with_digest).document == 2


def test_a_revisit_whose_whole_text_only_changed_is_unchanged(store: Store) -> None:
    """Advertisements change; the page is found by what it looks like now, and no more as before."""
    digest: dict[str, Any] = {"text_digest": b"main"}
    before, after = 0x5555 << 20, 0x3333_3333 << 30
    judge_one(store, page("a", before, **digest))
    again = judge_one(store, page("a", after, title="Now", **digest))
    assert again == Verdict("revisit", "unchanged", 1)
    stored = store.get_document(1)
    assert stored
    assert (stored.state, stored.facts.fingerprint, stored.facts.title) == ("done", after, "Now")
    assert [match.document for match in store.query(after)] == [1]
    assert store.query(before) == []
    assert matched(store, page("b", after ^ 1)).document == 1
    assert judge_one(store, page("c", before, start=9_000)).status == "new"


def test_a_short_main_text_that_stays_is_unchanged(store: Store) -> None:
    """With too few words for its simhash, the first fingerprint is that of the whole text."""
    digest: dict[str, Any] = {"text_digest": b"main"}
    judge_one(store, page("a", A, **digest))
    assert judge_one(store, page("a", B, **digest)) == Verdict("revisit", "unchanged", 1)
    assert [match.document for match in store.query(B)] == [1]
    assert store.query(A) == []


def test_a_revisit_takes_over_what_the_confirmation_asks_for(store: Store) -> None:
    judge_one(store, page("a", A, heading="Kiwi"))
    judge_one(store, page("a", A, heading="Apples", start=3_000, words=999))
    stored = store.get_document(1)
    assert stored
    assert (stored.facts.heading, stored.facts.words, stored.facts.sketch) == (
        "Apples",
        999,
        sketch(3_000),
    )
    assert judge_one(store, page("b", A, heading="Kiwi")).status == "new"
    assert matched(store, page("c", A, heading="Apples", start=3_000)).document == 1


def test_a_page_that_becomes_a_stub_and_back(store: Store) -> None:
    judge_one(store, page("a", A))
    assert judge_one(store, stub("a", B)).reason == "changed"
    assert judge_one(store, page("b", A)).status == "new"
    assert matched(store, stub("c", B)).document == 1
    assert judge_one(store, page("a", flip(20))).reason == "changed"
    assert judge_one(store, stub("d", B)).status == "new"


def test_the_record_keeps_similarity_and_tests(home: str, store: Store) -> None:
    judge_one(store, page("a", A, heading="Kiwi"))
    far = page("there/b", flip(4), heading="Kiwi", start=100, whole_words=1_100)
    match = matched(store, far)
    with open_store(home, readonly=True, confirm=0.8, distance=7) as reader:
        stored = reader.get_document(2)
        assert stored
        assert (stored.record.similarity, stored.record.tests) == (match.similarity, match.tests)
        assert stored.record.tests[2] == "titles: silent; headings: same"
        assert (stored.state, stored.record.original, stored.record.distance) == ("duplicate", 1, 4)
        assert (stored.facts.sketch, stored.facts.whole_words, stored.facts.heading) == (
            sketch(100),
            1_100,
            "Kiwi",
        )
        assert judge_one(reader, page("c", flip(4), heading="Kiwi")).status == "near_duplicate"


def test_new_links_are_those_that_the_original_has_not(store: Store) -> None:
    def links(*hashes: int) -> bytes:
        return np.array(hashes, ">u4").tobytes()

    judge_one(store, page("a", A, link_sketch=links(1, 2, 3)))
    assert matched(store, page("b", A, link_sketch=links(2, 3, 4, 5))).new_links == 0.5
    assert matched(store, page("c", A)).new_links is None


@pytest.mark.parametrize("same_fingerprint", [True, False])
def test_of_a_crowd_that_is_near_rare_triples_find_the_one(
    store: Store, *, same_fingerprint: bool
) -> None:
    """What more pages are near to than names may have proposes nothing; each page is judged."""
    crowd = [
        page(f"of a template {n}", A if same_fingerprint else A ^ 1 << n, start=2_000 * n)
        for n in range(19)
    ]
    titles = make_words(3, len(crowd))
    kept = store.find_and_add(
        [alter(one, title=title) for one, title in zip(crowd, titles, strict=True)]
    )
    assert [verdict.status for verdict in kept] == ["new"] * 19
    assert kept[-1].nearest is None
    # At the address of the first one, so that it is not noted as a wall's.
    copy = page("copy of the first", crowd[0].facts.fingerprint, title=titles[0])
    assert matched(store, alter(copy, url=crowd[0].facts.url + "?again")).document == 1


def test_plain_simhash_compares_the_nearest_of_a_crowd(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page for which there were more is kept, and counted as not judged."""
    monkeypatch.setattr(judge, "MOST_CANDIDATES", 20)
    with open_store(home) as store:
        readers = [Reader("spider", f"{n}") for n in range(22)]
        crowd = [document(f"{n}", A ^ 1 << n, reader=reader) for n, reader in enumerate(readers)]
        reasons = [verdict.reason for verdict in store.find_and_add(crowd)]
        assert reasons == [""] * 21 + ["bucket_too_full"]
        assert judge_one(store, document("after", A, reader=readers[3])).status == "near_duplicate"
