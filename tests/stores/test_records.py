"""How records are written: the same for as long as the format of stores is."""

from typing import Any

import xxhash

from scrapy_simhash.judging.documents import Record, State
from scrapy_simhash.pages.facts import Facts, Reader
from scrapy_simhash.stores.documents import pack_row
from scrapy_simhash.stores.header import FORMAT

TEXTS: dict[str, Any] = {"scope": "site.example", "url": "http://site.example/ü", "title": "Title"}
TEXTS |= {"language": "en", "heading": "Heading", "canonical": "/c", "views": "/v"}
OCTETS: dict[str, Any] = {"data_fingerprint": b"\5" * 8, "sketch": b"\3" * 4, "hidden": b"\6" * 8}
NUMBERS: dict[str, Any] = {"features": 12, "words": 13, "whole_words": 14, "time": 2.5}
NUMBERS |= {"stub": True, "reader": Reader("spider", "parse")}
FACTS = Facts(b"\1" * 20, 2**64 - 1, b"\2" * 16, **TEXTS, **OCTETS, **NUMBERS)
DROP: dict[str, Any] = {"original": 3, "distance": 2, "similarity": 0.75, "new_links": 0.25}
DROP["tests"] = ("distance 2 bits",)
RECORD = Record(FACTS, State.DUPLICATE, ("crawl-1", "crawl-2"), 1.5, **DROP)
DIGEST = "7c8843a5dd6ae607"


def test_what_is_on_disk_never_changes() -> None:
    """Whoever must change this raises the store's format."""
    assert (FORMAT, xxhash.xxh3_64_hexdigest(pack_row(bytes(8), RECORD))) == (25, DIGEST)
