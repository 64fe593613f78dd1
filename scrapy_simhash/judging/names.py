"""Whether two pages whose texts agree are called the same, by their titles and first headings."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from scrapy_simhash.judging.texts import share_contained
from scrapy_simhash.pages.addresses import host_of
from scrapy_simhash.pages.features import normalise, tokenise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy_simhash.judging.documents import PageFacts

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


def compare_names(
    document: PageFacts, candidate: PageFacts, main: float, whole: float
) -> tuple[str, bool]:
    """Whether two pages whose texts agree are called the same, or need no name."""
    said, named = _relate_names(document, candidate, whole)
    words = min(document.words, candidate.words)
    if named or not any(words >= enough and main >= least for enough, least in LONG_TEXTS):
        return said, named
    return f"{said}, but a main text of {words:,} words, {main:.2f} alike, names itself", True


def call_differently(first: PageFacts, second: PageFacts) -> bool:
    """Whether two pages have names to compare, and each of one has words that the other's lacks."""
    relations = _relate_kinds(first, second).values()
    return bool(relations) and all(relation.differ for relation in relations)


def _relate_names(document: PageFacts, candidate: PageFacts, whole: float) -> tuple[str, bool]:
    relations = _relate_kinds(document, candidate)
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
    contained = share_contained(whole, document.whole_words, candidate.whole_words)
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


def _relate_kinds(document: PageFacts, candidate: PageFacts) -> dict[str, _Relation]:
    """Compare titles and headings, by kind, where both pages have them."""
    mine = read_names(document.title, document.heading)
    theirs = read_names(candidate.title, candidate.heading)
    written = {
        "title": (document.title, candidate.title),
        "heading": (document.heading, candidate.heading),
    }
    relations = {}
    for kind, (name, other) in written.items():
        relation = _relate(mine[kind], theirs[kind])
        # Names without any word, of signs or of what could not be decoded, can only differ.
        if not mine[kind] and not theirs[kind] and name and other and name != other:
            relation = _Relation(0.0, differ=True)
        if relation is not None:
            relations[kind] = relation
    return relations


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
