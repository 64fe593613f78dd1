"""The gate: no page is dropped before its own words were looked at.

At two addresses of one host that end in other names, words decide, and what is not one page is two
records; so do they where the folders tell pages apart. Two pages are one if

1. neither has a word of its own, in its text, title or heading; or
2. the one declares the other as its original or a view of it, and little is its own; or
3. what differs cannot be a record's: names and canonical addresses do not differ, no word of an
   address is its page's own, much of what they have in common is no template, little is their own,
   and nothing stands in the place of something else (`texts`). As long as their host is not known,
   and where nothing names them, one of them has nothing of its own: two records each have
   something.

Where no word tells them apart, nor may a field, a sign, the order of words, or what a reader sees
beside the text; but the order of a long text.
Measured in docs/study.md.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import regex
from msgspec import structs

from scrapy_simhash.judging import rule
from scrapy_simhash.judging.rule import NO_RECORD, Deciding, Place, Relation, decide
from scrapy_simhash.judging.texts import (
    compare_words,
    find_other_numbers,
    find_signs,
    find_swap,
    read_wording,
)
from scrapy_simhash.judging.wordrule import find_declared
from scrapy_simhash.judging.words import SIGNS
from scrapy_simhash.pages.addresses import last_segment, own_folders, plain_form
from scrapy_simhash.pages.features import normalise, tokenise
from scrapy_simhash.pages.wording import unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_simhash.judging.comparison import Answer, Compared
    from scrapy_simhash.judging.documents import Document, Reading
    from scrapy_simhash.judging.rule import Evidence
    from scrapy_simhash.judging.sites import Sites
    from scrapy_simhash.judging.texts import OwnWords
    from scrapy_simhash.pages.facts import Facts

# Candidates whose words are compared; their originals are among the best.
MOST_LOOKED_AT = 8
# Of the words that both have, so much may be a page's own: of a declared copy, of another one, and
# with what other pages have, too, or if the page that was first has more, and the other nothing.
MOST_OF_DECLARED = 0.15
MOST_OF_ITS_OWN = 0.25
MOST_IN_ALL = 0.5
# A declared copy agrees in so much; the second page of a list that declares the first one does not.
LEAST_OF_DECLARED = 0.85
# Words that both have and that are no template, of which records have few: where one page has
# nothing of its own, where both have, and as long as nobody knows what is template.
LEAST_IF_CONTAINED = 25
LEAST_IN_COMMON = 50
LEAST_ON_UNKNOWN = 100
DECLARED = "one declares the other as its original, or as a view of it"
# No word of a folder, which may be a release, and none of a page.
_NUMBER, _ALL_NUMBER, _A_NUMBER = map(re.compile, (r"\d", r"^\d+$", r"\d+"))
# What a sign says in a name: "operator!", too.
_SIGNS_OF_NAMES = regex.compile(rf"!|{SIGNS.pattern}")


def may_be_one(first: Facts, second: Facts, answer: Answer) -> bool:
    """Whether the rule calls two pages one, or their words may show that they are."""
    e = answer.evidence
    if e.deciding is not Deciding.TEXTS or not answer.near:
        return False
    if e.short or answer.confirmed:
        return answer.confirmed
    # Without the top of a page, something else is its heading.
    named = Relation.DIFFER not in {e.title, e.heading} or Relation.SAME in {e.title, e.heading}
    return _agree(e) or (named and bool(find_declared(first, second)))


def _agree(e: Evidence) -> bool:
    """Whether content agrees, and no name differs."""
    alike = max(e.agreed_within, e.main_alike) >= e.confirm
    return alike and Relation.DIFFER not in {e.title, e.heading}


def look_at_candidates(
    page: Document, compared: Sequence[Compared], documents: Reading, sites: Sites
) -> list[Compared]:
    """Look at the words of what may be one page with another, the best first, until one is.

    Args:
        page: with its wording.
        compared: with it, the best first.
        documents: has the wordings of the others, and of their sites.
        sites: knows their templates.

    Returns:
        What cannot be one with it, as it came, and what was looked at.
    """
    alike = {
        candidate.number: record
        for candidate, record, answer, _ in compared
        if record is not None and may_be_one(page.facts, record.facts, answer)
    }
    if not alike:
        return list(compared)
    text, first = read_wording(unpack(page.wording)), list(alike)[:MOST_LOOKED_AT]
    wordings = documents.get_wordings(first)
    looked: list[Compared] = []
    for each in compared:
        number, record = each.candidate.number, alike.get(each.candidate.number)
        if record is None:
            looked.append(each)
        elif number in first:
            pages, own = (page.facts, record.facts), None
            if wording := wordings.get(number):
                template = sites.find_template(documents, each.sites)
                urls = pages[0].url, pages[1].url
                own = compare_words(text, read_wording(wording), template, urls)
            answer = look_at_words(each.answer, *pages, own)
            looked.append(each._replace(answer=answer))
            if answer.confirmed:
                first = []
    return looked


def look_at_words(answer: Answer, first: Facts, second: Facts, own: OwnWords | None) -> Answer:
    """Let an answer pass, or correct it, by the own words of two pages.

    Args:
        answer: of the rule, about pages that may be one, see `may_be_one`.
        first: the page that would be dropped.
        second: the one that stays.
        own: what each has for itself; None where the text of one cannot be read.
    """
    why, one = "the text of one cannot be read", False
    if own is not None:
        why, one = judge_words(first, second, own, answer.evidence)
        # What was declared may prove nothing.
        if one and why != DECLARED and not (answer.confirmed or _agree(answer.evidence)):
            why, one = "", False
    evidence = structs.replace(
        answer.evidence, objection="" if one else why, copy=why if one else ""
    )
    said, _, confirmed = decide(evidence)
    return answer._replace(
        evidence=evidence,
        confirmed=confirmed,
        tests=(said, *answer.tests[1:], *([] if own is None else [own.describe()])),
        own=own,
    )


def judge_words(first: Facts, second: Facts, own: OwnWords, evidence: Evidence) -> tuple[str, bool]:
    """Judge two pages by their own words: why, for people, and whether they are one.

    The reason is "" where words do not decide: at one address, at two names that are one in folders
    that do not tell pages apart, on two hosts, and where hardly any words are no template.
    """
    if evidence.place is not Place.HOST:
        return "", False
    if own.equal and _are_called_alike(first, second):
        two = _compare_equal(own)
        equal = "neither has a word of its own" * (own.common >= LEAST_IN_COMMON)
        return two or equal, not two
    agreed = max(evidence.agreed_within, evidence.main_alike)
    if agreed >= LEAST_OF_DECLARED and is_declared_copy(first, second, own):
        return DECLARED, True
    if len({*own.names}) == 1 and last_segment(first.url) == last_segment(second.url):
        return _compare_folders(first.url, second.url, own, evidence), False
    record = _find_record(first, second, own, evidence)
    return record or NO_RECORD, not record


def _compare_folders(first: str, second: str, own: OwnWords, evidence: Evidence) -> str:
    """Return why the folders that only one of two addresses has make two pages of them, or "".

    They are two subjects; or something stands in the place of something else, and not all content
    agrees. Folders with numbers are releases.
    """
    folders = own_folders(first, second)
    names = ["/".join(each) for each in folders]
    if not any(folders) or not own.template.known:
        return ""
    if all(_find_subjects(own, names[0], names[1], _NUMBER)):
        return _show_two("two folders", *names)
    if evidence.agreed >= evidence.confirm or _NUMBER.search("".join(names)):
        return ""
    swap = find_swap(own)
    return _show_two("two records", *swap) if swap else ""


def _find_subjects(
    own: OwnWords, first: str, second: str, number: re.Pattern[str]
) -> tuple[set[str], set[str]]:
    """Find the words, but numbers, of only one of two addresses' names that its page alone says."""
    mine, theirs = (
        {
            word
            for read in (name, name.replace("_", " "))
            for word in _read_name(read)
            if not number.search(word)
        }
        for name in (first, second)
    )
    return own.first.list_tokens() & (mine - theirs), own.second.list_tokens() & (theirs - mine)


