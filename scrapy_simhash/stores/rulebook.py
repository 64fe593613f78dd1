"""The URL rules of a store.

::

    rules   key of a rule (8 bytes) -> UrlRuleRecord
    acting  key of a rule -> ActingRule, of those that act; two counters, see `judging.rows`
    forms   name of a normal form (16 bytes) -> Form

Only learning writes normal forms: those whose own pages were the same. A request is spared if its
form is among them, or if a person pinned its rules and the crawl got the page of that form itself.

Samples are pages that are fetched although rules would spare them. Other pages vote only where two
texts can be compared, because a rule is proven by that alone. To check one that acts this is not
enough: a request that is not made may bring whatever there is. So a sample speaks against its
rules, too, if it is no page that could be compared with the known one.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.comparison import (
    STALE_SECONDS,
    Outcome,
    can_vote,
    compare,
    compare_pages,
    group_of,
)
from scrapy_simhash.judging.documents import Record, State, counts, was_delivered
from scrapy_simhash.judging.judge import get_sound
from scrapy_simhash.judging.rows import COUNTERS, grow_version, pack_row, read_rows
from scrapy_simhash.judging.sinks import is_sink, may_vote
from scrapy_simhash.pages.links import MOSTLY_NEW, NO_LINKS, measure_new_links
from scrapy_simhash.urls.learning import decide
from scrapy_simhash.urls.rules import (
    MOST_CONFLICTS,
    ActingRule,
    RuleChange,
    RuleState,
    UrlRule,
    UrlRuleRecord,
    check_rule,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy_simhash.judging.interface import Documents
    from scrapy_simhash.judging.rows import Owed
    from scrapy_simhash.judging.rule import Rule
    from scrapy_simhash.urls.applying import ActingRules


RuleAction: TypeAlias = Literal["pin", "ban", "retire", "learn"]
MOST_RULES_PER_HOST = 64
# About a kilobyte each. Beyond them no more are added.
MOST_RULES = 2**16
# About 70 bytes each. Beyond them no more are noted: requests that lead there are made.
MOST_FORMS = 2**21
# Of an acting rule, so many samples more that are undecided than are the same; chosen.
_MOST_DOUBTS = 10
# A near-duplicate's original may have become a near-duplicate itself; such chains are short.
_MOST_ORIGINALS = 8
_STATES: dict[str, RuleState] = {
    "pin": RuleState.PINNED,
    "ban": RuleState.BANNED,
    "retire": RuleState.RETIRED,
    "learn": RuleState.LEARNING,
}
# What pages say of a rule; the rest of its record stays when it is learned again.
_VOTES = ("same", "different", "grey", "directories", "conflicts", "examples")


class Form(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A page that stands for a normal form, and the ids of the rules under which it does."""

    document: int
    rules: tuple[str, ...] = ()


def list_acting(documents: Documents) -> list[ActingRule]:
    """List the rules that act; leaves out what is damaged, and what cannot be applied."""
    rules = []
    rows = (row for row in documents.scan_rows("acting") if row[0] not in COUNTERS)
    for _, acting in read_rows(ActingRule, rows):
        with suppress(ValueError):
            check_rule(acting.rule)
            rules.append(acting)
    return rules


def list_rules(documents: Documents, host: str | None = None) -> list[UrlRuleRecord]:
    """List all undamaged rules, or those of a host, by their text."""
    rows = read_rows(UrlRuleRecord, documents.scan_rows("rules"))
    wanted = [record for _, record in rows if host is None or record.rule.host == host.lower()]
    return sorted(wanted, key=lambda record: record.rule.text)


def get_rule(documents: Documents, rule_id: str) -> UrlRuleRecord | None:
    """Get the rule of an id (16 hex digits); None if it is missing or damaged."""
    with suppress(ValueError):
        key = bytes.fromhex(rule_id)
        rows = read_rows(UrlRuleRecord, [(key, documents.get_row("rules", key))])
        return next((record for _, record in rows), None)
    return None


def put_rule(documents: Documents, record: UrlRuleRecord) -> None:
    """Write a rule, and list it among those that act, or not."""
    key = record.rule.key
    documents.put_row("rules", key, pack_row(key, record))
    acting = pack_row(key, record.acting) if record.acts else None
    if acting != documents.get_row("acting", key):
        note_acting(documents, record)
        grow_version(documents)


