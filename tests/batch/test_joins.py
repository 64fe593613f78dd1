"""Joins: complete, each pair once, in order, whole or in cells or chunks; and what plans tables."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.batch.joins import (
    batch,
    batch_query,
    connected_clusters,
    find_all,
    representative_clusters,
    selfjoin,
    tables,
)
from scrapy_simhash.batch.joins.tables import CellPlan, plan_cells
from scrapy_simhash.batch.planner import Estimate, compare_designs, estimate
from scrapy_simhash.pages.features import sort_distinct
from scrapy_simhash.tables import PAPER, parse_design
from tests.helpers.needing import examples, slow_but
from tests.helpers.oracle import all_matches, all_pairs, union_find
from tests.helpers.strategies import crowds, fingerprints, masks


def find(values: list[int], distance: int, blocks: int | None = None) -> list[list[int]]:
    found = find_all(np.array(values, np.uint64), distance, blocks)
    assert found.dtype == np.uint64
    assert found.shape == (len(found), 2)
    return found.tolist()  # type: ignore[no-any-return]


@given(crowds(), st.integers(0, 10), st.data())
@examples(200)
def test_finds_all_pairs_once_and_in_order(
    values: list[int], distance: int, data: st.DataObject
) -> None:
    most = 14 if distance < 5 else distance + 3
    blocks = data.draw(st.one_of(st.none(), st.integers(distance + 1, most)))
    assert find(values, distance, blocks) == all_pairs(values, distance)


@given(crowds(), st.integers(0, 4), st.integers(2, 8), st.data())
def test_crowds_are_joined_by_tables_of_their_own(
    values: list[int], distance: int, longest: int, data: st.DataObject
) -> None:
    """With runs so short that even a handful is a crowd, and no crowd too small for tables."""
    blocks = data.draw(st.integers(distance + 1, distance + 2))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(selfjoin, "_LONGEST_RUN", longest)
        patched.setattr(selfjoin, "choose_join_blocks", lambda _, k, bits: (bits > k) * (k + 1))
        assert find(values, distance, blocks) == all_pairs(values, distance)


@pytest.mark.parametrize(
    ("distance", "blocks", "message"),
    [
        (3, 3, "3 blocks: finding all pairs within 3 bits takes 4 to 64 blocks"),
        (64, None, "distance 64: must be 0 to 63 bits"),
        (10, 40, "40 blocks for 10 bits need 847,660,528 tables; take a number of blocks that"),
    ],
)
def test_what_is_refused(distance: int, blocks: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find([1, 2], distance, blocks)


edges = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda pair: pair[0] < pair[1]),
    unique=True,
)


def as_array(pairs: list[tuple[int, int]]) -> NDArray[np.uint64]:
    return np.array(sorted(pairs), np.uint64).reshape(-1, 2)


@given(edges)
def test_connected_clusters(pairs: list[tuple[int, int]]) -> None:
    found = [cluster.tolist() for cluster in connected_clusters(as_array(pairs))]
    assert found == union_find(pairs)


@given(edges)
def test_representatives_by_their_rule(pairs: list[tuple[int, int]]) -> None:
    neighbours: dict[int, set[int]] = {}
    for first, second in pairs:
        neighbours.setdefault(first, set()).add(second)
        neighbours.setdefault(second, set()).add(first)
    expected, free = [], set(neighbours)
    for each in sorted(neighbours, key=lambda name: (-len(neighbours[name]), name)):
        if each in free:
            taken = sorted(neighbours[each] & free)
            free -= {each, *taken}
            expected += [[each, *taken]] if taken else []
    found = [cluster.tolist() for cluster in representative_clusters(as_array(pairs))]
    assert found == expected


def gather(plan: CellPlan, parts: list[NDArray[np.uint64]]) -> dict[int, NDArray[np.uint64]]:
    """Put together what each cell gets of several parts, as a shuffle does."""
    cells: dict[int, list[NDArray[np.uint64]]] = {}
    for cut, part in product(plan.cuts, parts):
        for cell, values in cut.scatter(part):
            cells.setdefault(cell, []).append(values)
    return {cell: sort_distinct(np.concatenate(each)) for cell, each in cells.items()}


def join(plan: CellPlan, cells: dict[int, NDArray[np.uint64]], distance: int) -> list[list[int]]:
    found = (selfjoin.join_cell(each, plan.paths[n], distance) for n, each in cells.items())
    return sorted(np.concatenate([np.empty((0, 2), np.uint64), *found]).tolist())


@given(crowds(), st.integers(0, 5), st.integers(1, 8), st.data())
@examples(200)
def test_cells_find_each_pair_once(
    values: list[int], distance: int, most: int, data: st.DataObject
) -> None:
    """Whatever the sample, and where every handful is a crowd with tables of its own."""
    blocks = data.draw(st.integers(distance + 1, distance + 3))
    sampled = data.draw(st.lists(st.sampled_from(values), max_size=20) if values else st.just([]))
    stored = np.array(values, np.uint64)
    cut = data.draw(st.integers(0, len(values)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tables, "choose_join_blocks", lambda _, k, bits: (bits > k + 20) * (k + 1))
        patched.setattr(tables, "_MOST_NESTED", 2)
        plan = plan_cells(np.array(sampled, np.uint64), 1.0, distance, blocks, most)
    cells = gather(plan, [stored[:cut], stored[cut:]])
    assert join(plan, cells, distance) == find_all(stored, distance).tolist()


def crowded(count: int, prefix_bits: int = 20) -> NDArray[np.uint64]:
    """Draw fingerprints of which a fifth begin with the same bits, and some are near others."""
    random = np.random.default_rng(20)
    values = random.integers(0, 2**64, count, np.uint64)
    values[: count // 5] >>= np.uint64(prefix_bits)
    near = values[: count // 10 : 7] ^ np.uint64(1 << 3 | 1 << 30)
    values[-near.size :] = near
    return values


def query(
    queries: list[int], chunks: list[list[int]], distance: int, blocks: int | None = None
) -> list[list[int]]:
    arrays = [np.array(chunk, np.uint64) for chunk in chunks]
    found = batch_query(np.array(queries, np.uint64), arrays, distance, blocks)
    assert found.dtype == np.uint64
    assert found.shape == (len(found), 3)
    return found.tolist()  # type: ignore[no-any-return]


@given(crowds(), st.data())
@examples(100)
def test_queries_find_all_once_and_in_order(values: list[int], data: st.DataObject) -> None:
    distance = data.draw(st.integers(0, 10))
    blocks = data.draw(st.none() | st.integers(distance + 1, distance + 2))
    flips = data.draw(st.lists(st.integers(0, 12).flatmap(masks), min_size=1, max_size=20))
    queries = [value ^ flip for value, flip in zip(values, flips, strict=False)]
    queries += data.draw(st.lists(fingerprints, max_size=3)) + values[:3] + queries[:2]
    cut = data.draw(st.integers(0, len(values)))
    chunks = [values[:cut], values[cut:], values[:2]]
    assert query(queries, chunks, distance, blocks) == all_matches(queries, values, distance)


def test_a_crowd_is_not_compared_each_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of both have their leading 28 bits in common, as pages of one template."""
    random = np.random.default_rng(2)
    stored = random.integers(0, 2**64, 100_000, np.uint64)
    stored[:20_000] >>= np.uint64(28)
    queries = stored[::2] ^ np.uint64(1) << random.integers(0, 36, 50_000, np.uint64)
    compared = 0
    compare = batch._QueryTable._compare

    def count(*arguments: Any) -> Iterator[NDArray[np.uint64]]:
        nonlocal compared
        compared += int(arguments[3].sum())
        return compare(*arguments)

    monkeypatch.setattr(batch._QueryTable, "_compare", count)
    found = batch_query(queries, [stored], 3)
    pairs = zip(queries.tolist(), stored[::2].tolist(), strict=True)
    assert {(int(q), int(s)) for q, s, _ in found} >= set(pairs)
    assert compared < 10_000 * 20_000 / 10


