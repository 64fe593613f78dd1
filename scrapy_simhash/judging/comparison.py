"""Compare two documents: collect the evidence for `rule.decide`.

What they have in common and what each has alone is counted in the bins of their sketches. A triple
counts by how few other pages of the site have it (`Site.weigh`). And it counts where it stands:
what differs *between* the first and the last of what both have is a difference; what stands before
or behind that is a frame (docs/study.md).

A site is known from some other documents of its host (`sites`); until then all text is content.
Pages with too little text for a simhash are compared exactly, unless they have a part of a name in
common; in plain simhash the distance alone decides, and without a sketch the distance within the
paper's k. Every test leaves a line that a person can read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from scrapy_simhash.judging.names import relate_names
from scrapy_simhash.judging.rule import (
    LEAST_AGREED,
    LEAST_ALIKE,
    Deciding,
    Evidence,
    Place,
    Rule,
    decide,
)
from scrapy_simhash.judging.sites import UNKNOWN_SITE, Site
from scrapy_simhash.judging.wordrule import count_data_bits, find_declared
from scrapy_simhash.pages.addresses import host_of, plain_form
from scrapy_simhash.pages.facts import Facts
from scrapy_simhash.pages.sketch import EMPTY, PLACES, Sketches, read_sketches
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from scrapy_simhash.judging.documents import Candidate, Record
    from scrapy_simhash.judging.texts import OwnWords

# The common part begins and ends where so much of what both have stands outside of it.
_FRAME = 0.05
UNKNOWN_SITES = (UNKNOWN_SITE, UNKNOWN_SITE)


class Content(NamedTuple):
    """What two pages have in common and alone, counted in bins and in weighed bins.

    Attributes:
        both, first, second: bins whose triple both pages have, or only the one.
        template: of all these, those that weigh nothing.
        shared, mine, theirs: the same bins by their weights.
        within: of `mine` and `theirs`, those within the common part.
        whole, main_alike: similarity of the whole texts and of the main texts, 0 to 1.
        main_alone: which share of a main text stands on its page alone; the larger one of the two.
        share_of_main: which share of all that the pages have is main text of both.
        agreed, agreed_within: agreement of the content, 0 to 1, and of that within its common part.
        triples: how many triples of content both have, about.
    """

    both: int
    first: int
    second: int
    template: int
    shared: float
    mine: float
    theirs: float
    within: float
    whole: float
    main_alike: float
    main_alone: float
    share_of_main: float
    agreed: float
    agreed_within: float
    triples: float

    @property
    def similarity(self) -> float:
        """The larger one of the similarities of both texts, for people."""
        return round(max(self.main_alike, self.whole), 4)


# What decides is not counted in bins, but in shares.
_DECIDING = Content._fields[Content._fields.index("whole") :]


def compare_contents(
    pairs: Sequence[tuple[Facts, Facts]], sites: Sequence[tuple[Site, Site]]
) -> list[Content]:
    """Compare the content of n pairs of pages with sketches, each by the sites of both pages."""
    if not pairs:
        return []
    read = read_sketches([page.sketch for side in zip(*pairs, strict=True) for page in side])
    halves = slice(len(pairs)), slice(len(pairs), None)
    mine, theirs = (Sketches._make(bins[half] for bins in read) for half in halves)
    smallest = np.minimum(mine.values, theirs.values)
    there = smallest != EMPTY
    both = there & (mine.values == theirs.values)
    first, second = mine.values < theirs.values, theirs.values < mine.values
    of_mine, of_theirs = zip(*sites, strict=True)
    my_weights = _weigh(of_mine, smallest)
    their_weights = my_weights if of_mine == of_theirs else _weigh(of_theirs, smallest)
    weights = (
        np.where(both, np.minimum(my_weights, their_weights), 0.0),
        np.where(first, my_weights, 0.0),
        np.where(second, their_weights, 0.0),
    )
    within = [
        np.where(_find_common_part(side, weights[0]), alone, 0.0)
        for side, alone in zip((mine, theirs), weights[1:], strict=True)
    ]
    bins = (both, first, second, there & (sum(weights) == 0))
    main = ((both | first) & mine.main, (both | second) & theirs.main)
    main_apart = (both & mine.main & theirs.main, first & mine.main, second & theirs.main)
    # One call for all, as each costs more than what it counts.
    counted = np.count_nonzero([*bins, *main, *main_apart], axis=2).T
    weighed = np.sum([*weights, *within], axis=2).T
    words = [one.whole_words + other.whole_words for one, other in pairs]
    return list(map(_share_out, counted.tolist(), weighed.tolist(), words))


def _share_out(counted: Sequence[int], weighed: Sequence[float], words: int) -> Content:
    both, first, second, template, my_main, their_main, main_both, my_own, their_own = counted
    shared, mine, theirs, *within = weighed
    bins = both + first + second
    whole = _share(both, bins)
    return Content(
        *(both, first, second, template, shared, mine, theirs, sum(within), whole),
        main_alike=_share(main_both, my_main + their_main - main_both),
        main_alone=max(_share(my_own, my_main), _share(their_own, their_main)),
        share_of_main=_share(main_both, bins),
        agreed=_share(shared, shared + (mine + theirs)),
        agreed_within=_share(shared, shared + sum(within)),
        # |A or B| by |A| + |B| and the similarity of the two.
        triples=_share(shared * words / (1 + whole), bins),
    )


def _share(part: float, all_of_it: float) -> float:
    """Divide; nothing of nothing is 0."""
    return part / all_of_it if all_of_it else 0.0


def _weigh(sites: Sequence[Site], smallest: NDArray[np.uint16]) -> NDArray[np.float64]:
    """Weigh the triples of each pair by its site; shape (n, 256)."""
    weights = np.empty(smallest.shape)
    places = {id(site): [n for n, other in enumerate(sites) if other is site] for site in sites}
    for site in {id(site): site for site in sites}.values():
        weights[places[id(site)]] = site.weigh(smallest[places[id(site)]])
    return weights


def _find_common_part(page: Sketches, shared: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which bins stand between the first and the last of what two pages share; (n, 256)."""
    rows = np.arange(len(shared))[:, None]
    heavy = np.bincount((rows * PLACES + page.places).ravel(), shared.ravel(), rows.size * PLACES)
    heavy = heavy.reshape(-1, PLACES).cumsum(axis=1)
    total = heavy[:, -1:]
    starts = np.argmax(heavy >= _FRAME * total, axis=1)
    ends = np.argmax(heavy >= (1 - _FRAME) * total, axis=1)
    inside: NDArray[np.bool_] = (page.places >= starts[:, None]) & (page.places <= ends[:, None])
    # Where nothing is shared, all of it counts.
    return inside | (total <= 0)


