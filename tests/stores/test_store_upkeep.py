"""Upkeep: documents leave the store, damaged tables are mended, designs change."""

from pathlib import Path

import pytest

from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, document, open_in_crawl, open_lmdb

A, B, C = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF


def add_done(store: Store, name: str, *fingerprints: int, **fields: object) -> int:
    """Add a document whose items came through, and return its number."""
    (verdict,) = store.find_and_add([document(name, *fingerprints, **fields)])
    store.mark_done([verdict.document], CRAWL)
    return verdict.document


def test_a_read_only_store_deletes_and_rebuilds_nothing(tmp_path: Path) -> None:
    with open_in_crawl(tmp_path) as store:
        add_done(store, "a", A)
    with open_lmdb(tmp_path, readonly=True) as store:
        assert store.select(lambda _: True) == [1]
        for work in (store.rebuild, lambda: store.delete([1])):
            with pytest.raises(ValueError, match="opened read-only"):
                work()
        assert store.fingerprints().tolist() == [A]
