"""`scrapy simhash evaluate`: the plugin's own answers, to labelled pairs and in crawls."""

import json
from pathlib import Path

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.evaluation.crawling import Truth, crawl_labelled
from scrapy_simhash.inspection.evaluation.evaluation import evaluate
from scrapy_simhash.inspection.evaluation.labels import Corpus, LabelledPair, read_corpus
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
    assert answer["unjudged"] == {"empty": 1}
    assert set(answer["by_source"]) == {"a", "b"}
    assert answer["recipe"]["features"] == "words-1"
    assert answer["by_distance"][7]["distance"] == 7
    assert set(answer["milliseconds_per_page"]) == {"extract", "fingerprint", "judge"}


def test_errors_are_listed_with_their_reasons(run: Run, folder: Path) -> None:
    (answer,) = run("evaluate", folder, "--json", "--errors").answers
    (error,) = answer["errors"]
    assert (error["first"], error["second"], error["label"]) == ("one", "empty", "dup")
    assert error["judged"] == "distinct"
    assert error["tests"] == ["empty passes unjudged"]
    text = run("evaluate", folder, "--errors").out
    for said in ("  label: dup\n  judged: distinct\n", "\n    empty passes unjudged\n"):
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
    done = run("evaluate", tmp_path / "labels.csv")
    assert done.exit_code == 2
    assert f"there is no {tmp_path / 'labels.csv'}; name a folder" in done.err


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


# By their first letters: a cluster, a labelled duplicate, two things in nearly the same words, a
# grey pair, a pair without a label, a page like no other, and one without text.
PAGES = ("a1", "a2", "a3", "b1", "b2", "w1", "w2", "g1", "g2", "u1", "u2", "x1", "empty")
URLS = {
    "a1": "https://site.example/a",
    "a2": "https://site.example/a",
    "a3": "",
    "b1": "deb:manual/b.html",
}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    rows = []
    for name in PAGES:
        edits = 1 if name[0] == "w" else 2  # two edits would tell pages of one host apart
        words = edit_words(make_words(ord(name[0])), edits, seed=ord(name[-1]))
        html = "" if name == "empty" else make_page(words, title=f"Page {name[0]}")
        (tmp_path / f"{name}.html").write_text(html, encoding="utf-8")
        # In a folder each: neighbours are compared more strictly.
        url = URLS.get(name, f"https://site.example/{name}/page/")
        rows.append((name, f"{name}.html", url, "en", "made"))
    write_table(tmp_path / "pages.csv", PAGE_COLUMNS, rows)
    pairs = [("b1", "b2", "dup"), ("w1", "w2", "distinct"), ("a1", "w1", "distinct")]
    write_table(tmp_path / "pairs.csv", ("id_a", "id_b", "label"), pairs)
    write_table(tmp_path / "pairs_grey.csv", ("id_a", "id_b", "label"), [("g2", "g1", "grey")])
    cluster = [("c1", "3", name) for name in ("a1", "a2", "a3")]
    write_table(tmp_path / "clusters.csv", ("cluster", "size", "id"), cluster)
    return tmp_path


def test_each_order_says_what_was_right_and_what_was_lost(run: Run, mixed: Path) -> None:
    done = run("evaluate", mixed, "--crawl", "--json")
    assert (done.exit_code, done.err) == (0, "")
    (answer,) = done.answers
    assert (answer["pages"], answer["documents"], answer["unjudged"]) == (13, 10, {"empty": 1})
    assert [order["seed"] for order in answer["orders"]] == [0, 1, 2]
    for order in answer["orders"]:
        counts = {name: value for name, value in order.items() if not isinstance(value, list)}
        del counts["seed"]
        assert counts == {
            "dropped": 6, "right": 3, "wrong": 1, "cannot_tell": 2, "grey": 1, "wrong_share": 0.25,
            "redundant": 3, "found": 3, "found_share": 1.0, "lost": 1, "perhaps_lost": 2,
        }  # fmt: skip
        (drop,) = order["wrong_drops"]
        assert {drop["dropped"], drop["kept"]} == {"w1", "w2"}
        assert drop["dropped_url"] == f"https://site.example/{drop['dropped']}/page/"
        assert drop["tests"][0].startswith("distance ")
        assert order["lost_documents"] == [drop["dropped"]]
        assert order["redundant_kept"] == []
    mean = answer["mean"]
    assert (mean["right"], mean["wrong_share"], mean["found_share"], mean["lost"]) == (
        3,
        0.25,
        1,
        1,
    )


