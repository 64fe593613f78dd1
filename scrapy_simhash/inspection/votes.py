"""Votes of stored pages on rules about addresses: whether two pages of one form are the same."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.judging.comparison import (
    UNKNOWN_SITES,
    compare,
    compare_contents,
    find_deciding,
)
from scrapy_simhash.judging.names import call_differently
from scrapy_simhash.judging.rule import CONFIRM, LEAST_ALIKE, Deciding, Rule
from scrapy_simhash.pages.addresses import Address, parse_address
from scrapy_simhash.pages.links import MOSTLY_NEW, NO_LINKS, measure_new_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.pages.facts import Facts

# Sketches of shorter texts are uncertain.
LEAST_WORDS = 64
# A page that was fetched a day later may have been changed in between.
STALE_SECONDS = 86_400


class Outcome(StrEnum):
    """What comes of comparing two pages."""

    SAME = "s"
    DIFFERENT = "d"
    GREY = "g"


# Of what the last votes of a form were; it votes again only with a stronger outcome.
_WEIGHTS: dict[Outcome | None, int] = {Outcome.GREY: 1, Outcome.SAME: 2, Outcome.DIFFERENT: 3}


class Page(NamedTuple):
    """A page that votes, with its address in parts and as text."""

    document: StoredDocument
    address: Address
    text: str


class Vote(NamedTuple):
    """A comparison of two pages that have one form."""

    outcome: Outcome
    page: Page
    kept: Page
    form: str


def format_address(address: Address) -> str:
    """Format an address; equal addresses have the same form."""
    scheme, host, path, query = address
    parameters = "?" + "&".join(query) if query else ""
    return f"{scheme}://{host}/{'/'.join(path)}{parameters}"


def list_voters(stored: Iterable[StoredDocument]) -> list[Page]:
    """List the pages that vote: those with text enough, at an address that rules may judge."""
    able = (each for each in stored if each.facts.sketch and not each.facts.stub)
    addresses = ((each, parse_address(each.facts.url)) for each in able)
    return [Page(each, found, format_address(found)) for each, found in addresses if found]


def list_votes(pages: Iterable[tuple[Page, str]], rule: Rule) -> Iterator[Vote]:
    """Compare the pages that have one form: of each, and its form, in the order of arrival."""
    first: dict[str, Page] = {}
    changing, groups = set[str](), set[int]()
    votes: Counter[str] = Counter()
    for page, form in pages:
        if form != page.text:
            changing.add(form)
        kept = first.setdefault(form, page)
        if kept.text == page.text or form not in changing:
            continue
        new, old = page.document, kept.document
        outcome = _compare(new, old, rule)
        if outcome is not None and new.facts.time - old.facts.time > STALE_SECONDS:
            first[form] = page  # otherwise no later page could ever speak against the rule
        weight = _WEIGHTS.get(outcome, 0)
        if outcome is None or (outcome is not Outcome.DIFFERENT and votes[form] >= weight):
            continue
        # One document has one vote: a wall has many forms.
        shown = {each.record.original or each.document for each in (new, old)}
        if outcome is Outcome.SAME and not groups.isdisjoint(shown):
            continue
        groups |= shown if outcome is Outcome.SAME else set()
        votes[form] = max(votes[form], weight)
        yield Vote(outcome, page, kept, form)


def _compare(page: StoredDocument, kept: StoredDocument, rule: Rule) -> Outcome | None:
    """Compare two pages; None where they have no vote, because most links are others."""
    outcome = compare_pages(page.facts, kept.facts, rule)
    if outcome is Outcome.SAME:
        share = measure_new_links(
            page.facts.link_sketch, NO_LINKS, page.facts.url, kept.facts.link_sketch, kept.facts.url
        )
        # The judge had all links of the page, and carried them over to the place of its original.
        known = share if page.record.new_links is None else page.record.new_links
        if share is not None and min(share, known or 0.0) >= MOSTLY_NEW:
            return None
    return outcome


def compare_pages(first: Facts, second: Facts, rule: Rule) -> Outcome:
    """Compare two pages that vote, by the judgement's rule, however far apart they are.

    They are `different` where texts of 64 words and more are less than .6 alike, and less than .6
    of the shorter one is in the other (a print view lacks the navigation); or where no name of the
    one fits the other. But not if a day lies between them. The rest is `grey`.
    """
    rule = Rule(rule.distance, CONFIRM if rule.confirm is None else rule.confirm)
    if find_deciding(first, second, rule) is not Deciding.TEXTS:
        return Outcome.GREY
    if compare(first, second, rule).confirmed:
        return Outcome.SAME
    if abs(first.time - second.time) > STALE_SECONDS:
        return Outcome.GREY
    if call_differently(first, second):
        return Outcome.DIFFERENT
    (content,) = compare_contents([(first, second)], [UNKNOWN_SITES])
    # Of a print view nearly all is on the page, too, which has a navigation more.
    contained = content.triples / max(1, min(first.whole_words, second.whole_words))
    alike = max(content.main_alike, content.whole, contained) >= LEAST_ALIKE
    unlike = min(first.words, second.words) >= LEAST_WORDS and not alike
    return Outcome.DIFFERENT if unlike else Outcome.GREY
