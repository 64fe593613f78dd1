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

import re
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from scrapy_simhash._addresses import host_of
from scrapy_simhash.judging.rule import PLAIN_DISTANCE_BITS, Rule
from scrapy_simhash.pages.features import normalise, tokenise
from scrapy_simhash.pages.sketch import compare_sketches
from scrapy_simhash.simhash import hamming_distance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scrapy_simhash.judging.documents import PageFacts


# Siblings of one template, in which the few words that differ are the subject, are short. With less
# main text than this, two pages are one only if a text is so much more alike, up to .9. Of the
# labelled pairs below that, 7 are duplicates and 5 are not. From 400 to 800 words nothing more is
# wrong.
WORDS_OF_A_SHORT_TEXT = 500
MORE_ALIKE_IF_SHORT = 0.12
MOST_ASKED_OF_SHORT = 0.9
# Main texts alike, whole texts not: the same article in another template, or the same stub (a
# cookie notice, a newsletter form) taken for the main text of different pages. It is an article
# with so many words that are at least such a share of the page; otherwise the whole texts must be
# alike, too.
ARTICLES = ((300, 0.0), (100, 0.2), (50, 0.3))
LEAST_WHOLE_OF_STUBS = 0.8
# Whole texts alike, main texts not: different products in a large template, or one page whose
# main text was found in two different places. It is one page where one main text is part of the
# other, at least such a share of it, or where both pages have little alone.
LEAST_MAIN_OF_TEMPLATE = 0.4
LEAST_CONTAINED = 0.8
# A text of fewer words may be a notice on any page, as above. Of one that is much shorter than the
# other, sketches cannot tell: bins that agree by chance are as good as some share of it, 0.2 (one
# standard error) at 16 times the length. Without the two, 3 more labelled duplicates were found.
LEAST_WORDS_CONTAINED = 50
MOST_TIMES_AS_LONG = 16
# What only one of two pages has is little if it has at most so many words, as a share of its main
# text's: then at least half of its main text must stand on the other page, too. And of two pages of
# one host with one main text, one has little alone (a print view, fewer comments); where both have
# much, they are two pages of a list, and the main text is what these share.
LITTLE_ALONE = 0.5
# The main text of one page is that page, with at least so many words and such a share of all, and
# wholes are alike: of the other page the reader found only a part. Flat from 300 words to 1,500.
WORDS_OF_A_WHOLE_PAGE = 600
LEAST_OF_A_WHOLE_PAGE = 0.8
# Share of their words that two names have in common where one has words that the other lacks.
LEAST_ALIKE_NAMES = 0.8
# A name of fewer words may be that of a site or of a part of it.
WORDS_OF_A_HEADLINE = 4
# One page with another heading, that of a cookie banner or a notification: whole texts are so much
# alike, and one has all that the other has. Siblings each have something of their own.
LEAST_WHOLE_OF_ONE_NAME = 0.95
ALL_CONTAINED = 0.98
# Pages of one template with nearly the same wording are short; the longest ones of two corpora have
# 1,156 words. Two main texts of at least so many words, so much alike, are one document whatever it
# is called.
LONG_TEXTS = ((1_500, 0.9), (5_000, 0.85))

# Of two pages whose addresses a proven URL rule makes one. Texts that have less in common do not
# speak for one page, and count against the rule (`judging.urls.evidence`).
LEAST_WITH_RULE = 0.6

