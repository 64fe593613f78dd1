"""Import of Spark's output: documents without their pages."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from scrapy_simhash.config import Config
from scrapy_simhash.documents import make_document
from scrapy_simhash.fingerprint import fingerprint_page
from scrapy_simhash.recipe import Recipe
from scrapy_simhash.stores import open_store
from tests.commanding import Run
from tests.sourcing import json_lines, make_pages

SEED = 7
COLUMNS = {
    "id": pa.binary(),
    "url": pa.string(),
    "fingerprints": pa.list_(pa.int64()),
    "stub": pa.bool_(),
    **dict.fromkeys(("text_digest", "sketch", "link_sketch"), pa.binary()),
    **dict.fromkeys(("title", "heading", "canonical", "language"), pa.string()),
    **dict.fromkeys(("features", "words", "whole_words"), pa.int32()),
    **dict.fromkeys(("reason", "detail"), pa.string()),
}
METADATA = {"scrapy_simhash": {"recipe": asdict(Recipe()), "seed": f"{SEED:016x}"}}


def make_row(url: str, html: str) -> dict[str, Any]:
    made = asdict(make_document(fingerprint_page(html, seed=SEED, url=url), Config(), b"id"))
    signed = [n - 2**64 if n >= 2**63 else n for n in made["fingerprints"]]
    row = {name: made.get(name) for name in COLUMNS}
    return {**row, "id": b"id", "url": url, "fingerprints": signed, "reason": None}


def write(path: Path, rows: Sequence[dict[str, Any]], metadata: object = METADATA) -> None:
    fields = [{"name": "fingerprints", "metadata": metadata}]
    key = "org.apache.spark.sql.parquet.row.metadata"
    schema = pa.schema(COLUMNS, metadata={key: json.dumps({"fields": fields})})
    parquet.write_table(pa.Table.from_pylist(list(rows), schema), path)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [make_row(url, html) for url, html in make_pages(10).items()]


def import_into(run: Run, *arguments: str) -> Any:
    return run("-s", "SIMHASH_WORKERS=0", "import", *arguments, "--store", "s", "--json")


def test_documents_of_spark_are_those_of_a_crawl(
    run: Run, tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    (tmp_path / "out").mkdir()
    empty = dict.fromkeys(COLUMNS)
    unjudged = {**empty, "url": "http://site.example/empty", "reason": "empty"}
    write(tmp_path / "out" / "part-0.snappy.parquet", rows[:6])
    write(
        tmp_path / "out" / "part-1.snappy.parquet", [*rows[6:], unjudged, {**rows[0], "url": "x"}]
    )
    (tmp_path / "out" / "_SUCCESS").touch()
    assert import_into(run, "out", "--dry-run").answers[0]["documents"] == 12
    assert not (tmp_path / "s").exists()
    done = import_into(run, "out")
    (answer,) = done.answers
    assert (done.exit_code, done.err) == (0, "")
    assert answer["verdicts"] == {"new": 5, "near_duplicate": 5, "unjudged/empty": 1}
    assert (answer["records"], answer["skipped"]) == (12, {"bad_url": 1})
    with open_store(str(tmp_path / "s")) as store:
        assert (store.seed, store.recipe) == (SEED, Recipe())
        assert store.check() == []
        stats = store.stats()
        assert (stats["done"], stats["pending"], stats["near_duplicates"]) == (5, 0, 5)
    (again,) = import_into(run, "out").answers
    assert (again["resumed_at"], again["records"], again["pages"]) == (12, 12, 11)
    # The same pages from elsewhere: known by Scrapy's fingerprint of their request.
    (tmp_path / "a.jsonl").write_bytes(json_lines(make_pages(10)))
    (answer,) = import_into(run, "a.jsonl").answers
    assert answer["verdicts"] == {"revisit/unchanged": 5, "near_duplicate": 5}


def test_documents_are_judged_in_groups_and_noted(
    run: Run, tmp_path: Path, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_simhash.seeding_documents._DOCUMENTS_PER_GROUP", 4)
    monkeypatch.setattr("scrapy_simhash.source_parquet._ROWS_PER_READ", 3)
    write(tmp_path / "a.parquet", rows)
    from scrapy_simhash.lmdb_store import LmdbStore  # noqa: PLC0415

    find_and_add, calls = LmdbStore.find_and_add, []

    def fail(store: LmdbStore, documents: Any, **marks: Any) -> Any:
        calls.append(len(documents))
        if len(calls) == 3:
            raise OSError("no room")
        return find_and_add(store, documents, **marks)

    with monkeypatch.context() as patched:
        patched.setattr(LmdbStore, "find_and_add", fail)
        assert import_into(run, "a.parquet").exit_code == 2
    (answer,) = import_into(run, "a.parquet").answers
    assert (answer["resumed_at"], answer["pages"]) == (8, 10)
    assert answer["verdicts"] == {"new": 5, "near_duplicate": 5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprints": pa.string()}, "no column fingerprints of type list<element: int64>"),
        ({"sketch": None}, "no column sketch of type binary"),
    ],
)
def test_wrong_columns(run: Run, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    columns = {name: kind for name, kind in (COLUMNS | change).items() if kind is not None}
    parquet.write_table(pa.schema(columns).empty_table(), tmp_path / "a.parquet")
    done = import_into(run, "a.parquet")
    assert (done.exit_code, done.out) == (1, "")
    assert message in done.err
    assert "Nothing was imported of it" in done.err
    assert not (tmp_path / "s").exists()


def test_files_that_say_nothing_of_their_recipe(
    run: Run, tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    write(tmp_path / "a.parquet", rows, {})
    done = import_into(run, "a.parquet")
    assert done.exit_code == 1
    assert "does not say with which recipe and seed" in done.err
    write(tmp_path / "a.parquet", rows)
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-10])
    done = import_into(run, "a.parquet")
    assert done.exit_code == 1
    assert "is no Parquet file, or cut short" in done.err
    write(tmp_path / "b.parquet", rows)
    open_store(str(tmp_path / "s"), seed=8).close()
    done = import_into(run, "b.parquet")
    assert done.exit_code == 2
    assert "made with another seed" in done.err
    scoped = ("-s", "SIMHASH_SCOPE=language")
    done = run(*scoped, "import", "b.parquet", "--store", "t")
    assert done.exit_code == 2
    assert "asks for the text of a page" in done.err
