"""Documents are found by their URLs without reading all records."""

import pytest

from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, judge

STORE_KINDS = ("lmdb", "memory", "redis", "cluster")
URL = "http://site.example/"


def numbers_at(store: Store, url: str) -> list[int]:
    return [found.document for found in store.find_document(url)]


def test_a_document_is_found_by_its_url_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.find_and_add([document(f"{n}", n << 8) for n in range(20)])
    store.find_and_add([document("same", 77 << 50, url=URL + "3"), document("none", 5, url="")])

    def fail(_: Documents) -> None:
        raise AssertionError("all records are read")

    monkeypatch.setattr(Documents, "__iter__", fail)
    assert numbers_at(store, URL + "3") == [4, 21]
    assert numbers_at(store, URL + "19") == [20]
    assert numbers_at(store, URL + "20") == []
    monkeypatch.undo()


@pytest.mark.parametrize("fingerprint", [1, 1 << 30 | 3], ids=["text unchanged", "text changed"])
def test_a_document_whose_url_changes_is_found_by_the_new_one(
    store: Store, fingerprint: int
) -> None:
    judge(store, document("page", 1))
    judge(store, document("page", fingerprint, url=URL + "moved"))
    assert numbers_at(store, URL + "moved") == [1]
    assert numbers_at(store, URL + "page") == []
