"""Samples: pages that are fetched although rules would spare them, to check these rules.

Other pages vote only where two texts can be compared, because a rule is proven by that alone. To
check one that acts this is not enough: a request that is not made may bring whatever there is. So a
sample speaks against its rules, too, if it is no page that could be compared with the known one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_simhash.judging.comparison import compare
from scrapy_simhash.judging.evidence import (
    STALE_SECONDS,
    Outcome,
    can_vote,
    compare_pages,
    group_of,
)
from scrapy_simhash.judging.sinks import may_vote
from scrapy_simhash.pages.links import MOSTLY_NEW, NO_LINKS, measure_new_links
from scrapy_simhash.stores.rulebook import get_rule, put_rule, set_state
from scrapy_simhash.urls.proof import is_doubtful
from scrapy_simhash.urls.rules import (
    MOST_CONFLICTS,
    MOST_RECENT,
    RuleChange,
    RuleState,
    UrlRuleRecord,
)

if TYPE_CHECKING:
    from scrapy_simhash.judging.documents import Record
    from scrapy_simhash.judging.interface import Documents
    from scrapy_simhash.judging.rule import Rule


class Sample(NamedTuple):
    """A page that was fetched although rules lead from its address to another document.

    Attributes:
        rules: ids of the rules that it takes to get there.
        url: as it was requested.
        target: number of that other document.
        document: its own number; 0 if it could not be judged: a PDF, a page that is too large.
        redirected: it came from another address.
        new_links: share of its links that the page lacks of which it is a near-duplicate, 0 to 1;
            None if it is none.
    """

    rules: tuple[str, ...]
    url: str
    target: int
    document: int = 0
    redirected: bool = False
    new_links: float | None = None


def check_sample(
    documents: Documents, sample: Sample, rule: Rule, time: float
) -> tuple[Outcome | None, list[RuleChange]]:
    """Let a sample vote on its rules.

    Args:
        documents: of the store, to be written.
        sample: the page, once it was judged.
        rule: by which two documents are compared.
        time: seconds since 1970, UTC.

    Returns:
        The vote, or None if nobody can tell: a page is a wall, or was deleted. And the rules whose
        states it changed.
    """
    target = documents.get(sample.target)
    outcome = _compare(documents, sample, target, rule) if target is not None else None
    changes: list[RuleChange] = []
    if target is None or outcome is None:
        return None, changes
    for name in sample.rules:
        record = get_rule(documents, name)
        if record is not None and record.state is not RuleState.BANNED:
            change = _count(documents, record, outcome, (sample.url, target.url), time)
            changes += [] if change is None else [change]
    return outcome, changes


def _count(
    documents: Documents,
    record: UrlRuleRecord,
    outcome: Outcome,
    pair: tuple[str, str],
    time: float,
) -> RuleChange | None:
    """Count the vote of a sample on a rule; returns what it changed."""
    record.sampled += 1
    record.sampled_same += outcome is Outcome.SAME
    record.sampled_different += outcome is Outcome.DIFFERENT
    record.checks = (record.checks + outcome)[-MOST_RECENT:]
    reason = ""
    if outcome is Outcome.DIFFERENT:
        record.different += 1
        record.conflicts = (*record.conflicts, pair)[-MOST_CONFLICTS:]
        reason = f"different pages: {pair[0]} {pair[1]}"
    elif is_doubtful(record):
        grey, same = map(record.last_votes.count, (Outcome.GREY, Outcome.SAME))
        reason = f"of its last votes {grey} cannot be told, and {same} are the same"
    if reason and record.state is RuleState.ACTING:
        return set_state(documents, record, RuleState.RETIRED, reason, time)
    put_rule(documents, record)
    if outcome is Outcome.DIFFERENT and record.state is RuleState.PINNED:
        return RuleChange(record.rule.id, record.rule.text, record.state, reason)
    return None


def _compare(documents: Documents, sample: Sample, target: Record, rule: Rule) -> Outcome | None:
    """Compare a sample with the document that would have stood for it."""
    page = documents.get(sample.document) if sample.document else None
    if page is None:
        return None if sample.document else Outcome.DIFFERENT
    group, known = group_of(sample.document, page), group_of(sample.target, target)
    if not (may_vote(documents, group) and may_vote(documents, known)):
        return None
    if sample.document == sample.target:
        return Outcome.SAME
    share = sample.new_links if group == known else None
    if group == known:
        outcome = Outcome.SAME
    elif can_vote(page) and can_vote(target):
        outcome = compare_pages(page, target, rule)
    else:
        alike = compare(page, target, rule).duplicate
        outcome = Outcome.SAME if alike else Outcome.DIFFERENT
    if outcome is Outcome.SAME:
        if share is None:
            share = measure_new_links(
                page.link_sketch, NO_LINKS, page.url, target.link_sketch, target.url
            )
        wrong = share is not None and share >= MOSTLY_NEW
    else:
        wrong = outcome is Outcome.DIFFERENT or sample.redirected
    if not wrong:
        return outcome
    # A page of an earlier crawl may have been changed since then.
    stale = abs(page.time - target.time) > STALE_SECONDS
    return Outcome.GREY if stale else Outcome.DIFFERENT
