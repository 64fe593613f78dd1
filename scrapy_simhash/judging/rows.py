"""Rows that a store keeps beside its documents: walls, and requests that were not made.

Records of documents are packed in the same way::

    octets 0-7   XXH3-64 of key and body, which reveals a flipped bit or a swapped row
    octets 8-    MessagePack array, fields in the order of the class
"""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import msgspec
import xxhash

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.documents import NOBODY, Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# The table of requests that are owed, see `stores.owed`.
OWED = "owed"


class Why(StrEnum):
    """Why a request is owed, in the order in which a crawl makes such requests."""

    #: Its page was dropped for one whose items may never come through.
    LOST = "lost"
    #: A dropped page has a link to it.
    LINK = "link"

    @property
    def letter(self) -> bytes:
        """The first byte of the keys of such requests."""
        return self.value[:2].encode()


class Owed(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A request that has to be made, or may have to be.

    Attributes:
        url: of the request; without user and password.
        why: it is owed.
        spider: the one that made the request.
        crawl: id of the crawl that owes it.
        request: how to make it, see `crawl.refetch.Packing`; b"" if that is not stored, so
            that only the same crawl can make it.
        page: of a lost page: number of its original.
        text_digest: of a lost page: of the text that it was dropped for.
        reader: of a lost page: who is getting that text; else who is to get the page.
        found_on: of a link: URL of the dropped page that has it.
        time: seconds since 1970, UTC.
        identity: of the request, as of documents.
        released: it is to be made, whatever it depends on.
        taken: id of the crawl that makes it, or "".
    """

    url: str
    why: Why
    spider: str
    crawl: str
    request: bytes = b""
    page: int = 0
    text_digest: bytes = b""
    reader: Reader = NOBODY
    found_on: str = ""
    time: float = 0.0
    identity: bytes = b""
    released: bool = False
    taken: str = ""


def key_of_lost(document: int) -> bytes:
    """Make the key of the request of a lost page, by the number of its document."""
    return Why.LOST.letter + document.to_bytes(8, "big")


class Witness(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=False):
    """An address that led to a document, see `judging.sinks`.

    Attributes:
        url: as it was requested.
        host: lower case, with a port.
        form: what no rule explains away.
    """

    url: str
    host: str
    form: str


class Sink(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A document to which unlike addresses lead: a wall, or perhaps one.

    Attributes:
        witnesses: addresses, no two of them alike.
        since: when it was recognised as a sink of a host, seconds since 1970, UTC; None before.
    """

    witnesses: tuple[Witness, ...] = ()
    since: float | None = None


AnyRow = TypeVar("AnyRow", bound=msgspec.Struct)
_encoder = msgspec.msgpack.Encoder()
_CHECKSUM_BYTES = 8


def pack_row(key: bytes, row: msgspec.Struct) -> bytes:
    """Pack a row of a table, with a checksum that covers its key, too."""
    body = _encoder.encode(row)
    return xxhash.xxh3_64_digest(key + body) + body


def unpack_row(kind: type[AnyRow], key: bytes, packed: bytes) -> AnyRow:
    """Read the row of a key, or raise a DamagedError."""
    body = packed[_CHECKSUM_BYTES:]
    if packed[:_CHECKSUM_BYTES] != xxhash.xxh3_64_digest(key + body):
        raise DamagedError(f"damaged {kind.__name__.lower()} at key {key.hex()}: checksum differs")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise DamagedError(
            f"damaged {kind.__name__.lower()} at key {key.hex()}: {error}"
        ) from error


def read_rows(
    kind: type[AnyRow], rows: Iterable[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, AnyRow]]:
    """Read rows, with their keys; those that are missing or damaged are left out."""
    for key, packed in rows:
        if packed is not None:
            with suppress(DamagedError):  # `check` lists it
                yield key, unpack_row(kind, key, packed)
