"""Documents are found by their URLs without reading all records."""

from collections.abc import Callable

import pytest

from scrapy_simhash.stores import Store
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.records import address_row
from tests.helpers.documents import CRAWL, document

STORE_KINDS = ("lmdb", "memory", "redis", "cluster")
URL = "http://site.example/"


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call this, and reading all records is an error from then on."""

    def fail(_: Documents) -> None:
        raise AssertionError("all records are read")

    return lambda: monkeypatch.setattr(Documents, "__iter__", fail)


def numbers_at(store: Store, url: str) -> list[int]:
    return [found.document for found in store.find_document(url)]


def test_a_document_is_found_by_its_url_alone(store: Store, unread: Callable[[], None]) -> None:
    store.find_and_add([document(f"{n}", n << 8) for n in range(20)])
    store.find_and_add([document("same", 77 << 50, url=URL + "3"), document("none", 5, url="")])
    unread()
    assert numbers_at(store, URL + "3") == [4, 21]
    assert numbers_at(store, URL + "19") == [20]
    assert numbers_at(store, URL + "20") == []


@pytest.mark.parametrize("fingerprint", [1, 1 << 30 | 3], ids=["text unchanged", "text changed"])
def test_a_document_whose_url_changes_is_found_by_the_new_one(
    store: Store, fingerprint: int
) -> None:
    store.find_and_add([document("page", 1)])
    (verdict,) = store.find_and_add([document("page", fingerprint, url=URL + "moved")])
    assert verdict.status == "revisit"
    assert numbers_at(store, URL + "moved") == [1]
    assert numbers_at(store, URL + "page") == []


def test_a_deleted_document_is_not_found(store: Store) -> None:
    store.find_and_add([document("a", 1), document("like a", 3), document("b", 0xFF << 40)])
    store.mark_done([1, 3], CRAWL)
    assert numbers_at(store, URL + "like a") == [2]
    assert store.delete([1]) == 2
    assert [numbers_at(store, URL + name) for name in ("a", "like a", "b")] == [[], [], [3]]


def test_a_rebuild_mends_the_index(store: Store) -> None:
    store.find_and_add([document("a", 1), document("b", 1 << 40)])

    def spoil(stored: Documents) -> None:
        stored.values.discard("addresses", *address_row(URL + "a", 1))
        stored.values.add("addresses", *address_row(URL + "c", 2))
        stored.values.add("addresses", *address_row(URL + "d", 9))

    store.write(spoil)
    assert len(store.check()) == 3
    assert numbers_at(store, URL + "c") == numbers_at(store, URL + "d") == []
    store.rebuild()
    assert store.check() == []
    assert numbers_at(store, URL + "a") == [1]
