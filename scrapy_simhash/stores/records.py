"""Keys and members of the rows that lead to documents; `judging.rows` packs all other values."""

from __future__ import annotations

from functools import lru_cache, partial
from struct import Struct
from typing import TYPE_CHECKING

import xxhash

from scrapy_simhash.errors import StoreError
from scrapy_simhash.judging.documents import State
from scrapy_simhash.pages.addresses import host_of

if TYPE_CHECKING:
    from scrapy_simhash.judging.documents import Record

# Makes keys from document numbers and fingerprints; not a Python function: a page needs a dozen.
octets = Struct(">Q").pack
number_of = partial(int.from_bytes, byteorder="big")


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
def site_key(host: str, seed: int) -> bytes:
    """Make the key of the sample of a host; `seed` is the store's."""
    return xxhash.xxh3_64_digest(host.encode(errors="surrogatepass"), seed)


def site_row(number: int, record: Record, seed: int) -> tuple[bytes, bytes] | None:
    """Make key and member of a document in the sample of its host; None where it is in none.

    Near-duplicates, kept or not, and stubs tell nothing of a site, and without a sketch nothing can
    be asked. The seed of a store is secret, so nobody can choose which pages are in a sample. The
    member has a digest of the identity, the number, and a digest of what the document tells of its
    site.
    """
    if record.state == State.DUPLICATE or record.original or record.stub or not record.sketch:
        return None
    host = host_of(record.url)
    if not host:
        return None
    member = xxhash.xxh3_64_digest(record.identity, seed) + octets(number)
    # In place of the sketch: without these, it changes by a few bins only.
    told = ascii((record.title, record.heading, record.text_digest, record.fingerprints))
    return site_key(host, seed), member + xxhash.xxh32_digest(told.encode())


@lru_cache(maxsize=1_024)
def scope_hash(scope: str) -> bytes:
    """Hash a scope to the 8 bytes that begin a row of a fingerprint."""
    return xxhash.xxh3_64_digest(scope.encode())
