"""Near-duplicate pages for Scrapy: recognised while the crawl runs, dropped, and explained."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_simhash.addon import Addon
    from scrapy_simhash.exceptions import NearDuplicate
    from scrapy_simhash.fingerprint import fingerprint_page
    from scrapy_simhash.stores import open_store

__version__ = "0.1.0"
__all__ = ["Addon", "NearDuplicate", "fingerprint_page", "open_store"]

# Loaded on first use: every `scrapy` call imports this package, and trafilatura takes 0.3 s.
_HOMES = {
    "Addon": "addon",
    "NearDuplicate": "exceptions",
    "fingerprint_page": "fingerprint",
    "open_store": "stores",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
