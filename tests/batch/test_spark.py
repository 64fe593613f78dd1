"""Spark: the same answers as one machine, cells of bounded size, named errors. One session."""

import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray

from scrapy_simhash.batch.joins import find_all
from scrapy_simhash.config import Config
from scrapy_simhash.judging.documents import Rule, list_fingerprints, make_document
from scrapy_simhash.judging.matching import compare_by_words
from scrapy_simhash.pages.facts import Recipe, Wording, pack, unpack
from scrapy_simhash.pages.fingerprint import fingerprint_page
from tests.batch.test_joins import crowded
from tests.helpers.commanding import Run
from tests.helpers.documents import alter
from tests.helpers.needing import require_modules, require_program
from tests.helpers.pages import edit_words, make_page, make_words, page
from tests.helpers.processes import ROOT, run_python
from tests.helpers.sourcing import warc_by_record, warc_record
from tests.helpers.strategies import crowds

pytestmark = pytest.mark.slow
Session = Any


def require_pyspark() -> None:
    """Skip the test, or fail, where the extra is not installed."""
    require_modules("spark", "pyspark", "pyarrow", "pandas")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Start Spark with two cores and without all that a test does not look at."""
    require_pyspark()
    if "JAVA_HOME" not in os.environ:
        require_program("java")
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    folder = tmp_path_factory.mktemp("spark")
    # Also of the Python processes that Spark starts, wherever the tests are run from.
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", paths)
        patched.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.adaptive.enabled": "false",
            # To compile each query would take longer than to run it.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m",
        }
        builder = SparkSession.builder.master("local[2]").appName("tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        try:
            yield session
        finally:
            session.stop()
            # The JVM lives as long as its standard input.
            gateway = session.sparkContext._gateway
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()


def frame_of(spark: Session, values: NDArray[np.uint64]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    return spark.createDataFrame(pa.table({"fingerprint": values.view(np.int64)}))


def rows_of(frame: Any, *columns: str) -> list[list[int]]:
    """Bring fingerprints home, unsigned and sorted; a last column of bits stays as it is."""
    table = frame.toArrow()
    found = [table[name].to_numpy().astype(np.int64).view(np.uint64) for name in columns]
    return sorted(np.stack(found, axis=1).tolist())


@given(crowds(), st.integers(0, 7), st.booleans())
@settings(max_examples=5)
def test_pairs_are_those_of_one_machine(
    spark: Session, values: list[int], distance: int, small: bool
) -> None:
    from scrapy_simhash.batch.spark.pairs import find_pairs  # noqa: PLC0415

    fingerprints = np.array(values * 2, np.uint64)
    frame = frame_of(spark, fingerprints).repartition(2)
    pairs = find_pairs(frame, distance, cell_rows=4 if small else 1000)
    expected = find_all(fingerprints, distance)
    bits = np.bitwise_count(expected[:, :1] ^ expected[:, 1:])
    assert rows_of(pairs, "first", "second", "distance") == np.hstack([expected, bits]).tolist()


def test_a_prefix_with_a_fifth_of_all_kills_no_task(spark: Session) -> None:
    from scrapy_simhash.batch.spark.pairs import find_pairs, scatter_cells  # noqa: PLC0415

    values = crowded(100_000)
    frame = frame_of(spark, values)
    cells, _ = scatter_cells(frame, 3, 4, 4_000)
    sizes = cells.selectExpr("cell", "length(values) / 8 as rows").groupBy("cell")
    assert max(row[1] for row in sizes.sum("rows").collect()) <= 4_000
    found = find_pairs(frame, 3, 4, 4_000)
    assert rows_of(found, "first", "second") == find_all(values, 3).tolist()


def site(tmp_path: Path) -> dict[str, str]:
    """Write two WARC files, the second one cut; return the pages that are whole."""
    words = make_words(1)
    pages = {
        "http://a.example/": page(1),
        "http://b.example/copy": page(1, menu="Another menu"),
        "http://a.example/edited": make_page(edit_words(words, 2)),
        "http://a.example/other": page(2),
        "http://a.example/empty": "<html><body><p>Sign in</p></body></html>",
        "http://b.example/empty": "<html><body><p>Sign in</p></body></html>",
        "http://c.example/": page(4),
    }
    records = [warc_by_record({url: html}) for url, html in pages.items()]
    image = "Content-Type: image/gif\r\n"
    others = [
        warc_record("http://a.example/gone", page(5), status="404 Not Found"),
        warc_record("http://a.example/picture", b"GIF89a", headers=image),
        warc_record("http://a.example/none", b" "),
    ]
    (tmp_path / "warcs").mkdir()
    (tmp_path / "warcs/one.warc.gz").write_bytes(
        b"".join(records[:-1] + [gzip.compress(each, mtime=0) for each in others])
    )
    cut = warc_by_record({"http://c.example/cut": page(6)})[:-200]
    (tmp_path / "warcs/two.warc.gz").write_bytes(records[-1] + cut)
    return pages


def test_from_warc_to_clusters_by_commands(spark: Session, run: Run, tmp_path: Path) -> None:
    """All that one machine finds, and a row with a reason for every page without a fingerprint."""
    pages = site(tmp_path)
    done = run("spark", "--json", "fingerprint", "warcs", "-o", "documents")
    assert done.exit_code == 1
    assert "two.warc.gz cannot be read from record 2 on: " in done.err
    without = dict.fromkeys(("empty", "not_html", "status", "warc_damaged"), 1)
    assert done.answers[0]["without_fingerprint"] == without
    assert done.answers[0]["rows"] == len(pages) + 4

    expected = {}
    for url, html in pages.items():
        made = fingerprint_page(html, url=url)
        document = make_document(made, Config().chosen_rule)
        several = list_fingerprints(made, Config().chosen_rule) or (document.facts.fingerprint,)
        expected[url] = document, list(several)
    rows = spark.read.parquet(f"{tmp_path}/documents").where("reason IS NULL").collect()
    assert {row.url: [bits % 2**64 for bits in row.fingerprints] for row in rows} == {
        url: bits for url, (_, bits) in expected.items()
    }
    for row in rows:
        facts = expected[row.url][0].facts
        same = (facts.sketch, facts.text_digest, facts.stub)
        assert (row.sketch, row.text_digest, row.stub) == same

    assert run("spark", "pairs", "documents", "-o", "pairs", "-d", "7").exit_code == 0
    bits = [each for made, several in expected.values() if not made.facts.stub for each in several]
    found = rows_of(spark.read.parquet(f"{tmp_path}/pairs"), "first", "second")
    assert found == find_all(np.array(bits, np.uint64), 7).tolist()

    done = run("spark", "--json", "confirm", "documents", "--pairs", "pairs", "-o", "confirmed")
    assert done.exit_code == 0
    confirmed = spark.read.parquet(f"{tmp_path}/confirmed").collect()
    assert {frozenset((row.first_url, row.second_url)) for row in confirmed} == {
        frozenset({"http://a.example/", "http://b.example/copy"}),
        frozenset({"http://b.example/copy", "http://a.example/edited"}),
        frozenset({"http://a.example/empty", "http://b.example/empty"}),
    }
    for row in confirmed:
        if row.similarity is not None:
            names = (expected[row.first_url][0], expected[row.second_url][0])
            first, second = (
                alter(each, url=url)
                for each, url in zip(names, (row.first_url, row.second_url), strict=True)
            )
            words = unpack(first.wording), unpack(second.wording)
            answer = compare_by_words(first.facts, second.facts, words)
            assert answer.status == "near_duplicate"
            assert (row.similarity, row.tests) == (answer.similarity, answer.tests)

    assert run("spark", "clusters", "confirmed", "-o", "clusters").exit_code == 0
    clusters = spark.read.parquet(f"{tmp_path}/clusters").groupBy("cluster").count().collect()
    assert sorted(row["count"] for row in clusters) == [2, 3]
    query = ("spark", "--json", "query", "documents", "--queries", "documents", "-d", "0")
    assert run(*query, "-o", "answers").answers[0]["rows"] == len(set(bits))


def test_errors_are_named(spark: Session, run: Run, tmp_path: Path) -> None:
    spark.range(3).write.parquet(f"{tmp_path}/numbers")
    (tmp_path / "killed/_temporary").mkdir(parents=True)
    for empty in ("half", "empty"):
        (tmp_path / empty).mkdir()
    (tmp_path / "text.parquet").write_text("no Parquet")
    (tmp_path / "pages.jsonl").write_text('{"url": "u", "text": "short"}\n{"url"\n')
    for arguments, message in (
        (("pairs", "numbers"), "numbers has no column fingerprint (bigint); it has id (bigint)"),
        (("fingerprint", "numbers"), "numbers has no column url (string), text (string)"),
        (("clusters", "numbers"), "has no column first (bigint or binary)"),
        (("confirm", "numbers", "--pairs", "numbers"), "the table of pairs has no column first"),
        (("confirm", "numbers"), "needs --pairs PATH"),
        (("pairs", "nowhere"), "PATH_NOT_FOUND"),
        (("pairs", "text.parquet"), "text.parquet is not a Parquet file"),
        (("pairs", "killed"), "killed is not complete: its job was killed or is still running"),
        (("pairs", "empty"), "empty: the folder is empty; make it again"),
        (("query", "numbers", "--queries", "empty"), "no documents in "),
        (("fingerprint", "numbers", "pages.jsonl"), "inputs of several kinds"),
        (("pairs", "numbers", "-d", "64"), "distance 64: must be 0 to 63 bits"),
    ):
        done = run("spark", *arguments, "-o", "new")
        assert (done.exit_code, message in done.err) == (2, True), done.err
        assert not (tmp_path / "new").exists()
    done = run("spark", "pairs", "numbers", "-o", "numbers")
    assert "numbers exists already and is complete; name another folder" in done.err
    done = run("spark", "pairs", "numbers", "-o", "half")
    assert "half exists already, but no job finished it" in done.err
    done = run("spark", "--json", "fingerprint", "pages.jsonl", "-o", "documents")
    assert done.answers[0]["without_fingerprint"] == {"bad_line": 1}


def fail_on_a_page(*_: object) -> Iterator[object]:
    yield from ()
    raise ZeroDivisionError("such a page")


@pytest.mark.usefixtures("spark")
def test_a_failed_task_says_what_was_raised_and_leaves_no_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page fails on an executor, and its job after it has begun to write."""
    monkeypatch.setattr("scrapy_simhash.batch.spark.pages._fingerprint", fail_on_a_page)
    (tmp_path / "pages.jsonl").write_text('{"url": "u", "text": "one two three"}\n')
    done = run("spark", "fingerprint", "pages.jsonl", "-o", "documents")
    assert done.exit_code == 2
    assert "Spark: ZeroDivisionError: such a page " in done.err
    assert not (tmp_path / "documents").exists()


