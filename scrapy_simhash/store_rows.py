"""How every store writes the numbers and identities of documents as octets."""

from __future__ import annotations

import xxhash

from scrapy_simhash.stores import StoreError


def octets(number: int) -> bytes:
    """Write a document number or fingerprint as a key."""
    return number.to_bytes(8, "big")


def number_of(key: bytes) -> int:
    """Read a document number or fingerprint from a key."""
    return int.from_bytes(key, "big")


def pack_identity(identity: bytes, number: int) -> bytes:
    """Write to which document an identity leads."""
    key = octets(number)
    return key + xxhash.xxh3_64_digest(identity + key)[:4]


def unpack_identity(identity: bytes, value: bytes) -> int:
    """Read to which document an identity leads.

    Raises:
        StoreError: the row is damaged.
    """
    number = number_of(value[:8])
    if value != pack_identity(identity, number):
        raise StoreError(
            f"damaged identity {identity.hex()}: checksum differs; mend it with `scrapy simhash "
            "rebuild`"
        )
    return number


def scope_hash(scope: str) -> bytes:
    """Make the first 8 bytes of a row of `fingerprints`."""
    return xxhash.xxh3_64_digest(scope.encode())
