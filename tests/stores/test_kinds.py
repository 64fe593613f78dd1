"""Stores of every kind: rows as of dicts and sets, tables that miss nothing, whatever crawls do."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from scrapy_simhash import open_store
from scrapy_simhash.config import Config
from scrapy_simhash.crawl.running import make_open
from scrapy_simhash.errors import SettingError, StoreError
from scrapy_simhash.pages.facts import Recipe
from scrapy_simhash.stores import keyvalues
from scrapy_simhash.stores.copying import compact
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keys import KeyTable
from scrapy_simhash.stores.keyvalues import FORMAT, IDENTITIES, TABLES, Engine, Header, KeyValues
from scrapy_simhash.stores.lmdb import MemoryEngine
from scrapy_simhash.stores.opening import KINDS, open_as_it_is
from scrapy_simhash.stores.store import Store
from scrapy_simhash.stores.upkeep import read_table
from scrapy_simhash.tables import Limits, parse_design
from tests.helpers.documents import document, judge, open_lmdb
from tests.helpers.needing import examples, slow_but
from tests.helpers.oracle import Rows, distance_between
from tests.helpers.redisservers import RedisServer
from tests.helpers.storemachine import StoreMachine
from tests.helpers.strategies import border_bits, fingerprints, masks

TRANSACTIONS = 250
VALUES = (IDENTITIES, keyvalues.DOCUMENTS, keyvalues.TEXTS)
# The width of their members.
SETS = {keyvalues.FINGERPRINTS: 16, keyvalues.KEYS: 8, keyvalues.SITES: 24, TABLES: 6}
EVERY = (*VALUES, *SETS)
# All that a pattern of Redis gives a meaning to, and some that begin alike.
KEYS = (b"*", b"a*b", b"?", b"[x]", b"\\", b"a", b"ab", b"abc", b"b" * 60)
# Zeros and members that overlap: a script that finds one between two others fails.
ODD = (0, 1, 2, 255, 256, 2**63, 2**64 - 1, 0x2A2A2A2A2A2A2A2A, 0x2A002A002A002A, 0x2A00 << 48)
NUMBERS = [number.to_bytes(8, "big") for number in ODD]


def make_calls(draw: Random, values: KeyValues | Rows, calls: int = 40) -> list[object]:
    """Make random calls; returns what they answer."""
    return [(call_value if draw.random() < 0.5 else call_set)(draw, values) for _ in range(calls)]


def call_value(draw: Random, values: KeyValues | Rows) -> object:
    table = draw.choice(VALUES)
    key = draw.choice(KEYS if table == IDENTITIES else NUMBERS)
    action = draw.choice(("put", "put", "append", "get", "get", "delete"))
    if action == "put":
        values.put(table, key, draw.randbytes(draw.choice((0, 1, 30, 600, 2_500))))
    elif action == "append":
        values.put(table, key, (values.get(table, key)[0] or b"")[-99:] + draw.randbytes(1))
    elif action == "delete":
        values.delete(table, key)
    return values.get(table, key, *draw.sample(NUMBERS, draw.choice((0, 3))))


def call_set(draw: Random, values: KeyValues | Rows) -> object:
    table, width = draw.choice(list(SETS.items()))
    key = draw.choice(NUMBERS)[-3 * (table == TABLES) :]
    member = (draw.choice(NUMBERS) * 3)[-width:]
    action = draw.choice(("add", "add", "add", "discard", "discard", "members", "delete"))
    if action == "add":
        values.put(table, key, member)
    elif action == "discard":
        values.delete(table, key, member)
    elif action == "delete" and draw.random() < 0.2:
        values.delete(table, key)
    others = {each[-len(key) :] for each in draw.sample(NUMBERS, draw.choice((0, 3)))} - {key}
    most = None if table == TABLES else draw.choice((None, 1, 2))
    return values.read_sets(table, [key, *sorted(others)], most)


def scan(draw: Random, values: KeyValues | Rows) -> list[object]:
    """Read rows of all tables whose keys begin with something."""
    begun = [(table, draw.choice((*KEYS, *NUMBERS))) for table in EVERY]
    return [sorted(values.scan(table, key[: draw.randint(0, 2)])) for table, key in begun]


def transact(store: Store, draw: Random, rows: Rows, *, given_up: bool) -> Rows:
    """Make calls in a transaction, which may run several times; returns what it leaves."""
    state, answers = draw.getstate(), list[object]()

    def work(stored: Documents) -> None:
        draw.setstate(state)
        answers[:] = scan(draw, stored.values) + make_calls(draw, stored.values)
        if given_up:
            raise StoreError("given up")

    with pytest.raises(StoreError, match="given up") if given_up else nullcontext():
        store.write(work)
    draw.setstate(state)
    changed = deepcopy(rows)
    assert answers == scan(draw, changed) + make_calls(draw, changed)
    return rows if given_up else changed


def test_numbers_are_taken_once(home: str) -> None:
    """What is not used leaves a gap, and those of documents are left out."""
    with open_store(home) as store:
        assert [store.engine.take_numbers(count) for count in (1, 3, 2)] == [1, 2, 5]
        assert (judge(store, document("a", 1)), store.engine.take_numbers(1)) == (["new 7"], 8)


def test_rows_are_those_of_dicts_and_sets(home: str) -> None:
    draw, rows = Random(1), Rows()  # noqa: S311 - reproducible
    with open_store(home) as store:
        for _ in range(TRANSACTIONS // 10 if store.engine.shared else TRANSACTIONS):
            rows = transact(store, draw, rows, given_up=draw.random() < 0.2)
        found = store.read(lambda stored: [sorted(stored.values.scan(each)) for each in EVERY])
        assert found == [*map(rows.scan, EVERY)]


# Those of the paper and others, at least one for each width of key.
NAMES = [*("4", "10", "16", "20", "6:2", "8:5", "8:7", "1:0"), *("4:3+0", "4:3+2", "6:5+1")]


class Aborted(Exception):  # noqa: N818 - not an error
    """Thrown to undo what a test wrote."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = MemoryEngine("memory:")
    made.open()
    yield made
    made.close()


