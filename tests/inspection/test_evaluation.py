"""`scrapy simhash evaluate`: the plugin's own answers, to labelled pairs and in crawls."""

import json
from pathlib import Path

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.evaluation import evaluate
from scrapy_simhash.inspection.labels import read_corpus
from tests.helpers.commanding import Run
from tests.helpers.labelling import (
    LABELLED,
    PAGE_COLUMNS,
    gather_labelled_pages,
    make_corpus,
    write_table,
)
from tests.helpers.needing import slow_but
from tests.helpers.pages import edit_words, make_page, make_words
from tests.helpers.processes import ROOT, run_python


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "corpus")


def test_json_is_what_the_reference_says(run: Run, folder: Path) -> None:
    done = run("evaluate", folder, "--json")
    assert (done.exit_code, done.err) == (0, "")
    (answer,) = done.answers
    assert (answer["pages"], answer["pairs"], answer["unknown"]) == (4, 5, 1)
    assert (answer["precision"], answer["recall"]) == (1.0, 0.5)
    assert (answer["false_positives"], answer["false_negatives"]) == (0, 1)
    assert answer["not_judged"] == {"empty": 1}
    assert set(answer["by_source"]) == {"a", "b"}
    assert answer["recipe"]["features"] == "words-1"
    assert answer["by_distance"][7]["distance"] == 7
    assert set(answer["milliseconds_per_page"]) == {"extract", "fingerprint", "judge"}


def test_errors_are_listed_with_their_reasons(run: Run, folder: Path) -> None:
    (answer,) = run("evaluate", folder, "--json", "--errors").answers
    (error,) = answer["errors"]
    assert (error["first"], error["second"], error["label"]) == ("one", "empty", "dup")
    assert error["judged"] == "distinct"
    assert error["tests"] == ["empty is not judged"]
    text = run("evaluate", folder, "--errors").out
    for said in ("  label: dup\n  judged: distinct\n", "\n    empty is not judged\n"):
        assert said in text
    for state in ("site known  ", "site unknown"):
        (line,) = (line for line in text.splitlines() if line.startswith(state))
        shares = ["1.000", "(0.206-1.000)", "0.500", "(0.095-0.905)", "0", "1"]
        assert " ".join(shares) in " ".join(line.split())


def test_what_cannot_be_read_is_named_and_the_rest_judged(run: Run, folder: Path) -> None:
    (folder / "pages" / "two.html.gz").write_bytes(b"no gzip")
    (folder / "pages" / "empty.html.gz").unlink()
    done = run("evaluate", folder, "--json")
    assert done.exit_code == 1
    assert "page 'two' cannot be read" in done.err
    assert "page 'empty' cannot be read" in done.err
    (answer,) = done.answers
    assert (answer["pages"], answer["pairs"], answer["recall"]) == (2, 1, 1.0)


def test_a_folder_that_is_no_corpus_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("evaluate", tmp_path)
    assert (done.exit_code, done.out) == (2, "")
    said = f"{tmp_path / 'pages.csv'} is missing: pages.csv has the columns id, path; name a folder"
    assert said in done.err
    err = run.refused("evaluate", tmp_path / "nowhere")
    assert f"there is no folder {tmp_path / 'nowhere'}; name one with pages.csv" in err


def test_settings_decide(folder: Path) -> None:
    corpus = read_corpus(folder)
    strict, _ = evaluate(corpus, Config(workers=0, confirm=1.0))
    assert strict["recall"] == 0.0
    plain, judged = evaluate(corpus, Config(workers=0, confirm=None, distance=7))
    assert plain["recall"] == 0.5
    assert judged[0].tests == ("plain simhash",)


def test_the_store_and_the_rule_agree(folder: Path) -> None:
    """`by_distance` is computed without a store; both must say the same."""
    figures, judged = evaluate(read_corpus(folder), Config(workers=0))
    assert figures["by_distance"][7]["recall"] == figures["recall"]
    for pair in judged:
        assert pair.duplicate == (pair.confirmed and pair.distance <= 7)


