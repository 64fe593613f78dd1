"""Differences side by side: nothing is lost, nothing invented; and which ones a report has."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_simhash._printable import printable_text
from scrapy_simhash.detector.log import Decision
from scrapy_simhash.inspection.difference import compare_side_by_side, list_template
from scrapy_simhash.inspection.figures import MOST_PAIRS, compare_pairs
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, open_in_crawl
from tests.helpers.reporting import make_decision, make_drop, report

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


@given(texts, texts)
def test_pieces_are_by_turns_the_same_and_changed(first: str, second: str) -> None:
    for row in compare_side_by_side(first, second):
        if "first" in row:
            same = [row[side][0::2] for side in ("first", "second")]
            assert "".join(same[0]) == "".join(same[1])
            assert row["first"] != row["second"]


def test_changed_words_are_marked() -> None:
    rows = compare_side_by_side("Same here. The old cat sat.", "Same here. The new cat sat.")
    assert rows == [
        {"same": "Same here."},
        {"first": ["The ", "old", " cat sat."], "second": ["The ", "new", " cat sat."]},
    ]


def test_a_line_that_ends_elsewhere_is_no_change() -> None:
    assert compare_side_by_side("One line, and\nanother.", "One line, and another.") == [
        {"same": "One line, and another."}
    ]


def test_scripts_without_spaces_are_compared_by_character() -> None:
    (row,) = compare_side_by_side("我们今天去学习", "我们明天去学习")
    assert row["first"] == ["我们", "今", "天去学习"]


def test_what_both_have_is_skipped_but_beside_changes() -> None:
    middle = "".join(f"Sentence {number} stays. " for number in range(9))
    rows = compare_side_by_side(f"Old start. {middle} Old end.", f"New start. {middle} New end.")
    assert [next(iter(row)) for row in rows] == ["first", "same", "skipped", "same", "first"]
    assert rows[2] == {"skipped": 7}


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        ("Word{side}{n} and more.", 1_500),
        ("{side}" * 20_000, 1),
        ("\u4e2d{side}{n}\u6587。", 1_500),
        ("\U00020000{side}" * 10_000, 1),
    ],
)
def test_long_texts_are_cut_and_say_so(sentence: str, count: int) -> None:
    texts = ["\n".join(sentence.format(side=side, n=n) for n in range(count)) for side in "ab"]
    rows = compare_side_by_side(*texts)
    shown = sum(
        len(piece.encode())
        for row in rows
        for side in row.values()
        if isinstance(side, list)
        for piece in side
    )
    assert 0 < shown <= 12_000
    assert rows[-1]["left_out"] > 0


def test_what_many_other_pages_have_is_template() -> None:
    """In three of a few, in a fifth of many; only where both sides of a row are."""
    menu, own = "Home. All articles.", "The old cat sat."
    others = [f"{menu} Page {number} of it." for number in range(3)] + ["Nothing of it."] * 12
    template = list_template(others)
    assert template == {"Home.", "All articles.", "Nothing of it."}
    assert list_template([*others, "Nothing of it."]) == {"Nothing of it."}
    assert list_template(others[:2]) == set()
    rows = compare_side_by_side(f"{menu} {own}", f"{menu} The new cat sat. Home.", template)
    assert [row.get("template", False) for row in rows if "same" in row] == [True, True]
    assert not any(row.get("template") for row in rows if "first" in row)
    assert compare_side_by_side("", "Home.", template)[-1]["template"]


def test_controls_are_escaped_and_joiners_kept() -> None:
    hostile = "a\x1b[2Jb \u202egpj\u2028c\x00 \u0645\u06cc\u200c\u062e"
    (row,) = compare_side_by_side(hostile, "")
    written = "".join(row["first"])
    assert written == r"a\x1b[2Jb \u202egpj c\x00 " + "\u0645\u06cc\u200c\u062e"


@given(st.text())
def test_no_control_is_left(text: str) -> None:
    assert printable_text(text).replace("\u200c", "").replace("\u200d", "").isprintable()


STORE_KINDS = ("lmdb", "redis")


def test_texts_that_were_kept_late_are_compared(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_simhash.inspection.figures._PATIENCE", 3)
    draw = Random(1)  # noqa: S311 - reproducible, no secret
    decisions = []
    for number in range(10):
        bits = draw.getrandbits(64)
        first, second = ("One cat.", "Two cats.") if number == 9 else (None, None)
        made = [
            document(f"{number}", bits, text=first),
            document(f"{number}-again", bits ^ 1, text=second),
        ]
        original, copy = store.find_and_add(made)
        assert copy.match is not None
        decisions.append(
            Decision(
                url=made[1].url,
                status="near_duplicate",
                match_url=made[0].url,
                similarity=number / 10,
                document=copy.document,
                match_document=original.document,
            )
        )
    last = decisions[-1]
    assert store.read(lambda stored: stored.list_texts()) == {last.document, last.match_document}
    (pair,) = compare_pairs(decisions, store, lambda *_: None)
    assert pair["second"]["url"] == last.url


@pytest.fixture(scope="module")
def chinese_pairs() -> list[dict[str, Any]]:
    """200 pairs with 10,000 characters in each text, of which most were changed."""
    draw = Random(1)  # noqa: S311 - reproducible, no secret
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 3_000)]
    made = []
    for _ in range(4):  # the next time they come they are beyond the window of gzip
        first, second = (
            "".join(f"{''.join(draw.choices(characters, k=99))}。" for _ in range(100))
            for _ in range(2)
        )
        made.append(compare_side_by_side(first, second))
    return [
        {
            "first": {"url": "http://site.example/page/0", "title": "页"},
            "second": {"url": f"http://site.example/page/{number}", "title": "页"},
            "distance": 3,
            "similarity": 0.9,
            "tests": ["distance 3 bits"],
            "rows": made[number % 4],
        }
        for number in range(MOST_PAIRS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most_bytes", "differences"), [(5_000_000, range(200, 201)), (2_000_000, range(20, 200))]
)
def test_long_chinese_texts_leave_it_small(
    tmp_path: Path,
    chinese_pairs: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    most_bytes: int,
    differences: range,
) -> None:
    monkeypatch.setattr("scrapy_simhash.inspection.report.compare_pairs", lambda *_: chinese_pairs)
    if most_bytes < 5_000_000:
        monkeypatch.setattr("scrapy_simhash.inspection.report._MOST_BYTES", most_bytes)
    with open_in_crawl(tmp_path / "s"):
        pass
    lines = [make_decision(0), *(make_drop(n) for n in range(1, 500))]
    figures = report(tmp_path, tmp_path / "s", lines)
    size = (tmp_path / "report.html").stat().st_size
    assert size == figures["file_bytes"] <= most_bytes
    assert figures["differences"] in differences
    assert figures["rows"] == 499
