"""How records are written: as ever, damage found, fields of later versions tolerated."""

from scrapy_simhash.judging.documents import Reader, Record, State
from scrapy_simhash.judging.rows import pack_row

KEY = b"\0\0\0\0\0\0\0\7"
RECORD = Record(
    identity=b"\1" * 20,
    state=State.DUPLICATE,
    delivered=False,
    crawl="crawl-1",
    fingerprint=2**64 - 1,
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
    views="/v",
    whole_words=14,
    data_fingerprint=b"\5" * 8,
    sketch=b"\3" * 4,
    link_sketch=b"\4" * 4,
    stub=True,
    tests=("distance 2 bits",),
    reader=Reader("spider", "parse"),
    new_links=0.25,
    earlier_readers=(Reader("spider", "parse_item"),),
)
ON_DISK = [
    "7f9f805a6e1f92f6dc0021c4140101010101010101010101010101010101010101cfffffffffffff",
    "ffffc41002020202020202020202020202020202b6687474703a2f2f736974652e6578616d706c65",
    "2fc3bcac736974652e6578616d706c65a55469746c65a748656164696e67a22f63a22f76a2656e0c",
    "0d0ec4080505050505050505c40403030303c40404040404c3cb400400000000000092a673706964",
    "6572a570617273650002c2a7637261776c2d31cb3ff80000000000000302cb3fe800000000000091",
    "af64697374616e636520322062697473c2cb3fd00000000000009192a6737069646572aa70617273",
    "655f6974656dc2a0",
]


def test_what_is_on_disk_never_changes() -> None:
    """Whoever must change this raises the store's format."""
    assert pack_row(KEY, RECORD).hex() == "".join(ON_DISK)
    assert State(0) is State.PENDING
    assert State(1) is State.DONE
    assert State(2) is State.DUPLICATE