# "27.4. Hot Standby" and "26.4. Hot Standby" are one page of two releases. Only what is written as
# numbering is cut: "Chapter 1" and "Chapter 2" are different names.
_NUMBERING = re.compile(
    r"^\s*(?:\d{1,3}(?:\.\d{1,3})*\.|\d{1,3}(?:\.\d{1,3})+|[a-z](?:\.\d{1,3})+\.?)\s",
    re.IGNORECASE,
)
# A title names the release of a manual, "Django 4.2 documentation"; what a heading numbers is its
# subject, "What's new in 4.2". Neither "12.05.2024" nor "9.99 EUR" is a version. No
# possessive groups: Python before 3.11.5 matches them wrongly.
_VERSION = re.compile(
    r"(?<![\d.$€£¥])"
    r"(?!\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})(?!\d))"
    r"\d+(?:\.\d+)+(?!\d|\.\d)"
    r"(?!\s?(?:[$€£¥%]|(?:eur|usd|gbp|chf|pln|rub)\b))",
    re.IGNORECASE,
)
# "Fire in the harbour - The Daily", "The Daily | Local news | Fire in the harbour".
_TITLE_PARTS = re.compile(r"\s[|–—·:»›-]++\s")  # noqa: RUF001
_NAMES_REMEMBERED = 4_096


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
        said, confirmed = _compare_texts(first, second, main, whole, rule.confirm)
        tests.append(f"main text {main:.2f} alike, whole text {whole:.2f}: {said}")
        if confirmed:
            said, confirmed = _compare_names(first, second, main, whole)
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


