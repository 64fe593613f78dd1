"""The permuted tables: complete within k for every design, and nothing beyond."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_simhash.designs import parse_design
from scrapy_simhash.lmdb_environment import Environment
from scrapy_simhash.lmdb_tables import Tables
from tests.oracle import distance_between
from tests.strategies import border_bits, fingerprints, masks

if TYPE_CHECKING:
    import lmdb

# Those of the paper and others, at least one for each width of key.
NAMES = ["4", "10", "16", "20", "6:2", "8:5", "8:7", "1:0"]


class Aborted(Exception):  # noqa: N818 - not an error
    """Thrown to undo what a test wrote."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    environment = Environment(tmp_path_factory.mktemp("tables"), readonly=False)
    yield environment
    environment.close()


def in_tables(
    environment: Environment, name: str, work: Callable[[Tables, "lmdb.Transaction[bytes]"], None]
) -> None:
    """Run a test in empty tables of a design and undo it."""
    tables = Tables(
        parse_design(name),
        environment.write(lambda txn: environment.open_database("tables", txn, dupfixed=True)),
    )

    def work_and_abort(transaction: "lmdb.Transaction[bytes]") -> None:
        work(tables, transaction)
        raise Aborted

    with pytest.raises(Aborted):
        environment.write(work_and_abort)


def near(stored: set[int], query: int, distance: int) -> list[tuple[int, int]]:
    """Find them by brute force, nearest first."""
    found = [(distance_between(query, each), each) for each in stored]
    return sorted(hit for hit in found if hit[0] <= distance)


