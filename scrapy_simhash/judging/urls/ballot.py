"""Count the votes on a rule, and change its state where they say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import xxhash

from scrapy_simhash.judging.urls.book import (
    add_rule,
    change_entry,
    get_rule,
    put_rule,
    set_state,
)
from scrapy_simhash.judging.urls.evidence import Outcome
from scrapy_simhash.judging.urls.proof import (
    is_doubtful,
    list_values,
    lower_bound,
    proven_state,
    split_rule,
    test_record,
)
from scrapy_simhash.judging.urls.records import (
    GROUP_BYTES,
    MOST_CONFLICTS,
    MOST_DIRECTORIES,
    MOST_EXAMPLES,
    MOST_GROUPS,
    MOST_RECENT,
    MOST_VALUES,
    RuleChange,
    RuleState,
    UrlRule,
    UrlRuleRecord,
)

if TYPE_CHECKING:
    from scrapy_simhash.judging.interface import Documents

# Votes prove such a rule, or prove it again.
_UNPROVEN = {RuleState.LEARNING, RuleState.RETIRED}


class Vote(NamedTuple):
    """A vote of two pages that a rule makes one.

    Attributes:
        rule: the rule.
        outcome: what came of comparing them.
        pair: their addresses, that of the later one first.
        directory: that of the normal form.
        groups: numbers of the documents that they show: those of their originals.
        time: seconds since 1970, UTC.
        counted: it is the first one of its form, or speaks against the rule; else it only checks
            a rule that acts.
        sampled: the later page was fetched although the rule acts.
    """

    rule: UrlRule
    outcome: Outcome
    pair: tuple[str, str]
    directory: str
    groups: set[int]
    time: float
    counted: bool
    sampled: bool


def count_vote(documents: Documents, vote: Vote, confidence: float) -> list[RuleChange]:
    """Count a vote, and list the rules whose states it changed."""
    record = get_rule(documents, vote.rule.id)
    if record is None:
        return []
    if vote.counted and vote.outcome is Outcome.SAME and not _take_groups(record, vote.groups):
        if not vote.sampled:
            return []
        vote = vote._replace(counted=False)
    if not record.same and vote.counted and vote.outcome is Outcome.SAME:
        change_entry(documents, record.rule, supported=True)
    _add(record, vote)
    if vote.outcome is Outcome.DIFFERENT:
        return _oppose(documents, record, vote)
    if record.state is RuleState.ACTING and is_doubtful(record):
        grey, same = record.recent.count(Outcome.GREY), record.recent.count(Outcome.SAME)
        reason = f"of its last votes {grey} cannot be told, and {same} are the same"
        return [_change(documents, record, RuleState.RETIRED, reason, vote.time)]
    agrees = vote.outcome is Outcome.SAME and vote.counted
    if agrees and record.state in _UNPROVEN and test_record(record, confidence):
        bound = lower_bound(record.same, record.different)
        reason = f"{record.same} same, {record.different} different: at least {bound:.3f} same"
        return [_change(documents, record, proven_state(record.rule), reason, vote.time)]
    put_rule(documents, record, vote.rule.key)
    return []


def _take_groups(record: UrlRuleRecord, groups: set[int]) -> bool:
    """Note that these documents voted `same` on a rule; False if one of them had its vote."""
    # One document has one vote: a wall that nobody knows as such yet has many forms. Digests that
    # overlap are found once in 10**9 votes.
    digests = [xxhash.xxh3_64_digest(b"%d" % group)[:GROUP_BYTES] for group in sorted(groups)]
    if any(digest in record.groups for digest in digests):
        return False
    record.groups = (record.groups + b"".join(digests))[-GROUP_BYTES * MOST_GROUPS :]
    return True


def _add(record: UrlRuleRecord, vote: Vote) -> None:
    """Add a vote to the counts of a rule."""
    if vote.sampled:
        record.sampled += 1
        record.sampled_same += vote.outcome is Outcome.SAME
        record.sampled_different += vote.outcome is Outcome.DIFFERENT
    if vote.counted or vote.sampled:
        record.recent = (record.recent + vote.outcome)[-MOST_RECENT:]
    if not vote.counted:
        return
    if vote.outcome is Outcome.GREY:
        record.grey += 1
    elif vote.outcome is Outcome.DIFFERENT:
        record.different += 1
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


def _oppose(documents: Documents, record: UrlRuleRecord, vote: Vote) -> list[RuleChange]:
    """Do what a vote `different` asks for."""
    reason = f"different pages: {vote.pair[0]} {vote.pair[1]}"
    if record.state is RuleState.PINNED:
        put_rule(documents, record, vote.rule.key)
        return [RuleChange(record.rule.id, record.rule.text, record.state, reason)]
    narrowed = split_rule(record)
    if narrowed is not None and add_rule(documents, narrowed, vote.time) is not None:
        reason = f"{reason}; `{narrowed.text}` takes its place"
        if record.state is RuleState.LEARNING:
            return [_change(documents, record, RuleState.RETIRED, reason, vote.time)]
    if record.state is RuleState.ACTING:
        return [_change(documents, record, RuleState.RETIRED, reason, vote.time)]
    if record.state is RuleState.REPORTED:
        return [_change(documents, record, RuleState.LEARNING, reason, vote.time)]
    put_rule(documents, record, vote.rule.key)
    return []


def retire_loose(documents: Documents, rule: UrlRule, url: str, time: float) -> list[RuleChange]:
    """Retire a rule on parameters that occur together: on this page they do not."""
    record = get_rule(documents, rule.id)
    if record is None or record.state not in {RuleState.ACTING, RuleState.LEARNING}:
        return []
    record.recent = (record.recent + Outcome.DIFFERENT)[-MOST_RECENT:]
    reason = f"these parameters do not only occur together: {url}"
    return [_change(documents, record, RuleState.RETIRED, reason, time)]


def _change(
    documents: Documents, record: UrlRuleRecord, state: RuleState, reason: str, time: float
) -> RuleChange:
    set_state(documents, record, state, reason, time)
    return RuleChange(record.rule.id, record.rule.text, state, reason)
