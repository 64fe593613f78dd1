"""Keys and members of the rows that lead to documents; `judging.rows` packs all other values."""

from __future__ import annotations

from functools import lru_cache, partial
from struct import Struct
from typing import TYPE_CHECKING

import xxhash

from scrapy_simhash.errors import StoreError
from scrapy_simhash.judging.documents import State
from scrapy_simhash.judging.names import list_parts
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.stores.keyvalues import NAMES, SITES

if TYPE_CHECKING:
    from scrapy_simhash.judging.documents import PageFacts, Record

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


def name_keys(page: PageFacts, seed: int) -> dict[bytes, str]:
    """Make the keys of the parts of a page's names, on its host and in its scope; none of most.

    Without a host or a sketch a page is not found by its names, and no file is.
    """
    host = host_of(page.url) if page.sketch and not page.file else ""
    if not host:
        return {}
    place = xxhash.xxh3_64(f"{host}\0{page.scope}".encode(errors="surrogatepass"), seed).digest()
    return {
        xxhash.xxh3_64_digest(place + "\0".join(sorted(key)).encode(errors="surrogatepass")): text
        for key, text in list_parts(page.title, page.heading).items()
    }


def rows_of_site(number: int, record: Record, seed: int) -> list[tuple[str, bytes, bytes]]:
    """List table, key and member of the rows by which a document's site is known.

    Near-duplicates, kept or not, and stubs tell nothing of a site, and without a sketch nothing can
    be asked. The seed of a store is secret, so nobody can choose which pages are in a sample. Its
    member has a digest of the identity, the number, and a digest of what the document tells of its
    site.
    """
    host = host_of(record.url)
    if record.state == State.DUPLICATE or not record.sketch or not host:
        return []
    rows = [(NAMES, key, octets(number)) for key in name_keys(record, seed)]
    if not (record.stub or record.original):
        member = xxhash.xxh3_64_digest(record.identity, seed) + octets(number)
        # In place of the sketch: without these, it changes by a few bins only.
        told = ascii((record.title, record.heading, record.text_digest, record.fingerprints))
        member += xxhash.xxh32_digest(told.encode())
        rows.append((SITES, site_key(host, seed), member))
    return rows


@lru_cache(maxsize=1_024)
def scope_hash(scope: str) -> bytes:
    """Hash a scope to the 8 bytes that begin a row of a fingerprint."""
    return xxhash.xxh3_64_digest(scope.encode())
