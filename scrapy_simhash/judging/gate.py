"""The gate: no page is dropped before its own words were looked at.

What the rule would drop is compared word by word. Two addresses of one host that end in other names
are two records, unless

1. neither page has a word of its own, in its text, title or heading; or
2. the one names the other as the address of its content, and little is its own; or
3. what differs cannot be a record's: much of what they have in common is no template, names do not
   differ, and only one page has something of its own, little, in whole blocks: an advertisement, a
   menu, a comment. Two records each have something of their own. On a known host nor does a field
   differ: no other words at one place, no other number in a cell, whatever the site has there.

Where no word tells them apart, what a reader sees beside the text must be the same, too.
Measured in docs/study.md.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import regex
from msgspec import structs

from scrapy_simhash.judging import rule
from scrapy_simhash.judging.own import find_fields
from scrapy_simhash.judging.rule import Deciding, decide
from scrapy_simhash.pages.addresses import host_of, parse_address
from scrapy_simhash.pages.features import normalise, tokenise

if TYPE_CHECKING:
    from scrapy_simhash.judging.comparison import Answer
    from scrapy_simhash.judging.content import Content
    from scrapy_simhash.judging.documents import PageFacts
    from scrapy_simhash.judging.own import OwnWords
    from scrapy_simhash.judging.rule import Evidence, Rule

# Of the words that both have, so much may be a page's own: of a declared copy, and of another one.
MOST_OF_DECLARED = 0.15
MOST_OF_ITS_OWN = 0.25
# Words that both have and that are no template; records of a template have few.
LEAST_IN_COMMON = 50
# Where the rule does not say that two pages are one: words in common, and agreement of content.
LEAST_IN_A_COPY = 100
LEAST_AGREED = 0.7
# What a symbol says in a name, "operator<"; not what only separates its parts.
_SYMBOLS = regex.compile(r"(?![|~`^\u00a8\u00b4])[\p{S}!%&*@#\\]+")


def can_be_one(
    first: PageFacts, second: PageFacts, content: Content | Evidence, wanted: Rule
) -> bool:
    """Return False if the content of two pages tells them apart, whatever they are called."""
    confirm = wanted.confirm or 0.0
    return (
        content.agreed >= min(confirm, rule.LEAST_AGREED, LEAST_AGREED)
        or (content.main_alike >= confirm and content.share_of_main >= rule.LEAST_SHARE_OF_MAIN)
        or first.stub
        or second.stub
        or bool(find_declared(first, second))
    )


def may_be_one(first: PageFacts, second: PageFacts, answer: Answer) -> bool:
    """Whether the rule calls two pages one, or their words may show that they are."""
    evidence = answer.evidence
    if answer.deciding is not Deciding.TEXTS or not answer.near or evidence.short:
        return answer.duplicate and answer.deciding is Deciding.TEXTS
    return answer.duplicate or (
        (evidence.agreed >= LEAST_AGREED or bool(find_declared(first, second)))
        and _are_called_one(first, second)
    )


def look_at_words(
    answer: Answer, first: PageFacts, second: PageFacts, own: OwnWords | None
) -> Answer:
    """Let an answer pass, or correct it, by the own words of two pages.

    Args:
        answer: of the rule, about pages that may be one, see `may_be_one`.
        first: the one page.
        second: the other one.
        own: what each has for itself; None where the text of one cannot be read.
    """
    objection, copy = "the text of one cannot be read", ""
    if own is not None:
        objection = find_objection(first, second, own)
        if not answer.confirmed and not objection:
            copy = _find_copy(first, second, own)
    evidence = structs.replace(answer.evidence, objection=objection, copy=copy)
    said, near, confirmed = decide(evidence)
    return answer._replace(
        confirmed=confirmed,
        duplicate=near and confirmed,
        evidence=evidence,
        tests=(said, *answer.tests[1:], *([] if own is None else [describe(own)])),
        own=own,
    )


def _find_copy(first: PageFacts, second: PageFacts, own: OwnWords) -> str:
    """Return why two pages are one though the rule does not say so, or ""."""
    if is_declared_copy(first, second, own):
        return "one declares the other as its original"
    name, other = map(own.template.find_name, (first.url, second.url))
    two = _are_two_addresses(first.url, second.url) and name != other
    alike = two and own.template.known and own.common >= LEAST_IN_A_COPY
    if alike and find_fields(own, times=False) is None:
        return "what is only on one of them is whole blocks"
    return ""


def describe(own: OwnWords) -> str:
    """Describe for people what two pages have for themselves."""
    mine, theirs = (f"{int(side.own.sum())}: {side.show()!r}" for side in own.sides)
    return f"own words {mine}, the other one's {theirs}; in common {own.common}, without template"


def find_objection(first: PageFacts, second: PageFacts, own: OwnWords) -> str:
    """Return why two pages that are alike are two all the same, for people; "" if they are one."""
    if not _are_two_addresses(first.url, second.url):
        return ""
    if not (own.equal and _are_called_alike(first, second)):
        name, other = map(own.template.find_name, (first.url, second.url))
        if name == other or is_declared_copy(first, second, own):
            return ""
        return _find_record(first, second, own)
    beside = [
        next((each for each in mine.beside if each not in own.template.beside.union(seen)), "")
        for mine, seen in (
            (own.first.text, own.second.text.beside),
            (own.second.text, own.first.text.beside),
        )
    ]
    return _show_two("one text, but not what is seen beside it", *beside) if any(beside) else ""


def is_declared_copy(first: PageFacts, second: PageFacts, own: OwnWords) -> bool:
    """Return True if one page declares the other its original, and has little of its own.

    Also if both declare a third one, on a known host. An address that others declare, too, or a
    front page proves nothing.
    """
    declared = find_declared(first, second) - set(map(_normal, own.template.canonicals))
    both = _normal(first.canonical) == _normal(second.canonical)
    if not own.same_rest or not declared or (both and not own.template.known):
        return False
    return all(side.new.sum() <= MOST_OF_DECLARED * own.common for side in own.sides)


def find_declared(first: PageFacts, second: PageFacts) -> set[str]:
    """Find the address that one of two pages declares, and that the other has, or declares, too."""
    if not (first.canonical or second.canonical):
        return set()
    mine, theirs = _normal(first.canonical), _normal(second.canonical)
    declared = {mine} & {theirs, _normal(second.url)} | {theirs} & {_normal(first.url)}
    return {address for address in declared if address.partition("/")[2]}


def _find_record(first: PageFacts, second: PageFacts, own: OwnWords) -> str:
    """Return why two pages at two addresses may be two records, or ""."""
    shown, known = (own.first.show(), own.second.show()), own.template.known
    for names in ((first.title, second.title), (first.heading, second.heading)):
        if all(names) and all(_tell_apart(*names)):
            return _show_two("two names", *names)
    if not own.same_rest:
        return "two addresses, and other words beyond the first 4,096"
    counts = [side.count_but_for_counter() if known else side.own.sum() for side in own.sides]
    unique = [side.count_but_for_counter(side.unique) for side in own.sides]
    for why, holds in (
        ("few words in common", own.common < (LEAST_IN_COMMON if known else LEAST_IN_A_COPY)),
        ("much of two addresses is their own", max(counts) > MOST_OF_ITS_OWN * own.common),
        ("each has words that nobody else has", min(unique) > 0),
        ("other words within a block", not all(side.has_whole_blocks() for side in own.sides)),
    ):
        if holds:
            return _show_two(why, *shown)
    fields = find_fields(own)
    return _show_two("two records", *fields) if fields else ""


def _show_two(what: str, mine: str, theirs: str) -> str:
    return f"{what}: {mine!r} / {theirs!r}"


def _are_two_addresses(first: str, second: str) -> bool:
    """Whether two addresses of one host differ, but for what only a browser reads."""
    host = host_of(first)
    two = first.partition("#")[0] != second.partition("#")[0]
    return bool(host) and host == host_of(second) and two


@lru_cache(maxsize=1_024)
def _normal(url: str) -> str:
    """Return an address without its scheme, "www.", a fragment and a slash at the end."""
    address = parse_address(url)
    if address is None:
        return ""
    query = "?" + "&".join(address.query) if address.query else ""
    return f"{address.host.removeprefix('www.')}/{'/'.join(address.path).rstrip('/')}{query}"


@lru_cache(maxsize=1_024)
def _read_name(name: str) -> Counter[str]:
    """Count the words and symbols of a name."""
    normal = normalise(name)
    return Counter([*tokenise(normal), *_SYMBOLS.findall(normal)])


def _tell_apart(mine: str, theirs: str) -> tuple[bool, bool]:
    """Whether a name has words that the other one lacks, and whether that one has some."""
    first, second = _read_name(mine), _read_name(theirs)
    return bool(first - second), bool(second - first)


def _are_called_alike(first: PageFacts, second: PageFacts) -> bool:
    """Whether neither title nor heading of either page has a word that the other one lacks."""
    names = (first.title, second.title), (first.heading, second.heading)
    return not any(any(_tell_apart(*two)) for two in names if all(two))


def _are_called_one(first: PageFacts, second: PageFacts) -> bool:
    """Whether two pages have a name in common, and none that differs."""
    named = (first.title and second.title) or (first.heading and second.heading)
    return bool(named) and _are_called_alike(first, second)
