"""Rows of a store's tables, and those of its readers.

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

READERS_KEY = b"readers"


class Readers(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The readers of whom a store has documents, and perhaps some of whom it had."""

    readers: tuple[Reader, ...]


SHARES_KEY = b"shares"


class Share(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """How many pages the last crawl judged for a reader, and how many of them repeated another."""

    reader: Reader
    crawl: str
    judged: int = 0
    repeated: int = 0


class Shares(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Those of all readers."""

    shares: tuple[Share, ...]


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
