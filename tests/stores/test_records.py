"""How records are written: the same for as long as the format of stores is."""

import xxhash

from scrapy_simhash.judging.documents import Record, State
from scrapy_simhash.pages.facts import Facts, Reader
from scrapy_simhash.stores.documents import pack_row
from scrapy_simhash.stores.header import FORMAT

FACTS = Facts(
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
    stub=True,
    reader=Reader("spider", "parse"),
    hidden=b"\6" * 8,
)
RECORD = Record(
    FACTS,
    state=State.DUPLICATE,
    crawls=("crawl-1", "crawl-2"),
    first_time=1.5,
    original=3,
    distance=2,
    similarity=0.75,
    tests=("distance 2 bits",),
    new_links=0.25,
)


def test_what_is_on_disk_never_changes() -> None:
    """Whoever must change this raises the store's format."""
    assert (FORMAT, xxhash.xxh3_64_hexdigest(pack_row(bytes(8), RECORD))) == (
        24,
        "7c8843a5dd6ae607",
    )