def test_queries_that_are_refused_and_progress() -> None:
    for distance, blocks, message in ((3, 3, "3 blocks"), (-1, None, "-1"), (64, None, "64")):
        with pytest.raises(ValueError, match=message):
            query([1], [[1]], distance, blocks)
    told: list[int] = []
    chunks = [np.arange(size, dtype=np.uint64) for size in (3, 0, 5)]
    batch_query(chunks[0], chunks, 0, progress=told.append)
    assert told == [3, 3, 8]


documents = st.integers(0, 36).map(lambda bits: 1 << bits)


@given(documents, st.integers(0, 12))
def test_every_estimate_is_complete_with_its_flips(count: int, distance: int) -> None:
    planned = compare_designs(count, distance)
    for one in planned:
        design = parse_design(one.design)
        assert (design.name, design.flips_for(distance)) == (one.design, one.flips)
        assert estimate(design, count, distance) == one
    if distance <= 3:
        assert {one.design for one in planned} >= set(PAPER)


def measures(one: Estimate) -> tuple[float, ...]:
    return one.tables, one.bytes, one.candidates, one.microseconds


@pytest.mark.parametrize("distance", slow_but([0], [0, 2, 3, 4, 7]))
def test_no_better_design_was_left_out(distance: int) -> None:
    """Each "m:k+r" there is has its equal in the plan, or its better."""
    for count in (10**4, 10**8, 2**34):
        planned = [measures(one) for one in compare_designs(count, distance)]
        for blocks in range(1, 16):
            for without in range(min(blocks, distance + 1)):
                try:
                    design = parse_design(f"{blocks}:{without}+3")
                    mine = measures(estimate(design, count, distance))
                except ValueError:
                    continue
                assert any(
                    all(a <= b for a, b in zip(one, mine, strict=True)) for one in planned
                ), design.name
