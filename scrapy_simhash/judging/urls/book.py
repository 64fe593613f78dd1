"""The rules of a store as its rows keep them: by id, and by host.

::

    rules   key of a rule (8 bytes) -> UrlRuleRecord
    hosts   XXH3-64 of a host -> the rules that change its addresses, or lead to them
    forms   key of a rule + XXH3-64 of a normal form -> Form; with 8 zero bytes in place of a rule,
            an address as it is -> Noted
    meta    "version" -> grows with each change of what acts
            "acting" + key of a rule -> a rule that acts
            "births" -> the first and the next number of a birth; "birth" + number -> key of a rule
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from struct import Struct
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import msgspec
import xxhash

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.urls.addresses import parse_address
from scrapy_simhash.judging.urls.applying import RulesOfHost
from scrapy_simhash.judging.urls.proof import can_act
from scrapy_simhash.judging.urls.records import (
    ACTS,
    Form,
    RuleKind,
    RuleState,
    UrlRule,
    UrlRuleRecord,
    check_rule,
    pack_row,
    unpack_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_simhash.judging.interface import Documents

RuleAction: TypeAlias = Literal["pin", "ban", "retire", "learn"]
MOST_RULES_PER_HOST = 64
# Of these at most so many are only reported: every pair of releases is another one.
MOST_REPORTED_PER_HOST = 16
# About a kilobyte each. Beyond them the rule goes that was born first and is not proven.
MOST_RULES = 2**16
# About 70 bytes each. Beyond them no more are noted: new pages do not vote, and are fetched.
MOST_FORMS = 2**21
_EVICTIONS_TRIED = 64
NO_RULE = bytes(8)
VERSION, _ACTING, _BIRTHS, _BIRTH = b"version", b"acting", b"births", b"birth"
_octets = Struct(">Q").pack
_STATES: dict[str, RuleState] = {
    "pin": RuleState.PINNED,
    "ban": RuleState.BANNED,
    "retire": RuleState.RETIRED,
    "learn": RuleState.LEARNING,
}
_REPORTED_KINDS = {RuleKind.FREE_SEGMENT, RuleKind.SUBSTITUTE}


class Entry(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """A rule in the row of a host.

    Attributes:
        rule: of this host, or of another one that leads here.
        state: as in its record.
        born: its record's `created`; forms that voted before then did so for a forgotten rule.
        supported: pages voted `same`.
        caught_up: the pages that were there before it have voted.
    """

    rule: UrlRule
    state: RuleState
    born: float
    supported: bool = False
    caught_up: bool = False


class HostRow(msgspec.Struct, array_like=True, forbid_unknown_fields=False, dict=True):
    """The rules that matter to the addresses of a host, oldest first."""

    host: str
    entries: list[Entry]

    @cached_property
    def by_key(self) -> dict[bytes, Entry]:
        """The entries by the keys of their rules."""
        return {entry.rule.key: entry for entry in self.entries}

    @cached_property
    def rules(self) -> frozenset[UrlRule]:
        """The rules; to look one up does not take its key."""
        return frozenset(entry.rule for entry in self.entries)

    @cached_property
    def voting(self) -> RulesOfHost:
        """The rules on which pages of this host vote."""
        return RulesOfHost(
            entry.rule
            for entry in self.entries
            if entry.state is not RuleState.BANNED and entry.rule.host == self.host
        )

    @cached_property
    def acting(self) -> RulesOfHost:
        """The rules of this host that act."""
        return RulesOfHost(
            entry.rule
            for entry in self.entries
            if entry.state in ACTS and entry.rule.host == self.host
        )


class Noted(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """An address as it is.

    Attributes:
        document: the number of its document; 0 where none was fetched.
        callback: of its request; "" where that is not known.
        rules: keys of the rules that lead here from other addresses, one after the other.
    """

    document: int = 0
    callback: str = ""
    rules: bytes = b""


class _Births(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """Which numbers of births are remembered: from `first` to before `next`."""

    first: int = 0
    next: int = 0


class _Key(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """The key of a rule, or a counter."""

    key: bytes = b""
    count: int = 0


def host_key(host: str) -> bytes:
    """Make the key of a host's row; `host` as in `Address`."""
    return xxhash.xxh3_64_digest(host.encode())


def form_key(rule_key: bytes, form: str) -> bytes:
    """Make the key of a normal form's row, with a rule's key or b"" for an address as it is."""
    return (rule_key or NO_RULE) + xxhash.xxh3_64_digest(form.encode("utf-8", "surrogatepass"))


