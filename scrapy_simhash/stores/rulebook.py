"""The URL rules of a store.

::

    rules   key of a rule (8 bytes) -> UrlRuleRecord
    acting  key of a rule -> UrlRule, of those that act; two counters, see `judging.rows`
    forms   name of a normal form (16 bytes) -> Form

Samples are pages that are fetched although rules would spare them. Other pages vote only where two
texts can be compared, because a rule is proven by that alone. To check one that acts this is not
enough: a request that is not made may bring whatever there is. So a sample speaks against its
rules, too, if it is no page that could be compared with the known one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from scrapy_simhash.judging.comparison import (
    STALE_SECONDS,
    Outcome,
    can_vote,
    compare,
    compare_pages,
    group_of,
)
from scrapy_simhash.judging.rows import COUNTERS, grow_version, pack_row, read_rows, unpack_row
from scrapy_simhash.judging.sinks import may_vote
from scrapy_simhash.pages.links import MOSTLY_NEW, NO_LINKS, measure_new_links
from scrapy_simhash.urls.proof import is_doubtful, is_proven, lower_bound
from scrapy_simhash.urls.rules import (
    MOST_CONFLICTS,
    MOST_RECENT,
    RuleChange,
    RuleState,
    UrlRule,
    UrlRuleRecord,
    check_rule,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from scrapy_simhash.judging.documents import Document, Record
    from scrapy_simhash.judging.interface import Documents
    from scrapy_simhash.judging.rule import Rule


RuleAction: TypeAlias = Literal["pin", "ban", "retire", "learn"]
MOST_RULES_PER_HOST = 64
# About a kilobyte each. Beyond them no more are added.
MOST_RULES = 2**16
# About 50 bytes each. Beyond them no more are noted: requests that lead there are made.
MOST_FORMS = 2**21
_STATES: dict[str, RuleState] = {
    "pin": RuleState.PINNED,
    "ban": RuleState.BANNED,
    "retire": RuleState.RETIRED,
    "learn": RuleState.LEARNING,
}
# What pages say of a rule; the rest of its record stays when it is learned again.
_VOTES = (
    *("same", "different", "grey", "directories", "recent", "conflicts", "examples", "values"),
)


class Form(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """The first document whose address has a normal form, by its number; it may be gone since."""

    document: int


def list_acting(documents: Documents) -> list[UrlRule]:
    """List the rules that act; leaves out what is damaged, and what cannot be applied."""
    rules = []
    rows = (row for row in documents.scan_rows("acting") if row[0] not in COUNTERS)
    for _, rule in read_rows(UrlRule, rows):
        with suppress(ValueError):
            check_rule(rule)
            rules.append(rule)
    return rules


def list_rules(documents: Documents, host: str | None = None) -> list[UrlRuleRecord]:
    """List all rules, or those of a host, by their text."""
    found = [unpack_row(UrlRuleRecord, key, row) for key, row in documents.scan_rows("rules")]
    wanted = [record for record in found if host is None or record.rule.host == host.lower()]
    return sorted(wanted, key=lambda record: record.rule.text)


def get_rule(documents: Documents, rule_id: str) -> UrlRuleRecord | None:
    """Get the rule of an id (16 hex digits), or None."""
    try:
        key = bytes.fromhex(rule_id)
    except ValueError:
        return None
    row = documents.get_row("rules", key)
    return None if row is None else unpack_row(UrlRuleRecord, key, row)


def put_rule(documents: Documents, record: UrlRuleRecord) -> None:
    """Write a rule, and list it among those that act, or not."""
    key = record.rule.key
    documents.put_row("rules", key, pack_row(key, record))
    if record.acts == (documents.get_row("acting", key) is None):
        note_acting(documents, record)
        grow_version(documents)


def note_acting(documents: Documents, record: UrlRuleRecord) -> None:
    """List a rule among those that act, or not."""
    key = record.rule.key
    if record.acts:
        documents.put_row("acting", key, pack_row(key, record.rule))
    else:
        documents.drop_row("acting", key)


def set_state(
    documents: Documents, record: UrlRuleRecord, state: RuleState, reason: str, time: float
) -> RuleChange:
    """Change the state of a rule; its record is written."""
    record.become(state, reason, time)
    if state is RuleState.RETIRED:
        # Its votes were enough; without new ones it would be proven again at once.
        record.tested_at, record.checks = record.same + record.different, ""
    put_rule(documents, record)
    return RuleChange(record.rule.id, record.rule.text, state, reason)


def change_rule(
    documents: Documents, rule_id: str, action: RuleAction, time: float
) -> UrlRuleRecord:
    """Change the state of a rule because a person says so, see `Store.change_url_rule`."""
    record = get_rule(documents, rule_id)
    if record is None:
        raise ValueError(f"no URL rule has the id {rule_id!r}; `scrapy simhash urls` lists them")
    if action not in get_args(RuleAction):
        raise ValueError(
            f"{action!r} is nothing to do with a URL rule; take pin, ban, retire or learn"
        )
    if action == "learn":
        record.tested_at, record.checks = 0, ""
    set_state(documents, record, _STATES[action], f"a person said: {action}", time)
    return record


def add_rules(documents: Documents, rules: Iterable[UrlRule], time: float) -> list[UrlRuleRecord]:
    """Add rules from a file as candidates without votes; returns those that are new."""
    added = []
    for rule in rules:
        check_rule(rule)
        if documents.get_row("rules", rule.key) is not None:
            continue
        if documents.count_rows("rules") >= MOST_RULES:
            break
        record = UrlRuleRecord(rule, created=time, imported=True)
        set_state(documents, record, RuleState.LEARNING, "imported", time)
        added.append(record)
    return added


def keep_learned(
    documents: Documents, learned: Sequence[UrlRuleRecord], known: Iterable[UrlRule], time: float
) -> list[RuleChange]:
    """Write the rules of a site as its pages were found to vote; lists those that act now, or not.

    `learned` is what `urls.learning.learn` found when it was given the `known` ones of this site.
    """
    changes = []
    kept = _choose(learned, {rule.key for rule in known if _is_acting(documents, rule)})
    for fresh in kept:
        record = get_rule(documents, fresh.rule.id)
        if record is None:
            if documents.count_rows("rules") >= MOST_RULES:
                continue
            record = UrlRuleRecord(fresh.rule, created=time)
            record.become(RuleState.LEARNING, "two pairs of pages propose it", time)
        for name in _VOTES:
            setattr(record, name, getattr(fresh, name))
        change = _decide(fresh, record)
        if change is None:
            put_rule(documents, record)
        else:
            changes.append(set_state(documents, record, *change, time))
    keys = {record.rule.key for record in kept}
    for rule in known:
        old = get_rule(documents, rule.id) if rule.key not in keys else None
        if old is not None and old.state is RuleState.LEARNING and not (old.imported or old.parked):
            documents.drop_row("rules", rule.key)
    return changes


def _is_acting(documents: Documents, rule: UrlRule) -> bool:
    record = get_rule(documents, rule.id)
    return record is not None and record.acts


def _choose(learned: Iterable[UrlRuleRecord], acting: Container[bytes]) -> list[UrlRuleRecord]:
    """Choose the rules of each host that are kept: proven ones, then those with most votes.

    None that acts is left out, so that it is retired if it is proven no more.
    """
    by_host: dict[str, list[UrlRuleRecord]] = {}
    for record in sorted(learned, key=lambda record: (not record.acts, -record.same)):
        of_host = by_host.setdefault(record.rule.host, [])
        room = len(of_host) < MOST_RULES_PER_HOST and record.recent
        if room or record.rule.key in acting:
            of_host.append(record)
    return [record for of_host in by_host.values() for record in of_host]


def _decide(fresh: UrlRuleRecord, record: UrlRuleRecord) -> tuple[RuleState, str] | None:
    """Decide whether votes change the state of a rule: the new one and why, or None."""
    if record.state in {RuleState.LEARNING, RuleState.RETIRED} and fresh.acts:
        if is_proven(record):  # once retired, it takes more votes
            bound = lower_bound(record.same, record.different)
            counts = f"{record.same} same, {record.different} different"
            return RuleState.ACTING, f"{counts}: at least {bound:.3f} same"
    elif record.state is RuleState.ACTING and not fresh.acts:
        if fresh.different or "d" in record.recent:
            pair = record.conflicts[-1] if record.conflicts else ("", "")
            return RuleState.RETIRED, f"different pages: {' '.join(pair)}"
        if is_doubtful(record):
            return RuleState.RETIRED, "of its last votes most cannot be told"
    return None


def note_form(documents: Documents, name: bytes, number: int, page: Document | Record) -> None:
    """Note that a document has a normal form, unless another one has it that is not outdated."""
    if not can_vote(page):
        return
    known = find_form(documents, name)
    other = documents.get(known) if known else None
    if known == number or (other is not None and page.time - other.time <= STALE_SECONDS):
        return
    if known or documents.count_rows("forms") < MOST_FORMS:
        documents.put_row("forms", name, pack_row(name, Form(number)))


def find_form(documents: Documents, name: bytes) -> int:
    """Find the document of a normal form; 0 if there is none. It may have been deleted since."""
    rows = read_rows(Form, [(name, documents.get_row("forms", name))])
    return next((form.document for _, form in rows), 0)


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
    """Let a sample that was judged vote on its rules, see `Store.check_sample`.

    Nobody can tell where a page is a wall, or was deleted.
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
