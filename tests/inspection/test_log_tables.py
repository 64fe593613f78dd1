"""The queries of the how-to on a log."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.helpers.processes import ROOT
from tests.helpers.reporting import make_decision, make_drop, write_log

PAGE = (ROOT / "docs" / "after.md").read_text("utf-8")
VIEW, *QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
CALLED = ["distance 3 bits", "content agrees", "titles: same; headings: same", "main text"]
OTHERWISE = [*CALLED[:2], "titles: differ; headings: same", "main text"]
LINES = [
    *(make_decision(number) for number in range(4)),
    *(make_drop(number, original=1, tests=CALLED, similarity=0.95) for number in (4, 5, 5)),
    make_drop(6, original=2, tests=OTHERWISE, similarity=1.0),
    make_drop(7, original=2, tests=CALLED, similarity=0.8),
    make_drop(8, original=3, action="flag", tests=OTHERWISE),
    make_decision(0, status="revisit"),
    make_decision(9, url="http://***@other.example:8000/a?b"),
    make_decision(9, status="not_judged", reason="empty"),
]


def ask(query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute(VIEW)
        return connection.execute(query).fetchall()


def test_the_query_of_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(Path("log.jsonl"), [*LINES, "{damaged"])
    (copies,) = map(ask, QUERIES)
    site = "http://site.example/page"
    assert copies == [(f"{site}/1", 2, 5), (f"{site}/2", 2, 7), (f"{site}/3", 1, 0)]
