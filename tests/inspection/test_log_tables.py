"""The decision log as a table, and the queries of the how-to on what was logged."""

import asyncio
import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow import parquet

from scrapy_simhash.detector.log import Decision
from tests.helpers.commanding import AGAIN, HOSTILE, ONE, Run, crawl_into
from tests.helpers.processes import ROOT
from tests.helpers.reporting import make_decision, make_drop, write_log

PAGE = (ROOT / "docs" / "log-tables.md").read_text("utf-8")
JSON_LINES, PARQUET, *QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "store"
    asyncio.run(crawl_into(path))
    return path


def test_csv_has_a_row_for_each_decision(run: Run, store: Path) -> None:
    out = run.text("log", "--format", "csv", "--store", store)
    rows = list(csv.DictReader(out.splitlines()))
    lines = run.answers("log", "--store", store)
    assert tuple(rows[0]) == Decision.__struct_fields__
    assert [row["status"] for row in rows] == [line["status"] for line in lines]
    (again,) = (row for row in rows if row["url"] == AGAIN)
    (line,) = (line for line in lines if line["url"] == AGAIN)
    assert (again["match_url"], json.loads(again["tests"])) == (ONE, line["tests"])
    assert json.loads(again["evidence"]).items() >= line["evidence"].items()
    # What would control a terminal is escaped, and stays on one line.
    assert HOSTILE.encode("unicode_escape").decode() in [row["url"] for row in rows]
    answer = run.answer("log", "--format", "csv", "-o", "log.csv", "--store", store)
    assert answer == {"file": "log.csv", "rows": len(lines)}
    assert Path("log.csv").read_text("utf-8") == out
    assert Path("log.csv").stat().st_mode & 0o777 == 0o600
    assert "--overwrite" in run.refused("log", "--format", "csv", "-o", "log.csv", "--store", store)


def test_parquet_has_the_same_rows_with_types(run: Run, store: Path) -> None:
    asked = ["log", "--format", "parquet", "-o", "log.parquet", "--store", store]
    lines = run.answers("log", "--store", store)
    assert run.text(*asked) == f"file: log.parquet\nrows: {len(lines)}\n"
    table = parquet.read_table("log.parquet")
    assert tuple(table.column_names) == Decision.__struct_fields__
    (again,) = (row for row in table.to_pylist() if row["url"] == AGAIN)
    (line,) = (line for line in lines if line["url"] == AGAIN)
    assert again["evidence"].items() >= line["evidence"].items()
    del again["evidence"], line["evidence"]
    assert again == line
    # Columns that nothing is in have a type all the same.
    kinds = {field.name: str(field.type) for field in table.schema}
    assert (kinds["nearest_similarity"], kinds["tests"]) == ("double", "list<element: string>")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--format", "parquet"], "--format parquet needs the name of a file: --output FILE"),
        (["--format", "csv", "--follow"], "cannot be combined with --format"),
        (["--format", "csv", "--summary"], "--summary is not a table"),
        (["-o", "log.csv"], "--output writes the table of --format"),
        (["--format", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_what_is_no_table(run: Run, store: Path, asked: list[str], told: str) -> None:
    assert told in run.refused("log", "--store", store, *asked)


def test_parquet_without_its_extra_names_it(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for output in ([], ["-o", "log.parquet"]):
        err = run.refused("log", "--format", "parquet", *output, "--store", store)
        assert "pip install 'scrapy-simhash[parquet]'" in err
    assert not Path("log.parquet").exists()


def ask(view: str, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute(view)
        return connection.execute(query).fetchall()


CALLED = ["distance 3 bits", "content agrees", "titles: same; headings: same", "main text"]
OTHERWISE = [*CALLED[:2], "titles: differ; headings: same", "main text"]


@pytest.mark.parametrize("view", [JSON_LINES, PARQUET], ids=["json", "parquet"])
def test_the_queries_of_the_how_to(run: Run, view: str) -> None:
    lines: list[dict[str, Any] | str] = [
        *(make_decision(number) for number in range(4)),
        *(make_drop(number, original=1, tests=CALLED, similarity=0.95) for number in (4, 5, 5)),
        make_drop(6, original=2, tests=OTHERWISE, similarity=1.0),
        make_drop(7, original=2, tests=CALLED, similarity=0.8),
        make_drop(8, original=3, action="flag", tests=OTHERWISE),
        make_decision(0, status="revisit"),
        make_decision(9, url="http://ann:***@other.example:8000/a?b"),
        make_decision(9, status="unjudged", reason="empty"),
        "{damaged",
    ]
    log = write_log(Path("log.jsonl"), lines)
    done = run("log", "--log", log, "--format", "parquet", "-o", "log.parquet")
    assert (done.exit_code, "1 damaged line was skipped" in done.err) == (0, True)
    copies, wrong, novelty = (ask(view, query) for query in QUERIES)
    site = "http://site.example/page"
    assert copies == [(f"{site}/1", 2, 5), (f"{site}/2", 2, 7), (f"{site}/3", 1, 0)]
    # First the one that is called otherwise, then the least alike.
    assert [row[0] for row in wrong] == [f"{site}/{n}" for n in (6, 7, 4, 5, 5)]
    assert wrong[0][3:] == ("content agrees", "titles: differ; headings: same")
    assert novelty == [
        ("site.example", 11, pytest.approx(4 / 11, abs=1e-3)),
        ("other.example:8000", 1, 1),
    ]
