"""Rows of a store's tables, and those of crawls and lost pages.

Rows are packed so::

    octets 0-7   XXH3-64 of key and body, which reveals a flipped bit or a swapped row
    octets 8-    MessagePack array, fields in the order of the class
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec
import xxhash

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.pages.facts import Reader  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class CrawlRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A crawl; `ended` is 0 until it ends by itself."""

    spider: str
    started: float
    ended: float = 0.0


# The table of lost pages, see `stores.lost`.
LOST = "lost"


class Lost(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A page that was dropped for one whose items may never come through.

    Attributes:
        url: of the request; without user and password.
        spider: the one that made the request.
        crawl: id of the crawl that dropped the page.
        page: number of its original.
        text_digest: of the original's text; b"" if that shows another one by now.
        reader: who is getting that text.
        request: how to make the request, see `crawl.packing.Packing`; b"" if that is not stored, so
            that only the same crawl can make it.
        taken: id of the crawl that requests the page again, or "".
    """

    url: str
    spider: str
    crawl: str
    page: int
    text_digest: bytes
    reader: Reader
    request: bytes = b""
    taken: str = ""

    @property
    def awaited(self) -> int:
        """The number of the original whose items were awaited; 0 if it shows another text."""
        return self.page if self.text_digest else 0


def key_of_lost(document: int) -> bytes:
    """Make the key of a lost page, by the number of its document."""
    return document.to_bytes(8, "big")


AnyRow = TypeVar("AnyRow", bound=msgspec.Struct)
_encoder = msgspec.msgpack.Encoder()
_CHECKSUM_BYTES = 8


def seal(key: bytes, body: bytes) -> bytes:
    """Put a checksum before the body of a row, which covers its key, too."""
    return xxhash.xxh3_64_digest(key + body) + body


def unseal(what: str, key: bytes, packed: bytes) -> bytes:
    """Return the body of a row, or raise a DamagedError that says what is damaged."""
    body = packed[_CHECKSUM_BYTES:]
    if packed[:_CHECKSUM_BYTES] != xxhash.xxh3_64_digest(key + body):
        raise DamagedError(f"damaged {what}: checksum differs")
    return body


def pack_row(key: bytes, row: msgspec.Struct) -> bytes:
    """Pack a row of a table, with a checksum that covers its key, too."""
    return seal(key, _encoder.encode(row))


def unpack_row(kind: type[AnyRow], key: bytes, packed: bytes) -> AnyRow:
    """Read the row of a key, or raise a DamagedError."""
    what = f"{kind.__name__.lower()} at key {key.hex()}"
    try:
        return msgspec.msgpack.decode(unseal(what, key, packed), type=kind)
    except msgspec.MsgspecError as error:
        raise DamagedError(f"damaged {what}: {error}") from error


def read_rows(
    kind: type[AnyRow], rows: Iterable[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, AnyRow]]:
    """Read rows, with their keys; those that are missing or damaged are left out."""
    for key, packed in rows:
        if packed is not None:
            with suppress(DamagedError):  # `check` lists it
                yield key, unpack_row(kind, key, packed)