def read_version(documents: Documents) -> int:
    """Read the counter that grows with each change of what acts; one row."""
    row = documents.get_row("meta", VERSION)
    try:
        return 0 if row is None else unpack_row(_Key, VERSION, row).count
    except DamagedError:
        # A number that nobody has seen, so that all read the rules; it grows like any other.
        return xxhash.xxh3_64_intdigest(row or b"") >> 16


def list_acting(documents: Documents) -> list[UrlRule]:
    """List the rules that act; leaves out what is damaged, and what cannot be applied."""
    rules = []
    for key, row in documents.scan_rows("meta", _ACTING):
        with suppress(DamagedError, ValueError):
            rule = unpack_row(UrlRule, key, row)
            check_rule(rule)
            rules.append(rule)
    return rules


def list_rules(documents: Documents, host: str | None = None) -> list[UrlRuleRecord]:
    """List all rules, or those of a host, by their text."""
    if host is None:
        found = [unpack_row(UrlRuleRecord, key, row) for key, row in documents.scan_rows("rules")]
    else:
        entries = get_host(documents, host.lower()).entries
        records = [get_rule(documents, entry.rule.id) for entry in entries]
        found = [each for each in records if each is not None and each.rule.host == host.lower()]
    return sorted(found, key=lambda record: record.rule.text)


def get_rule(documents: Documents, rule_id: str) -> UrlRuleRecord | None:
    """Get the rule of an id (16 hex digits), or None."""
    try:
        key = bytes.fromhex(rule_id)
    except ValueError:
        return None
    row = documents.get_row("rules", key)
    return None if row is None else unpack_row(UrlRuleRecord, key, row)


def put_rule(documents: Documents, record: UrlRuleRecord, key: bytes = b"") -> None:
    """Write a rule whose counts changed, not its state; its key is made if it is not given."""
    key = key or record.rule.key
    documents.put_row("rules", key, pack_row(key, record))


def get_host(documents: Documents, host: str) -> HostRow:
    """Get the rules of a host; one that has none gets an empty row, which is not written."""
    key = host_key(host)
    row = documents.get_row("hosts", key)
    found = None if row is None else unpack_row(HostRow, key, row)
    return found if found is not None and found.host == host else HostRow(host, [])


def put_host(documents: Documents, row: HostRow) -> None:
    """Write the rules of a host, or forget a host without any."""
    key = host_key(row.host)
    if row.entries:
        documents.put_row("hosts", key, pack_row(key, row))
    else:
        documents.drop_row("hosts", key)


def hosts_of(rule: UrlRule) -> tuple[str, ...]:
    """List the hosts whose pages vote on a rule: its own, and that of an alias."""
    if rule.kind is RuleKind.HOST_ALIAS:
        return rule.host, rule.args[0].rpartition("://")[2]
    return (rule.host,)


def change_entry(documents: Documents, rule: UrlRule, **changes: object) -> None:
    """Change what the rows of its hosts say of a rule."""
    for host in hosts_of(rule):
        row = get_host(documents, host)
        entry = row.by_key.get(rule.key)
        if entry is not None:
            for field, value in changes.items():
                setattr(entry, field, value)
            put_host(documents, row)


def set_state(
    documents: Documents, record: UrlRuleRecord, state: RuleState, reason: str, time: float
) -> None:
    """Change the state of a rule everywhere; its record is written."""
    rule, acted = record.rule, record.acts
    record.become(state, reason, time)
    put_rule(documents, record)
    change_entry(documents, rule, state=state, born=record.created)
    if acted or record.acts:
        note_acting(documents, record)
        grow_version(documents)


def note_acting(documents: Documents, record: UrlRuleRecord) -> None:
    """List a rule among those that act, or not."""
    key = _ACTING + record.rule.key
    if record.acts:
        documents.put_row("meta", key, pack_row(key, record.rule))
    else:
        documents.drop_row("meta", key)


def kind_of_row(table: str, key: bytes) -> type[msgspec.Struct] | None:
    """Get the kind of a row of `hosts`, `forms` or `meta`; None if they have no such key."""
    kinds: dict[tuple[str, bytes, int], type[msgspec.Struct]] = {
        ("meta", VERSION, 0): _Key,
        ("meta", _BIRTHS, 0): _Births,
        ("meta", _ACTING, 8): UrlRule,
        ("meta", _BIRTH, 8): _Key,
        ("hosts", b"", 8): HostRow,
        ("forms", NO_RULE, 8): Noted,
        ("forms", b"", 16): Form,
    }
    for (name, start, length), kind in kinds.items():
        if name == table and key.startswith(start) and len(key) == len(start) + length:
            return kind
    return None


