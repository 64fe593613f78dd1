"""Documents as a store takes and keeps them, and what is decided on them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import structs

from scrapy_simhash.pages.facts import Facts, Fetched, unpack

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scrapy_simhash.judging.noise import Measured
    from scrapy_simhash.judging.rule import Site
    from scrapy_simhash.judging.slots import Change
    from scrapy_simhash.judging.words import Page, Side
    from scrapy_simhash.pages.facts import PageFingerprint, Wording

Standing: TypeAlias = Literal["got", "young", "earlier"]
# The last second of the year 9999: Python and browsers know no later times.
LAST_SECOND = 253_402_300_799
_Bits = Annotated[int, msgspec.Meta(ge=0, le=64)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
JUDGED = {"new", "near_duplicate", "revisit"}  # statuses of pages that were compared
STAYS = "not taken for what changes by itself: "  # and why, in tests of a kept page
ASKS_NO_MORE = "SIMHASH_REFETCH asks for no more: "  # and why, behind that
# A document that more crawls got than these is not known to be of the oldest.
_CRAWLS_KEPT = 4

# Of a page of which only the text matters.
_UNKNOWN = Fetched("", identity=b"-")


# The paper's k for 64-bit fingerprints (section 2), which decides in plain simhash; and within
# which candidates are found whose words are compared.
PLAIN_DISTANCE_BITS = 3
WORDS_DISTANCE_BITS = 7
# With fewer distinct words, simhash has too little to go on; shorter pages are compared exactly
# (docs/design.md).
MIN_FEATURES = 32


# SIMHASH_RULE, which a store has, too; of each the default of SIMHASH_DISTANCE.
RuleName = Literal["words", "plain"]
DEFAULT_DISTANCE_BITS: dict[str, int] = {"words": WORDS_DISTANCE_BITS, "plain": PLAIN_DISTANCE_BITS}


@dataclass(frozen=True)
class Rule:
    """The settings that decide.

    Attributes:
        distance: SIMHASH_DISTANCE, 0 to 15 bits.
        name: SIMHASH_RULE: with `plain` the distance alone decides, as in the paper; else
            `judging.rule.judge` does.
    """

    distance: int
    name: str = "words"

    @cached_property
    def by_words(self) -> bool:
        """Whether the words of two pages decide."""
        return self.name != "plain"


class Deciding(StrEnum):
    """What decides about two documents, in words for people."""

    SCOPE = "in different scopes: never compared"
    DIGEST = "too little text for a simhash: compared exactly"
    DISTANCE = "plain simhash"
    NO_WORDS = f"no words of one of them: within {PLAIN_DISTANCE_BITS} bits the distance decides"
    WORDS = "words and names"


class State(IntEnum):
    """The state of a document."""

    DONE = 1
    """Its items came through."""
    DUPLICATE = 2
    """A near-duplicate of another document; not in the tables."""


class Document(msgspec.Struct, array_like=True):
    """A page and what became of it: as it is judged, written, and found in a store.

    Attributes:
        facts: what is known of the page.
        state: whether it came through, or is a near-duplicate.
        crawls: ids of the last four crawls that got it, the newest last.
        first_time: when it was fetched first, seconds since 1970, UTC.
        original: number of the document it is a near-duplicate of, or 0.
        distance: bits between the two, or -1.
        similarity: of the two, or None, see `Candidate`.
        tests: what decided.
        spared: judged again it is no near-duplicate of anything, because somebody took its drop
            back.
        new_links: share of its links that no kept page had, 0 to 1, or None.
        number: in the store; 0 while it has none.
        wording: what a reader sees of it, see `pages.facts.pack`; b"" where there is none, it is
            damaged, or it was not read.
        imported: identity under which an import has the same page; b"" if there is none.
    """

    facts: Facts
    state: State = State.DONE
    crawls: tuple[str, ...] = ()
    first_time: float = 0.0
    original: Annotated[int, msgspec.Meta(ge=0)] = 0
    distance: int = -1
    similarity: float | None = None
    tests: tuple[str, ...] = ()
    spared: bool = False
    new_links: float | None = None
    # Not in its row.
    number: int = 0
    wording: bytes = b""
    imported: bytes = b""

    @property
    def row(self) -> tuple[object, ...]:
        """What is written of it in its row; number and text are beside that."""
        return structs.astuple(self)[:-3]

    def unpack(self) -> Wording | None:
        """Return what a reader sees of it, or None where that is not known."""
        return unpack(self.wording) if self.wording else None

    def pick(self, *names: str) -> dict[str, Any]:
        """Return these attributes of it and of its facts by their names, for people."""
        known = structs.asdict(self.facts) | structs.asdict(self)
        known |= {"document": self.number, "state": self.state.name.lower()}
        return {name: known[name] for name in names}


def make_document(
    read: PageFingerprint,
    rule: Rule,
    page: Fetched = _UNKNOWN,
    scope: str = "",
) -> Document:
    """Make the document of a page as it was read and fetched.

    Its fingerprint is that of the whole text; in plain simhash that of the main text, which alone
    decides there. A page without enough features is a stub: its "fingerprint" is half of a digest
    of all it may differ in, which equal pages share and others do not come near to (section 4.2 of
    the paper: short pages all look alike).

    Raises:
        ValueError: the page is a stub by this rule, and was read without a stub's digest.
    """
    known, fingerprints = read.facts, list_fingerprints(read, rule)
    if not fingerprints and not read.stub:
        raise ValueError(
            f"a page of {known.features} features was read for a smaller `min_features` than the "
            f"rule's, {MIN_FEATURES}; read it again with this one"
        )
    facts = structs.replace(
        known,
        identity=page.identity,
        url=page.url,
        time=page.time or 0.0,
        reader=page.reader,
        scope=scope,
        fingerprint=fingerprints[-1] if fingerprints else int.from_bytes(read.stub[:8], "big"),
        text_digest=known.text_digest if fingerprints else read.stub,
        stub=not fingerprints,
        suspicion=max(known.suspicion, int(page.foreign)),
        hidden=b"" if fingerprints else known.hidden,
    )
    return Document(facts, wording=read.wording, imported=page.imported)


def list_fingerprints(page: PageFingerprint, rule: Rule) -> tuple[int, ...]:
    """List the simhashes of a page's texts with enough features; in plain simhash, of the main one.

    A stub has none.
    """
    fingerprints = []
    if page.facts.features >= MIN_FEATURES:
        fingerprints.append(page.facts.fingerprint)
    if rule.by_words and page.whole_features >= MIN_FEATURES:
        fingerprints.append(page.whole_fingerprint)
    return tuple(dict.fromkeys(fingerprints))


def add_crawls(crawls: tuple[str, ...], newest: tuple[str, ...]) -> tuple[str, ...]:
    """Add crawls that got a document to those that did before; the last four are kept."""
    return (*(each for each in crawls if each not in newest), *newest)[-_CRAWLS_KEPT:]


class Published(msgspec.Struct, kw_only=True):
    """The keys of the verdict in meta, signal and exception; docs/meta.md explains them."""

    time: Annotated[float, msgspec.Meta(ge=0, le=LAST_SECOND)] = 0.0
    url: str
    status: str
    reason: str = ""
    action: str = ""
    match_url: str | None = None
    distance: _Bits | None = None
    similarity: _Share | None = None
    tests: list[str] = []
    new_links: float | None = None
    fingerprint: str | None = None
    document: _Count = 0
    match_document: _Count = 0
    better_url: bool = False
    canonical: str = ""


class Decision(Published, kw_only=True):
    """What was decided on a page: by a store; a crawl adds what it knows, and logs it as a line.

    A line that lacks a field has its default.
    """

    crawl: str = ""
    spider: str = ""
    requested_url: str = ""
    body_bytes: _Count | None = None
    scope: str = ""
    own_words: list[str] = []
    match_own_words: list[str] = []
    match_text_digest: str = ""
    nearest_url: str | None = None
    nearest_tests: list[str] = []
    parted_by: str = ""
    site_known: bool = False
    other_number: bool = False
    words: int = 0
    links: _Count = 0
    read_ms: float | None = None
    store_ms: float | None = None

    @property
    def is_judged(self) -> bool:
        """Whether the page was compared with others at all."""
        return self.status in JUDGED

    def make_verdict(self) -> dict[str, Any]:
        """Make the plain dict that users see: what was decided, without the details of the log."""
        return {name: getattr(self, name) for name in VERDICT}


VERDICT = Published.__struct_fields__


class Candidate(msgspec.Struct, order=True):
    """A stored document that may be like the page that is judged, and what came of comparing.

    Candidates sort by the first fields.

    Attributes:
        distance: bits between the two; -1 until the document is read, if it was found otherwise.
        number: of the document in the store; 0 outside of one.
        name: the part of a name that both have, if it was found by one.
        keys: by how many rare triples it was found.
        young: its items are on their way.
        document: as it is there; None until it is read.
        facts: what is known of the page, and of the document.
        duplicate: whether the page repeats it.
        why: what decided, for people.
        similarity: share of the page's words that do not stand alone, 0 to 1; None where they do
            not decide.
        sites: of both; None where no words were compared, as what follows.
        kept: the document with all its words.
        pages: both without noise.
        sides: their words.
        noise: what was left out of them, if the page repeats the document but for that.
        stays: why what parts them is not taken for noise, where that was looked at.
    """

    distance: int
    number: int
    name: str = ""
    keys: int = 0
    young: bool = False
    document: Document | None = None
    facts: tuple[Facts, ...] = ()
    duplicate: bool = False
    why: str = ""
    similarity: float | None = None
    sites: tuple[Site, Site] | None = None
    kept: Page | None = None
    pages: tuple[Page, Page] | None = None
    sides: tuple[Side, Side] | None = None
    noise: Iterable[Change] | None = None
    stays: str = ""


class Reading(Protocol):
    """The documents as one transaction sees them, as far as judging without writing needs them."""

    def find_own(self, page: Document) -> list[Document]:
        """Find a page's own document, and what an import has of it; its own one comes first."""

    def gather(self, page: Document, rule: Rule, own: int = 0) -> tuple[list[Candidate], bool]:
        """Find the candidates of a page in order, and whether these are all.

        Its own document may be among them. Plain simhash may not know all.
        """

    def sample(self, host: str) -> dict[int, bytes]:
        """List up to 16 documents of a host, see `pages.addresses.host_of`; none of most hosts."""
        # No near-duplicates and no stubs, all with sketches, in an order that no site can choose;
        # by number, each with a digest of what it tells of its site.

    def glance(self, numbers: Collection[int]) -> dict[int, Document]:
        """Get those that are there and undamaged, without texts perhaps; one round trip."""

    def get_wordings(self, numbers: Collection[int]) -> dict[int, Wording]:
        """Get those wordings that are there and undamaged; one round trip."""

    def find_noise(self, host: str) -> Measured:
        """Find what earlier crawls saw to change on a host."""
