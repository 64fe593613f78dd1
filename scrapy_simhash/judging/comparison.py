"""The rule: simhash proposes, the sketches, names and sizes of two documents decide.

A candidate within k bits is confirmed when

1. one of the two texts, main or whole, is at least `SIMHASH_CONFIRM` alike; short texts more,
2. the other text does not contradict that, and
3. title or first heading name the same thing, or so long a text names itself.

Pages with too little text for a simhash are compared exactly; in plain simhash the distance alone
decides, and without a sketch the distance within the paper's k. Every test leaves a line that a
person can read; `docs/study.md` has the measurements behind each constant, and what else was tried.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.judging.documents import State
from scrapy_simhash.judging.names import call_differently, compare_names
from scrapy_simhash.judging.rule import CONFIRM, PLAIN_DISTANCE_BITS, Rule
from scrapy_simhash.judging.texts import compare_texts, share_contained
from scrapy_simhash.pages.sketch import compare_sketches
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_simhash.judging.documents import PageFacts, Record

# Texts that have less in common speak against a rule.
LEAST_ALIKE = 0.6
# Sketches of shorter texts are uncertain.
LEAST_WORDS = 64
# A page that was fetched a day later may have been changed in between.
STALE_SECONDS = 86_400


class Deciding(StrEnum):
    """What decides about two documents, in words for people."""

    SCOPE = "in different scopes: never compared"
    KINDS = "a file and a page: never compared"
    FILE = "files that are no HTML pages: compared by a digest of their bytes"
    DIGEST = "too little text for a simhash: compared exactly"
    DISTANCE = "plain simhash"
    NO_SKETCH = f"no sketch of one of them: within {PLAIN_DISTANCE_BITS} bits the distance decides"
    TEXTS = "texts and names"


class Answer(NamedTuple):
    """What came of comparing two documents.

    Attributes:
        deciding: what decides about them.
        distance: bits between their nearest fingerprints.
        near: that is within the rule's distance; of short pages, 0.
        confirmed: what decides beside the distance agrees, however far apart they are.
        duplicate: they are near-duplicates: near and confirmed.
        proposal: what made the one a candidate for the other, for people.
        similarity: the larger one of their texts' similarities, 0 to 1; None where texts and names
            do not decide.
        tests: what each test of texts and names said, for people.
    """

    deciding: Deciding
    distance: int
    near: bool
    confirmed: bool
    duplicate: bool
    proposal: str
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
    alike: tuple[float, float] | None = None,
) -> Answer:
    """Compare two documents; it makes no difference which one is named first.

    Args:
        first: a document.
        second: another one.
        rule: by which they are compared.
        distance: bits between their nearest fingerprints; None to count them.
        alike: similarities of their main and of their whole texts, 0 to 1, where texts and names
            decide; None to compare their sketches, which takes 30 us, and 3 us for each of many
            that are compared at once.
    """
    deciding = find_deciding(first, second, rule)
    if distance is None:
        distance = hamming_distance(*find_nearest(first.fingerprints, second.fingerprints))
    exactly = deciding in {Deciding.DIGEST, Deciding.FILE}
    near = distance <= (0 if exactly else rule.distance)
    proposal = name_proposal(
        distance, stub=first.stub or second.stub, file=deciding is Deciding.FILE
    )
    similarity, tests = None, []
    if deciding is Deciding.TEXTS:
        assert rule.confirm is not None  # noqa: S101 - otherwise texts do not decide
        ((main, whole),) = [alike] if alike else _compare_sketches(first, [second])
        similarity = round(max(main, whole), 4)
        said, confirmed = compare_texts(first, second, main, whole, rule.confirm)
        tests.append(f"main text {main:.2f} alike, whole text {whole:.2f}: {said}")
        if confirmed:
            said, confirmed = compare_names(first, second, main, whole)
            tests.append(said)
    else:
        confirmed = {
            Deciding.SCOPE: False,
            Deciding.KINDS: False,
            Deciding.FILE: first.text_digest == second.text_digest,
            Deciding.DIGEST: first.stub == second.stub and first.text_digest == second.text_digest,
            Deciding.DISTANCE: True,
            Deciding.NO_SKETCH: distance <= PLAIN_DISTANCE_BITS,
        }[deciding]
    duplicate = near and confirmed
    return Answer(
        deciding, distance, near, confirmed, duplicate, proposal, similarity, tuple(tests)
    )


def compare_many(
    page: PageFacts, others: Sequence[PageFacts], rule: Rule, distances: Sequence[int]
) -> list[Answer]:
    """Compare a page with others at these distances in bits; all sketches are compared at once."""
    sketched = [
        place
        for place, other in enumerate(others)
        if find_deciding(page, other, rule) is Deciding.TEXTS
    ]
    similar = _compare_sketches(page, [others[place] for place in sketched])
    alike = dict(zip(sketched, similar, strict=True))
    return [
        compare(page, other, rule, distance=distance, alike=alike.get(place))
        for place, (other, distance) in enumerate(zip(others, distances, strict=True))
    ]


def find_deciding(first: PageFacts, second: PageFacts, rule: Rule) -> Deciding:
    """Find what decides about two documents."""
    if first.scope != second.scope:
        return Deciding.SCOPE
    if first.stub or second.stub:
        files = first.file + second.file
        if files:
            return Deciding.KINDS if files == 1 else Deciding.FILE
        return Deciding.DIGEST
    if rule.confirm is None:
        return Deciding.DISTANCE
    return Deciding.TEXTS if first.sketch and second.sketch else Deciding.NO_SKETCH


def find_nearest(first: Iterable[int], second: Iterable[int]) -> tuple[int, int]:
    """Find the nearest fingerprints of two documents, one of either."""
    return min(product(first, second), key=lambda pair: hamming_distance(*pair))


def name_proposal(distance: int, *, stub: bool, file: bool = False) -> str:
    """Name for people what made a document a candidate."""
    if file:
        return "same file"
    return "same short page" if stub else f"distance {distance} bit{'s' * (distance != 1)}"


def _compare_sketches(
    document: PageFacts, others: Sequence[PageFacts]
) -> list[tuple[float, float]]:
    if not others:
        return []
    similar = compare_sketches(document.sketch, [other.sketch for other in others])
    return list(zip(similar.main.tolist(), similar.whole.tolist(), strict=True))


def measure_shared(first: PageFacts, second: PageFacts) -> float:
    """Estimate which share of the shorter text is in the longer one, main or whole, about 0 to 1.

    Of two documents with sketches; 0 where a text is too short to tell, or much the shorter one.
    """
    ((main, whole),) = _compare_sketches(first, [second])
    return max(
        share_contained(main, first.words, second.words),
        share_contained(whole, first.whole_words, second.whole_words),
    )


# Evidence: whether two pages that a rule about addresses makes one are the same page.


class Outcome(StrEnum):
    """What comes of comparing two pages."""

    SAME = "s"
    DIFFERENT = "d"
    GREY = "g"


def can_vote(page: PageFacts) -> bool:
    """Whether a page says anything: one with little text, such as an empty shell, does not."""
    return not page.stub and bool(page.sketch)


def group_of(number: int, record: Record) -> int:
    """Get the number of the document that a document shows: its own, or that of its original."""
    return record.original if record.state == State.DUPLICATE else number


def compare_pages(first: PageFacts, second: PageFacts, rule: Rule) -> Outcome:
    """Compare two pages that can vote, by the judgement's rule, however far apart they are.

    They are `different` where texts of 64 words and more are less than .6 alike, and less than .6
    of the shorter one is in the other (a print view lacks the navigation); or where no name of the
    one fits the other. But not if a day lies between them. What cannot be told is `grey`.
    """
    if find_deciding(first, second, Rule(rule.distance, CONFIRM)) is not Deciding.TEXTS:
        return Outcome.GREY
    confirm = CONFIRM if rule.confirm is None else rule.confirm
    answer = compare(first, second, Rule(rule.distance, confirm))
    if answer.confirmed:
        return Outcome.SAME
    if abs(first.time - second.time) > STALE_SECONDS:
        return Outcome.GREY
    if call_differently(first, second):
        return Outcome.DIFFERENT
    assert answer.similarity is not None  # noqa: S101 - texts decide
    unlike = (
        min(first.words, second.words) >= LEAST_WORDS
        and answer.similarity < LEAST_ALIKE
        and measure_shared(first, second) < LEAST_ALIKE
    )
    return Outcome.DIFFERENT if unlike else Outcome.GREY
