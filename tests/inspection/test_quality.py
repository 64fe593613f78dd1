"""Figures of labelled pairs: intervals, and counts by distance."""

import pytest

from scrapy_simhash.inspection.evaluation import summarise, wilson
from tests.helpers.labelling import judged


@pytest.mark.parametrize(
    ("hits", "of", "interval"),
    # Newcombe, Statistics in Medicine 17 (1998), table I: Wilson's method without continuity.
    [(81, 263, [0.2553, 0.3662]), (15, 148, [0.0624, 0.1605]), (0, 20, [0.0, 0.1611])],
)
def test_intervals_are_those_of_the_literature(hits: int, of: int, interval: list[float]) -> None:
    assert wilson(hits / of, of) == pytest.approx(interval, abs=1e-4)


def test_by_distance_counts_up_to_each_distance() -> None:
    answers = [judged("dup", duplicate=True, distance=bits) for bits in range(4)] + [
        judged("distinct", duplicate=True, distance=3)
    ]
    rows = summarise(answers, 12)["by_distance"]
    assert [row["distance"] for row in rows] == list(range(13))
    assert [row["recall"] for row in rows[:4]] == [0.25, 0.5, 0.75, 1.0]
    assert [row["precision"] for row in rows[:4]] == [1.0, 1.0, 1.0, 0.8]
    assert [row["plain_recall"] for row in rows[:6]] == [0.0, 0.0, 0.25, 0.5, 0.75, 1.0]
