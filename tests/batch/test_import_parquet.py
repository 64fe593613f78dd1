"""Import of Spark's output: documents without their pages."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs
from pyarrow import parquet

from scrapy_simhash.config import Config
from scrapy_simhash.errors import StoreUnavailableError
from scrapy_simhash.judging.documents import make_document
from scrapy_simhash.pages.facts import Page
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from tests.helpers.commanding import Run
from tests.helpers.sourcing import json_lines, make_pages

SEED = 7
COLUMNS = {
    "id": pa.binary(),
    "url": pa.string(),
    "fingerprints": pa.list_(pa.int64()),
    "stub": pa.bool_(),
    **dict.fromkeys(
        ("text_digest", "wording", "sketch", "link_sketch", "data_fingerprint", "hidden"),
        pa.binary(),
    ),
    **dict.fromkeys(("title", "heading", "canonical", "views", "language"), pa.string()),
    **dict.fromkeys(("features", "words", "whole_words", "suspicion"), pa.int32()),
    "time": pa.float64(),
    **dict.fromkeys(("reason", "detail"), pa.string()),
}
METADATA = {"scrapy_simhash": {"recipe": asdict(Recipe()), "seed": f"{SEED:016x}"}}


def make_row(url: str, html: str) -> dict[str, Any]:
    document = make_document(
        fingerprint_page(html, seed=SEED, url=url), Config().chosen_rule, Page("", identity=b"id")
    )
    made = structs.asdict(document.facts) | {"wording": document.wording}
    signed = [made["fingerprint"] - (made["fingerprint"] >> 63 << 64)]
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
    return run("-s", "SIMHASH_PROCESSES=0", "import", *arguments, "--store", "s", "--json")


def test_documents_of_spark_are_those_of_a_crawl(
    run: Run, tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    (tmp_path / "out").mkdir()
    empty = dict.fromkeys(COLUMNS)
    not_judged = {**empty, "url": "http://site.example/empty", "reason": "empty"}
    write(tmp_path / "out" / "part-0.snappy.parquet", rows[:6])
    write(
        tmp_path / "out" / "part-1.snappy.parquet", [*rows[6:], not_judged, {**rows[0], "url": "x"}]
    )
    (tmp_path / "out" / "_SUCCESS").touch()
    done = import_into(run, "out")
    (answer,) = done.answers
    assert (done.exit_code, done.err) == (0, "")
    assert answer["verdicts"] == {"new": 5, "near_duplicate": 5}
    assert (answer["records"], answer["skipped"]) == (12, {"empty": 1, "bad_url": 1})
    with open_store(str(tmp_path / "s")) as store:
        assert (store.seed, store.recipe) == (SEED, Recipe())
        assert store.check() == []
        stats = store.stats()
        assert (stats["done"], stats["near_duplicates"]) == (5, 5)
    (again,) = import_into(run, "out").answers
    assert again["verdicts"] == {"revisit/unchanged": 5, "near_duplicate": 5}
    # The same pages from elsewhere: known by Scrapy's fingerprint of their request.
    (tmp_path / "a.jsonl").write_bytes(json_lines(make_pages(10)))
    (answer,) = import_into(run, "a.jsonl").answers
    assert answer["verdicts"] == {"revisit/unchanged": 5, "near_duplicate": 5}


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
    assert "Nothing was imported from it" in done.err
    assert not (tmp_path / "s").exists()


def test_files_that_say_nothing_of_their_recipe(
    run: Run, tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    write(tmp_path / "a.parquet", rows, {})
    done = import_into(run, "a.parquet")
    assert done.exit_code == 1
    assert "does not name the recipe and seed" in done.err
    write(tmp_path / "a.parquet", rows)
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-10])
    done = import_into(run, "a.parquet")
    assert done.exit_code == 1
    assert "is not a Parquet file, or cut short" in done.err
    write(tmp_path / "b.parquet", rows)
    open_store(str(tmp_path / "s"), seed=8).close()
    done = import_into(run, "b.parquet")
    assert done.exit_code == 2
    assert "made with another seed" in done.err
    scoped = ("-s", "SIMHASH_SCOPE=language")
    done = run(*scoped, "import", "b.parquet", "--store", "t")
    assert done.exit_code == 2
    assert "needs the text of a page" in done.err


@pytest.mark.parametrize(
    ("made", "difference"),
    [
        ({"recipe": asdict(Recipe()), "seed": "fedcba9876543210"}, "(another seed)"),
        (
            {"recipe": asdict(Recipe("html2txt")), "seed": f"{SEED:016x}"},
            "(extractor: 'turbohtml' / 'html2txt')",
        ),
    ],
)
def test_files_of_a_folder_made_in_two_ways(
    run: Run, tmp_path: Path, rows: list[dict[str, Any]], made: dict[str, Any], difference: str
) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out" / "part-0.parquet", rows[:2])
    write(tmp_path / "out" / "part-1.parquet", rows[2:], {"scrapy_simhash": made})
    done = import_into(run, "out")
    assert (done.exit_code, done.out) == (1, "")
    assert (
        f"part-1.parquet was not made in the same way as part-0.parquet beside it {difference}"
        in done.err
    )
    assert "fedcba9876543210" not in done.err
    assert str(0xFEDCBA9876543210) not in done.err
    assert not (tmp_path / "s").exists()


def test_folders_that_are_not_whole(run: Run, tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    """What a killed job moved to its place already is not all there was."""
    (tmp_path / "killed" / "_temporary").mkdir(parents=True)
    write(tmp_path / "killed" / "part-0.parquet", rows)
    done = import_into(run, "killed")
    assert (done.exit_code, done.out) == (1, "")
    assert "killed is not complete: its job was killed or is still running" in done.err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("error", [OSError, StoreUnavailableError])
def test_a_store_that_cannot_be_written_is_gone_on_with(
    run: Run,
    tmp_path: Path,
    rows: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
) -> None:
    """Documents are judged in groups of 64."""
    many = [{**row, "url": f"{row['url']}?{n}"} for n in range(10) for row in rows]
    write(tmp_path / "a.parquet", many)
    find_and_add = Store.find_and_add

    def fail(store: Store, *given: Any, **options: Any) -> Any:
        if store.stats()["documents"]:
            raise error("no room")
        return find_and_add(store, *given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "find_and_add", fail)
        done = import_into(run, "a.parquet")
    assert done.exit_code == 2
    assert "no room" in done.err
    if error is StoreUnavailableError:
        assert "a.parquet was read up to record 64; run this again" in done.err
    (answer,) = import_into(run, "a.parquet").answers
    assert (answer["records"], sum(answer["verdicts"].values())) == (100, 100)
