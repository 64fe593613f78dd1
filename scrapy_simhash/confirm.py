"""The confirmation: simhash proposes, the sketches, names and sizes of two documents decide.

A candidate within k bits is confirmed when

1. one of the two texts, main or whole, is at least `SIMHASH_CONFIRM` alike,
2. the other text does not contradict that, and
3. title or first heading name the same thing.

Every test leaves a line that a person can read; `docs/study.md` has the measurements behind each
constant, and what else was tried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from scrapy_simhash.features import normalise, tokenise
from scrapy_simhash.sketch import compare_sketches

if TYPE_CHECKING:
    from collections.abc import Sequence

# Main texts alike, whole texts not: the same article in another template, or the same stub (a
# cookie notice, a newsletter form) taken for the main text of different pages. It is an article
# with so many words that are at least such a share of the page; otherwise the whole texts must be
# alike, too.
ARTICLES = ((300, 0.0), (100, 0.2), (50, 0.3))
LEAST_WHOLE_OF_STUBS = 0.75
# Whole texts alike, main texts not: different products in a large template, or one page whose
# main text was found in two different places. Unless the whole texts are practically the same.
LEAST_MAIN_OF_TEMPLATE = 0.4
SAME_WHOLE = 0.98
# Of the words of two names when one has words that the other lacks.
LEAST_ALIKE_NAMES = 0.8

# "27.4. Hot Standby" and "26.4. Hot Standby" are one page of two releases.
_NUMBERING = re.compile(
    r"^\s*(?:(?:chapter|section|appendix|kapitel|abschnitt|chapitre|глава)\s+)?"
    r"(?:\d{1,3}|[a-z])(?:\.\d+)*[.:)]\s+",
    re.IGNORECASE,
)
_VERSION = re.compile(r"\d+(?:\.\d+)+")


class Witnesses(Protocol):
    """What the confirmation wants to know of a document; `Document` and `Record` have it."""

    @property
    def sketch(self) -> bytes:
        """Of main and whole text."""

    @property
    def title(self) -> str:
        """Of the page."""

    @property
    def heading(self) -> str:
        """The first one."""

    @property
    def canonical(self) -> str:
        """Address that the page calls its own, or ""."""

    @property
    def words(self) -> int:
        """Of the main text."""

    @property
    def whole_words(self) -> int:
        """Of the whole text."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What came of comparing two documents.

    Attributes:
        confirmed: they are near-duplicates.
        similarity: the larger one of their texts' similarities, 0 to 1.
        tests: what each test said, for people.
    """

    confirmed: bool
    similarity: float
    tests: tuple[str, ...]


def confirm(
    document: Witnesses, candidates: Sequence[Witnesses], least: float
) -> list[Confirmation]:
    """Compare a document with its candidates.

    Args:
        document: the new one.
        candidates: stored ones, n of them; their sketches are compared at once.
        least: similarity that one of the texts must reach (SIMHASH_CONFIRM), 0 to 1.

    Returns:
        One for each candidate.
    """
    similar = compare_sketches(document.sketch, [candidate.sketch for candidate in candidates])
    return [
        _confirm(document, candidate, main, whole, least)
        for candidate, main, whole in zip(
            candidates, similar.main.tolist(), similar.whole.tolist(), strict=True
        )
    ]


def _confirm(
    document: Witnesses, candidate: Witnesses, main: float, whole: float, least: float
) -> Confirmation:
    texts, alike = _compare_texts(document, candidate, main, whole, least)
    tests = [f"main text {main:.2f} alike, whole text {whole:.2f}: {texts}"]
    if alike:
        names, alike = _compare_names(document, candidate, whole)
        tests.append(names)
    return Confirmation(alike, round(max(main, whole), 4), tuple(tests))


def _compare_texts(
    document: Witnesses, candidate: Witnesses, main: float, whole: float, least: float
) -> tuple[str, bool]:
    if max(main, whole) < least:
        return f"neither reaches {least:g}", False
    if main >= least and whole >= LEAST_WHOLE_OF_STUBS:
        return "main text is alike, whole text agrees", True
    if whole >= least:
        return _trust_whole_text(main, whole)
    return _trust_main_text(document, candidate)


def _trust_main_text(document: Witnesses, candidate: Witnesses) -> tuple[str, bool]:
    """Decide whether main texts that are alike outweigh whole texts that are not."""
    words = min(document.words, candidate.words)
    share = words / max(1, document.whole_words, candidate.whole_words)
    if any(words >= enough and share >= large for enough, large in ARTICLES):
        return f"main text is alike, with {words:,} words, in another template", True
    return f"main text is alike, but has only {words:,} words, {share:.0%} of a page", False


def _trust_whole_text(main: float, whole: float) -> tuple[str, bool]:
    """Decide whether whole texts that are alike outweigh main texts that are not."""
    if whole >= SAME_WHOLE:
        return "whole text is the same", True
    if main >= LEAST_MAIN_OF_TEMPLATE:
        return "whole text is alike, main text agrees", True
    return "whole text is alike, but main text is another", False


def _compare_names(document: Witnesses, candidate: Witnesses, whole: float) -> tuple[str, bool]:
    if document.canonical and document.canonical == candidate.canonical:
        return f"same canonical address {document.canonical}", True
    heading = _relate(document.heading, candidate.heading)
    title = _relate(document.title, candidate.title)
    if heading is None and title is None:
        return "no title or heading in common to compare", True
    said = ", ".join(
        f"{kind}s {relation}"
        for kind, relation in (("title", title), ("heading", heading))
        if relation is not None
    )
    if heading is not None and heading.same:
        return said, True
    if title is not None and title.same:
        # Some sites give all their pages one title; then the heading tells them apart.
        return said, heading is None or not heading.differ or whole >= SAME_WHOLE
    relations = [relation for relation in (title, heading) if relation is not None]
    if any(relation.differ for relation in relations):
        return said, False
    return said, max(relation.share for relation in relations) >= LEAST_ALIKE_NAMES


class _Relation(NamedTuple):
    """Of two names.

    Attributes:
        share: of their words, that they have in common.
        differ: both have words that the other lacks, as "create table" and "create index".
    """

    share: float
    differ: bool

    @property
    def same(self) -> bool:
        return self.share == 1.0

    def __str__(self) -> str:
        return "same" if self.same else "differ" if self.differ else f"{self.share:.2f} alike"


def _relate(first: str, second: str) -> _Relation | None:
    """Compare two names; None where one of them has no words."""
    mine, theirs = _name_words(first), _name_words(second)
    if not mine or not theirs:
        return None
    share = len(mine & theirs) / len(mine | theirs)
    return _Relation(share, bool(mine - theirs) and bool(theirs - mine))


def _name_words(name: str) -> frozenset[str]:
    """Get the words of a title or heading, without its numbering and without version numbers."""
    return frozenset(tokenise(normalise(_VERSION.sub(" ", _NUMBERING.sub(" ", name)))))