def note_acting(documents: Documents, record: UrlRuleRecord) -> None:
    """List a rule among those that act, or not."""
    key = record.rule.key
    if record.acts:
        documents.put_row("acting", key, pack_row(key, record.acting))
    else:
        documents.drop_row("acting", key)


def change_rule(
    documents: Documents, rule_id: str, action: RuleAction, time: float
) -> UrlRuleRecord:
    """Change the state of a rule because a person says so, see `Store.change_url_rule`."""
    record = get_rule(documents, rule_id)
    if record is None:
        raise ValueError(f"no URL rule has the id {rule_id!r}; `scrapy simhash urls` lists them")
    if action not in get_args(RuleAction):
        raise ValueError(f"{action!r} is no action on a URL rule; use pin, ban, retire or learn")
    record.become(_STATES[action], f"a person said: {action}", time)
    put_rule(documents, record)
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
        record.become(RuleState.LEARNING, "imported", time)
        put_rule(documents, record)
        added.append(record)
    return added


def keep_learned(
    documents: Documents, learned: Sequence[UrlRuleRecord], known: Iterable[UrlRule], time: float
) -> list[RuleChange]:
    """Write the rules of a site as its pages voted; lists those that act now, or not any more.

    `learned` is what `urls.learning.learn` found when it was given the `known` ones of this site.
    """
    changes: list[RuleChange] = []
    room = Counter[str]()
    kept = set()
    for fresh in sorted(learned, key=lambda record: (not record.directories, -record.same)):
        room[fresh.rule.host] += 1
        if room[fresh.rule.host] <= MOST_RULES_PER_HOST and (fresh.same or fresh.different):
            kept.add(fresh.rule)
            changes += _keep(documents, fresh, time)
    for rule in {*known} - kept:
        old = get_rule(documents, rule.id)
        if old is not None and old.state is RuleState.ACTING:
            changes += _keep(documents, UrlRuleRecord(rule), time)  # no page votes any more
        elif old is not None and old.state is RuleState.LEARNING and not old.imported:
            documents.drop_row("rules", rule.key)
    return changes


def _keep(documents: Documents, fresh: UrlRuleRecord, time: float) -> list[RuleChange]:
    """Write the votes on a rule; returns what they changed."""
    record = get_rule(documents, fresh.rule.id)
    if record is None:
        # What a row that cannot be read says may be that this rule never acts.
        unread = documents.get_row("rules", fresh.rule.key) is not None
        if unread or documents.count_rows("rules") >= MOST_RULES:
            return []
        record = UrlRuleRecord(fresh.rule, created=time)
        record.become(RuleState.LEARNING, "two pairs of pages propose it", time)
    for name in _VOTES:
        setattr(record, name, getattr(fresh, name))
    state = decide(record.state, record)  # of now: a person may have changed it
    votes = f"{record.same} same, {record.different} different"
    changes = [] if state is record.state else [record.become(state, votes, time)]
    put_rule(documents, record)
    return changes


def note_form(documents: Documents, name: bytes, form: Form) -> None:
    """Note the page of a normal form, or that it has none, if no rules are named."""
    if not form.rules:
        documents.drop_row("forms", name)
    elif documents.get_row("forms", name) or documents.count_rows("forms") < MOST_FORMS:
        documents.put_row("forms", name, pack_row(name, form))


def find_form(documents: Documents, name: bytes) -> Form:
    """Find the page of a normal form; 0 if there is none. It may have been deleted since."""
    rows = read_rows(Form, [(name, documents.get_row("forms", name))])
    return next((form for _, form in rows), Form(0))


class Parking(NamedTuple):
    """A request that a crawl asks to park.

    Attributes:
        owed: the request, with the rules that lead to its normal form.
        form: name of that form, for the request's reader.
        known: number of the page with this form that the same crawl fetched for this reader;
            0 if there is none.
        not_before: seconds since 1970, UTC; what was last fetched before then spares no request.
        only_ask: park nothing, only tell what would be done.
    """

    owed: Owed
    form: bytes
    known: int = 0
    not_before: float = 0.0
    only_ask: bool = False


