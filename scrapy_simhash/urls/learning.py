"""Learn the rules of a site from its stored pages: which parts of addresses make no difference.

A rule is proposed by two pairs of pages: near-duplicates, or a page and the one that it calls
canonical. Then all pages of its host vote: each is mapped to its normal form, and where another
page has that form, too, the two are compared. A form votes `same` once, and so does a document: a
hundred session ids of one page say no more than two. Pages whose addresses were found on another
site have no vote: whoever links there could choose what is compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.judging.comparison import STALE_SECONDS, Outcome, can_vote, compare_pages
from scrapy_simhash.pages.addresses import Address, format_address, parse_address
from scrapy_simhash.pages.links import MOSTLY_NEW, NO_LINKS, measure_new_links
from scrapy_simhash.urls.applying import ActingRules, apply_rule, find_directory, is_loose
from scrapy_simhash.urls.candidates import find_candidates
from scrapy_simhash.urls.proof import Votes, choose_directories, list_values
from scrapy_simhash.urls.rules import (
    ACTS,
    MOST_CONFLICTS,
    MOST_EXAMPLES,
    RuleKind,
    RuleState,
    UrlRule,
    UrlRuleRecord,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from scrapy_simhash.judging.documents import StoredDocument
    from scrapy_simhash.judging.rule import Rule

# Of what the last votes of a form were; it votes again if it has more to say.
_WEIGHTS: dict[Outcome | None, int] = {Outcome.GREY: 1, Outcome.SAME: 2}


class SameForm(NamedTuple):
    """A normal form of several pages.

    Attributes:
        form: an address.
        rules: ids of the rules under which its own pages are one; none if they are not.
        pages: those that have it, in the order of their arrival.
    """

    form: str
    rules: frozenset[str]
    pages: Sequence[StoredDocument]


class Learned(NamedTuple):
    """The rules of a site with their votes, and the normal forms of which several pages are one."""

    records: list[UrlRuleRecord]
    forms: list[SameForm]


class _Page(NamedTuple):
    """A page with its address, in parts and as text."""

    facts: StoredDocument
    address: Address
    text: str

    @property
    def group(self) -> int:
        """Number of the document that the page shows: its own, or that of its original."""
        return self.facts.original or self.facts.document


class _Vote(NamedTuple):
    """A vote on a rule: the addresses of two pages, and the directory of their normal form."""

    outcome: Outcome
    pair: tuple[str, str]
    directory: str


def learn(
    pages: Iterable[StoredDocument],
    walls: Collection[int],
    rule: Rule,
    known: Mapping[UrlRule, RuleState] | None = None,
) -> Learned:
    """Learn the rules of a site.

    Args:
        pages: of all hosts of the site, in the order in which they arrived.
        walls: numbers of documents that show the same for any address; their pages do not vote.
        rule: by which two pages are compared.
        known: rules to count the votes on besides those that the pages propose; what a person said
            of one holds, and one that was retired stays so.

    Returns:
        What was learned; a rule that is proven anywhere is `acting`. Some .3 ms a page, and twice
        the memory of the pages.
    """
    by_host: defaultdict[str, list[_Page]] = defaultdict(list)
    by_number: dict[int, StoredDocument] = {}
    for facts in pages:
        address = None if facts.foreign else parse_address(facts.url)
        if address is None or not can_vote(facts) or (facts.original or facts.document) in walls:
            continue
        by_host[address.host].append(_Page(facts, address, format_address(address)))
        by_number[facts.document] = facts
    states = dict(known or {})
    records: dict[UrlRule, UrlRuleRecord] = {}
    for candidate in (*states, *_propose(by_number)):
        if candidate in records or _undoes(candidate, records):
            continue
        record = records[candidate] = _count_votes(candidate, by_host, rule)
        record.state = decide(states.get(candidate, RuleState.LEARNING), record)
    return Learned([*records.values()], _find_forms(records.values(), by_host, rule))


def decide(state: RuleState, record: UrlRuleRecord) -> RuleState:
    """Decide on the state of a rule whose votes were counted, from the one that it had."""
    if state in {RuleState.LEARNING, RuleState.ACTING}:
        return RuleState.ACTING if record.directories else RuleState.LEARNING
    return state


def _undoes(rule: UrlRule, others: Iterable[UrlRule]) -> bool:
    """Whether one of some rules leads back from where a rule leads."""
    return rule.kind is RuleKind.HOST_ALIAS and any(
        other.kind is RuleKind.HOST_ALIAS and rule.hosts == other.hosts[::-1] for other in others
    )


def _propose(by_number: Mapping[int, StoredDocument]) -> Iterator[UrlRule]:
    """List the rules that two pairs of pages propose."""
    # A rule that explains a single pair is of no use, and most of what is proposed does.
    urls = {page.url for page in by_number.values()}
    forms: defaultdict[UrlRule, set[str]] = defaultdict(set)
    for page in by_number.values():
        original = by_number.get(page.original)
        canonical = page.canonical if page.canonical in urls else ""
        for other in {original.url if original else "", canonical} - {"", page.url}:
            for rule in find_candidates(page.url, other, page.canonical):
                for address in map(parse_address, (page.url, other)):
                    if address is not None and address.host == rule.host:
                        forms[rule].add(format_address(apply_rule(rule, address)))
                        break
    return (rule for rule, found in forms.items() if len(found) > 1)


def _count_votes(
    candidate: UrlRule, by_host: Mapping[str, Sequence[_Page]], rule: Rule
) -> UrlRuleRecord:
    """Count the votes on a rule, and choose the directories where they prove it."""
    votes = list(_list_votes(candidate, by_host, rule))
    by_directory: defaultdict[str, Votes] = defaultdict(Votes)
    for vote in votes:
        of_directory = by_directory[vote.directory]
        of_directory.letters += vote.outcome
        if vote.outcome is Outcome.SAME:
            of_directory.values |= list_values(candidate, vote.pair)
    counts = Counter(vote.outcome for vote in votes)
    conflicts, examples = (
        tuple(vote.pair for vote in votes if vote.outcome is outcome)
        for outcome in (Outcome.DIFFERENT, Outcome.SAME)
    )
    return UrlRuleRecord(
        candidate,
        same=counts[Outcome.SAME],
        different=counts[Outcome.DIFFERENT],
        grey=counts[Outcome.GREY],
        directories=choose_directories(candidate, by_directory),
        conflicts=conflicts[-MOST_CONFLICTS:],
        examples=examples[:MOST_EXAMPLES],
    )


def _list_votes(
    candidate: UrlRule, by_host: Mapping[str, Sequence[_Page]], rule: Rule
) -> Iterator[_Vote]:
    """Compare the pages that a rule makes one, in the order of their arrival."""
    first: dict[str, _Page] = {}
    changing: set[str] = set()
    votes: Counter[str] = Counter()
    groups: set[int] = set()
    met = [page for host in candidate.hosts for page in by_host.get(host, ())]
    for page in sorted(met, key=lambda page: page.facts.document):
        if is_loose(candidate, page.address):  # parameters that do not only occur together
            pair = page.facts.url, page.facts.url
            yield _Vote(Outcome.DIFFERENT, pair, find_directory(page.address))
        form = page.address
        if page.address.host == candidate.host:
            form = apply_rule(candidate, page.address)
        text = page.text if form is page.address else format_address(form)
        if form is not page.address:
            changing.add(text)
        kept = first.setdefault(text, page)
        if kept is page or kept.text == page.text or text not in changing:
            continue
        outcome = _compare(page, kept, rule)
        if outcome is not None and page.facts.time - kept.facts.time > STALE_SECONDS:
            first[text] = page  # otherwise no later page could ever speak against the rule
        weight = _WEIGHTS.get(outcome, 0)
        if outcome is None or (outcome is not Outcome.DIFFERENT and votes[text] >= weight):
            continue
        if outcome is Outcome.SAME:
            # One document has one vote: a wall that nobody knows as such yet has many forms.
            if not groups.isdisjoint({page.group, kept.group}):
                continue
            groups |= {page.group, kept.group}
        votes[text] = max(votes[text], weight)
        yield _Vote(outcome, (page.facts.url, kept.facts.url), find_directory(form))


def _compare(page: _Page, kept: _Page, rule: Rule) -> Outcome | None:
    """Compare two pages; None where they have no vote."""
    outcome = compare_pages(page.facts, kept.facts, rule)
    if outcome is Outcome.SAME:
        share = measure_new_links(
            page.facts.link_sketch,
            NO_LINKS,
            page.facts.url,
            kept.facts.link_sketch,
            kept.facts.url,
        )
        # The judge had all links of the page, and carried them over to the place of its original.
        known = page.facts.new_links
        if share is not None and min(share, share if known is None else known) >= MOSTLY_NEW:
            return None
    return outcome


def _find_forms(
    records: Iterable[UrlRuleRecord], by_host: Mapping[str, Sequence[_Page]], rule: Rule
) -> list[SameForm]:
    """Find the normal forms, by all rules that act, whose own pages are one."""
    # So that a request is spared only where its own form voted, under each of its rules: what rules
    # say of the pages around a form, and what they say one by one, is not enough.
    acting = ActingRules(record.acting for record in records if record.state in ACTS)
    by_form: defaultdict[str, list[tuple[_Page, frozenset[str]]]] = defaultdict(list)
    met = [page for pages in by_host.values() for page in pages] if acting.texts else []
    for page in sorted(met, key=lambda page: page.facts.document):
        target = acting.find_target(page.facts.url)
        rules = frozenset(target.rules if target else ())
        by_form[target.form if target else page.text].append((page, rules))
    return [
        SameForm(form, _agree(some, rule), [page.facts for page, _ in some])
        for form, some in by_form.items()
        if len(some) > 1
    ]


def _agree(pages: Sequence[tuple[_Page, frozenset[str]]], rule: Rule) -> frozenset[str]:
    """List the rules under which pages of one form are one; none if two of a day are not."""
    kept, by = pages[0]
    agreed: frozenset[str] = frozenset()
    for page, rules in pages[1:]:
        if page.text == kept.text:
            continue
        outcome = _compare(page, kept, rule)
        if outcome is Outcome.SAME:
            agreed |= rules | by
        elif outcome is Outcome.DIFFERENT:
            return frozenset()
        elif page.facts.time - kept.facts.time > STALE_SECONDS:
            kept, by, agreed = page, rules, frozenset()
    return agreed
