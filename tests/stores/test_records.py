"""How records are written: as ever, damage found, fields of later versions tolerated."""

from scrapy_simhash.judging.documents import Record, State
from scrapy_simhash.pages.facts import Facts, Reader
from scrapy_simhash.stores.documents import pack_row

KEY = b"\0\0\0\0\0\0\0\7"
RECORD = Record(
    Facts(
        identity=b"\1" * 20,
        fingerprint=2**64 - 1,
        text_digest=b"\2" * 16,
        scope="site.example",
        url="http://site.example/ü",
        title="Title",
        language="en",
        features=12,
        words=13,
        time=2.5,
        heading="Heading",
        canonical="/c",
        views="/v",
        whole_words=14,
        data_fingerprint=b"\5" * 8,
        sketch=b"\3" * 4,
        link_sketch=b"\4" * 4,
        stub=True,
        reader=Reader("spider", "parse"),
        hidden=b"\6" * 8,
    ),
    state=State.DUPLICATE,
    crawls=("crawl-1", "crawl-2"),
    first_time=1.5,
    original=3,
    distance=2,
    similarity=0.75,
    tests=("distance 2 bits",),
    new_links=0.25,
)
ON_DISK = [
    "75a000138b8925d59adc0015c4140101010101010101010101010101010101010101cfffffffffff",
    "ffffffc41002020202020202020202020202020202b6687474703a2f2f736974652e6578616d706c",
    "652fc3bcac736974652e6578616d706c65a55469746c65a748656164696e67a22f63a22f76a2656e",
    "0c0d0ec4080505050505050505c40403030303c40404040404c3cb400400000000000092a6737069",
    "646572a5706172736500c40806060606060606060292a7637261776c2d31a7637261776c2d32cb3f",
    "f80000000000000302cb3fe800000000000091af64697374616e636520322062697473c2cb3fd000",
    "0000000000",
]


def test_what_is_on_disk_never_changes() -> None:
    """Whoever must change this raises the store's format."""
    assert pack_row(KEY, RECORD).hex() == "".join(ON_DISK)
    assert State(1) is State.DONE
    assert State(2) is State.DUPLICATE