class KnownPage(NamedTuple):
    """The known page that stands for the one of a request, or why there is none.

    Attributes:
        reason: "" if the request was parked. Else make it, because: `known` (its page is a document
            and no near-duplicate), `unproven` (a rule acts no more), `no_target` (no page of
            this form, or its pages never were the same), `not_delivered`, `callback` (of another
            one), `expired`, `sink`, `unpackable` (it could not be made later), `full` (a million
            requests are owed), or `unavailable` (the store cannot be written).
        document: number of the page, or 0.
        url: of the page, or "".
        pending: the page is pending.
        key: of the parked request; b"" if nothing was parked.
    """

    reason: str
    document: int = 0
    url: str = ""
    pending: bool = False
    key: bytes = b""


def find_known_page(stored: Documents, wanted: Parking, alive: Callable[[str], bool]) -> KnownPage:
    """Find the page that stands for that of a request, if one does."""
    row = wanted.owed
    if _is_known(stored, row.identity):
        return KnownPage("known")
    keys = {rule: bytes.fromhex(rule) for rule in row.rules}
    acting = dict(
        read_rows(ActingRule, ((key, stored.get_row("acting", key)) for key in keys.values()))
    )
    if len(acting) < len(keys):
        return KnownPage("unproven")
    form = find_form(stored, wanted.form)
    voted = all(rule in form.rules or not acting[key].directories for rule, key in keys.items())
    number = wanted.known or form.document
    record = get_sound(stored, number) if number and voted else None
    if record is None:
        return KnownPage("no_target")
    # Of a near-duplicate its original tells whether it counts.
    kept, original = _find_original(stored, number, record)
    reason = ""
    if any(is_sink(stored, found) for found in sorted({number, kept})):
        reason = "sink"
    elif original is None or not counts(original, alive):
        reason = "not_delivered"
    elif not counts(original, alive, row.reader):
        reason = "callback"
    elif record.time < wanted.not_before:
        reason = "expired"
    pending = original is not None and not was_delivered(original, row.reader)
    return KnownPage(reason, number, record.url, pending)


def _is_known(stored: Documents, identity: bytes) -> bool:
    """Whether a request brings a document that is no near-duplicate, or was taken for one."""
    # What an earlier crawl dropped as a near-duplicate need not be fetched by a later one.
    number = stored.find_number(identity)
    record = stored.get(number) if number is not None else None
    return record is not None and (record.state != State.DUPLICATE or record.spared)


def _find_original(stored: Documents, number: int, record: Record) -> tuple[int, Record | None]:
    """Find the document whose items stand for a document: itself, or its original's original."""
    found: Record | None = record
    for _ in range(_MOST_ORIGINALS):
        if found is None or found.state != State.DUPLICATE:
            return number, found
        number = found.original
        found = stored.get(number) if number else None
    return number, None


def find_stand_in(
    stored: Documents, acting: ActingRules, url: str, rules: Sequence[str], target: int
) -> Record | None:
    """Find the document whose items stand for a page that was not fetched; None if none does.

    The rules must lead from its address as they did, and the target must be there and no wall.
    """
    found = acting.find_target(url)
    # A damaged one must not keep all others waiting.
    try:
        record = stored.get(target) if found and {*found.rules} == {*rules} else None
        number, original = _find_original(stored, target, record) if record else (0, None)
    except DamagedError:
        return None
    return None if any(is_sink(stored, each) for each in (target, number)) else original


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

    There is no vote if the page is a wall, or was deleted.
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
    grey = record.sampled - record.sampled_same - record.sampled_different
    reason = ""
    if outcome is Outcome.DIFFERENT:
        record.conflicts = (*record.conflicts, pair)[-MOST_CONFLICTS:]
        reason = f"different pages: {pair[0]} {pair[1]}"
    elif grey > record.sampled_same + _MOST_DOUBTS:
        reason = f"{grey} samples are undecided, and {record.sampled_same} are the same"
    change = None
    if reason and record.state is RuleState.ACTING:
        change = record.become(RuleState.RETIRED, reason, time)
    elif outcome is Outcome.DIFFERENT and record.state is RuleState.PINNED:
        change = RuleChange(record.rule.id, record.rule.text, record.state, reason)
    put_rule(documents, record)
    return change


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
