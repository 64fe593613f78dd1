"""`scrapy simhash evaluate --label`: pairs are shown, labels read, and the results printed."""

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash._printable import plural
from scrapy_simhash.inspection.evaluation.labels import COLUMNS
from tests.helpers.calibrating import Kind, make_store
from tests.helpers.commanding import HOSTILE, HOSTILE_TITLE, Done, Run, assert_printable
from tests.helpers.documents import CRAWL, document, open_in_crawl, open_lmdb

KINDS = (
    Kind(1, 0, same=True, pairs=6),
    Kind(5, 5, same=True, pairs=4),
    Kind(6, 60, same=False, pairs=4),
    Kind(9, 0, same=True, pairs=3),
)
# The store has one of each pair that it dropped, and both of those that it kept.
PAIRS = sum(kind.pairs for kind in KINDS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("calibrate") / "store", KINDS)


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


@pytest.fixture
def calibrate(
    run: Run, made: Path, labels: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    """Run the command with these answers, a line each."""

    def calibrate_(*answers: str, arguments: Sequence[str] = (), store: Path = made) -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{each}\n" for each in answers)))
        return run("evaluate", labels, "--label", "--store", store, *arguments)

    return calibrate_


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def shown(done: Done) -> list[dict[str, Any]]:
    return [answer["pair"] for answer in done.answers if "pair" in answer]


def urls(pair: dict[str, Any]) -> list[str]:
    return [page["url"] for page in pair["pages"]]


def test_pairs_are_shown_and_labels_written(calibrate: Callable[..., Done], labels: Path) -> None:
    done = calibrate("s", "different", "u", "skip", "q", arguments=["--json"])
    assert (done.exit_code, done.err) == (0, "")
    pairs = shown(done)
    assert [pair["labelled"] for pair in pairs] == [0, 1, 2, 3, 3]
    rows = rows_of(labels)
    assert tuple(rows[0]) == COLUMNS
    assert [row["label"] for row in rows] == ["dup", "distinct", "unknown"]
    for row, pair in zip(rows, pairs, strict=False):
        assert [row["url_a"], row["url_b"]] == urls(pair)
        assert [int(row["id_a"]), int(row["id_b"])] == [page["document"] for page in pair["pages"]]
        assert row["why"].startswith(f"calibrate; {plural(pair['distance'], 'bit')}, ")
        assert len(pair["differing_bits"]) == pair["distance"]
    assert done.answers[-1]["labels"] == {"same": 1, "different": 1, "unknown": 1}


def test_distances_take_turns(calibrate: Callable[..., Done]) -> None:
    pairs = shown(calibrate(*["n"] * 8, arguments=["--json"]))
    assert Counter(pair["distance"] for pair in pairs[:3]) == {1: 1, 5: 1, 6: 1}
    # 1 bit has more pairs than the others, and 9 bits are beyond the reach of the tables.
    assert Counter(pair["distance"] for pair in pairs[:8]) == {1: 3, 5: 2, 6: 2, 9: 1}
    (six,) = (pair for pair in pairs[:4] if pair["distance"] == 6)
    assert six["similarity"] == pytest.approx(0.8, abs=0.05)
    assert not six["judged"]


def test_the_seed_decides_on_the_order(calibrate: Callable[..., Done]) -> None:
    orders = [
        [urls(pair) for pair in shown(calibrate(*["n"] * 20, arguments=["--json", *seed]))]
        for seed in ((), ("--seed", "0"), ("--seed", "5"))
    ]
    assert orders[0] == orders[1] != orders[2]
    assert len(orders[0]) == len(orders[2]) == PAIRS


def test_labels_are_taken_back(calibrate: Callable[..., Done], labels: Path) -> None:
    done = calibrate("b", "s", "s", "undo", "d", "n", "b", "u", "q", arguments=["--json"])
    pairs = [urls(pair) for pair in shown(done)]
    # After "undo" the second one again; after "b" once more, and then what was skipped.
    order = [0, 1, 2, 1, 2, 3, 1, 2]
    assert pairs == [pairs[(0, 1, 2, 5)[place]] for place in order]
    assert len(set(map(tuple, pairs))) == 4
    assert [row["label"] for row in rows_of(labels)] == ["dup", "unknown"]
    assert any("nothing was labelled" in answer.get("note", "") for answer in done.answers)


def test_wrong_answers_label_nothing(calibrate: Callable[..., Done], labels: Path) -> None:
    done = calibrate("x", "", "same different", "\x1b[D", "ss", "s")
    assert done.exit_code == 0
    assert len(rows_of(labels)) == 1
    assert done.out.count("is not an answer: s same") == 5
    assert_printable(done.out)


def test_a_session_goes_on_where_the_last_one_ended(
    calibrate: Callable[..., Done], labels: Path
) -> None:
    order = [urls(pair) for pair in shown(calibrate(*["n"] * 20, arguments=["--json"]))]
    first = [urls(pair) for pair in shown(calibrate("s", "s", arguments=["--json"]))]
    second = [urls(pair) for pair in shown(calibrate(*["d"] * 20, arguments=["--json"]))]
    assert first[:2] + second == order
    assert len(rows_of(labels)) == PAIRS
    # Everything is labelled.
    done = calibrate("s", arguments=["--json"])
    assert shown(done) == []


def label_all(calibrate: Callable[..., Done], arguments: Sequence[str] = ()) -> Done:
    """Label every pair as its URL says."""
    order = shown(calibrate(*["n"] * 1_000, arguments=["--json", *arguments]))
    answers = ["s" if urls(pair)[0].startswith("http://same") else "d" for pair in order]
    return calibrate(*answers, arguments=arguments)


def test_results_are_those_of_the_labels(calibrate: Callable[..., Done]) -> None:
    label_all(calibrate)
    done = calibrate(arguments=["--results", "--json"])
    (answer,) = done.answers
    assert answer["pairs"] == PAIRS
    assert answer["labels"] == {"same": 13, "different": 4, "unknown": 0}
    assert [row["pairs"] for row in answer["by_distance"]] == [0, 6, 0, 0, 0, 4, 4, 0, 0, 3, 0]
    assert answer["in_force"]["precision"] == 1.0
    assert answer["in_force"]["recall"] == pytest.approx(10 / 13, abs=1e-4)
    assert answer["by_distance"][9]["plain_recall"] == 1.0
    assert answer["by_distance"][9]["plain_precision"] == pytest.approx(13 / 17, abs=1e-4)
    assert answer["recommended"] is None
    assert answer["missing_labels"] == 51 - 10  # those within reach of the tables
    text = calibrate(arguments=["--results"]).out
    assert "\nmissing labels: 41\n" in text


def test_a_better_setting_is_recommended(calibrate: Callable[..., Done], tmp_path: Path) -> None:
    """Pairs .98 alike are wrong here, which .9 lets pass: the default drops ten pages wrongly."""
    kinds = (Kind(2, 0, same=True, pairs=90), Kind(6, 5, same=False, pairs=10))
    store = make_store(tmp_path / "s", kinds, titles_differ=False)
    order = shown(calibrate(*["n"] * 1_000, arguments=["--json"], store=store))
    answers = ["s" if urls(pair)[0].startswith("http://same") else "d" for pair in order]
    done = calibrate(*answers, arguments=["--json"], store=store)
    answer = done.answers[-1]
    assert answer["in_force"]["precision"] == 0.9
    assert answer["in_force"]["wrong_pairs"] == 10
    recommended = answer["recommended"]
    assert recommended["precision"] == recommended["recall"] == 1.0
    assert recommended["distance"] < 6 or recommended["confirm"] > 0.9
    text = calibrate(arguments=["--results"], store=store).out
    table = text.partition("\nsettings:\n")[2].splitlines()
    assert table[2].split()[:2] == ["recommended", str(recommended["distance"])]


def test_settings_that_are_right_are_kept(calibrate: Callable[..., Done], tmp_path: Path) -> None:
    store = make_store(tmp_path / "s", [Kind(2, 0, same=True, pairs=80)])
    done = calibrate(*["s"] * 80, store=store)
    assert done.exit_code == 0
    assert "recommended: keep them" in done.out
    (answer,) = calibrate(arguments=["--results", "--json"], store=store).answers
    assert answer["recommended"] == answer["in_force"]


def test_evaluate_reads_the_labels(
    calibrate: Callable[..., Done], run: Run, labels: Path, made: Path
) -> None:
    label_all(calibrate)
    done = run("evaluate", labels, "--store", made, "--json", "--errors")
    assert (done.exit_code, done.err) == (0, "")
    (answer,) = done.answers
    assert (answer["pairs"], answer["unknown"], answer["problems"]) == (PAIRS, 0, [])
    assert answer["precision"] == 1.0
    assert answer["recall"] == pytest.approx(10 / 13, abs=1e-4)
    assert set(answer["by_source"]) == {"same.example", "different.example"}
    assert {error["distance"] for error in answer["errors"]} == {9}
    assert "each pair counts once" in run("evaluate", labels, "--store", made).out


def test_labels_of_pages_that_are_gone_are_named(
    calibrate: Callable[..., Done], run: Run, labels: Path, tmp_path: Path
) -> None:
    store = make_store(tmp_path / "s", KINDS)
    calibrate("s", "s", "s", store=store)
    gone, other, _ = rows_of(labels)
    with open_lmdb(store) as opened:
        opened.delete([int(gone["id_a"])])
    text = labels.read_text().replace(other["url_b"], "http://elsewhere.example/")
    labels.write_text(text)
    for command in (("evaluate", labels), ("evaluate", "--results", labels)):
        done = run(*command, "--store", store, "--json")
        assert done.exit_code == 1
        assert f"document {gone['id_a']} ({gone['url_a']}) is not in the store" in done.err
        assert f"document {other['id_b']} is {other['url_b']}, not http://elsewhere" in done.err
        assert len(done.answers[-1]["problems"]) == 2


def test_the_texts_of_pages_are_compared_where_they_are_kept(
    calibrate: Callable[..., Done], tmp_path: Path
) -> None:
    a = 0x0123_4567_89AB_CDEF
    with open_in_crawl(tmp_path / "s") as store:
        pages = [
            document("a", a, url=HOSTILE, title=HOSTILE_TITLE, text="apples and pears"),
            document("b", a ^ 511, title=HOSTILE_TITLE + "x" * 500, text="apples and plums\x1b[2J"),
        ]
        store.mark_done([verdict.document for verdict in store.find_and_add(pages)], CRAWL)
    done = calibrate("q", store=tmp_path / "s")
    assert "\n+ apples and plums" in done.out
    assert re.search(r"\nonly in first +pears\n", done.out)
    assert_printable(done.out)
    long = [line for line in done.out.splitlines() if len(line) > 80]
    assert long == []


def test_a_store_without_pairs(calibrate: Callable[..., Done], tmp_path: Path) -> None:
    with open_in_crawl(tmp_path / "s") as store:
        store.find_and_add([document("a", 1)])
    done = calibrate("s", store=tmp_path / "s")
    assert (done.exit_code, done.out) == (1, "nothing found\n")


def test_labels_stand_beside_the_log(run: Run, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    assert run("evaluate", "--label", "--store", made).exit_code == 0
    (made / "calibration.csv").unlink()
