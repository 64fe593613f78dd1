"""Which pairs are shown first."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.sampling import (
    Cell,
    cell_of,
    draw_pool,
    measure_cells,
    measure_margin,
    order_by_distance,
    order_by_tellingness,
)

CELLS = st.tuples(st.integers(0, 10), st.integers(0, 4))


@given(st.lists(CELLS, max_size=60), st.lists(CELLS, max_size=30))
def test_by_distance_labels_are_spread_equally(cells: list[Cell], labelled: list[Cell]) -> None:
    order = order_by_distance(cells, labelled)
    assert sorted(order) == list(range(len(cells)))
    counts = Counter(bits for bits, _ in labelled)
    left = Counter(bits for bits, _ in cells)
    for place in order:
        bits = cells[place][0]
        # Nobody else with pairs left has had fewer turns.
        assert counts[bits] == min(counts[other] for other in left if left[other])
        counts[bits] += 1
        left[bits] -= 1


@given(st.lists(CELLS, min_size=1, max_size=60))
def test_within_a_cell_the_random_order_stays(cells: list[Cell]) -> None:
    for order in (
        order_by_distance(cells, []),
        order_by_tellingness(cells, [], measure_cells(cells, [1.0] * len(cells)), 7, 0.8),
    ):
        assert sorted(order) == list(range(len(cells)))
    for cell in set(cells):
        places = [place for place in order if cells[place] == cell]
        assert places == sorted(places)


def test_the_edge_comes_first_and_gets_most_labels() -> None:
    kinds = [(0, 4), (3, 2), (7, 3), (8, 3), (10, 0)]
    cells = kinds * 40
    order = order_by_tellingness(cells, [], dict.fromkeys(kinds, 40.0), 7, 0.8)
    shown = [cells[place] for place in order]
    assert set(shown[:3]) == {(3, 2), (7, 3), (8, 3)}
    counts = Counter(shown[:60])
    assert counts[3, 2] > counts[0, 4] > 0
    assert counts[8, 3] > counts[10, 0] > 0


def test_labels_that_are_there_count_as_turns() -> None:
    cells = [(3, 2), (7, 3)]
    sizes = dict.fromkeys(cells, 50.0)
    assert order_by_tellingness(cells, [], sizes, 7, 0.8) == [0, 1]
    assert order_by_tellingness(cells, [(3, 2)] * 5, sizes, 7, 0.8) == [1, 0]


@pytest.mark.parametrize(
    ("cell", "confirm", "margin"),
    [
        ((7, 4), 0.8, 0.25),
        ((8, 4), 0.8, 0.25),
        ((0, 2), 0.8, 0.0),
        ((0, 4), 0.8, 2.0),
        ((0, 1), 0.8, 1.0),
        ((10, 2), 0.8, 1.25),
        ((10, 0), 0.8, 2.0),
        ((0, 0), None, 3.75),
        ((8, 0), None, 0.25),
    ],
)
def test_margins(cell: Cell, confirm: float | None, margin: float) -> None:
    assert measure_margin(cell, 7, confirm) == pytest.approx(margin)


def test_bands() -> None:
    shown = [cell_of(3, similarity) for similarity in (0.0, 0.649, 0.65, 0.8, 0.85, 0.95, 1.0)]
    assert shown == [(3, 0), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (3, 4)]


def test_a_pool_is_a_part_that_stands_for_all() -> None:
    documents = np.arange(6_000).reshape(-1, 2)
    distances = np.array([2] * 2_500 + [9] * 500)
    pool = draw_pool(documents, distances, 0.5, seed=1)
    assert Counter(pool.distances.tolist()) == {2: 1_000, 9: 500}
    assert pool.stand_for.sum() == pytest.approx(6_000)
    assert set(pool.stand_for[pool.distances == 9].tolist()) == {2.0}
    assert {tuple(row) for row in pool.documents.tolist()} <= {
        tuple(row) for row in documents.tolist()
    }
    again, other = (draw_pool(documents, distances, 0.5, seed) for seed in (1, 2))
    assert (again.documents == pool.documents).all()
    assert (other.documents != pool.documents).any()
