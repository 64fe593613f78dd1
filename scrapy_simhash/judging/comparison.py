"""The rule: simhash and names propose; the names and the content of two documents decide.

A candidate is a document within k bits, or one of the same host in whose names a part is the same.
It is confirmed when its names do not say that it is another page, and

1. whole texts are alike, or
2. the content agrees: what other documents of the site have does not count, nor as much what
   stands before and behind the common part; the less the names tell, the more must, or
3. main texts are alike, and a good part of the pages.

A site is known from some other documents of its host (`sites`); until then all text is content, but
pages of one template have main texts of their own.
Pages with too little text for a simhash are compared exactly, unless they have a part of a name in
common; in plain simhash the distance alone decides, and without a sketch the distance within the
paper's k. Every test leaves a line that a person can read; `docs/study.md` has the measurements
behind each constant.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from scrapy_simhash.judging.content import Content, agree_but_for_edits, compare_contents
from scrapy_simhash.judging.names import Relations, list_words, relate_names
from scrapy_simhash.judging.rule import (
    CONFIRM,
    PLAIN_DISTANCE_BITS,
    Deciding,
    Evidence,
    Place,
    Relation,
    Rule,
)
from scrapy_simhash.judging.sites import UNKNOWN_SITE, Site
from scrapy_simhash.pages.addresses import NO_PATH, host_of, parse_address
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_simhash.judging.documents import PageFacts

# What must agree of all content, by what the names say; SIMHASH_CONFIRM says what must agree within
# its common part.
LEAST_AGREED = {Relation.SAME: 0.5, Relation.SILENT: 0.5, Relation.MIXED: 0.75, Relation.MORE: 0.9}
# What main texts that are alike must be, at least, of all that both pages have.
LEAST_SHARE_OF_MAIN = 0.3
# Until the site is known, two texts of which more stands on one page only are not one, however much
# of their template agrees: it takes pages that were kept to know it.
MOST_OF_MAIN_ALONE = 0.5
# Until then, of two pages of one host with one main text, one has so little alone, as a share of
# that: a print view, fewer comments. Where both have more, they are two pages of a list.
LITTLE_ALONE = 0.5
# What must agree, at least, of all content of two addresses of one host: with less they may be two
# entries under one heading.
LEAST_OF_TWO_ADDRESSES = 0.85
# What must agree of two files of one folder, which are two entries of a manual more often than two
# copies; within the common part of pages that have another name; and of all that two addresses of
# one host have, where they have no names. Where nothing names them on a known site,
# main texts must be equal, too: else 65 of 259 drops of Free Pascal's manual were wrong, and no
# labelled pair is lost by it.
NEARLY_ALL = 0.95
# Triples that both have: fewer bear no edits; a text of fewer is not enough where names are not the
# same; one of so many outweighs a name that differs where the other name tells nothing.
TRIPLES_FOR_EDITS = 32
TRIPLES_OF_A_TEXT = 100
TRIPLES_OF_A_LONG_TEXT = 1_000
# Until the site is known, its words in a name may be what differs: then so many triples outweigh a
# name, and so much less than SIMHASH_CONFIRM need agree; not if title and heading both differ.
TRIPLES_OF_A_BOOK = 3_000
LESS_OF_A_BOOK = 0.05
# Two texts without names, of no host, have no template: so much less need be alike of them. The
# .78 that is left was chosen on pages with addresses, of sites that nobody knew.
LESS_OF_A_PLAIN_TEXT = 0.12
# Of two neighbours, as the pages of a list or the entries of a register, each says so much, of
# what both have, that the other does not; copies differ in less, such as a time of day. Beside
# equal main texts it is a frame, or reviews: of these there are more, and no other page has them.
LEAST_OF_ITS_OWN = 0.02
LEAST_BESIDE_ONE_MAIN = 0.1
# Data of copies differ in the time, a session's number and the like: of 94 labelled copies with one
# text, little of it, and data, 91 are within it. Of two products, some 30 bits differ.
MOST_BITS_OF_ONE_DATA = 10
# Texts that have less in common speak against a rule.
LEAST_ALIKE = 0.6


# In `tests` of pages that only a browser could tell apart.
SHELLS = "shells: one text and little of it, much script, another title or address of its own"
UNKNOWN_SITES = (UNKNOWN_SITE, UNKNOWN_SITE)


class Context(NamedTuple):
    """What other documents tell of two.

    Attributes:
        sites: of either; both are known, or none.
        name: the part of a name by which the one was found for the other; "" if by none.
    """

    sites: tuple[Site, Site] = UNKNOWN_SITES
    name: str = ""

    @property
    def known(self) -> bool:
        """Whether the sites are known."""
        return self.sites[0].known


NO_CONTEXT = Context()


class Answer(NamedTuple):
    """What came of comparing two documents.

    Attributes:
        deciding: what decides about them.
        distance: bits between their nearest fingerprints.
        near: that is within the rule's distance (of short pages, 0), or it was found by its name.
        confirmed: what decides beside the distance agrees, however far apart they are.
        duplicate: they are near-duplicates: near and confirmed.
        proposal: what made the one a candidate for the other, for people.
        similarity: the larger one of their texts' similarities, 0 to 1; None where texts and names
            do not decide.
        tests: what each test of texts and names said, for people.
        evidence: all that decided.
    """

    deciding: Deciding
    distance: int
    near: bool
    confirmed: bool
    duplicate: bool
    proposal: str
    evidence: Evidence
    similarity: float | None = None
    tests: tuple[str, ...] = ()

    @property
    def why(self) -> tuple[str, ...]:
        """What decided, for people."""
        return self.tests or (self.deciding.value,)


def compare(
    first: PageFacts,
    second: PageFacts,
    rule: Rule,
    *,
    distance: int | None = None,
    context: Context = NO_CONTEXT,
    content: Content | None = None,
) -> Answer:
    """Compare two documents; it makes no difference which one is named first.

    Args:
        first: a document.
        second: another one.
        rule: by which they are compared.
        distance: bits between their nearest fingerprints; None to count them.
        context: what other documents tell of the two.
        content: what their texts have in common in this context, where texts and names decide; None
            to compare their sketches, which takes 200 us, and less where many are compared at once.
    """
    found = "" if rule.confirm is None else context.name  # plain simhash asks for no names
    deciding = find_deciding(first, second, rule, named=bool(found))
    if distance is None:
        distance = hamming_distance(*find_nearest(first.fingerprints, second.fingerprints))
    exactly = deciding in {Deciding.DIGEST, Deciding.FILE}
    short = first.stub or second.stub
    within = 0 if short else rule.distance
    name = "" if distance <= within or exactly else found
    evidence = Evidence(
        deciding=deciding,
        distance=distance,
        within=within,
        named=bool(name),
        equal=first.stub == second.stub and first.text_digest == second.text_digest,
        short=short,
    )
    proposal = name_proposal(distance, stub=short, file=deciding is Deciding.FILE, name=name)
    similarity, called = None, ""
    if deciding is Deciding.TEXTS:
        assert rule.confirm is not None  # noqa: S101 - otherwise texts do not decide
        sites = context.sites
        if content is None:
            (content,) = compare_contents([(first, second)], [sites])
        similarity = round(max(content.main_alike, content.whole), 4)
        names = relate_names(first, second, sites[0].names, sites[1].names)
        evidence = _collect(evidence, (first, second), content, names, rule.confirm, context)
        called = f"titles: {names.title}; headings: {names.heading}"
    said, near, confirmed = decide(evidence)
    tests = (said, called, _describe(content, context.sites)) if content and called else ()
    duplicate = near and confirmed
    return Answer(
        deciding, distance, near, confirmed, duplicate, proposal, evidence, similarity, tests
    )


def decide(evidence: Evidence) -> tuple[str, bool, bool]:
    """Decide by all that is known: why, whether one proposes the other, whether that is confirmed.

    They are near-duplicates if both hold.
    """
    deciding, distance = evidence.deciding, evidence.distance
    near = evidence.named or distance <= evidence.within
    if deciding is not Deciding.TEXTS:
        confirmed = {
            Deciding.SCOPE: False,
            Deciding.KINDS: False,
            Deciding.FILE: evidence.equal,
            Deciding.DIGEST: evidence.equal,
            Deciding.DISTANCE: True,
            Deciding.NO_SKETCH: distance <= PLAIN_DISTANCE_BITS,
        }[deciding]
        return deciding.value, near, confirmed
    said, confirmed = _decide(evidence)
    if evidence.short and evidence.whole == 1:
        # Their digests differ: in a picture, say, as the pages of an album do.
        said, confirmed = "one short text, but pictures or attributes that differ", False
    elif evidence.short and not (
        # A word that differs is much of it; only a site that is known shows another frame.
        evidence.known and evidence.main_alike == 1 and evidence.together is Relation.SAME
    ):
        said, confirmed = "short texts that differ", False
    if evidence.data_bits > MOST_BITS_OF_ONE_DATA and evidence.place is not Place.ADDRESS:
        said, confirmed = (
            "little text and much data, from which a browser may draw two pages",
            False,
        )
    if evidence.whole == 1 and evidence.shells:
        titled = evidence.title in {Relation.SAME, Relation.SILENT}
        if not (confirmed and titled) or evidence.two_shells:
            said, confirmed = SHELLS, False
    return said, near, confirmed


def _collect(
    evidence: Evidence,
    pages: tuple[PageFacts, PageFacts],
    content: Content,
    names: Relations,
    confirm: float,
    context: Context,
) -> Evidence:
    """Add to the evidence what decides where texts and names do."""
    return msgspec.structs.replace(
        evidence,
        confirm=confirm,
        known=context.known,
        title=names.title,
        heading=names.heading,
        together=names.together,
        place=_relate_addresses(pages[0].url, pages[1].url),
        data_bits=_count_data_bits(*(page.data_fingerprint for page in pages)),
        shells=bool(pages[0].shell and pages[1].shell),
        two_shells=_declare_two(*pages),
        whole=content.whole,
        main_alike=content.main_alike,
        main_alone=content.main_alone,
        main_both=content.main_both,
        share_of_main=content.share_of_main,
        alone=min(content.first, content.second),
        shared=content.shared,
        own=content.mine + content.theirs,
        neighbours=_are_neighbours(pages[0].url, pages[1].url),
        renamed=all(
            mine and theirs and list_words(mine) != list_words(theirs)
            for mine, theirs in zip(*((page.title, page.heading) for page in pages), strict=True)
        ),
        both_own=content.both_own if evidence.equal else min(content.mine, content.theirs),
        common=content.within,
        agreed=content.agreed,
        agreed_within=content.agreed_within,
        triples=content.triples,
    )


def compare_many(
    page: PageFacts,
    others: Sequence[PageFacts],
    rule: Rule,
    distances: Sequence[int],
    sites: Sequence[tuple[Site, Site]],
    names: Sequence[str],
) -> list[Answer]:
    """Compare a page with others, by distances in bits, sites, and the names that found them."""
    contexts = [make_context(*two, name) for two, name in zip(sites, names, strict=True)]
    sketched = [
        place
        for place, (other, name) in enumerate(zip(others, names, strict=True))
        if find_deciding(page, other, rule, named=bool(name)) is Deciding.TEXTS
    ]
    found = compare_contents(
        [(page, others[place]) for place in sketched], [contexts[place].sites for place in sketched]
    )
    contents = dict(zip(sketched, found, strict=True))
    return [
        compare(page, other, rule, distance=bits, context=context, content=contents.get(place))
        for place, (other, bits, context) in enumerate(
            zip(others, distances, contexts, strict=True)
        )
    ]


def make_context(first: Site, second: Site, name: str = "") -> Context:
    """Make the context of two pages; where one of their sites is not known, none is."""
    known = first.known and second.known
    return Context((first, second) if known else UNKNOWN_SITES, name)


def _decide(evidence: Evidence) -> tuple[str, bool]:
    """Whether content and names make two pages one document, and why, for people."""
    together, place = evidence.together, evidence.place
    known, confirm = evidence.known, evidence.confirm
    names = {evidence.title, evidence.heading}
    if not known and evidence.main_alone > MOST_OF_MAIN_ALONE:
        return "main texts differ", False
    if place is not Place.FOLDER and _outweighs_names(evidence):
        return "so long a content agrees whatever its names", True
    if two_pages := _tell_apart(evidence):
        return two_pages, False
    same, silent = together is Relation.SAME, together is Relation.SILENT
    long = evidence.triples >= TRIPLES_OF_A_TEXT
    whole, within = evidence.whole >= confirm, evidence.agreed_within >= confirm
    if place is Place.FOLDER:
        named = names <= {Relation.SAME, Relation.SILENT}
        # Beside one main text there may be another menu.
        least = LEAST_AGREED[Relation.MORE] if evidence.equal else max(NEARLY_ALL, confirm)
        alike = named and (whole or evidence.equal) and evidence.agreed >= least
        return f"files of one folder, whose texts are {'' if alike else 'not '}one", alike
    some = evidence.triples >= TRIPLES_FOR_EDITS
    least, less = LEAST_AGREED[together], _overlook(confirm)
    if place is Place.HOST:
        least = max(least, LEAST_OF_TWO_ADDRESSES)
    # At two addresses of one host a page with an edit is another page.
    edits = place is not Place.HOST
    edited = edits and agree_but_for_edits(evidence.shared, evidence.common, less) >= confirm
    within_edits = within or (edited and same and some)
    whole = whole and (within or (edits and (long or (same and some))))
    plain = silent and some and place is Place.NOWHERE
    plain = plain and evidence.whole >= confirm - less * LESS_OF_A_PLAIN_TEXT
    # Not where all that both main texts have is template.
    main = evidence.main_alike >= confirm and evidence.share_of_main >= LEAST_SHARE_OF_MAIN
    main = main and evidence.shared > 0
    # A few triples in common may be a notice.
    enough = same or long or (together is not Relation.MORE and some)
    if not known:  # the title, or what was taken for main texts, may be all pages'
        # Neither names nor other pages tell what of the texts is template.
        least = max(least, LEAST_AGREED[Relation.MORE]) if silent else least
        nearly = evidence.agreed_within >= max(NEARLY_ALL, confirm)
        within_edits = within_edits and (nearly or evidence.heading is not Relation.DIFFER)
        little = evidence.alone <= LITTLE_ALONE * evidence.main_both
        main = main and (little or place is Place.HOSTS)
    equal = evidence.own == 0  # neither has anything of its own
    named = same or (silent and (equal or (some and evidence.agreed >= least)))
    for reason, holds in (
        ("whole texts are alike", whole and named),
        ("content agrees", within_edits and evidence.agreed >= least and enough),
        ("main texts are alike", same and main),
        ("plain texts are alike", plain),
    ):
        if holds:
            return reason, True
    return "content differs", False


def _tell_apart(evidence: Evidence) -> str:
    """Say why names, or what neighbours say alone, make two pages two; "" if nothing does."""
    together, place = evidence.together, evidence.place
    # Of a kind that has no names, such as a manual's lists of members, pages differ in little.
    one_text = evidence.agreed >= NEARLY_ALL and (evidence.equal or not evidence.known)
    if together is Relation.DIFFER:
        return "names differ"
    if together is Relation.SILENT and not one_text and place in {Place.FOLDER, Place.HOST}:
        return "nameless texts of one host differ"
    if evidence.neighbours:
        if evidence.renamed or together is Relation.MORE:
            return "names of neighbours differ"
        least = LEAST_BESIDE_ONE_MAIN if evidence.equal else LEAST_OF_ITS_OWN
        if evidence.both_own > least * evidence.shared:
            return "neighbours, each with content of its own"
    return ""


def _outweighs_names(evidence: Evidence) -> bool:
    """Whether so much agrees that a name which differs does not matter: it may be translated."""
    confirm, names = evidence.confirm, (evidence.title, evidence.heading, evidence.together)
    if evidence.known:
        return (
            Relation.SILENT in names
            and evidence.triples >= TRIPLES_OF_A_LONG_TEXT
            and evidence.agreed >= LEAST_AGREED[Relation.MORE]
            and evidence.agreed_within >= max(NEARLY_ALL, confirm)
        )
    both_differ = evidence.title is evidence.heading is Relation.DIFFER
    long = evidence.triples >= TRIPLES_OF_A_BOOK and not both_differ
    agreed = min(evidence.agreed, evidence.agreed_within)
    return long and agreed >= confirm - LESS_OF_A_BOOK * _overlook(confirm)


def _declare_two(first: PageFacts, second: PageFacts) -> bool:
    """Whether two shells of one host say that they have two addresses; mirrors have always two."""
    declared = {first.shell, second.shell}
    one_host = host_of(first.url) == host_of(second.url)
    return one_host and len(declared) > 1 and NO_PATH not in declared


def _count_data_bits(first: bytes, second: bytes) -> int:
    if not first or not second:
        return 0
    return hamming_distance(int.from_bytes(first, "big"), int.from_bytes(second, "big"))


def _overlook(confirm: float) -> float:
    """Get which share of the usual tolerance is left: a stricter similarity overlooks less."""
    return min(1.0, (1 - confirm) / (1 - CONFIRM))


def _relate_addresses(first: str, second: str) -> Place:
    if _are_siblings(first, second):
        return Place.FOLDER
    host, another = host_of(first), host_of(second)
    if host != another:
        return Place.HOSTS
    if not host:
        return Place.NOWHERE
    # Fetched at two times: but for what only a browser reads.
    one = first.partition("#")[0] == second.partition("#")[0]
    return Place.ADDRESS if one else Place.HOST


def _are_neighbours(first: str, second: str) -> bool:
    """Whether two addresses of a host lie in one folder, or one goes on where the other ends."""
    mine, theirs = parse_address(first), parse_address(second)
    if mine is None or theirs is None or mine.host != theirs.host:
        return False
    short, long = sorted(([part for part in page.path if part] for page in (mine, theirs)), key=len)
    two = (mine.path, mine.query) != (theirs.path, theirs.query)
    return two and (short[:-1] == long[:-1] or (bool(short) and long[: len(short)] == short))


def _are_siblings(first: str, second: str) -> bool:
    """Whether two addresses are those of two files in one folder of a host."""
    mine, theirs = parse_address(first), parse_address(second)
    if mine is None or theirs is None or mine.query or theirs.query:
        return False
    (*folder, file), (*another, other) = mine.path, theirs.path
    one_folder = (mine.host, folder) == (theirs.host, another)
    return one_folder and bool(file) and bool(other) and file != other


def _describe(content: Content, sites: tuple[Site, Site]) -> str:
    """Say what was counted, and which pages show what of it is template."""
    bins = content.both + content.first + content.second
    texts = f"main text {content.main_alike:.2f} alike, whole text {content.whole:.2f}; "
    most, least = sorted((content.mine, content.theirs), reverse=True)
    counted = (
        f"{content.shared:.1f} are on both pages, {most:.1f} only on one, {least:.1f} only on the "
        f"other, of these {content.within:.1f} within the common part"
    )
    if not sites[0].known:
        return f"{texts}site not known: of {bins} text samples {counted}"
    known = ", ".join(map(str, sorted({*sites[0].numbers, *sites[1].numbers})))
    return (
        f"{texts}site known from documents {known}: of {bins} text samples, {content.template} are "
        f"template (on other pages of the host); of the others, weighted by rarity, {counted}"
    )


def find_deciding(
    first: PageFacts, second: PageFacts, rule: Rule, *, named: bool = False
) -> Deciding:
    """Find what decides about two documents; `named`: one was found by its name."""
    if first.scope != second.scope:
        return Deciding.SCOPE
    if first.stub or second.stub:
        files = first.file + second.file
        if files:
            return Deciding.KINDS if files == 1 else Deciding.FILE
        if not named or first.text_digest == second.text_digest:
            return Deciding.DIGEST
    if rule.confirm is None:
        return Deciding.DISTANCE
    return Deciding.TEXTS if first.sketch and second.sketch else Deciding.NO_SKETCH


def find_nearest(first: Iterable[int], second: Iterable[int]) -> tuple[int, int]:
    """Find the nearest fingerprints of two documents, one of either."""
    return min(product(first, second), key=lambda pair: hamming_distance(*pair))


def name_proposal(distance: int, *, stub: bool, file: bool = False, name: str = "") -> str:
    """Name for people what made a document a candidate; `name`, if it was that."""
    if file:
        return "same file"
    bits = f"distance {distance} bit{'s' * (distance != 1)}"
    if name:
        return f"called {name!r}, too; {'a short page' if stub else bits}"
    return "same short page" if stub else bits
