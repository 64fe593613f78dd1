"""How records are written: round trips, damage found, fields of later versions tolerated."""

import string

import msgspec
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.errors import StoreError
from scrapy_simhash.judging.documents import CrawlRecord, Record, State
from scrapy_simhash.stores.records import Header, pack, unpack
from tests.helpers.strategies import fingerprints, texts

KEY = b"\0\0\0\0\0\0\0\7"
RECORD = Record(
    identity=b"\1" * 20,
    state=State.DUPLICATE,
    delivered=False,
    crawl="crawl-1",
    fingerprints=(0, 2**64 - 1),
    text_digest=b"\2" * 16,
    scope="site.example",
    url="http://site.example/ü",
    title="Title",
    language="en",
    features=12,
    words=13,
    first_time=1.5,
    time=2.5,
    original=3,
    distance=2,
    similarity=0.75,
    heading="Heading",
    canonical="/c",
    whole_words=14,
    sketch=b"\3" * 4,
    link_sketch=b"\4" * 4,
    stub=True,
    tests=("distance 2 bits",),
    callback="parse",
    new_links=0.25,
)
ON_DISK = [
    "fbadc334781e187edc001bc41401010101010101010101010101010101010101019200cfffffffff",
    "ffffffffc41002020202020202020202020202020202b6687474703a2f2f736974652e6578616d70",
    "6c652fc3bcac736974652e6578616d706c65a55469746c65a748656164696e67a22f63a2656e0c0d",
    "0ec40403030303c40404040404c3cb4004000000000000a5706172736502c2a7637261776c2d31cb",
    "3ff80000000000000302cb3fe800000000000091af64697374616e636520322062697473c2cb3fd0",
    "000000000000",
]
records = st.builds(
    Record,
    identity=st.binary(min_size=1, max_size=64),
    state=st.sampled_from(State),
    delivered=st.booleans(),
    crawl=st.text(string.ascii_letters),
    fingerprints=st.lists(fingerprints, min_size=1, max_size=8).map(tuple),
    text_digest=st.binary(max_size=64),
    scope=texts,
    url=texts,
    title=texts,
    language=texts,
    features=st.integers(0, 2**63),
    words=st.integers(0, 2**63),
    first_time=st.floats(allow_nan=False),
    time=st.floats(allow_nan=False),
    original=st.integers(0, 2**63),
    distance=st.integers(-1, 64),
    similarity=st.none() | st.floats(0, 1),
    heading=texts,
    canonical=texts,
    whole_words=st.integers(0, 2**63),
    sketch=st.binary(max_size=512),
    link_sketch=st.binary(max_size=256),
    stub=st.booleans(),
    tests=st.lists(texts, max_size=4).map(tuple),
    callback=texts,
    new_links=st.none() | st.floats(0, 1),
)


def with_checksum(body: bytes, key: bytes = KEY) -> bytes:
    return xxhash.xxh3_64_digest(key + body) + body


@given(records, st.binary(min_size=1, max_size=64))
def test_round_trip(record: Record, key: bytes) -> None:
    assert unpack(Record, key, pack(key, record)) == record


def test_round_trip_of_the_other_kinds() -> None:
    recipe: dict[str, str | int] = {"extractor": "x", "extractor_version": 1}
    header = Header(1, recipe, "4", 2**64 - 1, 1.5, {"lmdb": "3"}, "lmdb")
    assert unpack(Header, b"key", pack(b"key", header)) == header
    for crawl in (CrawlRecord("spider", 1.5), CrawlRecord("spider", 1.5, 2.5)):
        assert unpack(CrawlRecord, b"key", pack(b"key", crawl)) == crawl


def test_what_is_on_disk_never_changes() -> None:
    """Whoever must change this raises the store's format."""
    assert pack(KEY, RECORD).hex() == "".join(ON_DISK)
    assert State(0) is State.PENDING
    assert State(1) is State.DONE
    assert State(2) is State.DUPLICATE


def test_any_flipped_bit_is_found() -> None:
    packed = pack(KEY, RECORD)
    for bit in range(8 * len(packed)):
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoreError, match="damaged record at key 0000000000000007"):
            unpack(Record, KEY, bytes(damaged))


def test_any_cut_is_found() -> None:
    packed = pack(KEY, RECORD)
    for length in range(len(packed)):
        with pytest.raises(StoreError, match="damaged"):
            unpack(Record, KEY, packed[:length])


def test_a_record_of_another_key_is_found() -> None:
    with pytest.raises(StoreError, match="checksum differs"):
        unpack(Record, KEY[:-1] + b"\x08", pack(KEY, RECORD))


def test_fields_appended_by_a_later_version_are_tolerated() -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(RECORD))
    later = with_checksum(msgspec.msgpack.encode([*fields, "new", {"field": 1}]))
    assert unpack(Record, KEY, later) == RECORD


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", msgspec.msgpack.encode([1, 2]), msgspec.msgpack.encode("text")]
)
def test_a_true_checksum_around_something_else(body: bytes) -> None:
    with pytest.raises(StoreError, match="damaged record at key 0000000000000007"):
        unpack(Record, KEY, with_checksum(body))


def test_an_unknown_state_is_damage() -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(RECORD))
    fields[Record.__struct_fields__.index("state")] = 9
    with pytest.raises(StoreError, match="damaged"):
        unpack(Record, KEY, with_checksum(msgspec.msgpack.encode(fields)))
