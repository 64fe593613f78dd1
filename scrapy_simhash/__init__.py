"""Recognize near-duplicate pages while a Scrapy crawl runs, drop them, and explain every drop."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_simhash.addon import Addon as Addon
    from scrapy_simhash.spidermiddlewares import NearDuplicate as NearDuplicate
    from scrapy_simhash.pages.fingerprint import fingerprint_page as fingerprint_page
    from scrapy_simhash.stores.opening import open_store as open_store

__version__ = "0.2.0"
# Each is loaded on first use: every `scrapy` call imports this package for its commands, and
# importing numpy takes 0.1 s.
_HOMES = {
    "Addon": "addon",
    "NearDuplicate": "spidermiddlewares",
    "fingerprint_page": "pages.fingerprint",
    "open_store": "stores.opening",
}
__all__ = ["Addon", "NearDuplicate", "fingerprint_page", "open_store"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