def compare_by_rule(
    first: PageFacts, second: PageFacts, rule: Rule, url_rule: str
) -> Answer | None:
    """Compare two documents whose addresses a proven URL rule makes one, at whatever distance.

    Args:
        first: a document.
        second: another one.
        rule: by which they are compared.
        url_rule: the URL rule as text.

    Returns:
        The answer if they are near-duplicates: one text is alike by `LEAST_WITH_RULE`, and names do
        not contradict; else None.
    """
    if find_deciding(first, second, rule) is not Deciding.TEXTS:
        return None
    ((main, whole),) = _compare_sketches(first, [second])
    said, named = _compare_names(first, second, main, whole)
    if max(main, whole) < LEAST_WITH_RULE or not named:
        return None
    distance = hamming_distance(*find_nearest(first.fingerprints, second.fingerprints))
    texts = f"main text {main:.2f} alike, whole text {whole:.2f}"
    tests = (f"{texts}: enough where URL rule `{url_rule}` makes the addresses one", said)
    similarity = round(max(main, whole), 4)
    proposal = name_proposal(distance, stub=False)
    near = distance <= rule.distance
    return Answer(
        Deciding.TEXTS,
        distance,
        near,
        confirmed=True,
        duplicate=True,
        proposal=proposal,
        similarity=similarity,
        tests=tests,
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


def _compare_texts(
    document: PageFacts, candidate: PageFacts, main: float, whole: float, least: float
) -> tuple[str, bool]:
    words, similarity = min(document.words, candidate.words), max(main, whole)
    if similarity < least:
        return f"neither reaches {least:g}", False
    asked = min(least + MORE_ALIKE_IF_SHORT, MOST_ASKED_OF_SHORT)
    if words < WORDS_OF_A_SHORT_TEXT and similarity < asked:
        return f"neither reaches {asked:g}, and one has only {words:,} words", False
    if main >= least and whole >= LEAST_WHOLE_OF_STUBS:
        return "main text is alike, whole text agrees", True
    if whole >= least:
        return _trust_whole_text(document, candidate, main, whole)
    return _trust_main_text(document, candidate, whole)


def _trust_main_text(document: PageFacts, candidate: PageFacts, whole: float) -> tuple[str, bool]:
    """Whether main texts that are alike outweigh whole texts that are not."""
    words = min(document.words, candidate.words)
    share = words / max(1, document.whole_words, candidate.whole_words)
    if not any(words >= enough and share >= large for enough, large in ARTICLES):
        return f"main text is alike, but has only {words:,} words, {share:.0%} of a page", False
    one_host = host_of(document.url) == host_of(candidate.url)
    if one_host and not any(_have_little_alone(document, candidate, whole)):
        return "main text is alike, but either page has much beside it", False
    return f"main text is alike, with {words:,} words, in another template", True


def _trust_whole_text(
    document: PageFacts, candidate: PageFacts, main: float, whole: float
) -> tuple[str, bool]:
    """Whether whole texts that are alike outweigh main texts that are not."""
    if main >= LEAST_MAIN_OF_TEMPLATE:
        return "whole text is alike, main text agrees", True
    share = _share_contained(main, document.words, candidate.words)
    if share >= LEAST_CONTAINED:
        part = f"main text of one is part of the other's, by {min(share, 1):.2f}"
        return f"whole text is alike, {part}", True
    if all(_have_little_alone(document, candidate, whole)):
        return "whole text is alike, main text was found in two places of it", True
    if _is_whole_page(document) or _is_whole_page(candidate):
        return "whole text is alike, and the main text of one is all of it", True
    return "whole text is alike, but main text is another", False


def _is_whole_page(page: PageFacts) -> bool:
    """Whether nearly all of a page is its main text."""
    return page.words >= max(WORDS_OF_A_WHOLE_PAGE, LEAST_OF_A_WHOLE_PAGE * page.whole_words)


def _have_little_alone(
    document: PageFacts, candidate: PageFacts, whole: float
) -> tuple[bool, bool]:
    """Whether either page has little that the other one lacks, beside its main text."""
    shared = _count_shared(whole, document.whole_words, candidate.whole_words)
    mine, theirs = (
        page.whole_words - shared <= LITTLE_ALONE * page.words for page in (document, candidate)
    )
    return mine, theirs


def _share_contained(similarity: float, words: int, others: int) -> float:
    """Estimate which share of the shorter text, 0 to 1 or a little more, is in the longer one."""
    shorter, longer = sorted((words, others))
    if shorter < LEAST_WORDS_CONTAINED or longer > MOST_TIMES_AS_LONG * shorter:
        return 0.0
    return _count_shared(similarity, words, others) / shorter


def _count_shared(similarity: float, words: int, others: int) -> float:
    """Estimate how many words two texts of so many words have in common."""
    # Of shingles, of which a text has about as many as words: |A and B| = J (|A| + |B|) / (1 + J).
    # Distinct words will not do for them: a text seven times as long has four times as many.
    return similarity * (words + others) / (1 + similarity)


def _compare_names(
    document: PageFacts, candidate: PageFacts, main: float, whole: float
) -> tuple[str, bool]:
    """Whether two pages whose texts agree are called the same, or need no name."""
    said, named = _relate_names(document, candidate, whole)
    words = min(document.words, candidate.words)
    if named or not any(words >= enough and main >= least for enough, least in LONG_TEXTS):
        return said, named
    return f"{said}, but a main text of {words:,} words, {main:.2f} alike, names itself", True


def measure_shared(first: PageFacts, second: PageFacts) -> float:
    """Estimate which share of the shorter text is in the longer one, main or whole, about 0 to 1.

    Of two documents with sketches; 0 where a text is too short to tell, or much the shorter one.
    """
    ((main, whole),) = _compare_sketches(first, [second])
    return max(
        _share_contained(main, first.words, second.words),
        _share_contained(whole, first.whole_words, second.whole_words),
    )


def call_differently(first: PageFacts, second: PageFacts) -> bool:
    """Whether two pages have names to compare, and each of one has words that the other's lacks."""
    mine, theirs = (read_names(page.title, page.heading) for page in (first, second))
    relations = [
        relation for kind in mine if (relation := _relate(mine[kind], theirs[kind])) is not None
    ]
    return bool(relations) and all(relation.differ for relation in relations)


def _relate_names(document: PageFacts, candidate: PageFacts, whole: float) -> tuple[str, bool]:
    mine = read_names(document.title, document.heading)
    theirs = read_names(candidate.title, candidate.heading)
    relations = {
        kind: relation
        for kind in mine
        if (relation := _relate(mine[kind], theirs[kind])) is not None
    }
    if not relations:
        return "no title or heading in common to compare", True
    said = ", ".join(f"{kind}s {relation}" for kind, relation in relations.items())
    differing = sum(relation.differ for relation in relations.values())
    if _share_canonical(document, candidate):
        return f"{said}, same canonical address", differing < len(relations)
    if not differing:
        return said, max(relation.share for relation in relations.values()) >= LEAST_ALIKE_NAMES
    same = {kind for kind, relation in relations.items() if relation.same}
    if same and _is_one_page(document, candidate, whole):
        return f"{said}, but one page has all that the other has", True
    if "heading" in same:
        return _trust_heading(document, candidate, said)
    headline = _is_headline(document, candidate) or _is_headline(candidate, document)
    return said + ", but the heading of one is the other's title" * headline, headline


def _is_headline(page: PageFacts, other: PageFacts) -> bool:
    """Whether the heading of a page is a part of another one's title, whose heading is a banner's.

    So it is, too, where titles end in the names of two sites.
    """
    heading = read_names("", page.heading)["heading"]
    if len(heading) < WORDS_OF_A_HEADLINE:
        return False
    parts = (read_names(part, "")["title"] for part in _TITLE_PARTS.split(other.title))
    return any(
        relation.share >= LEAST_ALIKE_NAMES and not relation.differ
        for part in parts
        if (relation := _relate(heading, part)) is not None
    )


def _is_one_page(document: PageFacts, candidate: PageFacts, whole: float) -> bool:
    """Whether one of two whole texts is the other and little more."""
    contained = _share_contained(whole, document.whole_words, candidate.whole_words)
    return whole >= LEAST_WHOLE_OF_ONE_NAME and contained >= ALL_CONTAINED


def _trust_heading(document: PageFacts, candidate: PageFacts, said: str) -> tuple[str, bool]:
    """Whether the same heading outweighs titles that differ; it may be a site's logo."""
    # An article that two sites have, whose titles end in their names.
    hosts = {host_of(document.url), host_of(candidate.url)}
    if len(hosts) > 1 and "" not in hosts:
        return f"{said}, on two hosts", True
    mine = read_names(document.title, document.heading)
    theirs = read_names(candidate.title, candidate.heading)
    if (mine["title"] ^ theirs["title"]) & mine["heading"]:
        return f"{said}, and named in a title", True
    return f"{said}, but named in neither title", False


def _share_canonical(document: PageFacts, candidate: PageFacts) -> bool:
    """Whether both call one address their own; many sites name their home page everywhere."""
    return (
        bool(document.canonical)
        and document.canonical == candidate.canonical
        and urlsplit(document.canonical).path not in {"", "/"}
    )


class _Relation(NamedTuple):
    """Which share of their words two names have in common, and whether they differ."""

    share: float
    # Both have words that the other lacks, as "create table" and "create index".
    differ: bool

    @property
    def same(self) -> bool:
        return self.share == 1.0

    def __str__(self) -> str:
        return "same" if self.same else "differ" if self.differ else f"{self.share:.2f} alike"


def _relate(mine: frozenset[str], theirs: frozenset[str]) -> _Relation | None:
    """Compare the words of two names; None where one of them has none."""
    if not mine or not theirs:
        return None
    share = len(mine & theirs) / len(mine | theirs)
    return _Relation(share, bool(mine - theirs) and bool(theirs - mine))


@lru_cache(maxsize=_NAMES_REMEMBERED)
def read_names(title: str, heading: str) -> Mapping[str, frozenset[str]]:
    """Get the words of both by kind, without numbering; those of a title also without versions."""
    bare = _VERSION.sub(" ", _NUMBERING.sub(" ", title)), _NUMBERING.sub(" ", heading)
    own, others = map(tokenise, map(normalise, bare))
    return {
        "title": frozenset(own or tokenise(normalise(title))),
        "heading": frozenset(others or tokenise(normalise(heading))),
    }