class Context(NamedTuple):
    """What other documents tell of two.

    Attributes:
        sites: of either; both are known, or none.
        name: the part of a name by which the one was found for the other; "" if by none.
        keys: how many rare triples, or whole sketches, it was found by.
    """

    sites: tuple[Site, Site] = UNKNOWN_SITES
    name: str = ""
    keys: int = 0

    @classmethod
    def of(cls, first: Site, second: Site, name: str = "", keys: int = 0) -> Context:
        """Make the context of two pages; where one of their sites is not known, none is."""
        known = first.known and second.known
        return cls((first, second) if known else UNKNOWN_SITES, name, keys)

    @property
    def known(self) -> bool:
        """Whether the sites are known."""
        return self.sites[0].known


NO_CONTEXT = Context()


class Answer(NamedTuple):
    """What came of comparing two documents.

    Attributes:
        evidence: all that decided.
        near: the distance is within the rule's (of short pages, 0), or it was found by its name, or
            by rare triples.
        confirmed: what decides beside the distance agrees, however far apart they are.
        proposal: what made the one a candidate for the other, for people.
        similarity: the larger one of their texts' similarities, 0 to 1; None where texts and names
            do not decide.
        tests: what each test of texts and names said, for people.
        own: what each has for itself, if that was looked at.
        words: the first words that either has for itself, by the rule on words.
    """

    evidence: Evidence
    near: bool
    confirmed: bool
    proposal: str
    similarity: float | None = None
    tests: tuple[str, ...] = ()
    own: OwnWords | None = None
    words: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def duplicate(self) -> bool:
        """Whether they are near-duplicates."""
        return self.near and self.confirmed

    @property
    def why(self) -> tuple[str, ...]:
        """What decided, for people."""
        return self.tests or (self.evidence.deciding.value,)


class Compared(NamedTuple):
    """A candidate that was compared, by what sites; a bulk-loaded one has no record."""

    candidate: Candidate
    record: Record | None
    answer: Answer
    sites: tuple[Site, Site]


def compare(
    first: Facts,
    second: Facts,
    rule: Rule,
    *,
    context: Context = NO_CONTEXT,
    content: Content | None = None,
) -> Answer:
    """Compare two documents; it makes no difference which one is named first.

    Args:
        first: a document.
        second: another one.
        rule: by which they are compared.
        context: what other documents tell of the two.
        content: what their texts have in common in this context, where texts and names decide; None
            to compare their sketches, which takes 200 us, and less where many are compared at once.
    """
    found = "" if rule.confirm is None else context.name  # plain simhash asks for no names
    deciding = find_deciding(first, second, rule, named=bool(found))
    distance = hamming_distance(first.fingerprint, second.fingerprint)
    exactly = deciding in {Deciding.DIGEST, Deciding.FILE}
    short = first.stub or second.stub
    within = 0 if short else rule.distance
    name = "" if distance <= within or exactly else found
    otherwise = rule.confirm is None or short or distance <= within or name
    keys = 0 if otherwise else context.keys
    evidence = Evidence(
        deciding=deciding,
        distance=distance,
        within=within,
        named=bool(name),
        keys=keys,
        equal=first.stub == second.stub and first.text_digest == second.text_digest,
        short=short,
    )
    proposal = name_proposal(
        distance, stub=short, file=deciding is Deciding.FILE, name=name, keys=keys
    )
    if deciding is not Deciding.TEXTS:
        _, near, confirmed = decide(evidence)
        return Answer(evidence, near, confirmed, proposal)
    if content is None:
        (content,) = compare_contents([(first, second)], [context.sites])
    names = relate_names(first, second, *(site.names for site in context.sites))
    evidence = msgspec.structs.replace(
        evidence,
        confirm=rule.confirm,
        known=context.known,
        place=_relate_addresses(first.url, second.url),
        data_bits=count_data_bits(first, second),
        **names._asdict(),
        **{name: getattr(content, name) for name in _DECIDING},
    )
    why, near, confirmed = decide(evidence)
    called = f"titles: {names.title}; headings: {names.heading}"
    tests = why, called, _describe(content, context.sites)
    return Answer(evidence, near, confirmed, proposal, content.similarity, tests)