def test_what_is_kept_though_it_is_redundant_is_listed(mixed: Path) -> None:
    answer = crawl_labelled(Config(workers=0, confirm=1.0), mixed, 1)
    (order,) = answer["orders"]
    assert (order["dropped"], order["wrong_share"], order["lost"]) == (0, None, 0)
    assert (order["redundant"], order["found_share"]) == (3, 0.0)
    assert {name[0] for name in order["redundant_kept"]} == {"a", "b"}
    assert answer["mean"]["wrong_share"] is None


def test_text_names_wrong_drops(run: Run, mixed: Path) -> None:
    lines = run("evaluate", mixed, "--crawl", "1").out.splitlines()
    assert {"pages: 13", "documents: 10", "  empty: 1"} <= {*lines}
    place = lines.index("orders:")
    table = [
        dict(zip(lines[place + 1].split(), line.split(), strict=False))
        for line in lines[place + 2 : place + 4]
    ]
    assert [row["dropped"] for row in table] == ["6", "6"]
    place = lines.index("wrong drop:")
    assert "  order: 0" in lines[place:]
    named = {line.strip() for line in lines[place:] if "://" in line}
    urls = [f"https://site.example/{name}/page/" for name in ("w1", "w2")]
    assert named in ({f"dropped url: {urls[0]}", f"kept url: {urls[1]}"},
                     {f"dropped url: {urls[1]}", f"kept url: {urls[0]}"})  # fmt: skip


def test_orders_differ_and_can_be_repeated(mixed: Path) -> None:
    first, again = (crawl_labelled(Config(workers=0), mixed, 8) for _ in range(2))
    assert first == again
    assert len({order["lost_documents"][0] for order in first["orders"]}) == 2


def test_labels_of_two_pages_speak_for_their_documents() -> None:
    clusters = {page: page[0] for page in ("a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2")}
    pairs = [
        LabelledPair("a1", "b1", "distinct"),
        LabelledPair("a1", "c1", "distinct"),
        LabelledPair("c1", "c2", "distinct"),
        LabelledPair("d1", "e1", "dup"),
        LabelledPair("e1", "e2", "dup"),
        LabelledPair("b1", "d1", "unknown"),
    ]
    truth = Truth(Corpus(pairs=pairs, clusters=clusters), [("a2", "c2"), ("b1", "a2")])
    said = {
        ("a2", "a1"): "right",
        ("d2", "e2"): "right",  # by two labels and a cluster
        ("c2", "c1"): "wrong",  # whatever the clusters say
        ("b1", "a1"): "wrong",
        ("a1", "c1"): "wrong",
        ("b2", "a2"): "grey",  # nobody would say it of b1 and a2
        ("e2", "b1"): "grey",
        ("c2", "b2"): "unlabelled",
        ("x", "a1"): "unlabelled",
    }
    assert {pair: truth.judge_drop(*pair) for pair in said} == said
    truth = Truth(Corpus(pairs=pairs[:1], clusters=clusters), [])
    assert truth.judge_drop("b2", "a2") == "wrong"


def test_a_folder_needs_no_clusters(run: Run, mixed: Path) -> None:
    (mixed / "clusters.csv").unlink()
    (mixed / "pairs_grey.csv").write_text("id_a,id_b,mood\ng1,g2,good\n", encoding="utf-8")
    done = run("evaluate", mixed, "--crawl", "1", "--json")
    assert done.exit_code == 1
    assert "pairs_grey.csv: unknown column 'mood' is ignored" in done.err
    (order,) = done.answers[0]["orders"]
    assert (order["right"], order["grey"], order["redundant"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--crawl", "1", "--errors"), "--crawl judges no pairs: leave --errors out"),
        (
            ("--distance", "0"),
            "--distance: only for stored pages, not for labelled",
        ),
        (("--label", "--workers", "1"), "--workers: only for labelled pages, not for"),
    ],
)
def test_what_is_about_other_pages_is_refused(
    run: Run, mixed: Path, options: tuple[str, ...], told: str
) -> None:
    done = run("evaluate", mixed, *options)
    assert (done.exit_code, done.out) == (2, "")
    assert told in done.err


def test_only_a_folder_can_be_crawled(run: Run, tmp_path: Path) -> None:
    labels = tmp_path / "calibration.csv"
    labels.touch()
    done = run("evaluate", labels, "--crawl")
    assert (done.exit_code, done.out) == (2, "")
    assert f"{labels} is not a folder" in done.err
    assert "'0' must be a whole number, 1 or more" in run("evaluate", tmp_path, "--crawl=0").err
