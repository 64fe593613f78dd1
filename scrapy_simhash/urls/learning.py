"""Learn the rules of a site from its stored pages: which parts of addresses make no difference.

Two pairs of pages propose a rule: near-duplicates, or a page and the one that it calls canonical.
Then all pages of its host vote: where a rule maps two to one form, they are compared. A form votes
`same` once, and so does a document: a hundred session ids of one page say no more than two.

A rule is proven in those directories whose own pages voted `same`, three times at least, and of
whose last hundred votes none was `different`. A single conflict in a directory shows that something
else than the directory matters, so the rule is proven nowhere; two, that it does not hold there.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_simhash.judging.comparison import STALE_SECONDS, Outcome, can_vote, compare_pages
from scrapy_simhash.pages.addresses import (
    MOSTLY_NEW,
    NO_LINKS,
    Address,
    format_address,
    measure_new_links,
    parse_address,
    split_pair,
)
from scrapy_simhash.urls.rules import RuleKind, UrlRule, find_candidates, find_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.judging.rule import Rule


# What the lower bound of the share of `same`, in all directories without a conflict, has to reach:
# 11 votes without a `different`, which is all that a small flat site has.
CONFIDENCE = 0.8
_Z = 1.6449  # the 95 % quantile of the normal distribution, for a one-sided interval
_LEAST_VOTES = 3  # one or two pages may be alike by chance
# One value of a parameter, such as `format=print`, shows nothing of the others.
_LEAST_VALUES = 3
_RECENT = 100
# Of a site, those that most pairs propose: what a site makes up takes no more time; not measured.
MOST_RULES = 64
# Of what the last votes of a form were; it votes again only with a stronger outcome.
_WEIGHTS: dict[Outcome | None, int] = {Outcome.GREY: 1, Outcome.SAME: 2, Outcome.DIFFERENT: 3}


class Page(NamedTuple):
    """A page that votes, with its address in parts and as text."""

    facts: StoredDocument
    address: Address
    text: str


class Vote(NamedTuple):
    """A comparison of two pages that have one form."""

    outcome: Outcome
    page: Page
    kept: Page
    form: str

    @property
    def pair(self) -> tuple[str, str]:
        """The URLs of both."""
        return self.page.facts.url, self.kept.facts.url


class FoundRule(NamedTuple):
    """A rule with the votes on it, and the directories where they prove it, most votes first."""

    rule: UrlRule
    votes: Sequence[Vote]
    directories: Sequence[str]


def list_voters(stored: Iterable[StoredDocument]) -> list[Page]:
    """List the pages that vote: those that can be compared, at an address that rules may judge."""
    addresses = ((facts, parse_address(facts.url)) for facts in stored if can_vote(facts))
    return [Page(facts, found, format_address(found)) for facts, found in addresses if found]


def learn(stored: Iterable[StoredDocument], rule: Rule) -> list[FoundRule]:
    """Find the rules of a site, at most 64; `stored` are its pages in the order of arrival."""
    pages = list_voters(stored)
    found = []
    for candidate in _propose(pages):
        of_host = [page for page in pages if page.address.host == candidate.host]
        forms = [format_address(candidate.apply(page.address)) for page in of_host]
        votes = list(list_votes(zip(of_host, forms, strict=True), rule))
        found.append(FoundRule(candidate, votes, _choose_directories(candidate, votes)))
    return found


def _propose(pages: Sequence[Page]) -> list[UrlRule]:
    """List the rules that two pairs of pages propose."""
    by_number = {page.facts.document: page for page in pages}
    by_url = {page.facts.url: page for page in pages}
    forms: defaultdict[UrlRule, set[Address]] = defaultdict(set)
    for page in pages:
        for other in (by_number.get(page.facts.original), by_url.get(page.facts.canonical)):
            for rule in find_candidates(page.address, other.address) if other else ():
                forms[rule].add(rule.apply(page.address))
    # A rule that explains a single pair is of no use, and most of what is proposed does.
    proposed = Counter({rule: len(found) for rule, found in forms.items() if len(found) > 1})
    return [rule for rule, _ in proposed.most_common(MOST_RULES)]


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
        outcome = _compare(page.facts, kept.facts, rule)
        if outcome is not None and page.facts.time - kept.facts.time > STALE_SECONDS:
            first[form] = page  # otherwise no later page could ever speak against the rule
        weight = _WEIGHTS.get(outcome, 0)
        if outcome is None or (outcome is not Outcome.DIFFERENT and votes[form] >= weight):
            continue
        # One document has one vote: a wall has many forms.
        shown = {each.facts.original or each.facts.document for each in (page, kept)}
        if outcome is Outcome.SAME and not groups.isdisjoint(shown):
            continue
        groups |= shown if outcome is Outcome.SAME else set()
        votes[form] = max(votes[form], weight)
        yield Vote(outcome, page, kept, form)


def _compare(page: StoredDocument, kept: StoredDocument, rule: Rule) -> Outcome | None:
    """Compare two pages; None where they have no vote, because most links are others."""
    outcome = compare_pages(page, kept, rule)
    if outcome is Outcome.SAME:
        share = measure_new_links(page.link_sketch, NO_LINKS, page.url, kept.link_sketch, kept.url)
        # The judge had all links of the page, and carried them over to the place of its original.
        known = share if page.new_links is None else page.new_links
        if share is not None and min(share, known or 0.0) >= MOSTLY_NEW:
            return None
    return outcome


def lower_bound(same: int, different: int) -> float:
    """Return the lower bound, 0 to 1, of Wilson's one-sided 95 % interval of same / all votes."""
    votes, square = same + different, _Z * _Z
    share = same / max(1, votes)
    spread = _Z * math.sqrt(share * (1 - share) * votes + square / 4)
    return max(0.0, (same + square / 2 - spread) / (votes + square))


