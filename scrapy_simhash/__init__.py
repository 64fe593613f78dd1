"""Recognize near-duplicate pages while a Scrapy crawl runs, drop them, and explain every drop."""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.addon import Addon as Addon
    from scrapy_simhash.exceptions import NearDuplicate as NearDuplicate
    from scrapy_simhash.pages.fingerprint import fingerprint_page as fingerprint_page
    from scrapy_simhash.stores.opening import open_store as open_store

__version__ = "0.2.0.dev0"

make_face(
    __name__,
    {
        "addon": "Addon",
        "exceptions": "NearDuplicate",
        "pages.fingerprint": "fingerprint_page",
        "stores.opening": "open_store",
    },
)