def _compare_equal(own: OwnWords) -> str:
    """Return what else tells two pages apart that have no words of their own, or "".

    That is a field, though its values are the site's; other signs; another order; and what is seen
    beside the text, and no site's.
    """
    if swap := find_swap(own):
        return _show_two("two records", *swap)
    if signs := find_signs(own.first.text, own.second.text):
        return _show_two("other signs", *signs)
    if own.common < rule.TRIPLES_OF_A_LONG_TEXT and not own.in_order:
        return "the same words in another order, or more often"
    beside = [
        next((each for each in mine.beside if each not in own.template.beside.union(seen)), "")
        for mine, seen in (
            (own.first.text, own.second.text.beside),
            (own.second.text, own.first.text.beside),
        )
    ]
    return _show_two("one text, but not what is seen beside it", *beside) if any(beside) else ""


def is_declared_copy(first: Facts, second: Facts, own: OwnWords) -> bool:
    """Return True if one page declares the other its original or view, and has little of its own.

    Also if both declare a third one, on a known host. An address that others declare, too, or a
    front page proves nothing; nor does any where hardly a word is no template, or numbers of one
    stand in the place of others.
    """
    declared = find_declared(first, second) - own.template.declared
    if not declared or own.common < LEAST_IF_CONTAINED or not own.same_rest:
        return False
    if not own.template.known and declared.isdisjoint(map(plain_form, (first.url, second.url))):
        return False
    if find_other_numbers(own):
        return False
    return all(side.new.sum() <= MOST_OF_DECLARED * own.common for side in (own.first, own.second))


