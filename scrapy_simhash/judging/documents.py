"""Documents as a store takes and keeps them, what it says of them, and its records.

Records, and rows of lost pages beside them, are packed so::

    octets 0-7   XXH3-64 of key and body, which reveals a flipped bit or a swapped row
    octets 8-    MessagePack array, fields in the order of the class
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from scrapy_simhash.pages.addresses import plain_form
from scrapy_simhash.pages.links import NO_LINKS, PageLinks
from scrapy_simhash.pages.recipe import FILE_DIGEST_BYTES
from scrapy_simhash.pages.sketch import SKETCH_BYTES
from scrapy_simhash.pages.wording import Wording  # noqa: TC001 - msgspec reads it
from scrapy_simhash.tables.permutation import check_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_simhash.judging.rule import Evidence, Rule
    from scrapy_simhash.pages.fingerprint import PageFingerprint

Status: TypeAlias = Literal["new", "near_duplicate", "revisit", "not_judged"]
Kept: TypeAlias = Literal["", "other_callback", "other_spider"]
MOST_IDENTITY_BYTES = 64


class Reader(NamedTuple):
    """Who gets a page: a callback of a spider.

    Attributes:
        spider: its name.
        callback: name of its method, see `crawl.policy.find_reader`.
    """

    spider: str = ""
    callback: str = ""


# Of pages that were imported: they stand for whatever a callback would get.
EVERYONE = Reader(callback="*")
# Of callbacks that have no name, and of pages judged outside of crawls: compared with all, and
# what one got stands for nothing that a callback of a name would get.
NOBODY = Reader()


def stands_for(reader: Reader, other: Reader, *, across_spiders: bool = False) -> bool:
    """Whether a page that one reader got need not be handed to another one.

    Args:
        reader: who got it.
        other: who would get a copy of it.
        across_spiders: callbacks of one name are one reader, whatever their spiders.
    """
    if NOBODY in (reader, other):
        return other == NOBODY
    same = reader.spider == other.spider or across_spiders
    return reader == EVERYONE or (same and reader.callback == other.callback)


class PageFacts(msgspec.Struct, frozen=True):
    """What is known of a page, whoever keeps it: `Document`, `Record`, `StoredDocument`, Spark.

    Attributes:
        identity: who the page is, 1 to 64 bytes: in a crawl, Scrapy's fingerprint of the final
            request. The same identity is never its own near-duplicate.
        fingerprint: simhash of its text, 0 to 2**64 - 1, see `make_document`.
        text_digest: of its text, at most 64 bytes; another one means "changed".
        url: for people.
        scope: only documents of one scope are compared; "" is the global one.
        title, heading: what names it, for the confirmation.
        canonical, views: addresses that it declares; the others one a line, see `fingerprint`.
        language, features: for people, and for `explain`.
        words, whole_words: of main and whole text, for the confirmation.
        data_fingerprint: simhash of what a browser may draw it from, 8 bytes; b"" for none.
        sketch: of main and whole text, 1,024 bytes, see `sketch`; b"" for none.
        link_sketch: sample of its links, see `links`.
        stub: it has too little text for a simhash; only a stub with the same `text_digest` and
            fingerprint is a near-duplicate of it.
        time: seconds since 1970, UTC.
        reader: who gets it, or was the last to get it.
        suspicion: whether somebody may have made it up to be in its host's sample: 0 for no, 1 if
            a link of another site led to it first, 2 if it repeats its query.
    """

    identity: bytes
    fingerprint: int
    text_digest: bytes
    url: str = ""
    scope: str = ""
    title: str = ""
    heading: str = ""
    canonical: str = ""
    views: str = ""
    language: str = ""
    features: int = 0
    words: int = 0
    whole_words: int = 0
    data_fingerprint: bytes = b""
    sketch: bytes = b""
    link_sketch: bytes = b""
    stub: bool = False
    time: float = 0.0
    reader: Reader = NOBODY
    suspicion: int = 0

    @property
    def declared(self) -> set[str]:
        """The addresses that it declares, in their plain form."""
        return {
            plain_form(address) for address in (self.canonical, *self.views.split("\n")) if address
        }

    @property
    def file(self) -> bool:
        """Whether this is no HTML page but a file, such as a PDF, known by a digest of its bytes.

        It is a stub, too, and only a file with the same digest is a near-duplicate of it.
        """
        return self.stub and len(self.text_digest) == FILE_DIGEST_BYTES


# The facts of a document in a row of Parquet; the project that imports it determines the others.
FACT_COLUMNS: dict[str, Any] = {
    field.name: field.type
    for field in msgspec.structs.fields(PageFacts)
    if field.name not in {"identity", "fingerprint", "scope", "reader"}
} | {"fingerprints": tuple[int, ...], "wording": bytes}


FACTS = PageFacts.__struct_fields__
_get_facts = attrgetter(*FACTS)


def facts_of(page: PageFacts) -> dict[str, Any]:
    """Get the facts of a page by their names, to make another kind of document of them."""
    return dict(zip(FACTS, _get_facts(page), strict=True))


class Document(PageFacts, frozen=True):
    """A page as a store takes it.

    Attributes:
        crawl: id of the crawl that fetched it, or "" outside of crawls.
        aliases: identities of the requests that were redirected here.
        wording: what a reader sees of it, see `pages.wording.pack`; b"" of a file.
        not_before: seconds since 1970, UTC; what was last fetched before then makes it no
            near-duplicate.
        requested: the address that was asked for, where redirects led from it to `url`; else "".
        links: where the page's links lead; not kept.
        across_spiders: it is a near-duplicate of what a callback of that name of any spider got.

    The other attributes are those of `PageFacts`; a `ValueError` says what is wrong with them.
    """

    crawl: str = ""
    aliases: tuple[bytes, ...] = ()
    wording: bytes = b""
    not_before: float = 0.0
    requested: str = ""
    links: PageLinks = NO_LINKS
    across_spiders: bool = False

    def __post_init__(self) -> None:
        # LMDB would refuse or cut it in the middle of a transaction.
        for identity in (self.identity, *self.aliases):
            if not 1 <= len(identity) <= MOST_IDENTITY_BYTES:
                raise ValueError(
                    f"an identity has 1 to {MOST_IDENTITY_BYTES} bytes, got {identity!r} "
                    f"for {self.url!r}"
                )
        check_fingerprint(self.fingerprint)
        if len(self.sketch) not in {0, SKETCH_BYTES}:
            raise ValueError(
                f"a sketch has {SKETCH_BYTES} bytes or none, got {len(self.sketch)} "
                f"for {self.url!r}"
            )


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
        kept: why the new document is kept all the same: "" if it is not, else `other_callback` or
            `other_spider`, who got this one.
        own_words: the first words that only the new document has, beside the other one.
        match_own_words: those that only the other one has.
        better_url: the new document has the canonical address of both, the other one has not.
        evidence: all that decided, see `judging.rule`.
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
    kept: Kept = ""
    # Neither is kept in the store.
    own_words: tuple[str, ...] = ()
    match_own_words: tuple[str, ...] = ()
    better_url: bool = False
    evidence: Evidence | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a store says of a document.

    Attributes:
        status: `new`, `near_duplicate` (of `match`), `revisit` (seen before itself), `not_judged`.
        reason: of a revisit, `unchanged`, `changed`, or `undelivered`: its text is the same, but
            its reader did not get that; of a near-duplicate that is kept, see `Match.kept`; of a
            document not judged, `bucket_too_full`: in plain simhash, kept as a new one, but more
            documents are near than are looked at, or too many share a prefix of its fingerprint;
            else "".
        document: its number in the store; 0 where nothing was recorded.
        match: of which document it is a near-duplicate; None otherwise.
        nearest: of a document that is kept, the one most like it within the distance, or of its
            name and .6 alike, whose `tests` say what parts them; None where there is none.
    """

    status: Status
    reason: str
    document: int
    match: Match | None = None
    nearest: Match | None = None


