"""The permuted tables: complete within k for every design, and nothing beyond."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keyvalues import Engine, KeyValues
from scrapy_simhash.stores.lmdb.engine import LmdbEngine
from scrapy_simhash.tables import parse_design
from scrapy_simhash.tables.probing import Prober
from tests.helpers.needing import examples, slow_but
from tests.helpers.oracle import distance_between
from tests.helpers.strategies import border_bits, fingerprints, masks

# Those of the paper and others, at least one for each width of key.
NAMES = [
    *("4", "10", "16", "20", "6:2", "8:5", "8:7", "1:0"),
    *("4:3+0", "4:3+2", "6:5+1"),
]


class Aborted(Exception):  # noqa: N818 - not an error
    """Thrown to undo what a test wrote."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = LmdbEngine(tmp_path_factory.mktemp("tables"), readonly=False)
    engine.open()
    yield engine
    engine.close()


class Tables:
    """The tables of a store, without documents."""

    def __init__(self, values: KeyValues, name: str) -> None:
        self.design = parse_design(name)
        self.prober = Prober(self.design)
        self.values = values
        self.stored = Documents(values, self.prober)

    def add(self, fingerprint: int) -> None:
        rows = self.prober.split(fingerprint)
        if not self.values.has("tables", *rows[0]):
            for row in rows:
                self.values.add("tables", *row)

    def remove(self, fingerprint: int) -> None:
        for row in self.prober.split(fingerprint):
            self.values.discard("tables", *row)


def in_tables(engine: Engine, name: str, work: Callable[[Tables], None]) -> None:
    """Run a test in empty tables of a design and undo it."""

    def work_and_abort(values: KeyValues) -> None:
        work(Tables(values, name))
        raise Aborted

    with pytest.raises(Aborted):
        engine.write(work_and_abort)


def fill(tables: Tables, stored: Iterable[int]) -> None:
    """Put fingerprints into buckets, in place of those that are there."""
    tables.stored.rewrite_tables(tables.design, np.array(sorted(stored), np.uint64))


def probe(tables: Tables, query: int, distance: int) -> list[tuple[int, int]]:
    """Find everything, and check that the probe says so."""
    found = tables.stored.near(query, distance)
    assert found.complete_bits == distance
    return found.near


def read_all(tables: Tables) -> list[list[int]]:
    """Read every table back."""
    return [content.tolist() for content in tables.stored.read_tables()]


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


@pytest.mark.parametrize("name", slow_but(["4"], NAMES))
@given(data=st.data())
def test_probe_with_flipped_keys_is_complete_and_exact(
    engine: Engine, name: str, data: st.DataObject
) -> None:
    """At every distance that the design reaches: 0 to 7 bits with four tables."""
    query, stored = data.draw(clusters(name))

    def work(tables: Tables) -> None:
        fill(tables, stored)
        for distance in range(tables.design.reach_bits + 1):
            assert probe(tables, query, distance) == near(stored, query, distance)

    in_tables(engine, name, work)


@pytest.mark.parametrize("name", ["4", "16"])
def test_every_bit_of_a_key_is_flipped_and_no_table_number(engine: Engine, name: str) -> None:
    design = parse_design(name)
    query = 0x0123_4567_89AB_CDEF
    stored = {query ^ 1 << bit for bit in range(64)} | {query}

    def work(tables: Tables) -> None:
        rows = tables.prober.rows(query)
        keys = tables.prober._flip(rows, 0, 1)
        assert len(set(keys)) == len(keys) == len(design.tables) * (1 + 8 * design.key_bytes)
        assert {key[0] for key in keys} == set(range(len(design.tables)))
        assert set(tables.prober._keys.unpack(rows)) < set(keys)
        fill(tables, stored)
        for distance in range(design.reach_bits + 1):
            assert probe(tables, query, distance) == near(stored, query, distance)

    in_tables(engine, name, work)


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


@pytest.mark.parametrize("name", slow_but(["4", "10"], NAMES))
@examples(25)
@given(data=st.data())
def test_probe_is_complete_and_exact(engine: Engine, name: str, data: st.DataObject) -> None:
    query, stored = data.draw(neighbourhoods(name))
    packed = data.draw(st.sets(st.sampled_from(sorted(stored))), "packed") if stored else set()

    def work(tables: Tables) -> None:
        fill(tables, packed)
        for fingerprint in stored:  # those that are packed as well: harmless
            tables.add(fingerprint)
        for distance in range(tables.design.distance_bits + 1):
            assert probe(tables, query, distance) == near(stored, query, distance)
        assert read_all(tables) == [sorted(stored)] * len(tables.design.tables)

    in_tables(engine, name, work)


