"""Every kind of store keeps rows as dicts and sets do, and a new kind needs little more."""

from functools import partial
from random import Random
from typing import Any

import pytest

from scrapy_simhash import open_store
from scrapy_simhash.errors import StoreError
from scrapy_simhash.stores import keyvalues
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keyvalues import (
    DOCUMENTS,
    FINGERPRINTS,
    IDENTITIES,
    SITES,
    TEXTS,
    KeyValues,
)
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, judge

CALLS = 10_000
CALLS_PER_TRANSACTION = 40
VALUES = (IDENTITIES, DOCUMENTS, TEXTS)
SETS = {FINGERPRINTS: 16, keyvalues.KEYS: 8, SITES: 24}
# All that a pattern of Redis gives a meaning to, and some that begin alike.
KEYS = (b"*", b"a*b", b"?", b"[x]", b"\\", b"a", b"ab", b"abc", b"b" * 60)
NUMBERS = [number.to_bytes(8, "big") for number in (0, 1, 2, 255, 256, 2**63, 2**64 - 1)]


class Oracle:
    """Rows in dicts; a kind must answer as these do."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, bytes], bytes] = {}
        self.sets: dict[tuple[str, bytes], set[bytes]] = {}

    def copy(self) -> "Oracle":
        other = Oracle()
        other.values = dict(self.values)
        other.sets = {key: set(members) for key, members in self.sets.items()}
        return other

    def scan(self, table: str) -> list[tuple[bytes, bytes]]:
        rows = [(key, value) for (name, key), value in self.values.items() if name == table]
        rows += [
            (key, member)
            for (name, key), members in self.sets.items()
            if name == table
            for member in members
        ]
        return sorted(rows)


def call(draw: Random, values: KeyValues, oracle: Oracle) -> None:
    """Make a random call, and compare what it gives with what the oracle does."""
    if draw.random() < 0.5:
        call_value(draw, values, oracle)
    else:
        call_set(draw, values, oracle)


def call_value(draw: Random, values: KeyValues, oracle: Oracle) -> None:
    table = draw.choice(VALUES)
    key = draw.choice(KEYS if table == IDENTITIES else NUMBERS)
    action = draw.choice(("put", "put", "get", "get", "delete"))
    if action == "put":
        value = draw.randbytes(draw.choice((0, 1, 30, 600, 2_500)))
        values.put(table, key, value)
        oracle.values[table, key] = value
    elif action == "delete":
        values.delete(table, key)
        oracle.values.pop((table, key), None)
    assert values.get(table, key) == oracle.values.get((table, key))
    if draw.random() < 0.3:
        values.fetch((table, each) for each in draw.sample(NUMBERS, 3))


def call_set(draw: Random, values: KeyValues, oracle: Oracle) -> None:
    table, width = draw.choice(list(SETS.items()))
    key = draw.choice(NUMBERS)
    member = (draw.choice(NUMBERS) * 3)[-width:]
    members = oracle.sets.setdefault((table, key), set())
    action = draw.choice(("add", "add", "add", "discard", "discard", "members", "delete"))
    if action == "add":
        values.add(table, key, member)
        members.add(member)
    elif action == "discard":
        values.discard(table, key, member)
        members.discard(member)
    elif action == "delete" and draw.random() < 0.2:
        values.delete(table, key)
        members.clear()
    prefix, most = member[: draw.choice((0, 1, 8))], draw.choice((None, 1, 3))
    expected = sorted(each for each in members if each.startswith(prefix))
    assert values.members(table, key, prefix, most) == expected[:most]


def make_calls(
    draw: Random, state: Any, oracle: Oracle, given_up: bool, stored: Documents
) -> Oracle:
    """Make the calls of one transaction, which may run several times; returns what they leave."""
    draw.setstate(state)
    ours = oracle.copy()
    for table in (*VALUES, *SETS):
        prefix = draw.choice(KEYS if table == IDENTITIES else NUMBERS)[: draw.randint(0, 2)]
        rows = [row for row in oracle.scan(table) if row[0].startswith(prefix)]
        assert sorted(stored.values.scan(table, prefix)) == rows
    for _ in range(CALLS_PER_TRANSACTION):
        call(draw, stored.values, ours)
    if given_up:
        raise StoreError("given up")
    return ours


def run_calls(store: Store, calls: int, seed: int) -> None:
    """Make random calls in transactions, some of which are given up."""
    draw, oracle = Random(seed), Oracle()  # noqa: S311
    for _ in range(calls // CALLS_PER_TRANSACTION):
        state, given_up = draw.getstate(), draw.random() < 0.2
        work = partial(make_calls, draw, state, oracle, given_up)
        if given_up:
            with pytest.raises(StoreError, match="given up"):
                store.write(work)
        else:
            oracle = store.write(work)
    everything = store.read(
        lambda stored: {table: sorted(stored.values.scan(table)) for table in (*VALUES, *SETS)}
    )
    assert everything == {table: oracle.scan(table) for table in (*VALUES, *SETS)}


def test_numbers_are_taken_once(home: str) -> None:
    """What is not used leaves a gap, and those of documents are left out."""
    with open_store(home) as store:
        assert [store.engine.take_numbers(count) for count in (1, 3, 2)] == [1, 2, 5]
        assert (judge(store, document("a", 1)), store.engine.take_numbers(1)) == (["new 7"], 8)


def test_rows_are_those_of_dicts_and_sets(home: str) -> None:
    with open_store(home) as store:
        run_calls(store, CALLS // 10 if store.engine.shared else CALLS, seed=1)