class Version(NamedTuple):
    """A document with one of its texts, on its way to a reader; it may be fetched meanwhile."""

    document: int
    text_digest: bytes
    reader: Reader
    without_items: bool = False  # it is done, and its callback or the pipelines left none


# A document as a crawl marks it; a plain number stands for the text and the reader of now.
Marked: TypeAlias = int | Version


class StoredDocument(PageFacts, frozen=True, kw_only=True):
    """What a store keeps of a document, for people and `explain`.

    Attributes:
        document: its number in the store.
        state: `pending` (its items did not come through yet), `done`, or `duplicate`.
        crawl: id of the crawl that fetched it.
        readers: who got its text.
        original: number of the document it is a near-duplicate of, or 0; it may have been kept.
        distance: bits between the two, or -1.
        similarity: of their sketches, or None.
        tests: what decided.
        wording: what a reader sees of it; None of a file, where it is damaged, or was not read.
        spared: it passes when it is fetched again, whatever it is like: its drop was taken back.
        new_links: share of its links that its original lacked, 0 to 1, or None.
        without_items: when it was done, its callback or the pipelines had left no item.

    The other attributes are those of `PageFacts`.
    """

    document: int
    state: str
    crawl: str
    readers: tuple[Reader, ...] = ()
    original: int
    distance: int
    similarity: float | None
    tests: tuple[str, ...]
    wording: Wording | None = None
    spared: bool = False
    new_links: float | None = None
    without_items: bool = False


