"""What goes into a store and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

Status: TypeAlias = Literal["new", "near_duplicate", "revisit", "unjudged"]
MOST_FINGERPRINTS = 8
MOST_IDENTITY_BYTES = 64


@dataclass(frozen=True, slots=True)
class Document:
    """A page as a store takes it.

    Attributes:
        identity: who the page is, 1 to 64 bytes: in a crawl, Scrapy's fingerprint of the final
            request. The same identity is never its own near-duplicate.
        fingerprints: 1 to 8 simhashes, each 0 to 2**64 - 1.
        text_digest: of its text, at most 64 bytes; equal digests mean "unchanged".
        url: for people.
        crawl: id of the crawl that fetched it, or "" outside of crawls.
        scope: only documents of one scope are compared; "" is the global one.
        aliases: identities of the requests that were redirected here.
        title, heading, canonical: what names it, for the confirmation.
        language, features: for people, and for `explain`.
        words, whole_words: of main and whole text, for the confirmation.
        sketch: of main and whole text, 512 bytes (`sketch.sketch_text` of each); b"" for none.
        link_sketch: sample of its links, see `links`.
        stub: it has too little text for a simhash; only a stub with the same `text_digest` and
            fingerprint is a near-duplicate of it.
        text: its main text, kept compressed; None to keep none.
        time: seconds since 1970, UTC.
        not_before: the same; what was last fetched before then makes it no near-duplicate.
    """

    identity: bytes
    fingerprints: tuple[int, ...]
    text_digest: bytes
    url: str = ""
    crawl: str = ""
    scope: str = ""
    aliases: tuple[bytes, ...] = ()
    title: str = ""
    heading: str = ""
    canonical: str = ""
    language: str = ""
    features: int = 0
    words: int = 0
    whole_words: int = 0
    sketch: bytes = b""
    link_sketch: bytes = b""
    stub: bool = False
    text: str | None = None
    time: float = 0.0
    not_before: float = 0.0


class Probe(NamedTuple):
    """What a probe of the tables found.

    Attributes:
        near: (distance, fingerprint) of each, nearest first.
        complete_bits: within so many bits nothing was missed; -1 when every table was passed over.
    """

    near: list[tuple[int, int]]
    complete_bits: int


@dataclass(frozen=True, slots=True)
class Match:
    """A stored document within the distance asked for.

    Attributes:
        document: its number in the store; 0 for a fingerprint that was bulk-loaded without one.
        fingerprint: the one that matched.
        distance: bits between it and the query.
        url: of the document; None for a bulk-loaded fingerprint.
        similarity: of the sketches, 0 to 1; None where none was compared.
        tests: what decided, one line each, for people.
        new_links: share of the new document's links that were not on this one, 0 to 1; None
            where there are none, or none that the samples can tell of.
        pending: nobody has its items yet; its crawl is at work on them.
    """

    document: int
    fingerprint: int
    distance: int
    url: str | None
    similarity: float | None = None
    tests: tuple[str, ...] = ()
    new_links: float | None = None
    # Of the moment, not of the match.
    pending: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a store says of a document.

    Attributes:
        status: `new`, `near_duplicate` (of `match`), `revisit` (seen before itself), or `unjudged`:
            kept as a new one, but not everything near could be looked at.
        reason: of a revisit, `unchanged` or `changed`; of an unjudged document, `bucket_too_full`:
            it had more candidates than are compared, of which the nearest were no match, or too
            many documents share its keys; otherwise "".
        document: its number in the store; 0 where a read-only store noted nothing.
        match: of which document it is a near-duplicate; None otherwise.
    """

    status: Status
    reason: str
    document: int
    match: Match | None = None


@dataclass(frozen=True, slots=True)
class LostPage:
    """A page that was dropped for one whose items never came through.

    Attributes:
        document: its number in the store.
        url: of the page.
        request: what its crawl kept to fetch it again, or b"".
    """

    document: int
    url: str
    request: bytes


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """What a store keeps of a document, for people and `explain`.

    Attributes:
        state: `pending` (its items did not come through yet), `done`, or `duplicate`.
        original: number of the document it is a near-duplicate of, or 0.
        distance: bits between the two, or -1.
        similarity: of their sketches, or None.
        tests: what decided.
        text: its main text where texts are kept, else None.
        spared: it passes when it is fetched again, whatever it is like: its drop was taken back.

    The other attributes are those of `Document`.
    """

    document: int
    url: str
    state: str
    fingerprints: tuple[int, ...]
    title: str
    heading: str
    canonical: str
    language: str
    scope: str
    crawl: str
    features: int
    words: int
    whole_words: int
    sketch: bytes
    stub: bool
    time: float
    original: int
    distance: int
    similarity: float | None
    tests: tuple[str, ...]
    text: str | None
    text_digest: bytes = b""
    spared: bool = False
