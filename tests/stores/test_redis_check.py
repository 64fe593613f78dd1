"""The cross-check of a Redis store finds what was planted, and a rebuild mends it."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from redis import Redis

from scrapy_simhash.stores import Store
from scrapy_simhash.stores.keyvalues import (
    CRAWLS,
    DOCUMENTS,
    DUPLICATES,
    FINGERPRINTS,
    IDENTITIES,
    TABLES,
    TEXTS,
    WAITING,
)
from scrapy_simhash.stores.records import octets, pack_identity, scope_hash
from scrapy_simhash.stores.redis.places import Places
from tests.helpers.documents import CRAWL, begin_crawl, document
from tests.helpers.redisservers import RedisServer

pytestmark = pytest.mark.slow

A, B, C = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x00FF_00FF_00FF_00FF
PLACES = Places("planted")


@pytest.fixture
def store(redis_server: RedisServer) -> Iterator[Store]:
    """A store with rows of every kind; document 3 waits for document 2."""
    with redis_server.client() as client:
        client.flushall()
    with begin_crawl(redis_server.url("planted"), tables="4") as store:
        store.bulk_load(np.array([C], np.uint64))
        pages = [document("a", A, text="text"), document("b", B, scope="s", aliases=(b"b2",))]
        store.find_and_add([*pages, document("c", B ^ 1, scope="s")])
        store.mark_done([1], CRAWL)
        store.find_and_add([], requests={3: b"request"})
        assert store.check() == []
        yield store


def place(table: str, key: bytes | int) -> tuple[bytes, bytes]:
    """Where a key is."""
    key = octets(key) if isinstance(key, int) else key
    return PLACES[table].name(key), PLACES[table].field(key)


def bucket(client: Redis, fingerprint: int) -> tuple[bytes, bytes]:
    """Where the first table, which permutes nothing, has a fingerprint."""
    (generation,) = {PLACES.read_generation(name) for name in client.keys(PLACES.tables)}
    table = PLACES.of(generation)[TABLES]
    key = bytes(1) + octets(fingerprint)[:2]
    return table.name(key), table.field(key)


def flip_record(client: Redis, number: int) -> None:
    packed = client.hget(*place(DOCUMENTS, number))
    assert isinstance(packed, bytes)
    put(client, *place(DOCUMENTS, number), packed[:-1] + bytes([packed[-1] ^ 1]))


def row(number: int, scope: str = "") -> bytes:
    """Make the row of a document's fingerprint."""
    return scope_hash(scope) + octets(number)


def put(client: Redis, name: bytes, field: bytes, value: bytes) -> None:
    client.hset(name, field, value)


