"""The file of labels: appended line by line, durable, readable after any kill."""

import os
from pathlib import Path

import pytest

from scrapy_simhash.errors import LabelsError
from scrapy_simhash.inspection.evaluation.labels import (
    COLUMNS,
    Label,
    LabelledPair,
    LabelWriter,
    read_labels,
)

URLS = ("http://site.example/a", "http://site.example/b")
HEADING = ",".join(COLUMNS) + "\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def pair(first: int, second: int, label: Label = "dup") -> LabelledPair:
    return LabelledPair(str(first), str(second), label, "site.example", "calibrate; 3 bits")


def write(path: Path, *pairs: LabelledPair) -> None:
    with LabelWriter(path) as writer:
        for each in pairs:
            writer.write(each, URLS)


def test_what_is_written_is_read_again(path: Path) -> None:
    assert read_labels(path).rows == {}
    write(path, pair(1, 2), pair(3, 4, "distinct"))
    write(path, pair(5, 6, "unknown"))
    labels = read_labels(path)
    assert labels.problems == []
    assert list(labels.rows) == [(1, 2), (3, 4), (5, 6)]
    assert labels.rows[3, 4].pair == pair(3, 4, "distinct")
    assert (labels.rows[3, 4].urls, labels.rows[3, 4].line) == (URLS, 3)


def test_the_folder_is_made(tmp_path: Path) -> None:
    """That of a store on a server may not be there."""
    path = tmp_path / ".scrapy" / "simhash" / "labels.csv"
    write(path, pair(1, 2))
    assert list(read_labels(path).rows) == [(1, 2)]


def test_a_label_is_on_disk_before_the_next_question(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def note(file: int) -> None:
        synced.append(os.fstat(file).st_size)

    with LabelWriter(path) as writer:
        monkeypatch.setattr(os, "fsync", note)
        writer.write(pair(1, 2), URLS)
        assert synced == [path.stat().st_size]
        writer.take_back()
        assert synced[1:] == [len(HEADING)]


@pytest.mark.parametrize("cut", [1, 5, 20, 60])
def test_half_a_row_is_named_and_spoils_no_other_one(path: Path, cut: int) -> None:
    write(path, pair(1, 2), pair(3, 4))
    path.write_bytes(path.read_bytes()[:-cut])
    labels = read_labels(path)
    assert list(labels.rows) == [(1, 2)]
    (problem,) = labels.problems
    assert "labels.csv line 3: '3" in problem
    assert "is an incomplete row" in problem
    write(path, pair(5, 6))
    labels = read_labels(path)
    # What was cut within its last cell looks whole: its URL tells.
    assert [row.urls == URLS for row in labels.rows.values()][-1]
    assert set(labels.rows) - {(3, 4)} == {(1, 2), (5, 6)}
    assert path.read_bytes().startswith(HEADING.encode())


def test_taken_back_labels_are_gone_and_others_stay(path: Path) -> None:
    write(path, pair(1, 2))
    before = path.read_bytes()
    with LabelWriter(path) as writer:
        writer.write(pair(3, 4), URLS)
        writer.write(pair(5, 6), URLS)
        writer.take_back()
        writer.take_back()
        assert path.read_bytes() == before
        writer.write(pair(7, 8), URLS)
    assert list(read_labels(path).rows) == [(1, 2), (7, 8)]


def test_of_two_labels_for_a_pair_the_later_one_counts(path: Path) -> None:
    write(path, pair(1, 2), pair(1, 2, "distinct"))
    assert read_labels(path).rows[1, 2].pair.label == "distinct"


def test_two_sessions_do_not_mix(path: Path) -> None:
    with LabelWriter(path), pytest.raises(LabelsError, match="another `evaluate --label` uses"):
        LabelWriter(path)
    LabelWriter(path).close()


@pytest.mark.parametrize("content", ["id,path\n1,2\n", "some notes", "id_a,id_b\n"])
def test_a_file_of_something_else_is_left_alone(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(LabelsError, match="has no labels"):
        LabelWriter(path)
    assert path.read_text() == content


def test_a_file_that_is_no_text_is_refused(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LabelsError, match="is not a text file"):
        read_labels(path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1,2,maybe,,,u,v", "label 'maybe'; must be dup, distinct, unknown"),
        ("x,2,dup,,,u,v", "'x' and '2' are not two different document numbers"),
        ("2,2,dup,,,u,v", "are not two different document numbers"),
        ('1,2,dup,,,"u,v', "is an incomplete row"),
        ("1,2,dup,,,u,v,w", "is an incomplete row"),
    ],
)
def test_a_bad_row_is_named_and_left_out(path: Path, line: str, problem: str) -> None:
    path.write_text(f"{HEADING}{line}\n3,4,dup,,,u,v\n")
    labels = read_labels(path)
    (named,) = labels.problems
    assert problem in named
    assert "line 2" in named
    assert list(labels.rows) == [(3, 4)]


def test_hostile_text_stays_in_its_row(path: Path) -> None:
    with LabelWriter(path) as writer:
        writer.write(pair(1, 2), ('http://a/"\n3,4,dup,,,u,v\n', "http://b/\x1b[2J"))
        writer.write(pair(5, 6), URLS)
    labels = read_labels(path)
    assert (list(labels.rows), labels.problems) == ([(1, 2), (5, 6)], [])
    assert labels.rows[1, 2].urls == ('http://a/"\\n3,4,dup,,,u,v\\n', "http://b/\\x1b[2J")