def _choose_directories(rule: UrlRule, votes: Iterable[Vote]) -> list[str]:
    """Choose the directories in which a rule is proven, those with most votes first."""
    by_directory: defaultdict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        if address := parse_address(vote.form):
            by_directory[find_directory(address)].append(vote)
    same, different, values = Counter[str](), 0, set[tuple[str, ...]]()
    for name, some in by_directory.items():
        recent = Counter(vote.outcome for vote in some[-_RECENT:])
        if recent[Outcome.DIFFERENT] == 1:
            return []
        if recent[Outcome.DIFFERENT] or recent[Outcome.GREY] > recent[Outcome.SAME]:
            continue
        for vote in some:
            same[name] += vote.outcome is Outcome.SAME
            different += vote.outcome is Outcome.DIFFERENT
            if vote.outcome is Outcome.SAME:
                values |= {vote.page.address.query, vote.kept.address.query}
    # What a rule drops whatever its value must have had several.
    any_value = rule.kind in {RuleKind.DROP_PARAMETER, RuleKind.DROP_PARAMETERS}
    dropped = {tuple(p for p in query if split_pair(p)[0] in rule.args) for query in values}
    few = any_value and len(dropped - {()}) < _LEAST_VALUES
    if few or lower_bound(same.total(), different) < CONFIDENCE:
        return []
    return [name for name, number in same.most_common() if number >= _LEAST_VOTES]


# In duplicate-url-discarder's patterns `*` matches slashes, too, so each directory has a rule of
# its own, which excludes what lies deeper. It applies rules in an order of its own, so that no two
# of those that remove parts of a path may match one address.

# What means something in a pattern.
_SPECIAL = re.compile(r"[*|?#]")
_WWW = re.compile(r"www\d*\.")  # stripped by the normalizer


def list_discarder_rules(found: Iterable[FoundRule]) -> list[dict[str, Any]]:
    """List the proven rules for duplicate-url-discarder, but those that it has no processor for."""
    rules: list[dict[str, Any]] = []
    cut: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for rule, directory in ((each.rule, name) for each in found for name in each.directories):
        for processor, args, path, query in _express(rule, directory):
            include = f"{rule.host}{path}|{query}"
            exclude = [rule.host + "/*" * (path.count("/") + 1)]
            if path.endswith("/*"):  # names with an ending are in another directory
                exclude.append(f"{rule.host}{path}.*|")
            if processor == "normalizer":
                exclude.append(f"www.{rule.host}")
            if processor == "subpathRemoval":
                others = cut[rule.host, path.count("/")]
                exclude += others
                others.append(include)
            pattern = {"include": [include], "exclude": exclude}
            order = len(rules) + 1
            said = {"order": order, "urlPattern": pattern, "processor": processor, "args": args}
            rules.append(said)
    return rules


def _express(rule: UrlRule, directory: str) -> Iterator[tuple[str, list[str | int], str, str]]:
    """Yield processor, arguments, and patterns of path and query for a rule in a directory."""
    segments, args, kind = directory.split("/")[1:], rule.args, rule.kind
    if _SPECIAL.search("".join((*segments[: len(segments) > 1], *args))):
        return
    if kind is RuleKind.DROP_VALUE:
        yield "queryRemoval", [args[0].partition("=")[0]], directory, f"?{args[0]}"
    elif kind in {RuleKind.DROP_PARAMETER, RuleKind.DROP_PARAMETERS}:
        yield "queryRemoval", [*args], directory, "?" + "&".join(f"{name}=*" for name in args)
    elif kind is RuleKind.STRIP_SLASH and segments[-1] and not _WWW.match(rule.host):
        yield "normalizer", [], f"{directory}/", ""
    elif kind in {RuleKind.DROP_LEADING, RuleKind.DROP_SEGMENTS}:
        last = len(segments) + bool(segments[-1])
        for place in [0] if kind is RuleKind.DROP_LEADING else range(1, last):
            path = "/".join(["", *segments[:place], *args, *segments[place:]])
            yield "subpathRemoval", [*range(place, place + len(args))], path, ""
