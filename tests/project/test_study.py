"""Figures of the study that `scrapy simhash evaluate` does not give."""

from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.labels import read_corpus
from tests.helpers.labelling import judged, make_corpus
from tests.helpers.processes import ROOT


@pytest.fixture
def summary(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "study")
    return pytest.importorskip("summary")


def test_hard_pairs_leave_out_what_people_differ_about(summary: Any) -> None:
    figures = summary.summarise_for_study(
        [
            judged("distinct", duplicate=True, why="form; hard; x"),
            judged("distinct", duplicate=False, why="form; hard; x"),
            judged("distinct", duplicate=True, why="near-identical-wording-other-page; hard"),
            judged("distinct", duplicate=True, why="form; easy"),
            judged("dup", duplicate=False, why="form; hard"),
        ]
    )
    hard, same_words = figures["hard"], figures["near_identical"]
    assert (hard["pairs"], hard["false_positives"], hard["false_positive_rate"]) == (2, 1, 0.5)
    assert (same_words["pairs"], same_words["false_positives"]) == (1, 1)


def test_means_over_sources_count_each_source_once(summary: Any) -> None:
    answers = [judged("dup", duplicate=True, source="big")] * 9 + [
        judged("dup", duplicate=False, source="small")
    ]
    assert summary.summarise_for_study(answers)["mean_over_sources"]["recall"] == 0.5
    nothing = summary.summarise_for_study([])
    assert nothing["mean_over_sources"] == {"precision": None, "recall": None}


def test_means_and_the_worst_of_seeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "study")
    seeds = pytest.importorskip("seeds")
    right, found, wrong = (
        [
            judged("dup", duplicate=every),
            judged("dup", duplicate=True),
            judged("distinct", duplicate=no),
        ]
        for every, no in ((True, False), (False, False), (True, True))
    )
    found = seeds.describe_seeds([right, found, wrong])
    assert [row["recall"] for row in found["each"]] == [1.0, 0.5, 1.0]
    assert [row["precision"] for row in found["each"]] == [1.0, 1.0, 0.6667]
    assert (found["precision"], found["recall"]) == (0.8889, 0.8333)
    assert found["worst"] == found["each"][2]  # of as many errors the most wrong ones
    each = seeds.judge_by_seed(read_corpus(make_corpus(tmp_path)), Config(workers=0), 2)
    assert [figures["recall"] for figures, _ in each] == [0.5, 0.5]
