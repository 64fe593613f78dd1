"""The cross-check finds what was planted."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_simhash.lmdb_documents import octets, pack_identity
from scrapy_simhash.lmdb_store import LmdbStore
from scrapy_simhash.stores import StoreError
from tests.documents import CRAWL, document, open_in_crawl

if TYPE_CHECKING:
    import lmdb

    from scrapy_simhash.lmdb_documents import Databases

    Plant = Callable[["lmdb.Transaction[bytes]", Databases], object]

A, B, C = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    with open_in_crawl(tmp_path) as store:
        pages = [document("a", A, aliases=(b"a2",)), document("b", B, C, scope="s", text="text")]
        store.find_and_add([*pages, document("c", A ^ 1)])
        store.mark_done([1], CRAWL)
        assert store.check() == []
        yield store


def key_and_value(table: int, fingerprint: int) -> tuple[bytes, bytes]:
    """Where the first table, which permutes nothing, has a fingerprint."""
    return bytes([table]) + octets(fingerprint)[:2], octets(fingerprint)[2:]


def flip_last_bit(packed: bytes) -> bytes:
    return packed[:-1] + bytes([packed[-1] ^ 1])


PLANTS: dict[str, tuple["Plant", str]] = {
    "missing in the first table": (
        lambda txn, dbs: txn.delete(*key_and_value(0, A), db=dbs.added0),
        f"{A:016x} is not in both table 0 and",
    ),
    "only in one table": (
        lambda txn, dbs: txn.put(*key_and_value(0, 77), db=dbs.added0),
        f"{77:016x} is not in both table 0 and",
    ),
    "tables empty": (
        lambda txn, dbs: txn.drop(dbs.added0, delete=False),
        f"fingerprint {B:016x} of document 2 ('http://site.example/b') is in no table",
    ),
    "fingerprint leads nowhere": (
        lambda txn, dbs: txn.delete(octets(C), db=dbs.fingerprints),
        f"document 2 ('http://site.example/b') is not found by its fingerprint {C:016x}",
    ),
    "fingerprint leads to another": (
        lambda txn, dbs: txn.put(octets(B), octets(0) + octets(1), db=dbs.fingerprints),
        f"fingerprint {B:016x} leads to document 1, which does not have it",
    ),
    "fingerprint leads to nobody": (
        lambda txn, dbs: txn.put(octets(B), octets(0) + octets(9), db=dbs.fingerprints),
        f"fingerprint {B:016x} leads to document 9, which does not have it",
    ),
    "document gone": (
        lambda txn, dbs: txn.delete(octets(2), db=dbs.documents),
        f"identity {b'b'.hex()} leads to no document",
    ),
    "original gone": (
        lambda txn, dbs: txn.delete(octets(1), db=dbs.documents),
        "document 3 ('http://site.example/c') is a near-duplicate of document 1, which is gone",
    ),
    "identity gone": (
        lambda txn, dbs: txn.delete(b"b", db=dbs.identities),
        "document 2 ('http://site.example/b') is not found by its identity",
    ),
    "alias leads nowhere": (
        lambda txn, dbs: txn.put(b"a2", pack_identity(b"a2", 9), db=dbs.identities),
        f"identity {b'a2'.hex()} leads to no document",
    ),
    "alias leads to another": (
        lambda txn, dbs: txn.put(b"a2", octets(2) + pack_identity(b"a2", 1)[8:], db=dbs.identities),
        f"damaged identity {b'a2'.hex()}: checksum differs",
    ),
    "flipped bit in a record": (
        lambda txn, dbs: txn.put(
            octets(2), flip_last_bit(txn.get(octets(2), b"", db=dbs.documents)), db=dbs.documents
        ),
        "damaged record at key 0000000000000002: checksum differs",
    ),
    "records exchanged": (
        lambda txn, dbs: txn.put(
            octets(2), txn.get(octets(1), b"", db=dbs.documents), db=dbs.documents
        ),
        "damaged record at key 0000000000000002: checksum differs",
    ),
    "edge of a duplicate gone": (
        lambda txn, dbs: txn.delete(octets(1), db=dbs.duplicates),
        "document 3",
    ),
    "edge of no duplicate": (
        lambda txn, dbs: txn.put(octets(1), octets(2), db=dbs.duplicates),
        "document 2",
    ),
    "edge of nobody": (
        lambda txn, dbs: txn.put(octets(1), octets(9), db=dbs.duplicates),
        "document 9 is listed as a near-duplicate of 1, and is not",
    ),
    "numbers would be given twice": (
        lambda txn, dbs: txn.put(b"next", octets(2), db=dbs.header),
        "next",
    ),
    "a table too many": (
        lambda txn, dbs: txn.put(*key_and_value(4, A), db=dbs.added0),
        "table 4",
    ),
    "text damaged": (
        lambda txn, dbs: txn.put(octets(2), b"no zlib", db=dbs.texts),
        "text",
    ),
}


@pytest.mark.parametrize("name", PLANTS)
def test_what_was_planted_is_found(store: LmdbStore, name: str) -> None:
    plant, told = PLANTS[name]
    store._environment.write(lambda transaction: plant(transaction, store._databases))
    assert any(told in problem for problem in store.check()), store.check()


def test_a_damaged_record_makes_no_page_a_duplicate_silently(store: LmdbStore) -> None:
    """Reading it is an error of the store, which lets pages pass unjudged."""
    plant, _ = PLANTS["flipped bit in a record"]
    store._environment.write(lambda transaction: plant(transaction, store._databases))
    with pytest.raises(StoreError, match="damaged record"):
        store.find_and_add([document("d", B, scope="s")])
    assert store.find_and_add([document("e", 1 << 20)])[0].status == "new"


def test_an_empty_store_is_consistent(tmp_path: Path) -> None:
    for name in ("4", "20"):
        with open_in_crawl(tmp_path / name, tables=name) as store:
            assert store.check() == []
