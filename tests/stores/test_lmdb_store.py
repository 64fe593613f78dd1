"""The store as users open it: what it was made with, reading, seeding, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.errors import StoreUnusableError
from scrapy_simhash.pages.facts import Recipe, Wording
from scrapy_simhash.stores.keyvalues import TEXTS
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.crawling import read_files
from tests.helpers.documents import document, find, judge, judge_one, make, open_lmdb

A, NEAR_A = 0x0123_4567_89AB_CDEF, 0x0123_4567_89AB_CDE8


def test_what_a_store_was_made_with_is_kept(home: str) -> None:
    recipe = Recipe(3, 1, 7)
    made: dict[str, Any] = {"recipe": recipe, "tables": "10", "seed": 77, "rule": "plain"}
    nothing: dict[str, Any] = {}
    for arguments in (made, nothing):
        with open_store(home, **arguments) as store:
            found = (store.recipe, store.design, store.seed, store.rule)
            assert found == (recipe, "10", 77, "plain")
            stats = store.stats()
            assert (stats["design"], stats["complete_for_bits"]) == ("10", 4)
            assert stats["recipe"]["window"] == 3
    other = "another recipe.*window=3.*features_version=7.*window=2.*SIMHASH_STORE"
    refused: list[tuple[dict[str, Any], str]] = [
        ({"recipe": Recipe(2, 1, 1)}, other),
        ({"tables": "4"}, "another design: 10, and 4 is wanted. Set it back"),
        ({"seed": 78}, "another seed"),
        ({"rule": "words"}, "another rule: plain, and words is wanted. Set it back"),
        ({"distance": 5}, "distance 5.*complete for 0 to 4"),
    ]
    for given, message in refused:
        with pytest.raises(StoreUnusableError, match=f"(?s){message}"):
            open_store(home, **given)


def test_seeds_differ_and_are_64_bits_wide(tmp_path: Path) -> None:
    seeds = set()
    for number in range(3):
        with open_lmdb(tmp_path / str(number)) as store:
            seeds.add(store.seed)
    assert len(seeds) == 3
    assert 2**32 < max(seeds) < 2**64


@pytest.mark.parametrize(
    "arguments",
    [
        *({"distance": 8}, {"distance": -1}, {"distance": 4, "tables": "6:2"}),
        *({"tables": design} for design in ("5", "9:8", "nonsense", "")),
        {"rule": "nonsense"},
    ],
    ids=str,
)
def test_a_store_that_cannot_be_opened_is_not_made(home: str, arguments: dict[str, Any]) -> None:
    said = r"distance|table design|must be one of words"
    with pytest.raises((StoreUnusableError, ValueError), match=said):
        open_store(home, **arguments)
    with pytest.raises(StoreUnusableError, match="there is no store"):
        open_store(home, readonly=True)


def test_a_read_only_store_judges_and_writes_nothing(tmp_path: Path) -> None:
    with open_lmdb(tmp_path, rule="plain") as store:
        store.find_and_add([document("a", A), document("other", 5 << 40)])
    before = read_files(tmp_path)
    with open_lmdb(tmp_path, readonly=True) as store:
        pages = [document("a", A), document("b", NEAR_A, text="text")]
        pages += [*(document(name, 2**64 - 1) for name in "cd"), document("a", 7 << 20)]
        found = ["unchanged 1", "near_duplicate 0 of 1", "new 0", "new 0", "changed 1"]
        assert judge(store, *pages) == found
        assert judge_one(store, pages[1]).distance == 3
        assert [(bits, each.number) for bits, each in store.query(NEAR_A)] == [(3, 1)]
        assert (store.check(), store.stats()["documents"]) == ([], 2)
        for write in (lambda: store.delete([1]), store.rebuild):
            with pytest.raises(ValueError, match="read-only"):
                write()
    assert read_files(tmp_path) == before


@pytest.mark.parametrize(
    "bad",
    [
        *({"identity": b""}, {"identity": b"x" * 65}, {"fingerprint": -1}, {"fingerprint": 2**64}),
        *({"fingerprint": 1.5}, {"sketch": bytes(512)}),
        *({field: "\ud800"} for field in ("url", "title", "language", "scope")),
    ],
    ids=ascii,
)
def test_bad_documents_are_refused_and_take_none_along(store: Store, bad: dict[str, Any]) -> None:
    page = {"identity": b"bad", "fingerprint": 1, "text_digest": b"", "url": "http://bad"}
    with pytest.raises(ValueError, match=r"an identity has|a fingerprint is|a sketch|surrogates"):
        store.find_and_add([document("good", A), make(**{**page, **bad})])
    assert store.stats()["documents"] == 0
    assert store.find_and_add([document("good", A)])[0].status == "new"


def test_wordings_are_kept_and_those_of_the_last_visit(store: Store) -> None:
    text = "Äpfel 苹果 \0 " * 1_000
    store.find_and_add([document("a", A, text=text), document("b", NEAR_A, text="b")])
    store.find_and_add([document("c", 2**64 - 1)])
    texts = [each.unpack() for each in store.get_documents([1, 2, 3]).values()]
    assert texts == [Wording(text), Wording("b"), None]
    assert store.read(lambda stored: stored.get_wordings([3, 2, 9])) == {2: Wording("b")}
    # Changed, unchanged but for what is no main text, and a file instead.
    visits: list[tuple[dict[str, Any], Wording | None]] = [
        ({"fingerprint": 0, "text": "changed"}, Wording("changed")),
        ({"fingerprint": 0, "text": "changed, beside"}, Wording("changed, beside")),
        ({"fingerprint": 1 << 40}, None),
    ]
    for fields, wording in visits:
        store.find_and_add([document("a", **fields)])
        assert find(store, "http://site.example/a")[0].unpack() == wording
    assert store.delete([2]) == 1
    assert store.read(lambda stored: list(stored.values.scan(TEXTS))) == []


def test_more_documents_than_one_transaction_deletes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in between leaves no half."""
    monkeypatch.setattr("scrapy_simhash.stores.store._DOCUMENTS_PER_DELETION", 3)
    pages = [document(f"{n}", 0x9E3779B97F4A7C15 * (n + 1) % 2**64) for n in range(6)]
    twins = [document(f"twin {n}", page.facts.fingerprint) for n, page in enumerate(pages)]
    store.find_and_add([*pages, *twins])
    write: Callable[..., int] = store.write

    def write_and_check(work: Callable[..., int], **ahead: bool) -> int:
        done = write(work, **ahead)
        assert store.check() == []
        return done

    monkeypatch.setattr(store, "write", write_and_check)
    assert store.delete(range(2, 7)) == 10
    assert [each.number for each in store.list_documents()] == [1, 7]
