"""Write and read the rows of a store: MessagePack behind a checksum.

::

    octets 0-7   XXH3-64 of key and body, which reveals a flipped bit or a swapped row
    octets 8-    MessagePack array, fields in the order of the class
"""

from __future__ import annotations

from functools import lru_cache, partial
from struct import Struct
from typing import TypeVar

import msgspec
import xxhash

from scrapy_simhash.errors import DamagedError, StoreError

_CHECKSUM_BYTES = 8
# Makes keys from document numbers and fingerprints; not a Python function: a page needs a dozen.
octets = Struct(">Q").pack
number_of = partial(int.from_bytes, byteorder="big")


class Made(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """What the header of a store has in every format."""

    format: int
    recipe: dict[str, str | int]
    design: str
    seed: int
    created: float
    libraries: dict[str, str]


class Header(Made):
    """The settings of a store; `kind` is that of its engine."""

    kind: str


AnyRecord = TypeVar("AnyRecord", bound=msgspec.Struct)
_encoder = msgspec.msgpack.Encoder()


def pack(key: bytes, record: msgspec.Struct) -> bytes:
    """Pack a record, with a checksum that covers its key, too."""
    body = _encoder.encode(record)
    return _checksum(key, body) + body


def unpack(kind: type[AnyRecord], key: bytes, octets: bytes) -> AnyRecord:
    """Read the record of a key, or raise a DamagedError."""
    body = octets[_CHECKSUM_BYTES:]
    if octets[:_CHECKSUM_BYTES] != _checksum(key, body):
        raise _damaged(kind, key, "checksum differs")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise _damaged(kind, key, error) from error


def _damaged(kind: type[msgspec.Struct], key: bytes, reason: object) -> StoreError:
    """Make the error of a damaged record; of a damaged header there is more than one cure."""
    if issubclass(kind, Made):
        return StoreError(f"damaged header at key {key.hex()}: {reason}")
    return DamagedError(f"damaged {kind.__name__.lower()} at key {key.hex()}: {reason}")


def _checksum(key: bytes, body: bytes) -> bytes:
    return xxhash.xxh3_64_digest(key + body)


def pack_identity(identity: bytes, number: int) -> bytes:
    """Pack the number of the document of an identity, with 4 bytes of a checksum."""
    key = octets(number)
    return key + xxhash.xxh3_64_digest(identity + key)[:4]


def unpack_identity(identity: bytes, value: bytes) -> int:
    """Read to which document an identity leads, or raise a StoreError that names the cure."""
    number = number_of(value[:8])
    if value != pack_identity(identity, number):
        raise StoreError(
            f"damaged identity {identity.hex()}: checksum differs; mend it with `scrapy simhash "
            "check --rebuild`"
        )
    return number


_ADDRESS_KEY_BYTES = 2
_NUMBER_BYTES = 5


def address_row(url: str, number: int) -> tuple[bytes, bytes]:
    """Make key and member of a document in the index of URLs: 24 bits of a digest, its number."""
    # Of other documents, one in 16 million has the same 24 bits: its record tells.
    digest = xxhash.xxh3_64_digest(url.encode(errors="surrogatepass"))
    member = digest[_ADDRESS_KEY_BYTES : 8 - _NUMBER_BYTES] + number.to_bytes(_NUMBER_BYTES, "big")
    return digest[:_ADDRESS_KEY_BYTES], member


def number_in(member: bytes) -> int:
    """Get the number of the document from a row of the index of URLs."""
    return number_of(member[-_NUMBER_BYTES:])


@lru_cache(maxsize=1_024)
def scope_hash(scope: str) -> bytes:
    """Hash a scope to the 8 bytes that begin a row of a fingerprint."""
    return xxhash.xxh3_64_digest(scope.encode())