@st.composite
def neighbourhoods(draw: st.DrawFn, name: str) -> tuple[int, set[int]]:
    """Draw a query and fingerprints around its neighbours, within and beyond the reach.

    Many differ at the borders of blocks, or in the leading bytes of some table, where keys are
    flipped.
    """
    design = parse_design(name)
    query = draw(fingerprints)
    table = draw(st.sampled_from(design.tables))
    leading = [
        table.restore(1 << bit).bit_length() - 1 for bit in range(63, 63 - table.prefix_bits, -1)
    ]
    stored = draw(st.sets(fingerprints, max_size=5))
    for positions in (range(64), border_bits(design), leading):
        most = min(design.reach_bits + 2, len(positions))
        for distance in draw(st.lists(st.integers(0, most), max_size=8)):
            neighbour = query ^ draw(masks(distance, positions))
            stored.add(neighbour)
            stored |= {
                neighbour ^ 1 << bit for bit in draw(st.lists(st.integers(0, 63), max_size=3))
            }
    return query, stored


@pytest.mark.parametrize("name", slow_but(["4", "10"], NAMES))
@examples(40)
@given(data=st.data())
def test_probe_is_complete_and_exact(engine: Engine, name: str, data: st.DataObject) -> None:
    """At every distance that the design reaches: 0 to 7 bits with four tables."""
    query, stored = data.draw(neighbourhoods(name))
    near = sorted((distance_between(query, each), each) for each in stored)
    design = parse_design(name)

    def work(values: KeyValues) -> None:
        header = Header(FORMAT, "", Recipe(), name, 0, "words")
        tables = Documents(values, header, design, KeyTable(values, 0, set()))
        for row in chain.from_iterable(map(design.split, stored)):
            values.put(TABLES, *row)
        for distance in range(design.reach_bits + 1):
            found = tables.near(query, Limits(distance))
            assert found.complete
            assert found.near == [hit for hit in near if hit[0] <= distance]
        for number in range(len(design.tables)):
            assert read_table(tables, number).tolist() == sorted(stored)
        raise Aborted

    with pytest.raises(Aborted):
        engine.run(work, writing=True)


class LmdbMachine(StoreMachine):
    def prepare(self, data: st.DataObject) -> None:
        most = data.draw(st.sampled_from([65_536, 4, 2]))
        self.patch.setattr("scrapy_simhash.stores.documents.MOST_IN_PLAIN_BUCKET", most)
        # Every page after every step, in Python: the file is none of what is tried here.
        self.patch.setattr("scrapy_simhash.stores.lmdb.LmdbEngine.find_damage", lambda _: [])
        self.crowded = most < 65_536
        self.folder = Path(tempfile.mkdtemp())

    def open_store(self, **arguments: Any) -> Store:
        return open_lmdb(self.folder, **arguments)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule()
    def compact(self) -> None:
        self.store.close()
        with open_as_it_is(str(self.folder)) as store:
            compact(store)
        self.open()


TestLmdbMachine = LmdbMachine.TestCase
# Several milliseconds a step: each is a durable transaction, and all tables are read after it.
TestLmdbMachine.settings = settings(examples(5), stateful_step_count=40)


def test_a_kind_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether what it has lasts, the form of its URL tells."""
    monkeypatch.setitem(KINDS, "dict:", KINDS["memory:"])
    with open_store("dict:") as store:
        assert judge(store, document("a", 1)) == ["new 1"]
    with pytest.raises(SettingError, match="'dict:' is for one process"):
        make_open(Config(store="dict:", processes=2))


class RedisMachine(StoreMachine):
    """A store on a server, of which `test_a_server` says which."""

    server: ClassVar[RedisServer]

    def prepare(self, data: st.DataObject) -> None:
        most = data.draw(st.sampled_from([16_384, 4, 2]))
        self.patch.setattr("scrapy_simhash.stores.redis.MOST_IN_BUCKET", most)
        self.patch.setattr("scrapy_simhash.stores.documents.MOST_IN_PLAIN_BUCKET", most)
        self.crowded = most < 16_384
        # All keys of the server are looked at after each step.
        self.server.empty()
        self.url = self.server.url()

    def open_store(self, **arguments: Any) -> Store:
        return open_store(self.url, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("redis_server", 6), ("valkey_server", 3)])
def test_a_server(request: pytest.FixtureRequest, kind: str, count: int) -> None:
    RedisMachine.server = request.getfixturevalue(kind)
    run_state_machine_as_test(
        RedisMachine, settings=settings(max_examples=count, stateful_step_count=40)
    )
