"""A join cut into cells finds what the whole one finds, and no cell is much larger than it may."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scrapy_simhash.batch.joins import find_all
from scrapy_simhash.batch.joins import tables as joincells
from scrapy_simhash.batch.joins.selfjoin import join_cell
from scrapy_simhash.batch.joins.tables import CellPlan, plan_cells
from scrapy_simhash.judging.words import sort_distinct
from tests.helpers.needing import examples
from tests.helpers.strategies import crowds


def gather(plan: CellPlan, parts: list[NDArray[np.uint64]]) -> dict[int, NDArray[np.uint64]]:
    """Put together what each cell gets of several parts, as a shuffle does."""
    cells: dict[int, list[NDArray[np.uint64]]] = {}
    for cut, part in product(plan.cuts, parts):
        for cell, values in cut.scatter(part):
            cells.setdefault(cell, []).append(values)
    return {cell: sort_distinct(np.concatenate(each)) for cell, each in cells.items()}


def join(plan: CellPlan, cells: dict[int, NDArray[np.uint64]], distance: int) -> list[list[int]]:
    found = [join_cell(cell, plan.paths[number], distance) for number, cell in cells.items()]
    return sorted(np.concatenate([np.empty((0, 2), np.uint64), *found]).tolist())


@given(crowds(), st.integers(0, 5), st.integers(1, 8), st.data())
@examples(200)
def test_cells_find_each_pair_once(
    values: list[int], distance: int, most: int, data: st.DataObject
) -> None:
    """Whatever the sample, and where every handful is a crowd with tables of its own."""
    blocks = data.draw(st.integers(distance + 1, distance + 3))
    sampled = data.draw(st.lists(st.sampled_from(values), max_size=20) if values else st.just([]))
    fingerprints = np.array(values, np.uint64)
    cut = data.draw(st.integers(0, len(values)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            joincells, "choose_join_blocks", lambda _, k, bits: (bits > k + 20) * (k + 1)
        )
        patched.setattr(joincells, "_MOST_NESTED", 2)
        plan = plan_cells(np.array(sampled, np.uint64), 1.0, distance, blocks, most)
    cells = gather(plan, [fingerprints[:cut], fingerprints[cut:]])
    assert join(plan, cells, distance) == find_all(fingerprints, distance).tolist()


def crowded(count: int, prefix_bits: int = 20) -> NDArray[np.uint64]:
    """Draw fingerprints of which a fifth begin with the same bits, and some are near others."""
    random = np.random.default_rng(20)
    values = random.integers(0, 2**64, count, np.uint64)
    values[: count // 5] >>= np.uint64(prefix_bits)
    near = values[: count // 10 : 7] ^ np.uint64(1 << 3 | 1 << 30)
    values[-near.size :] = near
    return values


def test_a_prefix_with_a_fifth_of_all_is_cut() -> None:
    values, most = crowded(60_000), 2_000
    plan = plan_cells(values, 1.0, 3, 4, most)
    cells = gather(plan, [values])
    assert max(cell.size for cell in cells.values()) <= most
    assert any(len(path) > 1 for path in plan.paths)
    assert join(plan, cells, 3) == find_all(values, 3).tolist()