def test_of_another_recipe_or_seed_none_is_compared(
    spark: Session, run: Run, tmp_path: Path
) -> None:
    from scrapy_simhash.batch.spark.pages import recipe_of  # noqa: PLC0415

    (tmp_path / "pages.jsonl").write_text('{"url": "u", "text": "one two three"}\n')
    run("spark", "fingerprint", "pages.jsonl", "-o", "one", "--seed", str(2**64 - 1))
    documents = spark.read.parquet(f"{tmp_path}/one")
    assert recipe_of(documents) == {"recipe": structs.asdict(Recipe()), "seed": f"{2**64 - 1:016x}"}
    other = {"scrapy_simhash": {"recipe": structs.asdict(Recipe()), "seed": "0"}}
    documents.withMetadata("fingerprints", other).write.parquet(f"{tmp_path}/two")
    spark.createDataFrame([], "first bigint, second bigint, distance int").write.parquet(
        f"{tmp_path}/pairs"
    )
    for command in ("query one --queries two", "pairs one two", "confirm one two --pairs pairs"):
        done = run("spark", *command.split(), "-o", "answers")
        assert done.exit_code == 2
        assert "have fingerprints of different recipes or seeds" in done.err


COLUMNS = """
id binary, fingerprints array<bigint>, stub boolean, text_digest binary, wording binary, called
array<binary>, views array<string>, data_fingerprint binary, hidden binary, url string, host string,
title string, heading string, canonical string, language string, reason string
"""