def _find_record(first: Facts, second: Facts, own: OwnWords, evidence: Evidence) -> str:
    """Return why two pages at two addresses may be two records, or ""."""
    declared = first.canonical, second.canonical
    if any(side.own.any() for side in (own.first, own.second)) and _are_apart(*declared):
        return _show_two("two canonical addresses", *declared)
    for mine, theirs, relation in (
        (first.title, second.title, evidence.title),
        (first.heading, second.heading, evidence.heading),
    ):
        if not (mine and theirs):
            continue
        differ = relation is not Relation.SAME and all(_tell_apart(mine, theirs))
        if differ or _are_turned(mine, theirs):
            return _show_two("two names", mine, theirs)
    mine, theirs = (
        f"{last_segment(page.url)} {name}"
        for page, name in zip((first, second), own.names, strict=True)
    )
    subjects = _find_subjects(own, mine, theirs, _ALL_NUMBER)
    if any(subjects):
        return _show_two("two addresses", *(min(words, default="") for words in subjects))
    if not own.same_rest:
        return "two addresses, and other words beyond those that are kept"
    known = own.template.known
    contained = not all(side.own.any() for side in (own.first, own.second))
    adds = own.first.own.any()  # and if it is dropped, nobody has that
    least = LEAST_IF_CONTAINED if contained else LEAST_IN_COMMON
    named = Relation.SAME in {evidence.title, evidence.heading}
    silent = not named and not (contained and _are_called_alike(first, second))
    in_all, new = (
        max(int(marks.sum()) for marks in both) / max(1, own.common)
        for both in zip(*((side.own, side.unique) for side in (own.first, own.second)), strict=True)
    )
    for why, holds in (
        ("nothing names two pages, each with words of its own", silent),
        ("each has words of its own, and their site is not known", not known and not contained),
        ("few words in common", own.common < (least if known else LEAST_ON_UNKNOWN)),
        ("much is their own", in_all > MOST_IN_ALL or (adds and new > MOST_OF_ITS_OWN)),
    ):
        if holds:
            return _show_two(why, *(side.show() for side in (own.first, own.second)))
    swap = find_swap(own, counters=not _are_numbered(mine, theirs))
    return _show_two("two records", *swap) if swap else ""


def _are_apart(mine: str, theirs: str) -> bool:
    """Whether two pages both declare a canonical address, and not the same one."""
    first, second = plain_form(mine), plain_form(theirs)
    return bool(first and second) and first != second


def _are_numbered(mine: str, theirs: str) -> bool:
    """Whether the names of two addresses each have a number that the other lacks."""
    first, second = (set(_A_NUMBER.findall(name)) for name in (mine, theirs))
    return not (first <= second or second <= first)


def _show_two(what: str, mine: str, theirs: str) -> str:
    first, second = (repr(each) if each else "nothing" for each in (mine, theirs))
    return f"{what}: {first} / {second}"


@lru_cache(maxsize=1_024)
def _read_name(name: str) -> tuple[str, ...]:
    """List the words and signs of a name."""
    normal = normalise(name)
    return (*tokenise(normal), *_SIGNS_OF_NAMES.findall(normal))


def _tell_apart(mine: str, theirs: str) -> tuple[bool, bool]:
    """Whether a name has words that the other one lacks, and whether that one has some."""
    first, second = Counter(_read_name(mine)), Counter(_read_name(theirs))
    return bool(first - second), bool(second - first)


def _are_turned(mine: str, theirs: str) -> bool:
    """Whether two names have the same words in another order: "Rome to Paris"."""
    first, second = _read_name(mine), _read_name(theirs)
    return first != second and sorted(first) == sorted(second)


def _are_called_alike(first: Facts, second: Facts) -> bool:
    """Whether titles and headings have the same words in the same order, where both have them."""
    names = (first.title, second.title), (first.heading, second.heading)
    return not any(any(_tell_apart(*two)) or _are_turned(*two) for two in names if all(two))
