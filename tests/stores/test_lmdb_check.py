"""The cross-check finds what was planted."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from scrapy_simhash.stores.lmdb.documents import read_header
from scrapy_simhash.stores.lmdb.mending import check_documents

from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores.records import address_row, number_of, octets, pack_identity
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import CRAWL, document, open_in_crawl
from tests.helpers.parking import plant_rows

if TYPE_CHECKING:
    import lmdb
    from scrapy_simhash.stores.lmdb.documents import Databases

    Plant = Callable[["lmdb.Transaction[bytes]", Databases], object]

A, B, C = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
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
        (
            "document 3 ('http://site.example/c') is a near-duplicate of document 1, which no "
            "longer exists"
        ),
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
        "document 9 is listed as a near-duplicate of 1, but is not",
    ),
    "numbers would be given twice": (
        lambda txn, dbs: txn.put(b"next", octets(2), db=dbs.header),
        "next",
    ),
    "a table too many": (
        lambda txn, dbs: txn.put(*key_and_value(4, A), db=dbs.added0),
        "table 4",
    ),
    "not found by its URL": (
        lambda txn, dbs: txn.delete(
            b"u", octets(address_row("http://site.example/b", 2)), db=dbs.addresses
        ),
        "document 2 ('http://site.example/b') is not found by its URL",
    ),
    "URL leads to another": (
        lambda txn, dbs: txn.put(
            b"u", octets(address_row("http://site.example/a", 2)), db=dbs.addresses
        ),
        "the index of URLs leads to document 2 by a URL that it does not have",
    ),
    "text damaged": (
        lambda txn, dbs: txn.put(octets(2), b"no zlib", db=dbs.texts),
        "text",
    ),
}


@pytest.mark.parametrize("name", PLANTS)
def test_what_was_planted_is_found(store: Store, name: str) -> None:
    plant, told = PLANTS[name]
    store._environment.write(lambda transaction: plant(transaction, store._databases))
    assert any(told in problem for problem in store.check()), store.check()


def test_a_damaged_record_makes_no_page_a_duplicate_silently(store: Store) -> None:
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


@pytest.fixture
def every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store with rows of every kind: the least that has them, as every bit is flipped below."""
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.tables.MOST_IN_BUCKET", 2)
    monkeypatch.setattr("scrapy_simhash.stores.lmdb.tables._MOST_SINGLE", 1)
    with open_in_crawl(tmp_path, tables="2:1", distance=1) as store:
        store.bulk_load(np.array([5, C], np.uint64))
        store.find_and_add([document("c", C, scope="s")])  # where nothing else is compared
        store.find_and_add([document("a", A, text="text"), document("b", A ^ 1, aliases=(b"b2",))])
        crowd = [7 << 48 | number << 8 for number in (1, 2, 4)]
        store.bulk_load(np.array(crowd, np.uint64))
        store.find_and_add([document("d", B)])
        plant_rows(store, 2)
        assert store.check() == []
        yield store


# Where rows are; the others are in use during and after a compaction.
KINDS = {"header", "documents", "identities", "fingerprints", "base0", "added0", "hot", "waiting"}
KINDS |= {"duplicates", "crawls", "texts", "urls", "addresses"}


def flip(octets_: bytes, bit: int) -> bytes:
    flipped = int.from_bytes(octets_, "big") ^ 1 << bit
    return flipped.to_bytes(len(octets_), "big")


class Silent(NamedTuple):
    """A flipped bit of which the check says nothing."""

    database: str
    key: bytes
    before: bytes
    after: bytes


def flip_every_bit(store: Store, *, keys: bool) -> list[Silent]:
    """Flip every bit of every value, or of every key, one at a time.

    Returns:
        What was not reported.
    """

    def is_silent(transaction: "lmdb.Transaction[bytes]") -> bool:
        try:
            read_header(store._refresh(transaction))
            return not check_documents(store._refresh(transaction))
        except StoreError:  # nobody opens it any more
            return False

    def work(transaction: "lmdb.Transaction[bytes]") -> list[Silent]:
        silent = []
        rows = [
            (name, database, *row)
            for name, database in store._databases._asdict().items()
            for row in transaction.cursor(database)
        ]
        for name, opened, key, value in rows:
            found.add(name)
            for bit in range(8 * len(key if keys else value)):
                row = (flip(key, bit), value) if keys else (key, flip(value, bit))
                overwritten = transaction.get(row[0], db=opened)
                transaction.delete(key, value, db=opened)
                transaction.put(*row, db=opened)
                if is_silent(transaction):
                    silent.append(Silent(name, key, *((key, row[0]) if keys else (value, row[1]))))
                transaction.delete(*row, db=opened)
                if keys and overwritten is not None:
                    transaction.put(row[0], overwritten, db=opened)
                transaction.put(key, value, db=opened)
        return silent

    found: set[str] = set()
    silent = store._environment.write(work)
    assert store.check() == []
    assert found == KINDS
    return silent


@pytest.mark.slow
def test_every_flipped_bit_of_a_value_is_found(every_kind: Store) -> None:
    """Except for two that do no harm.

    Document numbers go on from a larger one, and the bits that fill up the last octet of a
    compressed text mean nothing.
    """
    silent = flip_every_bit(every_kind, keys=False)
    for database, key, before, after in silent:
        if database == "header":
            assert key == b"next"
            assert after > before
        else:
            assert database == "texts"
            assert zlib.decompress(after) == zlib.decompress(before)
    # As many as the number has bits that are not set: none of the others is passed over.
    following = every_kind._read(lambda stored: stored.following_number())
    raised = [each for each in silent if each.database == "header"]
    assert len(raised) == 64 - following.bit_count()


def test_every_flipped_bit_of_a_key_is_found(every_kind: Store) -> None:
    """Except that a text may be given to another document: it does not say whose it is."""
    numbers = range(1, every_kind._read(lambda stored: stored.following_number()))
    for database, _, _, after in flip_every_bit(every_kind, keys=True):
        assert database == "texts"
        assert number_of(after) in numbers