@st.composite
def clusters(draw: st.DrawFn, name: str) -> tuple[int, set[int]]:
    """Draw a query and fingerprints around its neighbours, within and beyond the reach.

    Most bits differ in the leading bytes of some table, where keys are flipped.
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


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(data=st.data())
def test_probe_with_flipped_keys_is_complete_and_exact(
    environment: Environment, name: str, data: st.DataObject
) -> None:
    """At every distance that the design reaches: 0 to 7 bits with four tables."""
    query, stored = data.draw(clusters(name))

    def work(tables: Tables, transaction: "lmdb.Transaction[bytes]") -> None:
        tables.load(transaction, np.array(sorted(stored), np.uint64))
        for distance in range(tables.design.reach_bits + 1):
            assert tables.probe(transaction, query, distance) == near(stored, query, distance)

    in_tables(environment, name, work)


@pytest.mark.parametrize("name", ["4", "16"])
def test_every_bit_of_a_key_is_flipped_and_no_table_number(
    environment: Environment, name: str
) -> None:
    design = parse_design(name)
    query = 0x0123_4567_89AB_CDEF
    stored = {query ^ 1 << bit for bit in range(64)} | {query}

    def work(tables: Tables, transaction: "lmdb.Transaction[bytes]") -> None:
        queries = design.rows(query)
        keys = tables._choose_keys(queries, design.reach_bits)
        assert len(set(keys)) == len(keys) == len(design.tables) * (1 + 8 * design.key_bytes)
        assert {key[0] for key in keys} == set(range(len(design.tables)))
        assert set(tables._choose_keys(queries, design.distance_bits)) < set(keys)
        tables.load(transaction, np.array(sorted(stored), np.uint64))
        for distance in range(design.reach_bits + 1):
            assert tables.probe(transaction, query, distance) == near(stored, query, distance)

    in_tables(environment, name, work)


@st.composite
def neighbourhoods(draw: st.DrawFn, name: str) -> tuple[int, set[int]]:
    """Draw a query and fingerprints at all distances around k, many at the borders of blocks."""
    design = parse_design(name)
    query = draw(fingerprints)
    stored = draw(st.sets(fingerprints, max_size=5))
    borders = border_bits(design)
    for positions in (range(64), borders):
        most = min(design.distance_bits + 2, len(positions))
        for distance in draw(st.lists(st.integers(0, most), max_size=12)):
            stored.add(query ^ draw(masks(distance, positions)))
    return query, stored


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(data=st.data())
def test_probe_is_complete_and_exact(
    environment: Environment, name: str, data: st.DataObject
) -> None:
    query, stored = data.draw(neighbourhoods(name))
    bulk = data.draw(st.booleans(), "bulk")

    def work(tables: Tables, transaction: "lmdb.Transaction[bytes]") -> None:
        if bulk:
            assert tables.load(transaction, np.array(sorted(stored), np.uint64)) == len(stored)
        else:
            for fingerprint in stored:
                tables.add(transaction, fingerprint)
        for distance in range(tables.design.distance_bits + 1):
            assert tables.probe(transaction, query, distance) == near(stored, query, distance)
        for table in tables.read_all(transaction):
            assert table.tolist() == sorted(stored)

    in_tables(environment, name, work)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(st.sets(fingerprints, max_size=12), st.sets(fingerprints, max_size=12), st.data())
def test_what_is_removed_is_gone_and_nothing_else(
    environment: Environment, name: str, kept: set[int], removed: set[int], data: st.DataObject
) -> None:
    kept -= removed
    removed |= {each ^ 1 for each in kept} - kept

    def work(tables: Tables, transaction: "lmdb.Transaction[bytes]") -> None:
        for fingerprint in data.draw(st.permutations(sorted(kept | removed))):
            tables.add(transaction, fingerprint)
            tables.add(transaction, fingerprint)  # harmless
        for fingerprint in [*sorted(removed), *sorted(removed)]:
            tables.remove(transaction, fingerprint)
        for table in tables.read_all(transaction):
            assert table.tolist() == sorted(kept)
        for fingerprint in kept | removed:
            assert tables.probe(transaction, fingerprint, 0) == near(kept, fingerprint, 0)

    in_tables(environment, name, work)


@pytest.mark.parametrize("name", NAMES)
def test_bulk_load_counts_what_is_new(environment: Environment, name: str) -> None:
    draw = np.random.default_rng(1)
    first = draw.integers(0, 2**64, 1_000, np.uint64, endpoint=False)
    second = np.concatenate([first[:300], first[:300], np.arange(700, dtype=np.uint64)])

    def work(tables: Tables, transaction: "lmdb.Transaction[bytes]") -> None:
        assert tables.load(transaction, first[:0]) == 0
        assert tables.load(transaction, first) == len(np.unique(first))
        assert tables.load(transaction, second) == 700
        assert tables.load(transaction, second) == 0
        expected = np.unique(np.concatenate([first, second]))
        for table in tables.read_all(transaction):
            assert (table == expected).all()

    in_tables(environment, name, work)


def test_bulk_load_in_several_puts(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_simhash.lmdb_tables._ROWS_PER_PUT", 7)

    def work(tables: Tables, transaction: "lmdb.Transaction[bytes]") -> None:
        assert tables.load(transaction, np.arange(30, dtype=np.uint64)) == 30
        assert all(table.tolist() == list(range(30)) for table in tables.read_all(transaction))

    in_tables(environment, "10", work)


def test_many_fingerprints_under_one_key(environment: Environment) -> None:
    """The spikes of section 4.2: more values than one page of the database holds."""
    stored = set(range(3_000)) | {number << 40 for number in range(3_000)}

    def work(tables: Tables, transaction: "lmdb.Transaction[bytes]") -> None:
        tables.load(transaction, np.array(sorted(stored), np.uint64))
        for query in (0, 1, 2_999, 2**64 - 1, 77 << 40):
            assert tables.probe(transaction, query, 3) == near(stored, query, 3)

    in_tables(environment, "4", work)


@pytest.mark.parametrize("bad", [-1, 2**64, 2**70])
def test_what_is_no_fingerprint_never_reaches_the_tables(
    environment: Environment, bad: int
) -> None:
    """A value of another width would take others with it."""

    def work(tables: Tables, transaction: "lmdb.Transaction[bytes]") -> None:
        tables.add(transaction, 5)
        with pytest.raises(ValueError, match="a fingerprint is a whole number"):
            tables.add(transaction, bad)
        with pytest.raises(ValueError, match="a fingerprint is a whole number"):
            tables.remove(transaction, bad)
        assert [table.tolist() for table in tables.read_all(transaction)] == [[5]] * 4

    in_tables(environment, "4", work)


def test_empty_tables(environment: Environment) -> None:
    def work(tables: Tables, transaction: "lmdb.Transaction[bytes]") -> None:
        assert tables.probe(transaction, 0, 3) == []
        assert [table.tolist() for table in tables.read_all(transaction)] == [[]] * 4

    in_tables(environment, "4", work)
