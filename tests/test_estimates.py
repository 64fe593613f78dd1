"""What labels of some pairs say of all: against populations whose labels are all known."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.corpus import Label, LabelledPair
from scrapy_simhash.estimates import (
    LEAST_LABELS,
    Setting,
    Weighed,
    describe_distances,
    describe_setting,
    estimate,
    estimate_precision,
    estimate_recall,
    recommend,
    weigh,
)
from scrapy_simhash.quality import SIMILARITIES, Judged, wilson
from scrapy_simhash.sampling import (
    BANDS,
    Cell,
    measure_cells,
    order_by_distance,
    order_by_tellingness,
)

MIDDLES = (0.5, 0.7, 0.8, 0.9, 1.0)
IN_FORCE = Setting(7, 0.8)


def judged(cell: Cell, *, same: bool) -> Judged:
    bits, band = cell
    label: Label = "dup" if same else "distinct"
    similarity = MIDDLES[band]
    return Judged(
        pair=LabelledPair("1", "2", label, "site.example", ""),
        language="",
        duplicate=False,
        distance=bits,
        plain_distance=bits,
        similarity=similarity,
        confirmed=similarity >= 0.8,
        confirmed_at={least: similarity >= least for least in SIMILARITIES},
        tests=(),
    )


def weighed(
    pairs: Sequence[Judged], cells: Sequence[Cell], sizes: dict[Cell, float]
) -> list[Weighed]:
    weights, _ = weigh(cells, sizes)
    return [Weighed(pair, weight) for pair, weight in zip(pairs, weights, strict=True)]


POPULATIONS = st.lists(
    st.tuples(st.tuples(st.integers(0, 10), st.integers(0, len(BANDS))), st.booleans()),
    min_size=1,
    max_size=80,
)


@given(POPULATIONS, st.integers(0, 10))
def test_with_all_pairs_labelled_estimates_are_exact(
    population: list[tuple[Cell, bool]], bits: int
) -> None:
    cells = [cell for cell, _ in population]
    sizes = measure_cells(cells, [1.0] * len(cells))
    labels = weighed([judged(cell, same=same) for cell, same in population], cells, sizes)
    row = describe_distances(labels, sizes, 0.8)[bits]
    near = [same for cell, same in population if cell[0] <= bits]
    sure = [same for cell, same in population if cell[0] <= bits and cell[1] >= 2]
    at = [same for cell, same in population if cell[0] == bits]
    all_same = sum(same for _, same in population)
    assert (row["pairs"], row["labelled"]) == (len(at), len(at))
    for name, hits, of in (
        ("same_at", sum(at), len(at)),
        ("plain_precision", sum(near), len(near)),
        ("precision", sum(sure), len(sure)),
        ("plain_recall", sum(near), all_same),
        ("recall", sum(sure), all_same),
    ):
        assert row[name] == (pytest.approx(hits / of, abs=1e-4) if of else None), name
        assert row[f"{name}_interval"] == (
            pytest.approx(wilson(hits, of), abs=2e-4) if of else None
        )


@given(POPULATIONS, st.data())
def test_weights_add_up_to_the_pairs_that_were_seen(
    population: list[tuple[Cell, bool]], data: st.DataObject
) -> None:
    cells = [cell for cell, _ in population]
    chosen = data.draw(st.lists(st.sampled_from(cells), max_size=20))
    weights, unseen = weigh(chosen, measure_cells(cells, [1.0] * len(cells)))
    assert sum(weights) + sum(unseen.values()) == pytest.approx(len(cells))
    assert set(unseen) == {bits for bits, _ in cells} - {bits for bits, _ in chosen}


def test_equal_samples_are_weighted_back() -> None:
    """Ten labels each for 900 pairs at 1 bit, all right, and for 100 at 5 bits, half of them."""
    cells = [(1, 4)] * 10 + [(5, 4)] * 10
    pairs = [judged(cell, same=number < 15) for number, cell in enumerate(cells)]
    labels = weighed(pairs, cells, {(1, 4): 900.0, (5, 4): 100.0})
    assert estimate_precision(labels, IN_FORCE.drops).share == pytest.approx(0.95)
    assert estimate_recall(labels, Setting(3, 0.8).drops).share == pytest.approx(900 / 950)
    figures = describe_setting(labels, IN_FORCE)
    assert figures["wrong_pairs"] == 50


def test_one_label_that_stands_for_much_makes_intervals_wide() -> None:
    even = estimate([(1.0, True)] * 20)
    assert even.effective == 20
    heavy = estimate([(1.0, True)] * 19 + [(1_000.0, True)])
    assert heavy.effective < 1.1
    assert heavy.interval
    assert even.interval
    assert heavy.interval[0] < even.interval[0]
    assert estimate([]) == estimate([(0.0, True)]) == (None, None, 0.0)


# Pairs and the share of duplicates among them, by cell.
KNOWN = {
    (0, 4): (300, 1.0),
    (3, 3): (80, 0.96),
    (6, 2): (60, 0.6),
    (7, 2): (40, 0.5),
    (8, 3): (90, 0.6),
    (10, 0): (400, 0.02),
}


@pytest.mark.parametrize("telling", [True, False])
def test_intervals_hold_what_they_promise(*, telling: bool) -> None:
    """Of 100 samples from a known population, 95 % and more have the truth in their interval."""
    population = [
        (cell, number < round(share * pairs))
        for cell, (pairs, share) in KNOWN.items()
        for number in range(pairs)
    ]
    sizes = {cell: float(pairs) for cell, (pairs, _) in KNOWN.items()}
    dropped = [same for cell, same in population if IN_FORCE.drops(judged(cell, same=same))]
    precision = sum(dropped) / len(dropped)
    recall = sum(dropped) / sum(same for _, same in population)
    cells = [cell for cell in KNOWN for _ in range(40)]
    order = (
        order_by_tellingness(cells, [], sizes, *IN_FORCE)
        if telling
        else order_by_distance(cells, [])
    )
    asked = [cells[place] for place in order[:80]]
    draw = Random(1)  # noqa: S311 - reproducible, no secret
    covered = [0, 0]
    shares = []
    for _ in range(100):
        urns = {
            cell: draw.sample([same for other, same in population if other == cell], 40)
            for cell in KNOWN
        }
        labels = weighed([judged(cell, same=urns[cell].pop()) for cell in asked], asked, sizes)
        for number, (estimated, truth) in enumerate(
            (
                (estimate_precision(labels, IN_FORCE.drops), precision),
                (estimate_recall(labels, IN_FORCE.drops), recall),
            )
        ):
            assert estimated.interval
            covered[number] += estimated.interval[0] <= truth <= estimated.interval[1]
        shares.append(estimate_precision(labels, IN_FORCE.drops).share or 0.0)
    assert min(covered) >= 95
    assert sum(shares) / len(shares) == pytest.approx(precision, abs=0.01)


def labels_of(*kinds: tuple[Cell, bool, int]) -> tuple[list[Weighed], dict[Cell, float]]:
    cells = [cell for cell, _, count in kinds for _ in range(count)]
    pairs = [judged(cell, same=same) for cell, same, count in kinds for _ in range(count)]
    sizes = measure_cells(cells, [1.0] * len(cells))
    return weighed(pairs, cells, sizes), sizes


def test_too_few_labels_make_no_recommendation() -> None:
    labels, _ = labels_of(((1, 4), True, 60), ((9, 0), False, 20))
    advised = recommend(labels, {}, IN_FORCE, 7)
    assert advised.setting is None
    assert advised.missing == LEAST_LABELS - 60 == 13
    labels, _ = labels_of(((1, 4), True, LEAST_LABELS), ((9, 0), False, 20))
    assert recommend(labels, {}, IN_FORCE, 7).setting == IN_FORCE
    assert recommend([], {}, IN_FORCE, 7).missing == LEAST_LABELS


def test_one_wrong_drop_takes_more_labels() -> None:
    labels, _ = labels_of(((1, 4), True, 100), ((1, 4), False, 1), ((9, 0), False, 20))
    advised = recommend(labels, {}, IN_FORCE, 7)
    assert advised.setting is None
    more, _ = labels_of(
        ((1, 4), True, 100 + advised.missing), ((1, 4), False, 1), ((9, 0), False, 20)
    )
    assert recommend(more, {}, IN_FORCE, 7).setting == IN_FORCE


def test_distances_without_labels_make_no_recommendation() -> None:
    labels, _ = labels_of(((1, 4), True, 200))
    advised = recommend(labels, {9: 100.0}, IN_FORCE, 7)
    assert (advised.setting, advised.why) == (None, "no label yet of pairs at 9 bits")
    assert recommend(labels, {9: 1.0}, IN_FORCE, 7).setting == IN_FORCE


def test_the_setting_that_finds_most_and_is_right_is_recommended() -> None:
    # What is .8 alike is wrong, what is .9 alike is right, up to 5 bits.
    labels, _ = labels_of(
        ((1, 4), True, 200),
        ((4, 3), True, 50),
        ((4, 2), False, 50),
        ((7, 3), False, 50),
        ((9, 4), True, 20),
    )
    advised = recommend(labels, {}, IN_FORCE, 7)
    assert advised.setting is not None
    assert advised.setting.drops(judged((4, 3), same=True))
    assert not advised.setting.drops(judged((4, 2), same=True))
    assert not advised.setting.drops(judged((7, 3), same=True))
    # With tables that reach farther, what is at 9 bits and the same could be found as well.
    labels, _ = labels_of(((1, 4), True, 200), ((9, 4), True, 20))
    wider = recommend(labels, {}, IN_FORCE, 11).setting
    assert wider is not None
    assert wider.distance == 9


def test_nothing_is_recommended_where_nothing_is_right() -> None:
    labels, _ = labels_of(((0, 4), True, 100), ((0, 4), False, 100))
    advised = recommend(labels, {}, IN_FORCE, 7)
    assert (advised.setting, advised.missing) == (None, 0)
    assert "no setting is right in 99%" in advised.why
