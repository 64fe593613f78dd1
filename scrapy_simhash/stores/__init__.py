"""Documents and their tables, on disk (`lmdb`) or on a server (`redis`)."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.errors import (
        StoreError as StoreError,
        StoreMismatchError as StoreMismatchError,
        StoreUnavailableError as StoreUnavailableError,
        StoreUnusableError as StoreUnusableError,
    )
    from scrapy_simhash.stores.opening import (
        open_as_it_is as open_as_it_is,
        open_store as open_store,
        shrink as shrink,
    )
    from scrapy_simhash.stores.store import Store as Store

make_face(
    __name__,
    {
        "opening": "open_as_it_is open_store shrink",
        "store": "Store",
        ".errors": "StoreError StoreMismatchError StoreUnavailableError StoreUnusableError",
    },
    "documents header parking rulebook upkeep urls",
)
