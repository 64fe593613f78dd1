"""Counting right and wrong answers."""

import pytest

from scrapy_simhash.inspection.evaluation.labels import Label, LabelledPair
from scrapy_simhash.inspection.evaluation.quality import (
    NO_DISTANCE,
    SIMILARITIES,
    Judged,
    Tally,
    summarise,
    wilson,
)


def judged(
    label: Label,
    *,
    duplicate: bool,
    distance: int = 2,
    similarity: float = 0.9,
    source: str = "a",
    why: str = "",
) -> Judged:
    return Judged(
        pair=LabelledPair("one", "two", label, source, why),
        duplicate=duplicate,
        distance=distance,
        plain_distance=distance + 2,
        similarity=similarity,
        confirmed=duplicate,
        confirmed_at={least: similarity >= least for least in SIMILARITIES},
        tests=("why",),
    )


def test_precision_and_recall() -> None:
    answers = [
        *[judged("dup", duplicate=True)] * 3,
        judged("dup", duplicate=False),
        judged("distinct", duplicate=True),
        *[judged("distinct", duplicate=False)] * 5,
        judged("unknown", duplicate=True),
    ]
    figures = summarise(answers, 7)
    assert (figures["precision"], figures["recall"]) == (0.75, 0.75)
    assert (figures["false_positives"], figures["false_negatives"]) == (1, 1)
    assert (figures["unknown"], figures["duplicates"], figures["distinct"]) == (1, 4, 6)
    assert [pair.is_wrong for pair in answers].count(True) == 2


def test_nothing_to_count_is_none_and_not_zero() -> None:
    figures = summarise([judged("distinct", duplicate=False)], 7)
    assert figures["precision"] is figures["recall"] is figures["recall_interval"] is None
    assert summarise([], 7)["precision"] is None


@pytest.mark.parametrize(
    ("hits", "of", "interval"),
    # Newcombe, Statistics in Medicine 17 (1998), table I: Wilson's method without continuity.
    [(81, 263, [0.2553, 0.3662]), (15, 148, [0.0624, 0.1605]), (0, 20, [0.0, 0.1611])],
)
def test_intervals_are_those_of_the_literature(hits: int, of: int, interval: list[float]) -> None:
    assert wilson(hits / of, of) == pytest.approx(interval, abs=1e-4)


def test_a_label_may_stand_for_several_pairs() -> None:
    """They weigh in the shares; the intervals rest on the labels."""
    counted = Tally()
    counted.add("dup", duplicate=True, pairs=30.0)
    counted.add("dup", duplicate=False, pairs=10.0)
    counted.add("distinct", duplicate=True, pairs=10.0)
    counted.add("unknown", duplicate=True, pairs=1_000.0)
    figures = counted.describe()
    assert (figures["precision"], figures["recall"]) == (0.75, 0.75)
    assert figures["precision_interval"] == figures["recall_interval"] == wilson(0.75, 2)
    assert (figures["false_positives"], figures["duplicates"], figures["distinct"]) == (10, 40, 10)


def test_by_distance_counts_up_to_each_distance() -> None:
    answers = [judged("dup", duplicate=True, distance=bits) for bits in range(4)] + [
        judged("distinct", duplicate=True, distance=3)
    ]
    rows = summarise(answers, 12)["by_distance"]
    assert [row["distance"] for row in rows] == list(range(13))
    assert [row["recall"] for row in rows[:4]] == [0.25, 0.5, 0.75, 1.0]
    assert [row["precision"] for row in rows[:4]] == [1.0, 1.0, 1.0, 0.8]
    assert [row["plain_recall"] for row in rows[:6]] == [0.0, 0.0, 0.25, 0.5, 0.75, 1.0]


def test_duplicates_with_mostly_new_links_are_counted() -> None:
    answers = [
        judged("dup", duplicate=True)._replace(new_links=share) for share in (None, 0.0, 0.5, 1.0)
    ] + [judged("distinct", duplicate=False)._replace(new_links=1.0)]
    counted = summarise(answers, 7)["duplicates_with_new_links"]
    assert counted == {"with_links": 3, "mostly_new": 2}


def test_pages_without_a_fingerprint_are_never_near() -> None:
    figures = summarise([judged("dup", duplicate=False, distance=NO_DISTANCE)], 64)
    assert {row["recall"] for row in figures["by_distance"]} == {0.0}
