"""Lost pages of a store, for tests."""

from collections.abc import Sequence
from functools import partial

from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.lost import find_due, take
from scrapy_simhash.stores.rows import LOST, Lost, pack_row, unpack_row
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL


def take_lost(
    store: Store, crawl: str = CRAWL, spider: str = "spider"
) -> Sequence[tuple[bytes, Lost]]:
    """Take all pages that a crawl has to request again, as it does when it is idle."""
    due = store.read(partial(find_due, crawl=crawl, spider=spider))
    return store.write(partial(take, crawl=crawl, spider=spider, keys=[key for key, _ in due]))


def list_lost(store: Store) -> list[Lost]:
    """List the rows of lost pages, whether or not they are due."""
    return [page.lost for page in store.list_lost()]


def write_request(store: Store, key: bytes, request: bytes) -> None:
    """Write how to request a lost page."""

    def work(stored: Documents) -> None:
        packed = stored.values.get(LOST, key)
        assert packed is not None
        lost = unpack_row(Lost, key, packed)
        lost.request = request
        stored.values.put(LOST, key, pack_row(key, lost))

    store.write(work)