@pytest.mark.parametrize("name", NAMES)
@examples(10)
@given(st.sets(fingerprints, max_size=12), st.sets(fingerprints, max_size=12), st.data())
def test_what_is_removed_is_gone_and_nothing_else(
    engine: Engine, name: str, kept: set[int], removed: set[int], data: st.DataObject
) -> None:
    kept -= removed
    removed |= {each ^ 1 for each in kept} - kept

    def work(tables: Tables) -> None:
        fill(tables, data.draw(st.sets(st.sampled_from([0, *kept, *removed]))))
        tables.remove(0)
        for fingerprint in data.draw(st.permutations(sorted(kept | removed))):
            tables.add(fingerprint)
            tables.add(fingerprint)  # harmless
        for fingerprint in [*sorted(removed), *sorted(removed)]:
            tables.remove(fingerprint)
        assert read_all(tables) == [sorted(kept)] * len(tables.design.tables)
        assert tables.values.find_strays(tables.design) == []
        for fingerprint in kept | removed:
            assert probe(tables, fingerprint, 0) == near(kept, fingerprint, 0)

    in_tables(engine, name, work)


def test_many_fingerprints_under_one_key(engine: Engine) -> None:
    """The spikes of section 4.2: more values than one page of the database holds."""
    stored = set(range(3_000)) | {number << 40 for number in range(3_000)}

    def work(tables: Tables) -> None:
        fill(tables, stored)
        for query in (0, 1, 2_999, 2**64 - 1, 77 << 40):
            assert probe(tables, query, 3) == near(stored, query, 3)

    in_tables(engine, "4", work)


@pytest.mark.parametrize("bad", [-1, 2**64, 2**70])
def test_what_is_no_fingerprint_never_reaches_the_tables(engine: Engine, bad: int) -> None:
    """A value of another width would take others with it."""

    def work(tables: Tables) -> None:
        tables.add(5)
        with pytest.raises(ValueError, match="a fingerprint is a whole number"):
            tables.add(bad)
        with pytest.raises(ValueError, match="a fingerprint is a whole number"):
            tables.remove(bad)
        assert read_all(tables) == [[5]] * 4

    in_tables(engine, "4", work)


def test_empty_tables(engine: Engine) -> None:
    def work(tables: Tables) -> None:
        assert probe(tables, 0, 3) == []
        assert read_all(tables) == [[]] * 4

    in_tables(engine, "4", work)


@st.composite
def crowds(draw: st.DrawFn, name: str) -> tuple[int, set[int]]:
    """Draw a query, its neighbours, and others that crowd the buckets of some tables."""
    query, stored = draw(neighbourhoods(name))
    design = parse_design(name)
    for table in draw(st.lists(st.sampled_from(design.tables), max_size=3, unique=True)):
        prefix = table.permute(query) >> (64 - table.prefix_bits) << (64 - table.prefix_bits)
        flipped = draw(st.sampled_from([0, 1 << 63, 3 << 62]))
        rests = draw(st.sets(st.integers(0, 2 ** (64 - table.prefix_bits) - 1), max_size=8))
        stored |= {table.restore((prefix ^ flipped) | rest) for rest in rests}
    return query, stored


@pytest.mark.parametrize("name", ["4", "10", "16", "4:3+2", "6:2"])
@given(data=st.data())
def test_a_bounded_probe_says_how_far_it_is_complete(
    engine: Engine, name: str, data: st.DataObject
) -> None:
    """Buckets of more than two are passed over here."""
    query, stored = data.draw(crowds(name))
    packed = data.draw(st.booleans(), "packed")

    def work(tables: Tables) -> None:
        if packed:
            fill(tables, stored)
        else:
            for fingerprint in stored:
                tables.add(fingerprint)
        assert tables.values.find_strays(tables.design) == []
        for distance in range(tables.design.reach_bits + 1):
            expected = near(stored, query, distance)
            assert probe(tables, query, distance) == expected
            bounded = tables.stored.near(query, distance, bounded=True)
            assert set(bounded.near) <= set(expected)
            assert bounded.complete_bits <= distance
            assert set(near(stored, query, bounded.complete_bits)) <= set(bounded.near)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scrapy_simhash.stores.lmdb.tables.MOST_IN_BUCKET", 2)
        patch.setattr("scrapy_simhash.stores.lmdb.tables._MOST_SINGLE", 1)
        in_tables(engine, name, work)


@pytest.mark.parametrize("tables_hot", [0, 1, 2, 3, 4])
def test_up_to_two_hot_tables_lose_nothing_within_three_bits(
    engine: Engine, tables_hot: int
) -> None:
    query = 0x0123_4567_89AB_CDEF
    # Each group shares one block with the query and differs in the three others.
    crowd = {
        query ^ sum(number << 16 * other for other in range(4) if other != block)
        for block in range(tables_hot)
        for number in range(1, 40)
    }
    stored = crowd | {query, query ^ 1, query ^ 1 << 20, query ^ 3 << 40, query ^ 7 << 47}

    def work(tables: Tables) -> None:
        fill(tables, stored)
        assert tables.values.measure_tables()[1] == tables_hot
        bounded = tables.stored.near(query, 3, bounded=True)
        if tables_hot <= 2:
            assert bounded == (near(stored, query, 3), 3)
        else:
            assert bounded.complete_bits == {3: 1, 4: -1}[tables_hot]
        for fingerprint in crowd:
            tables.remove(fingerprint)
        assert tables.values.find_strays(tables.design) == []
        assert probe(tables, query, 3) == near(stored - crowd, query, 3)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scrapy_simhash.stores.lmdb.tables.MOST_IN_BUCKET", 30)
        in_tables(engine, "4", work)
