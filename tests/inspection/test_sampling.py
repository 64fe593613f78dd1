"""Which pairs are shown first."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.inspection.evaluation.labels import LabelledPair
from scrapy_simhash.inspection.evaluation.quality import Judged, Sample
from scrapy_simhash.inspection.evaluation.sampling import Survey, draw_pairs

DISTANCES = st.integers(0, 10)


def survey_of(sizes: dict[int, int], seed: int = 0) -> Survey:
    """Survey so many pairs at each distance; a pair's first number says which."""
    distances = np.repeat(list(sizes), list(sizes.values()))
    rows = np.stack([distances, np.arange(len(distances)) + 100, distances], axis=1)
    return draw_pairs(7, rows, 1.0, seed)


def judged(bits: int) -> Judged:
    return Judged(LabelledPair("1", "2", "dup"), duplicate=True, distance=bits)


@given(st.dictionaries(DISTANCES, st.integers(1, 60), min_size=1), st.lists(DISTANCES, max_size=30))
def test_every_pair_is_shown_once_and_each_distance_in_random_order(
    sizes: dict[int, int], labelled: list[int]
) -> None:
    survey = survey_of(sizes)
    order = survey.order(labelled, ())
    assert Counter(bits for bits, _ in order) == sizes
    for bits in sizes:
        assert [pair for pair in order if pair[0] == bits] == survey.pairs[bits]


@given(st.dictionaries(DISTANCES, st.integers(1, 900), min_size=1), st.integers(1, 200))
def test_no_label_stands_for_more_than_twice_the_mean(sizes: dict[int, int], count: int) -> None:
    order = survey_of(sizes).order([], ())[:count]
    shown = Counter(bits for bits, _ in order)
    total = sum(sizes.values())
    for bits, pairs in sizes.items():
        # One turn more or less.
        assert shown[bits] >= min(pairs, int(len(order) * pairs / total / 2))
    assert not Sample([judged(bits) for bits, _ in order], dict(sizes)).find_thin(10)


def test_rare_distances_are_looked_at_and_common_ones_more_often() -> None:
    """A template with 800 far pairs does not crowd out the drops."""
    order = survey_of({0: 100, 3: 20, 7: 20, 10: 800}).order([], ())
    shown = Counter(bits for bits, _ in order[:80])
    assert min(shown[bits] for bits in (0, 3, 7)) >= 10
    assert shown[10] == max(shown.values())


def test_what_no_setting_drops_is_shown_least() -> None:
    """A hundred labels have enough of drops, however many far pairs there are."""
    sizes = {0: 100, 3: 20, 7: 20, 9: 50, 10: 800}
    order = survey_of(sizes).order([], (), 7)[:100]
    shown = Counter(bits for bits, _ in order)
    assert shown[9] + shown[10] == 10
    assert min(shown[bits] for bits in (3, 7, 9)) >= 2
    assert shown[0] == max(shown.values())
    sample = Sample([judged(bits) for bits, _ in order], dict(sizes))
    assert not sample.find_thin(7)
    assert set(sample.find_thin(10)) == {10}


def test_labels_that_are_there_count_as_turns_and_are_not_shown_again() -> None:
    survey = survey_of({3: 50, 7: 50})
    assert [bits for bits, _ in survey.order([], ())[:2]] == [3, 7]
    known = survey.pairs[3][:5]
    order = survey.order([3] * 5, known)
    assert [bits for bits, _ in order[:6]] == [7, 7, 7, 7, 7, 3]
    assert not set(known) & set(order)


def test_a_survey_is_a_part_that_stands_for_all() -> None:
    sizes = {2: 2_500, 9: 500}
    survey = survey_of(sizes, seed=1)
    assert (survey.documents, survey.share, survey.sizes) == (7, 1.0, sizes)
    assert {bits: len(pairs) for bits, pairs in survey.pairs.items()} == {2: 1_000, 9: 500}
    assert len({pair for pairs in survey.pairs.values() for pair in pairs}) == 1_500
    again, other = (survey_of(sizes, seed) for seed in (1, 2))
    assert again == survey
    assert other.pairs != survey.pairs


def test_of_a_part_of_a_store_the_sizes_are_those_of_the_whole() -> None:
    rows = np.stack([np.arange(100), np.arange(100) + 100, np.repeat([1, 4], 50)], axis=1)
    survey = draw_pairs(9, rows, 0.25, seed=0)
    assert survey.sizes == pytest.approx({1: 200, 4: 200})