def make_document(
    page: PageFingerprint,
    rule: Rule,
    identity: bytes = b"-",
    *,
    foreign: bool = False,
    **fetched: Any,
) -> Document:
    """Make the document of a page; `fetched` are its attributes that tell where and when it was.

    `foreign` is whether a link of another site led to it.

    Its fingerprint is that of the whole text; in plain simhash that of the main text, which alone
    decides there. A page without enough features is a stub: its "fingerprint" is half of a digest
    of all it may differ in, which equal pages share and others do not come near to (section 4.2 of
    the paper: short pages all look alike). A file goes the same way.

    Raises:
        ValueError: the page is a stub by this rule, and was read without a stub's digest.
    """
    fingerprints = list_fingerprints(page, rule)
    if not fingerprints and not page.stub:
        raise ValueError(
            f"a page of {page.features} features was read for a smaller `min_features` than the "
            f"rule's, {rule.min_features}; read it again with this one"
        )
    return Document(
        identity=identity,
        fingerprint=fingerprints[-1] if fingerprints else int.from_bytes(page.stub[:8], "big"),
        text_digest=page.text_digest if fingerprints else page.stub,
        title=page.title,
        heading=page.heading,
        canonical=page.canonical,
        views=page.views,
        data_fingerprint=page.data_fingerprint,
        language=page.language,
        features=page.features,
        words=page.words,
        whole_words=page.whole_words,
        sketch=page.sketch,
        link_sketch=page.link_sketch,
        stub=not fingerprints,
        wording=page.wording,
        links=page.targets,
        suspicion=2 if page.repeats_query else int(foreign),
        **fetched,
    )


def list_fingerprints(page: PageFingerprint, rule: Rule) -> tuple[int, ...]:
    """List the simhashes of a page's texts with enough features; in plain simhash, of the main one.

    A stub has none.
    """
    fingerprints = []
    if page.features >= rule.min_features:
        fingerprints.append(page.fingerprint)
    if rule.confirm is not None and page.whole_features >= rule.min_features:
        fingerprints.append(page.whole_fingerprint)
    return tuple(dict.fromkeys(fingerprints))


class State(IntEnum):
    """The state of a document."""

    PENDING = 0
    """Its items did not come through yet; counts only while its crawl's lease is alive."""
    DONE = 1
    DUPLICATE = 2
    """A near-duplicate of another document; not in the tables."""


class Record(PageFacts, frozen=False, array_like=True, kw_only=True):  # type: ignore[misc]
    """A document; on disk the facts come first, then these fields in their order."""

    # State and crawl are those of the fetch for `reader`; `earlier_readers` got the same text
    # before. `delivered`: it was done at least once, whatever its state is now. `spared`: judged
    # again it is no near-duplicate of anything, because somebody took its drop back. `original`, of
    # a document that is no duplicate: it was kept for a reader that did not get the original, and
    # `kept_for` names who finds it by its keys (`keys.name_reader`). `without_items`: when it was
    # done last, no item of it had come through.

    state: State
    delivered: bool
    crawl: str
    first_time: float
    original: int = 0
    distance: int = -1
    similarity: float | None = None
    tests: tuple[str, ...] = ()
    spared: bool = False
    new_links: float | None = None
    earlier_readers: tuple[Reader, ...] = ()
    without_items: bool = False
    kept_for: str = ""

    @property
    def readers(self) -> tuple[Reader, ...]:
        """Who got its text."""
        done = self.state == State.DONE
        return (*self.earlier_readers, self.reader) if done else self.earlier_readers


def counts(
    record: Record,
    alive: Callable[[str], bool],
    reader: Reader = NOBODY,
    *,
    across_spiders: bool = False,
) -> bool:
    """Whether a record makes a page for a reader a near-duplicate; `alive` tells it of a crawl."""
    if was_delivered(record, reader, across_spiders=across_spiders):
        return True
    if record.state != State.PENDING or not alive(record.crawl):
        return False
    return stands_for(record.reader, reader, across_spiders=across_spiders)


def was_delivered(record: Record, reader: Reader, *, across_spiders: bool = False) -> bool:
    """Whether the items of a record came through, for a page that goes to a reader."""
    if record.state == State.DUPLICATE:
        return False
    return any(stands_for(each, reader, across_spiders=across_spiders) for each in record.readers)


def note_match(record: Record, match: Match) -> None:
    """Note in a record what it is a near-duplicate of; unless it is kept, it is one from now on."""
    if not match.kept:
        record.state, record.delivered = State.DUPLICATE, False
    record.original, record.distance = match.document, match.distance
    record.similarity, record.tests = match.similarity, match.tests
    record.new_links = match.new_links
