"""Check and mend the rows of URL tables: rules, normal forms, parked requests, walls, links.

Rules and forms are learned again, so a damaged row is simply dropped. A damaged parked request is
lost: its page is fetched when a callback yields its address again.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from scrapy_simhash.errors import DamagedError
from scrapy_simhash.judging.rows import COUNTERS, Link, Parked, RulesVersion, Sink, unpack_row
from scrapy_simhash.stores.keyvalues import ROW_TABLES
from scrapy_simhash.stores.parking import RULE_BYTES, release, scan_parked
from scrapy_simhash.stores.rulebook import Form, note_acting, put_rule
from scrapy_simhash.urls.rules import UrlRule, UrlRuleRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import msgspec

    from scrapy_simhash.stores.documents import Documents

# The kinds of rows, and the length of their keys.
_KINDS: dict[str, tuple[type[msgspec.Struct], int]] = {
    "rules": (UrlRuleRecord, 8),
    "acting": (UrlRule, 8),
    "forms": (Form, 16),
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
    is_counter = table == "acting" and key in COUNTERS
    kind, length = (RulesVersion, len(key)) if is_counter else _KINDS[table]
    if len(key) != length:
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
    """Compare the rules with those that act; yields corrections."""
    records = {record.rule.key: record for record in _list_rules(stored)}
    acting = {key for key, _ in stored.scan_rows("acting")} - COUNTERS
    for key, record in records.items():
        if record.acts != (key in acting):
            which = "acts, but is not" if record.acts else "does not act, but is"
            yield (
                f"URL rule {record.rule.text!r} {which} among those that act",
                partial(note_acting, stored, record),
            )
    for key in acting - records.keys():
        yield (
            f"URL rule {key.hex()} is among those that act, but does not exist",
            partial(stored.drop_row, "acting", key),
        )