Plant = Callable[[Redis], object]
MENDED: dict[str, tuple[Plant, str]] = {
    "not in one table": (
        lambda client: client.hdel(*bucket(client, A)),
        f"fingerprint {A:016x} is not in both table 0 and 1",
    ),
    "not in the first table": (
        lambda client: client.hdel(*bucket(client, A)),
        f"fingerprint {A:016x} of document 1 ('http://site.example/a') is in no table",
    ),
    "bulk-loaded, and not in the first table": (
        lambda client: client.hdel(*bucket(client, C)),
        f"fingerprint {C:016x} is noted as bulk-loaded, but is in no table",
    ),
    "half a row": (
        lambda client: put(client, *bucket(client, A), b"odd"),
        f"key 00{A >> 48:04x} has 3 octets, not whole rows",
    ),
    "fingerprint leads to nothing": (
        lambda client: client.hdel(*place(FINGERPRINTS, C)),
        f"fingerprint {C:016x} leads to nothing",
    ),
    "fingerprint does not lead to its document": (
        lambda client: client.hdel(*place(FINGERPRINTS, A)),
        f"document 1 ('http://site.example/a') is not found by its fingerprint {A:016x}",
    ),
    "fingerprint leads to another document": (
        lambda client: put(client, *place(FINGERPRINTS, A), row(1) + row(2)),
        f"fingerprint {A:016x} leads to document 2, which does not have it",
    ),
    "fingerprint leads to a document of another scope": (
        lambda client: put(client, *place(FINGERPRINTS, B), row(2)),
        f"fingerprint {B:016x} leads to document 2, which does not have it",
    ),
    "document gone": (
        lambda client: client.hdel(*place(DOCUMENTS, 1)),
        f"identity {b'a'.hex()} leads to no document",
    ),
    "identity gone": (
        lambda client: client.hdel(*place(IDENTITIES, b"b")),
        "document 2 ('http://site.example/b') is not found by its identity",
    ),
    "alias leads nowhere": (
        lambda client: put(client, *place(IDENTITIES, b"b2"), pack_identity(b"b2", 9)),
        f"identity {b'b2'.hex()} leads to no document",
    ),
    "alias damaged": (
        lambda client: put(client, *place(IDENTITIES, b"b2"), bytes(12)),
        f"damaged identity {b'b2'.hex()}: checksum differs",
    ),
    "near-duplicate not listed": (
        lambda client: client.hdel(*place(DUPLICATES, 2)),
        "document 3 ('http://site.example/c') is not listed as a near-duplicate of document 2",
    ),
    "listed, and no near-duplicate": (
        lambda client: put(client, *place(DUPLICATES, 2), octets(1) + octets(3)),
        "document 1 is listed as a near-duplicate of 2, but is not",
    ),
    "note about a drop": (
        lambda client: put(client, *place(WAITING, 3), b"damaged note"),
        "the note about the drop of document 3 is damaged",
    ),
    "numbers would be given twice": (
        lambda client: client.set(PLACES.next, 1),
        "the next document would get number 2, which is already in use",
    ),
}


@pytest.mark.parametrize("name", MENDED)
def test_what_was_planted_is_found_and_mended(
    store: Store, redis_server: RedisServer, name: str
) -> None:
    plant, told = MENDED[name]
    with redis_server.client() as client:
        plant(client)
    assert told in "\n".join(store.check())
    store.rebuild()
    problems = store.check()
    if name == "document gone":
        assert problems == ["there is a text of document 1, but no such document"]
    else:
        assert problems == []
    waiting = store.read(lambda stored: stored.list_waiting())
    assert [(number, note.original, note.crawl) for number, note in waiting] == [(3, 2, CRAWL)]


OTHERS: dict[str, tuple[Plant, str]] = {
    "record": (
        lambda client: flip_record(client, 2),
        "damaged record at key 0000000000000002: checksum differs",
    ),
    "original gone": (
        lambda client: client.hdel(*place(DOCUMENTS, 2)),
        (
            "document 3 ('http://site.example/c') is a near-duplicate of document 2, which no "
            "longer exists"
        ),
    ),
    "text": (
        lambda client: put(client, *place(TEXTS, 1), b"no zlib"),
        "text of document 1 is damaged: ",
    ),
    "crawl": (
        lambda client: put(client, *place(CRAWLS, CRAWL.encode()), b"no crawl"),
        "damaged crawlrecord at key ",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_a_backup_mends_is_found(
    store: Store, redis_server: RedisServer, name: str
) -> None:
    plant, told = OTHERS[name]
    with redis_server.client() as client:
        plant(client)
    assert told in "\n".join(store.check())


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_a_damaged_record_had_is_kept(
    store: Store, redis_server: RedisServer, number: int
) -> None:
    fingerprints = store.fingerprints().tolist()
    with redis_server.client() as client:
        flip_record(client, number)
        problems = store.check()
        assert store.rebuild() == {"fingerprints": len(fingerprints), "tables": 4, "damaged": 1}
        assert store.fingerprints().tolist() == fingerprints
        assert store.check() == problems
        flip_record(client, number)  # back
    store.rebuild()
    assert store.check() == []
