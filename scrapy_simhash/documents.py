"""From a page's fingerprint to the document that a store takes: which fingerprints speak for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_simhash.stored import Document

if TYPE_CHECKING:
    from scrapy_simhash.config import Config
    from scrapy_simhash.fingerprint import PageFingerprint


def make_document(page: PageFingerprint, config: Config, identity: bytes = b"-") -> Document:
    """Make the document of a page; where and when it was fetched is for the caller to add.

    With confirmation, main text and whole text both propose candidates, each when it has enough
    features. In plain simhash only the main text does, as in the paper. A page without enough is
    a stub: its "fingerprint" is half of a digest of all it may differ in, which equal pages
    share and others do not come near to (section 4.2 of the paper: short pages all look alike).

    Args:
        page: its fingerprints and texts.
        config: the settings in force.
        identity: see `Document`.
    """
    fingerprints = choose_fingerprints(page, config)
    return Document(
        identity=identity,
        fingerprints=fingerprints or (int.from_bytes(page.stub[:8], "big"),),
        text_digest=page.text_digest if fingerprints else page.stub,
        title=page.title,
        heading=page.heading,
        canonical=page.canonical,
        language=page.language,
        features=page.features,
        words=page.words,
        whole_words=page.whole_words,
        sketch=page.sketch,
        link_sketch=page.link_sketch,
        stub=not fingerprints,
        text=page.text if config.keep_text else None,
    )


def choose_fingerprints(page: PageFingerprint, config: Config) -> tuple[int, ...]:
    """List the simhashes that a page is found by; none for a stub."""
    fingerprints = []
    if page.features >= config.min_features:
        fingerprints.append(page.fingerprint)
    if config.confirm is not None and page.whole_features >= config.min_features:
        fingerprints.append(page.whole_fingerprint)
    return tuple(dict.fromkeys(fingerprints))