def grow_version(documents: Documents) -> None:
    """Have all crawls read the rules again, and look at all that is parked."""
    grown = _Key(count=read_version(documents) + 1)
    documents.put_row("meta", VERSION, pack_row(VERSION, grown))


def change_rule(
    documents: Documents, rule_id: str, action: RuleAction, time: float
) -> UrlRuleRecord:
    """Change the state of a rule because a person says so.

    Args:
        documents: of the store, to be written.
        rule_id: 16 hex digits.
        action: `pin` it: it acts whatever its votes; `ban` it: it never does; `retire` it: what it
            parked is requested again; or let it `learn` again, from nothing.
        time: seconds since 1970, UTC.

    Raises:
        ValueError: there is no such rule or action, or the rule can never act.
    """
    record = get_rule(documents, rule_id)
    if record is None:
        raise ValueError(f"no URL rule has the id {rule_id!r}; `scrapy simhash urls` lists them")
    if action not in get_args(RuleAction):
        raise ValueError(
            f"{action!r} is nothing to do with a URL rule; take pin, ban, retire or learn"
        )
    if action == "pin" and not can_act(record.rule):
        raise ValueError(
            f"URL rule {record.rule.text!r} cannot be pinned: it makes no addresses that exist"
        )
    if action == "learn":
        record = UrlRuleRecord(
            record.rule,
            RuleState.LEARNING,
            parked=record.parked,
            bytes_saved=record.bytes_saved,
            history=record.history,
            created=max(time, record.created + 1),  # clocks are set back
            imported=record.imported,
        )
        documents.drop_row("meta", _ACTING + record.rule.key)
        change_entry(documents, record.rule, supported=False, caught_up=False)
        grow_version(documents)
    if action == "retire":
        # Its votes were enough; without new ones the next page would prove it again.
        record.tested_at = record.same + record.different
    set_state(documents, record, _STATES[action], f"a person said: {action}", time)
    return record


def add_rules(documents: Documents, rules: Iterable[UrlRule], time: float) -> list[UrlRuleRecord]:
    """Add rules from a file as candidates without votes; returns those that are new.

    Raises:
        ValueError: a rule cannot be applied.
    """
    added = []
    for rule in rules:
        check_rule(rule)
        record = add_rule(documents, rule, time, imported=True)
        if record is not None:
            added.append(record)
    return added


def add_rule(
    documents: Documents, rule: UrlRule, time: float, *, imported: bool = False
) -> UrlRuleRecord | None:
    """Add a candidate; None if it is known, undoes a known one, or there is no room for it."""
    if documents.get_row("rules", rule.key) is not None:
        return None
    rows = [get_host(documents, host) for host in hosts_of(rule)]
    if any(_undoes(rule, entry.rule) for entry in rows[0].entries):
        return None
    if not all(_make_room(documents, row, rule) for row in rows) or not _remember(documents, rule):
        return None
    record = UrlRuleRecord(rule, created=time, imported=imported)
    record.become(RuleState.LEARNING, "imported" if imported else "born", time)
    put_rule(documents, record)
    for host in hosts_of(rule):
        row = get_host(documents, host)
        row.entries.append(Entry(rule, RuleState.LEARNING, time))
        put_host(documents, row)
    return record


def _undoes(rule: UrlRule, other: UrlRule) -> bool:
    """Whether two rules lead from one to the other and back."""
    if {rule.kind, other.kind} == {RuleKind.HOST_ALIAS}:
        return rule.host == hosts_of(other)[1] and hosts_of(rule)[1] == other.host
    both = rule.kind is RuleKind.SUBSTITUTE and other.kind is RuleKind.SUBSTITUTE
    return both and rule.host == other.host and rule.args == other.args[::-1]


