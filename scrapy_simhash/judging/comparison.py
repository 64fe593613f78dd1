"""Compare two documents whose words are not compared: bulk-loaded ones, plain simhash."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.judging.evidence import PLAIN_DISTANCE_BITS, Deciding, Evidence
from scrapy_simhash.pages.addresses import plain_form
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from scrapy_simhash.judging.documents import Candidate, Record
    from scrapy_simhash.judging.evidence import Rule
    from scrapy_simhash.pages.facts import Facts

# Texts that have less in common are not worth a look.
_LEAST_ALIKE = 0.5


class Answer(NamedTuple):
    """What came of comparing two documents.

    Attributes:
        evidence: what decided.
        duplicate: whether they are near-duplicates.
        tests: what made the one a candidate for the other, why they are one or two, and what was
            left out, for people.
        similarity: share of words that do not stand alone, 0 to 1; None where they do not decide.
        words: the first words that either has for itself.
    """

    evidence: Evidence
    duplicate: bool
    tests: tuple[str, ...]
    similarity: float | None = None
    words: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


class Compared(NamedTuple):
    """A candidate that was compared; a bulk-loaded one has no record."""

    candidate: Candidate
    record: Record | None
    answer: Answer


def compare(first: Facts, second: Facts, rule: Rule) -> Answer:
    """Compare two documents by digest or distance; it makes no difference which comes first."""
    deciding = find_deciding(first, second, rule)
    distance = hamming_distance(first.fingerprint, second.fingerprint)
    short = first.stub or second.stub
    evidence = Evidence(
        deciding=deciding,
        distance=distance,
        within=0 if short else rule.distance,
        equal=first.stub == second.stub and first.text_digest == second.text_digest,
    )
    duplicate = distance <= evidence.within
    if deciding is Deciding.DIGEST:
        duplicate = evidence.equal
    elif deciding is Deciding.NO_WORDS:
        duplicate &= distance <= PLAIN_DISTANCE_BITS
    elif deciding is not Deciding.DISTANCE:
        duplicate = False
    proposal = name_proposal(distance, stub=short)
    return Answer(evidence, duplicate, (proposal, deciding.value))


def deserves_a_look(compared: Compared, rule: Rule) -> bool:
    """Whether a page that does not match is near, or has much in common."""
    alike = (compared.answer.similarity or 0.0) >= _LEAST_ALIKE
    return alike or compared.candidate.distance <= rule.distance


def is_better_url(url: str, canonical: str, other_url: str, other_canonical: str) -> bool:
    """Whether a page has the address that it and a page like it declare, and that one has not."""
    if not (canonical or other_canonical):
        return False
    own = plain_form(url)
    declared = {plain_form(each) for each in (canonical, other_canonical) if each}
    return bool(own) and declared == {own} and plain_form(other_url) != own


def find_deciding(first: Facts, second: Facts, rule: Rule) -> Deciding:
    """Find what decides about two documents."""
    if first.scope != second.scope:
        return Deciding.SCOPE
    if first.stub or second.stub:
        return Deciding.DIGEST
    if rule.plain:
        return Deciding.DISTANCE
    return Deciding.WORDS if first.sketch and second.sketch else Deciding.NO_WORDS


def name_proposal(distance: int, *, stub: bool, name: str = "", keys: int = 0) -> str:
    """Name for people what made a document a candidate: `name` or `keys`, if it was that."""
    bits = f"distance {distance} bit{'s' * (distance != 1)}"
    if name:
        return f"called {name!r}, too; {'a short page' if stub else bits}"
    if keys and not stub:
        return f"rare triples: {keys}; {bits}"
    return "same short page" if stub else bits
