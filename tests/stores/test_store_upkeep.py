"""Upkeep: documents leave the store, damaged tables are mended, designs change."""

import random
from collections.abc import Callable

import pytest

from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document

A, B, C = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF


def add_done(store: Store, name: str, fingerprint: int, **fields: object) -> int:
    """Add a document whose items came through, and return its number."""
    (verdict,) = store.find_and_add([document(name, fingerprint, **fields)])
    return verdict.document


def test_more_documents_than_one_transaction_deletes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Originals in one, their near-duplicates in another; a kill in between leaves no half."""
    monkeypatch.setattr("scrapy_simhash.stores.store._DOCUMENTS_PER_DELETION", 3)
    draw = random.Random(5)  # noqa: S311 - reproducible
    fingerprints = [draw.getrandbits(64) for _ in range(6)]
    originals = [add_done(store, f"a{n}", each) for n, each in enumerate(fingerprints)]
    near = [add_done(store, f"b{n}", each ^ 1) for n, each in enumerate(fingerprints)]
    problems: list[str] = []
    write: Callable[..., int] = store.write

    def write_and_check(work: Callable[..., int]) -> int:
        done = write(work)
        problems.extend(store.check())
        return done

    monkeypatch.setattr(store, "write", write_and_check)
    assert store.delete(originals[1:]) == 10
    assert problems == []
    assert [each.document for each in store.list_documents()] == [originals[0], near[0]]
