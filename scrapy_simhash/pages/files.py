"""Files that are no HTML pages, such as PDF: known by a digest of their bytes, and nothing else."""

from __future__ import annotations

import hashlib

from scrapy_simhash.pages.fingerprint import PageFingerprint
from scrapy_simhash.pages.recipe import FILE, FILE_DIGEST_BYTES


def fingerprint_file(body: bytes, seed: int = 0) -> PageFingerprint:
    """Make what the index knows of a file: two of them are one if their bytes are equal.

    Args:
        body: of the response, decompressed; of any length, a gigabyte takes a second or two.
        seed: a store's secret, 0 to 2**64 - 1; 0 outside of stores.
    """
    # A cryptographic hash with a key: nothing but this decides, so nobody must be able to make two
    # files that agree, and half of it is a place in the tables, which nobody must be able to fill.
    digest = hashlib.blake2b(
        body, digest_size=FILE_DIGEST_BYTES, key=seed.to_bytes(8, "big")
    ).digest()
    return PageFingerprint(
        fingerprint=int.from_bytes(digest[:8], "big"),
        whole_fingerprint=0,
        stub=digest,
        text_digest=digest,
        sketch=b"",
        link_sketch=b"",
        features=0,
        whole_features=0,
        words=0,
        whole_words=0,
        title="",
        heading="",
        language="",
        canonical="",
        links=0,
        extractor=FILE,
        fell_back=False,
        text="",
        extract_ms=0.0,
        fingerprint_ms=0.0,
    )
