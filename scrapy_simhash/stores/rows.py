"""Check and mend the rows of URL tables: rules, normal forms, parked requests, walls, links.

Rules and forms are learned again, so a damaged row is simply dropped. A damaged parked request is
lost: its page is fetched when a callback yields its address again.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.urls.book import (
    NO_RULE,
    Entry,
    Noted,
    document_of,
    get_host,
    get_rule,
    host_key,
    host_of_url,
    hosts_of,
    kind_of_row,
    note_acting,
    put_host,
    put_rule,
    split_keys,
)
from scrapy_simhash.judging.urls.records import (
    Link,
    Parked,
    RuleState,
    Sink,
    UrlRuleRecord,
    unpack_row,
)
from scrapy_simhash.stores.keyvalues import ROW_TABLES
from scrapy_simhash.stores.parking import RULE_BYTES, release, scan_parked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import msgspec

    from scrapy_simhash.stores.documents import Documents

# The kinds of rows, and the length of their keys; the other tables have several kinds.
_KINDS: dict[str, tuple[type[msgspec.Struct], int]] = {
    "rules": (UrlRuleRecord, 8),
    "parked": (Parked, 16),
    "released": (Parked, 8),
    "sinks": (Sink, 8),
    "links": (Link, 8),
}


def find_problems(stored: Documents) -> Iterator[str]:
    """List the problems of all tables, one line each; reads all rows."""
    for table in ROW_TABLES:
        for key, row in stored.scan_rows(table):
            if problem := _find_damage(table, key, row):
                yield problem
    yield from (text for text, _ in _compare_rules(stored))
    parked = _count_parked(stored)
    for record in _list_rules(stored):
        if (counted := parked.pop(record.rule.key, 0)) != record.parked:
            name = record.rule.text
            yield f"URL rule {name!r} parks {counted} requests, but says {record.parked}"
    for key, counted in parked.items():
        yield f"{counted} requests are parked by URL rule {key.hex()}, which does not exist"


def mend(stored: Documents) -> int:
    """Drop damaged rows, and correct what follows from others; returns how many were dropped."""
    dropped = 0
    for table in ROW_TABLES:
        damaged = [key for key, row in stored.scan_rows(table) if _find_damage(table, key, row)]
        for key in damaged:
            stored.drop_row(table, key)
        dropped += len(damaged)
    for _, correct in list(_compare_rules(stored)):
        correct()
    parked = _count_parked(stored)
    for record in list(_list_rules(stored)):
        counted = parked.pop(record.rule.key, 0)
        if counted != record.parked:
            record.parked = counted
            put_rule(stored, record)
    for rule in parked:
        release(stored, [key for key, _ in scan_parked(stored, "parked", rule)])
    return dropped


def _find_damage(table: str, key: bytes, row: bytes) -> str:
    """Say what is wrong with a row; "" if nothing is."""
    kind, length = _KINDS.get(table) or (kind_of_row(table, key), len(key))
    if kind is None or len(key) != length:
        return f"the table {table} has a row at key {key.hex()}, which is none of its keys"
    try:
        unpack_row(kind, key, row)
    except DamagedError as error:
        return f"table {table}: {error.what}"
    return ""


def _list_rules(stored: Documents) -> Iterator[UrlRuleRecord]:
    """Read the undamaged rules."""
    for key, row in stored.scan_rows("rules"):
        if not _find_damage("rules", key, row):
            yield unpack_row(UrlRuleRecord, key, row)


def _count_parked(stored: Documents) -> Counter[bytes]:
    """Count the requests that each rule parked, by its key."""
    return Counter(key[:RULE_BYTES] for key, _ in scan_parked(stored))


def _compare_rules(stored: Documents) -> Iterator[tuple[str, Callable[[], object]]]:
    """Compare the rules with those of each host, and with those that act; yields corrections."""
    records = {record.rule.key: record for record in _list_rules(stored)}
    acting = {key[-RULE_BYTES:] for key, _ in stored.scan_rows("meta", b"acting")}
    for key, record in records.items():
        name = f"URL rule {record.rule.text!r}"
        if record.acts != (key in acting):
            which = "acts, but is not" if record.acts else "does not act, but is"
            yield f"{name} {which} among those that act", partial(note_acting, stored, record)
        for host in hosts_of(record.rule):
            with suppress(DamagedError):
                entry = get_host(stored, host).by_key.get(key)
                if entry is None or entry.state != record.state:
                    state = entry.state if entry is not None else "unknown"
                    yield (
                        f"{name} is {record.state}, but {state} to {host}",
                        partial(_enter, stored, host, record),
                    )
    for key in acting - records.keys():
        yield (
            f"URL rule {key.hex()} is among those that act, but does not exist",
            partial(stored.drop_row, "meta", b"acting" + key),
        )


class SpentForms:
    """Finds the rows of `forms` that no rule needs: normal forms, and addresses as they are.

    Args:
        stored: to be read.
        retired_before: seconds since 1970, UTC; a rule that was retired before then needs none.
    """

    # What a rule needs that learns again, or comes back, is noted again by the pages that it meets.

    def __init__(self, stored: Documents, retired_before: float) -> None:
        self._stored = stored
        self._retired_before = retired_before
        self._needs_forms = cache(self._ask_rule)
        self._has_rules = cache(lambda host: bool(get_host(stored, host).entries))

    def find(self, keys: Sequence[bytes]) -> Iterator[bytes]:
        """List those of these keys whose rows are spent; leaves out damaged ones."""
        self._stored.prefetch_rows(("forms", key) for key in keys)
        named: list[tuple[bytes, int, list[bytes]]] = []
        for key in keys:
            if (row := self._stored.get_row("forms", key)) is not None:
                with suppress(DamagedError):
                    named.append((key, document_of(key, row), _list_rules_of(key, row)))
        self._stored.prefetch_rows(
            (("rules", rule) for _, _, rules in named for rule in rules),
            records=[number for _, number, _ in named if number],
        )
        of_hosts: list[tuple[bytes, str]] = []
        for key, number, rules in named:
            with suppress(DamagedError):
                record = self._stored.get(number) if number else None
                is_address = key.startswith(NO_RULE)
                if any(map(self._needs_forms, rules)) and (is_address or record is not None):
                    continue
                if is_address and record is not None:
                    of_hosts.append((key, host_of_url(record.url)))
                else:
                    yield key
        self._stored.prefetch_rows(("hosts", host_key(host)) for _, host in of_hosts)
        for key, host in of_hosts:
            with suppress(DamagedError):
                if not self._has_rules(host):
                    yield key

    def _ask_rule(self, key: bytes) -> bool:
        """Whether the rule of a key may still vote or act."""
        record = get_rule(self._stored, key.hex())
        if record is None or record.state is RuleState.BANNED:
            return False
        if record.state is not RuleState.RETIRED or record.parked or not record.history:
            return True
        return record.history[-1][0] >= self._retired_before


def _list_rules_of(key: bytes, row: bytes) -> list[bytes]:
    """List the rules, by their keys, for which a row of `forms` is there."""
    if key.startswith(NO_RULE):
        return split_keys(unpack_row(Noted, key, row).rules)
    return [key[:RULE_BYTES]]


def _enter(stored: Documents, host: str, record: UrlRuleRecord) -> None:
    """Enter a rule into the row of a host, in place of what it says of it."""
    row = get_host(stored, host)
    known = row.by_key.get(record.rule.key)
    if known is not None:
        known.state = record.state
    else:
        row.entries.append(Entry(record.rule, record.state, record.created))
    put_host(stored, row)
