"""Skewed keys: more documents share one than are looked at; nothing is lost or hidden."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, find, open_lmdb
from tests.helpers.lmdbrows import pack
from tests.helpers.needing import examples
from tests.helpers.oracle import distance_between
from tests.helpers.strategies import masks

QUERY = 0x0123_4567_89AB_CDEF
FULL = ("not_judged", "bucket_too_full")


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrapy_simhash.judging.judge.MOST_IN_PLAIN_BUCKET", 8)


def fill(store: Store, blocks: int) -> None:
    """Let so many tables have a bucket of the query that is too full.

    Each group shares one block of 16 bits with the query and is far from it in the others.
    """
    crowd = [
        QUERY ^ sum(0x1111 * number << 16 * other for other in range(4) if other != block)
        for block in range(blocks)
        for number in range(1, 15)
    ]
    store.find_and_add([document(f"crowd {each:x}", each, scope=f"{each:x}") for each in crowd])


def judge(store: Store, name: str, fingerprint: int, **fields: Any) -> tuple[str, str]:
    (verdict,) = store.find_and_add([document(name, fingerprint, **fields)])
    return verdict.status, verdict.reason


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("distance", "blocks", "covered"),
    [
        *((3, 0, True), (3, 1, True), (3, 2, True), (3, 3, False), (3, 4, False)),
        *((7, 1, True), (7, 2, False), (7, 4, False)),
    ],
)
def test_the_other_tables_make_up_for_those_that_are_too_full(
    tmp_path: Path, distance: int, blocks: int, covered: bool, packed: bool
) -> None:
    """Up to two of four within 3 bits, one within 7: where they do not, the document is kept."""
    with open_lmdb(tmp_path, distance=distance, tables="4", plain=True) as store:
        fill(store, blocks)
        if packed:
            pack(store)
        assert judge(store, "query", QUERY) == (("new", "") if covered else FULL)
        (stored,) = find(store, "http://site.example/query")
        assert (stored.state, stored.facts.fingerprint) == ("done", QUERY)
        assert (0, stored.document) in [
            (match.distance, match.document) for match in store.query(QUERY)
        ]
        assert judge(store, "query", QUERY) == ("revisit", "unchanged")
        assert store.check() == []


@st.composite
def skewed(draw: st.DrawFn) -> list[int]:
    """Draw fingerprints that share blocks: neighbours of each other, and those beyond."""
    blocks = st.sampled_from([0, 0xFFFF, 0xCDEF])
    any_block = st.one_of(blocks, st.integers(0, 0xFFFF))
    crowd = draw(st.lists(st.tuples(blocks, any_block, any_block, any_block), max_size=30))
    drawn = [sum(block << 16 * at for at, block in enumerate(blocks)) for blocks in crowd]
    drawn.append(QUERY)
    near = st.tuples(st.sampled_from(drawn), st.integers(0, 9).flatmap(masks))
    drawn += [known ^ flips for known, flips in draw(st.lists(near, min_size=3, max_size=30))]
    return draw(st.permutations(drawn))


@pytest.mark.parametrize(("tables", "distance"), [("4", 3), ("4", 7), ("10", 3), ("16", 4)])
@examples(12)
@given(drawn=skewed(), data=st.data())
def test_new_means_that_no_neighbour_came_before(
    tables: str, distance: int, drawn: list[int], data: st.DataObject
) -> None:
    originals: list[int] = []
    compacted = data.draw(st.sets(st.integers(0, len(drawn)), max_size=2), "compacted at")
    with (
        tempfile.TemporaryDirectory() as folder,
        open_lmdb(Path(folder), distance=distance, tables=tables, plain=True) as store,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("scrapy_simhash.judging.judge.MOST_IN_PLAIN_BUCKET", 2)
        for at, fingerprint in enumerate(drawn):
            if at in compacted:
                pack(store)
            (verdict,) = store.find_and_add([document(f"page {at}", fingerprint)])
            near = [distance_between(each, fingerprint) for each in originals]
            least = min(near, default=64)
            if verdict.status == "new":
                assert least > distance
            elif verdict.status == "near_duplicate":
                assert verdict.match
                assert verdict.match.distance in near
                assert least <= verdict.match.distance <= distance
            else:
                assert (verdict.status, verdict.reason) == FULL
            if verdict.status != "near_duplicate":
                originals.append(fingerprint)
        assert store.fingerprints().tolist() == sorted(set(originals))
        assert store.check() == []