def _make_room(documents: Documents, row: HostRow, rule: UrlRule) -> bool:
    """Make room for a rule of a host: the oldest goes that is unproven, unsupported ones first."""
    entries = row.entries
    if rule.kind in _REPORTED_KINDS:
        entries = [entry for entry in entries if entry.rule.kind in _REPORTED_KINDS]
        if len(entries) < MOST_REPORTED_PER_HOST and len(row.entries) < MOST_RULES_PER_HOST:
            return True
    elif len(entries) < MOST_RULES_PER_HOST:
        return True
    unproven = [entry for entry in entries if entry.state is RuleState.LEARNING]
    retired = [entry for entry in entries if entry.state is RuleState.RETIRED]
    going = sorted(unproven, key=lambda entry: entry.supported)
    # A retired rule may have requests that are still to be made: it goes when it has none.
    going += [
        entry
        for entry in retired
        if (found := get_rule(documents, entry.rule.id)) is None or not found.parked
    ]
    if not going:
        return False
    forget_rule(documents, going[0].rule)
    return True


def forget_rule(documents: Documents, rule: UrlRule) -> None:
    """Forget a rule and its evidence; its forms stay, and say nothing to another rule."""
    documents.drop_row("rules", rule.key)
    documents.drop_row("meta", _ACTING + rule.key)
    for host in hosts_of(rule):
        row = get_host(documents, host)
        entries = [entry for entry in row.entries if entry.rule.key != rule.key]
        put_host(documents, HostRow(host, entries))


def _remember(documents: Documents, rule: UrlRule) -> bool:
    """Note a birth; where there are too many rules, the oldest unproven one goes."""
    row = documents.get_row("meta", _BIRTHS)
    births = _Births() if row is None else unpack_row(_Births, _BIRTHS, row)
    # Births are noted of rules, too, that went for another one of their host.
    if births.next - births.first >= 2 * MOST_RULES:
        _forget_first(documents, births)
    if documents.count_rows("rules") >= MOST_RULES:
        for _ in range(_EVICTIONS_TRIED):
            if _forget_first(documents, births):
                break
        else:
            documents.put_row("meta", _BIRTHS, pack_row(_BIRTHS, births))
            return False
    key = _BIRTH + _octets(births.next)
    births.next += 1
    documents.put_row("meta", key, pack_row(key, _Key(rule.key)))
    documents.put_row("meta", _BIRTHS, pack_row(_BIRTHS, births))
    return True


def _forget_first(documents: Documents, births: _Births) -> bool:
    """Forget the first birth; returns whether its rule went, too."""
    key = _BIRTH + _octets(births.first)
    row = documents.get_row("meta", key)
    if births.first < births.next:
        births.first += 1
    if row is None:
        return False
    documents.drop_row("meta", key)
    record = get_rule(documents, unpack_row(_Key, key, row).key.hex())
    if record is None or record.state is not RuleState.LEARNING:
        return False
    forget_rule(documents, record.rule)
    return True


def read_form(documents: Documents, rule_key: bytes, form: str) -> Form | None:
    """Read the row of a normal form of a rule."""
    key = form_key(rule_key, form)
    row = documents.get_row("forms", key)
    return None if row is None else unpack_row(Form, key, row)


def read_noted(documents: Documents, form: str) -> Noted | None:
    """Read the row of an address."""
    key = form_key(b"", form)
    row = documents.get_row("forms", key)
    return None if row is None else unpack_row(Noted, key, row)


def document_of(key: bytes, row: bytes) -> int:
    """Read the document of a row of `forms`, or 0; raises a DamagedError."""
    if key[:8] == NO_RULE:
        return unpack_row(Noted, key, row).document
    return unpack_row(Form, key, row).document


def split_keys(keys: bytes) -> list[bytes]:
    """Split the keys of rules that one row has, see `Noted`."""
    return [keys[start : start + 8] for start in range(0, len(keys), 8)]


def write_form(
    documents: Documents, rule_key: bytes, form: str, row: Form | Noted, *, is_there: bool = False
) -> bool:
    """Write the row of a normal form, or of an address; False where there is no room for it.

    One that `is_there` has its room.
    """
    key = form_key(rule_key, form)
    # Counting is dearer than looking.
    is_there = is_there or documents.get_row("forms", key) is not None
    if not is_there and documents.count_rows("forms") >= MOST_FORMS:
        return False
    documents.put_row("forms", key, pack_row(key, row))
    return True


def find_form(documents: Documents, rule_id: str, form: str) -> Form | None:
    """Find the first document with a normal form under a rule, or at this very address."""
    noted = read_noted(documents, form)
    if noted is not None and noted.document:
        return Form(noted.document, callback=noted.callback)
    return read_form(documents, bytes.fromhex(rule_id), form)


def host_of_url(url: str) -> str:
    """Get the host of an address as rules name it; "" where no rule may judge it."""
    address = parse_address(url)
    return address.host if address is not None else ""
