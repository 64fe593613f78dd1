"""How a store writes its records: MessagePack behind a checksum, drawn below.

::

    octets 0-7   XXH3-64 of the key followed by the body: a flipped bit or a swapped record shows
    octets 8-    MessagePack array, fields in the order of the class; later versions append fields
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

import msgspec
import xxhash

from scrapy_simhash.stores import StoreError

_CHECKSUM_BYTES = 8


class StoreDamagedError(StoreError):
    """What is stored does not fit together.

    Args:
        message: names the cure.
        problems: one line each, as `check` lists them; kept as an attribute.
    """

    def __init__(self, message: str, problems: list[str]) -> None:
        super().__init__(message)
        self.problems = problems


class DamagedError(StoreError):
    """A record cannot be read; the message names the cure.

    Args:
        what: which one, and why; kept as an attribute for who lists all of them.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; restore the store from a backup (`scrapy simhash check` lists all damage)"
        )
        self.what = what


class State(IntEnum):
    """Of a document's record."""

    PENDING = 0
    """Its items did not come through yet; counts only while its crawl's lease is alive."""
    DONE = 1
    DUPLICATE = 2
    """A near-duplicate of another document; not in the tables."""


class Record(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A document.

    `delivered`: it was done at least once, whatever its state is now. `spared`: judged again it is
    no near-duplicate of anything, because somebody took its drop back.
    """

    identity: bytes
    state: State
    delivered: bool
    crawl: str
    fingerprints: tuple[int, ...]
    text_digest: bytes
    scope: str
    url: str
    title: str
    language: str
    features: int
    words: int
    first_time: float
    time: float
    original: int = 0
    distance: int = -1
    similarity: float | None = None
    heading: str = ""
    canonical: str = ""
    whole_words: int = 0
    sketch: bytes = b""
    link_sketch: bytes = b""
    stub: bool = False
    tests: tuple[str, ...] = ()
    spared: bool = False


class Header(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """The store itself.

    `base` and `added` say which of two databases of each kind is in use. While `compacting`, the
    other `added` is what is being compacted and the other `base` what is being written.
    `archive` names the file beneath the tables, `merging` the one that is being written; "" for
    none.
    """

    format: int
    recipe: dict[str, str | int]
    design: str
    seed: int
    created: float
    libraries: dict[str, str]
    base: int = 0
    added: int = 0
    compacting: bool = False
    archive: str = ""
    merging: str = ""


class Waiting(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A drop that may have to be taken back: when it was made its original was pending.

    `text_digest` is of the text it was dropped for; `crawl` answers for it; `request` is how it can
    be fetched again, or b"".
    """

    original: int
    text_digest: bytes
    crawl: str
    request: bytes = b""


class CrawlRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A crawl; `ended` is 0 until it ends by itself."""

    spider: str
    started: float
    ended: float = 0.0


AnyRecord = TypeVar("AnyRecord", Record, Header, CrawlRecord, Waiting)
_encoder = msgspec.msgpack.Encoder()


def pack(key: bytes, record: Record | Header | CrawlRecord | Waiting) -> bytes:
    """Write a record for its key."""
    body = _encoder.encode(record)
    return _checksum(key, body) + body


def unpack(kind: type[AnyRecord], key: bytes, octets: bytes) -> AnyRecord:
    """Read the record of a key.

    Raises:
        DamagedError: the record is damaged.
        StoreError: the header is, for which there is more than one cure.
    """
    body = octets[_CHECKSUM_BYTES:]
    damaged = StoreError if kind is Header else DamagedError
    if octets[:_CHECKSUM_BYTES] != _checksum(key, body):
        raise damaged(f"damaged {kind.__name__.lower()} at key {key.hex()}: checksum differs")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise damaged(f"damaged {kind.__name__.lower()} at key {key.hex()}: {error}") from error


def _checksum(key: bytes, body: bytes) -> bytes:
    return xxhash.xxh3_64_digest(key + body)
