"""Requests that a store owes, for tests."""

from scrapy_simhash.judging.rows import OWED, Owed, Why, pack_row, unpack_row
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.owed import TakenRequest
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL


def take_owed(store: Store, crawl: str = CRAWL, spider: str = "spider") -> list[TakenRequest]:
    """Take all requests that a crawl has to make, as it does when it is idle."""
    found = store.owed.find_due(crawl, spider)
    return store.owed.take(crawl, spider, found.due)


def list_owed(store: Store, why: Why | None = None) -> list[Owed]:
    """List what a store owes, or only for one reason."""
    return [each.owed for each in store.owed.list_requests(None, why.letter if why else b"")]


def release(store: Store, url: str = "") -> int:
    """Release the requests for a URL, or all, as a person does."""
    found = store.owed.list_requests()
    return store.owed.release([each.key for each in found if url in {"", each.owed.url}])


def write_request(store: Store, key: bytes, request: bytes) -> None:
    """Write how to make a request that is owed."""

    def work(stored: Documents) -> None:
        packed = stored.get_row(OWED, key)
        assert packed is not None
        owed = unpack_row(Owed, key, packed)
        owed.request = request
        stored.put_row(OWED, key, pack_row(key, owed))

    store.write(work)
