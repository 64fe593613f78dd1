"""Learn the rules of a site from its stored pages: which parts of addresses make no difference.

A rule is proposed by two pairs of pages: near-duplicates, or a page and the one that it calls
canonical. Then all pages of its host vote: each is mapped to its normal form, and where another
page has that form, too, the two are compared. A form votes `same` once, and so does a document: a
hundred session ids of one page say no more than two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from scrapy_simhash.judging.comparison import STALE_SECONDS, Outcome, can_vote, compare_pages
from scrapy_simhash.pages.addresses import Address, directory_of, format_address, parse_address
from scrapy_simhash.pages.links import MOSTLY_NEW, NO_LINKS, measure_new_links
from scrapy_simhash.urls.applying import ActingRules, apply_rule, is_loose, may_change
from scrapy_simhash.urls.candidates import find_candidates
from scrapy_simhash.urls.proof import is_proven, list_values, split_rule
from scrapy_simhash.urls.rules import (
    MOST_CONFLICTS,
    MOST_DIRECTORIES,
    MOST_EXAMPLES,
    MOST_RECENT,
    MOST_VALUES,
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
    known: Iterable[UrlRule] = (),
) -> list[UrlRuleRecord]:
    """Learn the rules of a site.

    Args:
        pages: of all hosts of the site, in the order in which they arrived.
        walls: numbers of documents that show the same for any address; their pages do not vote.
        rule: by which two pages are compared.
        known: rules to count the votes on besides those that the pages propose.

    Returns:
        The rules with their votes: those that are proven are `acting`, all others `learning`. Some
        milliseconds a hundred pages; twice the memory of the pages.
    """
    by_host: defaultdict[str, list[_Page]] = defaultdict(list)
    by_number: dict[int, StoredDocument] = {}
    for facts in pages:
        address = parse_address(facts.url)
        if address is None or not can_vote(facts) or (facts.original or facts.document) in walls:
            continue
        by_host[address.host].append(_Page(facts, address, format_address(address)))
        by_number[facts.document] = facts
    records: dict[UrlRule, UrlRuleRecord] = {}
    waiting = [*known, *_propose(by_number)][::-1]
    while waiting:
        candidate = waiting.pop()
        if candidate in records or _undoes(candidate, records):
            continue
        record = records[candidate] = UrlRuleRecord(candidate)
        votes = list(_list_votes(candidate, by_host, rule))
        for vote in votes:
            _add_vote(record, vote)
        if is_proven(record):
            record.state = RuleState.ACTING
        elif record.different:
            conflicts, examples = (
                [vote.pair for vote in votes if vote.outcome is outcome and vote.pair[1]]
                for outcome in (Outcome.DIFFERENT, Outcome.SAME)
            )
            if (narrowed := split_rule(candidate, conflicts, examples)) is not None:
                waiting.append(narrowed)
    _check_chains(records, by_host, rule)
    return list(records.values())


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
            yield _Vote(Outcome.DIFFERENT, (page.facts.url, ""), "")
        form = page.address
        if page.address.host == candidate.host and may_change(candidate, page.text):
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
        yield _Vote(outcome, (page.facts.url, kept.facts.url), directory_of(form))


def _compare(page: _Page, kept: _Page, rule: Rule) -> Outcome | None:
    """Compare two pages; None where they have no vote."""
    if len({page.facts.reader.callback, kept.facts.reader.callback} - {""}) > 1:
        return None
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


def _add_vote(record: UrlRuleRecord, vote: _Vote) -> None:
    """Add a vote to the counts of a rule."""
    record.recent = (record.recent + vote.outcome)[-MOST_RECENT:]
    if vote.outcome is Outcome.GREY:
        record.grey += 1
    elif vote.outcome is Outcome.DIFFERENT:
        record.different += 1
        if vote.pair[1]:
            record.conflicts = (*record.conflicts, vote.pair)[-MOST_CONFLICTS:]
    else:
        record.same += 1
        record.examples = (*record.examples, vote.pair)[:MOST_EXAMPLES]
        if vote.directory not in record.directories:
            record.directories = (*record.directories, vote.directory)[:MOST_DIRECTORIES]
        digests = [
            xxhash.xxh3_64_digest(text.encode("utf-8", "surrogatepass"))
            for text in list_values(record.rule, vote.pair)
        ]
        record.values = tuple(dict.fromkeys((*record.values, *digests)))[:MOST_VALUES]


def _check_chains(
    records: Mapping[UrlRule, UrlRuleRecord], by_host: Mapping[str, Sequence[_Page]], rule: Rule
) -> None:
    """Check rules that act one after the other: a page that differs speaks against all of them."""
    by_id = {record.rule.id: record for record in records.values() if record.acts}
    acting = ActingRules(record.rule for record in by_id.values())
    first: dict[str, _Page] = {}
    met = [page for pages in by_host.values() for page in pages] if len(by_id) > 1 else []
    for page in sorted(met, key=lambda page: page.facts.document):
        target = acting.find_target(page.facts.url)
        form = target.form if target else page.text
        kept = first.setdefault(form, page)
        if target is None or len(target.rules) == 1 or kept.text == page.text:
            continue
        if _compare(page, kept, rule) is Outcome.DIFFERENT:
            vote = _Vote(Outcome.DIFFERENT, (page.facts.url, kept.facts.url), "")
            for record in map(by_id.__getitem__, target.rules):
                _add_vote(record, vote)
                record.state = RuleState.LEARNING