@pytest.mark.parametrize("source", slow_but(["deb-apache2-doc"], ["deb-apache2-doc", ""]))
def test_quality_floor(tmp_path: Path, source: str) -> None:
    """On the labelled pages that may be shipped. The floor only goes up.

    294 manual and API pages in six languages, 139 duplicate pairs and 214 distinct ones, most of
    them of one template. Those of Apache are 45 and 35 pairs in all six languages.
    """
    corpus = read_corpus(gather_labelled_pages(tmp_path / "labelled", source))
    assert corpus.problems == []
    figures, judged = evaluate(corpus, Config(workers=1))
    wrong = json.dumps([pair.describe() for pair in judged if pair.is_wrong], indent=1)
    assert figures["false_positives"] == 0, wrong
    assert figures["false_negatives"] <= 3, wrong
    assert figures["plain"]["recall"] < figures["recall"]


def test_labelled_pages_have_a_notice() -> None:
    notice = (LABELLED / "NOTICE").read_text(encoding="utf-8")
    folders = {path.name for path in LABELLED.iterdir() if path.is_dir()}
    assert folders
    assert all(f"{name}/" in notice for name in folders)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("labelled", "--distance", "0"), "--distance: only for stored pages"),
        (("--errors",), "--errors: only for labelled pages; name"),
    ],
)
def test_options_for_other_pages_are_refused(run: Run, options: tuple[str, ...], told: str) -> None:
    assert told in run.refused("evaluate", *options)


# A cluster, a duplicate, two things in nearly the same words, a grey pair, one without a label...
PAGES = ("a1", "a2", "a3", "b1", "b2", "w1", "w2", "g1", "g2", "u1", "u2", "x1", "empty")


def test_a_crawl_of_labelled_pages_names_what_was_wrong(tmp_path: Path) -> None:
    rows = []
    for name in PAGES:
        edits = 1 if name[0] == "w" else 2  # two edits would tell pages of one host apart
        words = edit_words(make_words(ord(name[0])), edits, seed=ord(name[-1]))
        html = "" if name == "empty" else make_page(words, title=f"Page {name[0]}")
        (tmp_path / f"{name}.html").write_text(html, encoding="utf-8")
        rows.append((name, f"{name}.html", f"https://site.example/{name}/page/", "en", "made"))
    write_table(tmp_path / "pages.csv", PAGE_COLUMNS, rows)
    pairs = [("b1", "b2", "dup"), ("w1", "w2", "distinct"), ("a1", "w1", "distinct")]
    write_table(tmp_path / "pairs.csv", ("id_a", "id_b", "label"), pairs)
    write_table(tmp_path / "pairs_grey.csv", ("id_a", "id_b", "label"), [("g2", "g1", "grey")])
    cluster = [("c1", "3", name) for name in ("a1", "a2", "a3")]
    write_table(tmp_path / "clusters.csv", ("cluster", "size", "id"), cluster)
    done = run_python("benchmarks/study/crawl_labelled.py", tmp_path, "--orders", "2", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["pages"], answer["documents"], answer["not_judged"]) == (13, 10, {"empty": 1})
    assert [order["seed"] for order in answer["orders"]] == [0, 1]
    for order in answer["orders"]:
        counts = {name: value for name, value in order.items() if not isinstance(value, list)}
        del counts["seed"]
        assert counts == {
            "dropped": 6, "right": 3, "wrong": 1, "cannot_tell": 2, "grey": 1, "wrong_share": 0.25,
            "redundant": 3, "found": 3, "found_share": 1.0, "lost": 1, "perhaps_lost": 2,
        }  # fmt: skip
        (drop,) = order["wrong_drops"]
        assert {drop["dropped"], drop["kept"]} == {"w1", "w2"}
        assert order["lost_documents"] == [drop["dropped"]]
