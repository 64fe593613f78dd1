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
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit

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

# "27.4. Hot Standby" and "26.4. Hot Standby" are one page of two releases. Only what is written as
# numbering is cut: "Chapter 1" and "Chapter 2" are different names.
_NUMBERING = re.compile(
    r"^\s*+(?:\d{1,3}(?:\.\d{1,3})*+\.|\d{1,3}(?:\.\d{1,3})++|[a-z](?:\.\d{1,3})++\.?)\s",
    re.IGNORECASE,
)
# A title names the release of a manual, "Django 4.2 documentation"; what a heading numbers is its
# subject, "What's new in 4.2". Neither "12.05.2024" nor "9.99 EUR" is a version. Possessive, so
# that no title takes long.
_VERSION = re.compile(
    r"(?<![\d.$€£¥])"
    r"(?!\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})(?!\d))"
    r"\d++(?:\.\d++)++"
    r"(?!\s?(?:[$€£¥%]|(?:eur|usd|gbp|chf|pln|rub)\b))",
    re.IGNORECASE,
)
_NAMES_REMEMBERED = 4_096


class Witnesses(Protocol):
    """What the confirmation wants to know of a document; `Document` and `Record` have it."""

    @property
    def sketch(self) -> bytes:
        """Of main and whole text."""

    @property
    def url(self) -> str:
        """Of the page."""

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
        confirm_alike(document, candidate, main, whole, least)
        for candidate, main, whole in zip(
            candidates, similar.main.tolist(), similar.whole.tolist(), strict=True
        )
    ]


def confirm_alike(
    document: Witnesses, candidate: Witnesses, main: float, whole: float, least: float
) -> Confirmation:
    """Compare two documents whose sketches are compared already.

    Args:
        document: one of them.
        candidate: the other one.
        main: similarity of their main texts, 0 to 1.
        whole: that of their whole texts.
        least: what one of both must reach.
    """
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
    relations = {
        kind: relation
        for kind in ("title", "heading")
        if (relation := _relate(kind, getattr(document, kind), getattr(candidate, kind)))
        is not None
    }
    if not relations:
        return "no title or heading in common to compare", True
    said = ", ".join(f"{kind}s {relation}" for kind, relation in relations.items())
    differing = sum(relation.differ for relation in relations.values())
    if _share_canonical(document, candidate):
        return f"{said}, same canonical address", differing < len(relations)
    if any(relation.same for relation in relations.values()):
        if not differing or whole >= SAME_WHOLE:
            return said, True
        if "heading" in relations and relations["heading"].same:
            return _trust_heading(document, candidate, said)
        return said, False
    alike = max(relation.share for relation in relations.values()) >= LEAST_ALIKE_NAMES
    return said, alike and not differing


def _trust_heading(document: Witnesses, candidate: Witnesses, said: str) -> tuple[str, bool]:
    """Decide whether the same heading outweighs titles that differ; it may be a site's logo."""
    # An article that two sites have, whose titles end in their names.
    if _host(document.url) != _host(candidate.url):
        return f"{said}, on two hosts", True
    titles = name_words("title", document.title) ^ name_words("title", candidate.title)
    if titles & name_words("heading", document.heading):
        return f"{said}, and named in a title", True
    return f"{said}, but named in neither title", False


def _share_canonical(document: Witnesses, candidate: Witnesses) -> bool:
    """Say whether both call one address their own; many sites name their home page everywhere."""
    return (
        bool(document.canonical)
        and document.canonical == candidate.canonical
        and urlsplit(document.canonical).path not in {"", "/"}
    )


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # such as an invalid IPv6 address
        return ""


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


def _relate(kind: str, first: str, second: str) -> _Relation | None:
    """Compare two names; None where one of them has no words."""
    mine, theirs = name_words(kind, first), name_words(kind, second)
    if not mine or not theirs:
        return None
    share = len(mine & theirs) / len(mine | theirs)
    return _Relation(share, bool(mine - theirs) and bool(theirs - mine))


@lru_cache(maxsize=_NAMES_REMEMBERED)
def name_words(kind: str, name: str) -> frozenset[str]:
    """Get the words of a title or heading, without numbering; of a title, without versions.

    Args:
        kind: `title` or `heading`.
        name: it.
    """
    bare = _NUMBERING.sub(" ", name)
    if kind == "title":
        bare = _VERSION.sub(" ", bare)
    return frozenset(tokenise(normalise(bare)) or tokenise(normalise(name)))
