"""Documents as a store takes and keeps them, and what it says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import structs

from scrapy_simhash.pages.facts import Facts, Fetched, unpack

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy_simhash.judging.noise import Measured
    from scrapy_simhash.pages.facts import PageFingerprint, Wording

Status: TypeAlias = Literal["new", "near_duplicate", "revisit", "not_judged"]
Standing: TypeAlias = Literal["got", "young", "earlier"]
STAYS = "not taken for what changes by itself: "  # and why, in tests of a kept page
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
        min_features: a text with fewer distinct features has no fingerprint.
    """

    distance: int
    name: str = "words"
    min_features: int = MIN_FEATURES

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
        similarity: of the two, or None, see `Match`.
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


@dataclass(frozen=True, slots=True)
class Match:
    """A stored document beside a page that is compared with it.

    Attributes:
        document: its number in the store; 0 outside of one.
        fingerprint: its own.
        distance: bits between it and that of the page.
        url: of the document.
        similarity: share of its words that do not stand alone, 0 to 1, or None.
        tests: what made it a candidate, what decided, and what was left out, for people.
        duplicate: the page repeats it.
        time: when it was fetched last, seconds since 1970, UTC.
        text_digest: of its text then.
        standing: `got` (its items came through, in this crawl or where earlier ones count),
            `young` (they are on their way), or `earlier` (an earlier crawl got it).
        own_words: the first words that only the page has; not kept, nor is what follows.
        match_own_words: those that only the document has.
        parted_by: of a page that looks like it, the first words that part the two; else "".
        other_number: each main text says a number that neither the other page nor an address has.
        site_known: the site of the page is known, see `judging.rule.Site`.
        better_url: the page has the canonical address of both, the document has not.
    """

    document: int
    fingerprint: int
    distance: int
    url: str
    similarity: float | None = None
    tests: tuple[str, ...] = ()
    duplicate: bool = True
    # Of the moment, not of the match.
    time: float = field(default=0.0, compare=False)
    text_digest: bytes = field(default=b"", compare=False)
    standing: Standing = field(default="got", compare=False)
    own_words: tuple[str, ...] = ()
    match_own_words: tuple[str, ...] = ()
    parted_by: str = ""
    other_number: bool = False
    site_known: bool = False
    better_url: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a store says of a document.

    Attributes:
        status: `new`, `near_duplicate` (of `match`), `revisit` (seen before itself), `not_judged`.
        reason: of a revisit, `unchanged` or `changed`; of a near-duplicate that is kept,
            `first_copy` (this crawl did not get its match, an earlier one did) or `undelivered`
            (the items of its match had not come through); of a document not judged,
            `bucket_too_full`: in plain simhash, kept as a new one, but more documents are near
            than are looked at, or too many share a prefix of its fingerprint; else "".
        document: its number in the store; 0 where nothing was recorded.
        match: of which document it is a near-duplicate; None otherwise.
        nearest: of a document that is kept, the one most like it within the distance, or half
            alike, whose `tests` say what parts them; None where there is none.
    """

    status: Status
    reason: str
    document: int
    match: Match | None = None
    nearest: Match | None = None


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
            f"rule's, {rule.min_features}; read it again with this one"
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
    if page.facts.features >= rule.min_features:
        fingerprints.append(page.facts.fingerprint)
    if rule.by_words and page.whole_features >= rule.min_features:
        fingerprints.append(page.whole_fingerprint)
    return tuple(dict.fromkeys(fingerprints))


def add_crawls(crawls: tuple[str, ...], newest: tuple[str, ...]) -> tuple[str, ...]:
    """Add crawls that got a document to those that did before; the last four are kept."""
    return (*(each for each in crawls if each not in newest), *newest)[-_CRAWLS_KEPT:]


class Candidate(NamedTuple):
    """A stored document that may be like the one that is judged.

    Candidates sort by these fields. The distance of one that was found by its `name` or by so many
    `keys` is -1 until it is read. The items of a `young` one are on their way.
    """

    distance: int
    number: int
    name: str = ""
    keys: int = 0
    young: bool = False
    document: Document | None = None


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
