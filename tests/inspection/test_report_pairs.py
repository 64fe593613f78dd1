"""Which pairs a report compares, and that it stays small whatever their texts are."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from scrapy_simhash.detector.log import Decision
from scrapy_simhash.inspection.difference import compare_side_by_side
from scrapy_simhash.inspection.report.figures import MOST_PAIRS, compare_pairs
from scrapy_simhash.stores.store import Store
from tests.helpers.documents import document, open_in_crawl
from tests.helpers.reporting import make_decision, make_drop, report, write_log

STORE_KINDS = ("lmdb", "redis")


def test_texts_that_were_kept_late_are_compared(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_simhash.inspection.report.figures._PATIENCE", 3)
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
    monkeypatch.setattr(
        "scrapy_simhash.inspection.report.report.compare_pairs", lambda *_: chinese_pairs
    )
    if most_bytes < 5_000_000:
        monkeypatch.setattr("scrapy_simhash.inspection.report.page._MOST_BYTES", most_bytes)
    with open_in_crawl(tmp_path / "s"):
        pass
    log = write_log(
        tmp_path / "log.jsonl", [make_decision(0), *(make_drop(n) for n in range(1, 500))]
    )
    figures = report(tmp_path, tmp_path / "s", log_path=str(log))
    size = (tmp_path / "report.html").stat().st_size
    assert size == figures["file_bytes"] <= most_bytes
    assert figures["differences"] in differences
    assert figures["rows"] == 499
