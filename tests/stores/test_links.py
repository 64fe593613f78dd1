"""Links that only dropped pages have, as stores keep them."""

import pytest

from scrapy_simhash.judging.rows import Link
from scrapy_simhash.stores import parking
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, document

SITE = "http://site.example/"


def make_link(name: str, spider: str = "docs", time: float = 1.0) -> Link:
    return Link(SITE + name, SITE + "dropped", time, CRAWL, spider)


def test_a_store_keeps_them_within_a_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "MOST_LINKS", 2)
    assert store.list_links() == []
    assert store.keep_links([make_link("a"), make_link("b", "news"), make_link("c")]) == 1
    # One that is there stays as it is, and takes no other's place.
    assert store.keep_links([make_link("a", "news", 9.0)]) == 0
    assert [link.url for link in store.list_links("docs")] == [SITE + "a"]
    assert store.keep_links([make_link("c")], gone=[SITE + "b", SITE + "never"]) == 0
    assert [link.url for link in store.list_links()] == [SITE + "a", SITE + "c"]
    assert store.check() == []
    found = store.find_and_add([document("x", 5), document("y", 5)])
    assert [verdict.status for verdict in found] == ["new", "near_duplicate"]
    names = [b"x", b"y", b"z"]
    identities = [document(name.decode(), 5).identity for name in names]
    assert store.find_known(identities) == set(identities[:2])
