"""Differences side by side: nothing is lost, nothing invented; and which ones a report has."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash.inspection.comparing import compare_side_by_side

texts = st.lists(st.sampled_from(["One cat.", "Two dogs.", "A bird", "a, b!", "三只猫。"])).map(
    "\n".join
)


def read_side(rows: list[dict[str, Any]], side: str) -> str:
    """Put together again what the rows say of a text."""
    return " ".join(
        row["same"] if "same" in row else "".join(row[side])
        for row in rows
        if "same" in row or "".join(row.get(side, ()))
    )


@given(texts, texts)
def test_rows_say_all_of_both_texts(first: str, second: str) -> None:
    rows = compare_side_by_side(first, second)
    if not any("skipped" in row for row in rows):
        assert read_side(rows, "first").split() == first.split()
        assert read_side(rows, "second").split() == second.split()


def test_changed_words_are_marked() -> None:
    rows = compare_side_by_side("Same here. The old cat sat.", "Same here. The new cat sat.")
    assert rows == [
        {"same": "Same here."},
        {"first": ["The ", "old", " cat sat."], "second": ["The ", "new", " cat sat."]},
    ]


def test_what_both_have_is_skipped_but_beside_changes() -> None:
    middle = "".join(f"Sentence {number} stays. " for number in range(9))
    rows = compare_side_by_side(f"Old start. {middle} Old end.", f"New start. {middle} New end.")
    assert [next(iter(row)) for row in rows] == ["first", "same", "skipped", "same", "first"]
    assert rows[2] == {"skipped": 7}


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        *(("Word{side}{n} and more.", 1_500), ("{side}" * 20_000, 1)),
        *(("\u4e2d{side}{n}\u6587。", 1_500), ("\U00020000{side}" * 10_000, 1)),
    ],
)
def test_long_texts_are_cut_and_say_so(sentence: str, count: int) -> None:
    texts = ["\n".join(sentence.format(side=side, n=n) for n in range(count)) for side in "ab"]
    rows = compare_side_by_side(*texts)
    sides = [side for row in rows for side in row.values() if isinstance(side, list)]
    assert 0 < sum(len(piece.encode()) for side in sides for piece in side) <= 12_000
    assert rows[-1]["left_out"] > 0


def test_controls_are_escaped_and_joiners_kept() -> None:
    hostile = "a\x1b[2Jb \u202egpj\u2028c\x00 \u0645\u06cc\u200c\u062e"
    (row,) = compare_side_by_side(hostile, "")
    written = "".join(row["first"])
    assert written == r"a\x1b[2Jb \u202egpj c\x00 " + "\u0645\u06cc\u200c\u062e"
