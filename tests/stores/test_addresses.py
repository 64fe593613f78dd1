"""Documents are found by their URLs without reading all records; old stores after a rebuild."""

from collections.abc import Callable

import pytest

from scrapy_simhash.stores import Store
from scrapy_simhash.stores.records import Session
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, begin_crawl, document

STORE_KINDS = ("lmdb", "redis", "cluster")
URL = "http://site.example/"


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call this, and reading all records is an error from then on."""

    def fail(_: Session) -> None:
        raise AssertionError("all records are read")

    return lambda: monkeypatch.setattr(Session, "__iter__", fail)


def forget_index(store: Store) -> None:
    """Make of a store one of a version before 0.2.0."""
    store._header.addressed = False
    header = store._header
    if isinstance(store, Store):
        from scrapy_simhash.stores.lmdb.documents import write_header  # noqa: PLC0415

        store._commit(lambda stored: write_header(stored, header))
        opened = store._databases.addresses
        assert opened is not None
        store._environment.write(lambda transaction: transaction.drop(opened))
        store._databases = store._databases._replace(addresses=None)
    else:
        from scrapy_simhash.stores.redis.server import pack_header  # noqa: PLC0415

        server = store._server  # type: ignore[attr-defined]
        server.call("SET", server.keys.header, pack_header(header))
        for name in list(server.scan(server.keys.pattern("u"))):
            server.call("DEL", name)


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


def test_an_old_store_is_looked_through_until_it_is_rebuilt(
    home: str, monkeypatch: pytest.MonkeyPatch, unread: Callable[[], None]
) -> None:
    with begin_crawl(home) as store:
        store.find_and_add([document("a", 1), document("gone", 1 << 20)])
        forget_index(store)
    with begin_crawl(home, "crawl-2") as store, begin_crawl(home, "crawl-3") as other:
        assert numbers_at(store, URL + "a") == [1]
        store.delete([2])
        other.find_and_add([document("b", 1 << 40)])
        assert numbers_at(store, URL + "b") == [3]
        assert store.check() == []
        store.rebuild()
        (added,) = other.find_and_add([document("c", 1 << 50)])
        assert [each.check() for each in (store, other)] == [[], []]
        unread()
        for each in (store, other):
            assert [numbers_at(each, URL + name) for name in ("a", "gone", "b", "c")] == [
                *([1], [], [3], [added.document])
            ]
        monkeypatch.undo()


def test_a_rebuild_mends_the_index(store: Store) -> None:
    store.find_and_add([document("a", 1), document("b", 1 << 40)])

    def spoil(stored: Session) -> None:
        stored.drop_address(URL + "a", 1)
        stored.put_address(URL + "c", 2)
        stored.put_address(URL + "d", 9)

    store._commit(spoil)
    assert len(store.check()) == 3
    assert numbers_at(store, URL + "c") == numbers_at(store, URL + "d") == []
    store.rebuild()
    assert store.check() == []
    assert numbers_at(store, URL + "a") == [1]