def documents_of(spark: Session, *rows: dict[str, Any]) -> Any:
    """Make documents that are alike but for their ids and what is given of each."""
    alike: dict[str, Any] = {"fingerprints": [5], "stub": False, "text_digest": b"", "title": "A"}
    alike |= {"wording": pack(Wording("a text")), "called": [], "views": []}
    alike |= dict.fromkeys(("heading", "canonical", "language", "host"), "")
    made = [{**alike, "url": f"http://{row['id'].hex()}/", **row} for row in rows]
    return spark.createDataFrame(made, COLUMNS)


def confirm_of(spark: Session, documents: Any, *, plain: bool = False) -> dict[str, list[Any]]:
    """Confirm pairs of documents with one fingerprint."""
    from scrapy_simhash.batch.spark.confirm import confirm_pairs  # noqa: PLC0415
    from scrapy_simhash.batch.spark.pairs import collect  # noqa: PLC0415

    pairs = spark.createDataFrame([], "first bigint, second bigint, distance int")
    return collect(confirm_pairs(documents, pairs, Rule(3, "plain" if plain else "words")))


def test_one_that_many_documents_have_costs_no_square(
    spark: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more documents with one fingerprint than are compared, the first stand for the rest."""
    from scrapy_simhash.batch.spark import confirm as spark_confirm  # noqa: PLC0415

    monkeypatch.setattr(spark_confirm, "MOST_CANDIDATES", 3)
    documents = documents_of(spark, *({"id": bytes([number])} for number in range(20)))
    found = confirm_of(spark, documents)
    assert sorted(zip(found["first"], found["second"], strict=True)) == [
        (bytes([first]), bytes([second])) for first in range(3) for second in range(first + 1, 20)
    ]
    assert all(tests[0] == "distance 0 bits" for tests in found["tests"])
    plain = confirm_of(spark, documents, plain=True)
    assert {key: plain[key] for key in ("first", "second")}.items() <= found.items()
    assert plain["tests"] == [["distance 0 bits"]] * len(found["first"])
    # No part of the join has more of them.
    postings = spark_confirm.list_postings(documents).groupBy("part").count().collect()
    assert sorted(row["count"] for row in postings) == [2, 3, 3, 3, 3, 3, 3]


def test_one_is_found_by_its_name(spark: Session) -> None:
    """However far apart they are; what has other words is another page."""
    rows = (
        {
            "id": bytes([number]),
            "title": "The harbour",
            "called": [b"key"],
            "fingerprints": [2 ** (20 * number) - 1],
            "wording": pack(Wording(text)),
        }
        for number, text in enumerate(("one text", "one text", "another text"))
    )
    found = confirm_of(spark, documents_of(spark, *rows))
    assert (found["first"], found["second"], found["distance"]) == ([b"\0"], [b"\1"], [20])
    called = "called 'the harbour', too; distance 20 bits"
    assert found["tests"] == [[called, "the same words and signs"]]


COMMAND = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None
from scrapy.cmdline import execute
execute(["scrapy", "simhash", "spark", "pairs", "documents", "-o", "pairs"])
"""


@pytest.mark.parametrize(
    ("hidden", "extra", "said"),
    [
        (["pyarrow"], {}, "Spark needs pip install 'scrapy-simhash[spark]'"),
        ([], {"JAVA_HOME": "/none"}, "there is no /none/bin/java; Java 17 or 21 is needed"),
        ([], {"PATH": "/none", "JAVA_HOME": ""}, "there is no java; Java 17 or 21 is needed"),
    ],
)
def test_what_is_missing_is_named(
    tmp_path: Path, hidden: list[str], extra: dict[str, str], said: str
) -> None:
    if not hidden:
        require_pyspark()
    done = run_python("-c", COMMAND.format(hidden=hidden), cwd=tmp_path, extra=extra)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


def test_the_script_for_spark_submit_is_the_command(tmp_path: Path) -> None:
    """Run as a script, whose folder Python puts first, and as a module."""
    require_pyspark()
    arguments = ("spark", "pairs", "documents", "-o", "pairs")
    nowhere = {"JAVA_HOME": str(tmp_path / "nowhere")}
    job = "scrapy_simhash/batch/spark/tasks"
    for script in ((str(ROOT / f"{job}.py"),), ("-m", job.replace("/", "."))):
        done = run_python(*script, *arguments, cwd=tmp_path, extra=nowhere)
        assert done.returncode == 2, done.stderr
        assert "scrapy simhash spark: there is no" in done.stderr