def deserves_a_look(candidate: Candidate, similarity: float | None, rule: Rule) -> bool:
    """Whether a page that does not match is near, or has more in common than some triples."""
    return candidate.distance <= rule.distance or (similarity or 0.0) >= LEAST_ALIKE


def compare_candidates(
    page: Facts,
    found: Sequence[tuple[Candidate, Record | None]],
    sites: Mapping[int, tuple[Site, Site]],
    rule: Rule,
) -> list[Compared]:
    """Compare a page with n candidates.

    On a site of records nearly all differ whatever their names are: of these only the one most
    alike is compared.

    Args:
        page: what is judged.
        found: candidates with their records; one that was bulk-loaded has none.
        sites: of the page and of each that has a sketch, by number.
        rule: by which they are compared.
    """
    # A bulk-loaded fingerprint is in every scope.
    others = [
        record.facts if record else Facts(b"", candidate.fingerprint, b"", scope=page.scope)
        for candidate, record in found
    ]
    contexts = [
        Context.of(*sites.get(each.number, UNKNOWN_SITES), each.name, each.keys)
        for each, _ in found
    ]
    sketched = [
        place
        for place, (other, context) in enumerate(zip(others, contexts, strict=True))
        if find_deciding(page, other, rule, named=bool(context.name)) is Deciding.TEXTS
    ]
    pairs = [(page, others[place]) for place in sketched]
    counted = compare_contents(pairs, [contexts[place].sites for place in sketched])
    contents = dict(zip(sketched, counted, strict=True))
    differ = [
        (not deserves_a_look(candidate, similarity, rule), -similarity, candidate, place)
        for place, content in contents.items()
        if not can_be_one(page, others[place], content, rule)
        for candidate, similarity in [(found[place][0], content.similarity)]
    ]
    passed = {place for *_, place in sorted(differ)[1:]}
    return [
        Compared(
            candidate,
            record,
            compare(page, others[place], rule, context=context, content=contents.get(place)),
            context.sites,
        )
        for place, ((candidate, record), context) in enumerate(zip(found, contexts, strict=True))
        if place not in passed
    ]


def can_be_one(first: Facts, second: Facts, content: Content | Evidence, rule: Rule) -> bool:
    """Return False if the content of two pages tells them apart, whatever they are called."""
    confirm = rule.confirm or 0.0
    return (
        (
            max(content.main_alike, content.whole) >= LEAST_ALIKE
            and (
                content.agreed >= min(confirm, LEAST_AGREED)
                or max(content.agreed_within, content.main_alike) >= confirm
            )
        )
        or first.stub
        or second.stub
        or bool(find_declared(first, second))
    )


def is_better_url(url: str, canonical: str, other_url: str, other_canonical: str) -> bool:
    """Whether a page has the address that it and a page like it declare, and that one has not."""
    if not (canonical or other_canonical):
        return False
    own = plain_form(url)
    declared = {plain_form(each) for each in (canonical, other_canonical) if each}
    return bool(own) and declared == {own} and plain_form(other_url) != own


def _relate_addresses(first: str, second: str) -> Place:
    host, another = host_of(first), host_of(second)
    if host != another:
        return Place.HOSTS
    if not host:
        return Place.NOWHERE
    # Fetched at two times: but for what only a browser reads.
    if first.partition("#")[0] == second.partition("#")[0]:
        return Place.ADDRESS
    return Place.HOST


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


def find_deciding(first: Facts, second: Facts, rule: Rule, *, named: bool = False) -> Deciding:
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


def name_proposal(
    distance: int, *, stub: bool, file: bool = False, name: str = "", keys: int = 0
) -> str:
    """Name for people what made a document a candidate: `name` or `keys`, if it was that."""
    if file:
        return "same file"
    bits = f"distance {distance} bit{'s' * (distance != 1)}"
    if name:
        return f"called {name!r}, too; {'a short page' if stub else bits}"
    if keys and not stub:
        return f"rare triples: {keys}; {bits}"
    return "same short page" if stub else bits
