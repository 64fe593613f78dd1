"""The permuted tables in LMDB: complete within k for every design, nothing beyond.

Redis has the same `many`, see `test_kinds` and `test_store_machines`.
"""

from collections.abc import Iterator
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.keyvalues import TABLES, Engine, KeyValues
from scrapy_simhash.stores.lmdb import MemoryEngine
from scrapy_simhash.stores.upkeep import read_table
from scrapy_simhash.tables.designs import parse_design
from scrapy_simhash.tables.probing import Prober
from tests.helpers.needing import examples, slow_but
from tests.helpers.oracle import distance_between
from tests.helpers.strategies import border_bits, fingerprints, masks

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
    prober = Prober(design)

    def work(values: KeyValues) -> None:
        tables = Documents(values, prober, 0, set())
        for row in chain.from_iterable(map(prober.split, stored)):
            values.add(TABLES, *row)
        for distance in range(design.reach_bits + 1):
            found = tables.near(query, distance)
            assert found.complete
            assert found.near == [hit for hit in near if hit[0] <= distance]
        for number in range(len(design.tables)):
            assert read_table(tables, number).tolist() == sorted(stored)
        raise Aborted

    with pytest.raises(Aborted):
        engine.write(work)
