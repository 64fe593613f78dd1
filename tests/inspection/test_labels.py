"""Labels: folders of pages and files of a store are read as far as they are good."""

import gzip
import os
from pathlib import Path

import pytest

from scrapy_simhash.errors import CorpusError, LabelsError
from scrapy_simhash.inspection.evaluation.labels import (
    COLUMNS,
    Label,
    LabelledPair,
    open_labels,
    read_corpus,
    read_labels,
)
from tests.helpers.labelling import PAGE_COLUMNS, PAIR_COLUMNS, make_corpus, write_table

URLS = ("http://site.example/a", "http://site.example/b")
HEADING = ",".join(COLUMNS) + "\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def pair(first: int, second: int, label: Label = "dup") -> LabelledPair:
    return LabelledPair(str(first), str(second), label, "site.example", "calibrate; 3 bits")


def write(path: Path, *pairs: LabelledPair) -> None:
    with open_labels(path) as writer:
        for each in pairs:
            writer.write(each, URLS)


def test_a_label_is_on_disk_before_the_next_question(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def note(file: int) -> None:
        synced.append(os.fstat(file).st_size)

    with open_labels(path) as writer:
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


def test_of_two_labels_for_a_pair_the_later_one_counts(path: Path) -> None:
    write(path, pair(1, 2), pair(1, 2, "distinct"))
    assert read_labels(path).rows[1, 2].pair.label == "distinct"


def test_two_sessions_do_not_mix(path: Path) -> None:
    with open_labels(path), pytest.raises(LabelsError, match="another `evaluate --label` uses"):
        write(path)
    write(path)


@pytest.mark.parametrize("content", ["id,path\n1,2\n", "some notes", "id_a,id_b\n"])
def test_a_file_of_something_else_is_left_alone(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(LabelsError, match="has no labels"):
        write(path)
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
    with open_labels(path) as writer:
        writer.write(pair(1, 2), ('http://a/"\n3,4,dup,,,u,v\n', "http://b/\x1b[2J"))
        writer.write(pair(5, 6), URLS)
    labels = read_labels(path)
    assert (list(labels.rows), labels.problems) == ([(1, 2), (5, 6)], [])
    assert labels.rows[1, 2].urls == ('http://a/"\\n3,4,dup,,,u,v\\n', "http://b/\\x1b[2J")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "corpus")


def add_line(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def test_source_of_a_pair_is_that_of_its_first_page(folder: Path) -> None:
    write_table(folder / "pairs.csv", PAIR_COLUMNS[:3], [("one", "two", "distinct")])
    (pair,) = read_corpus(folder).pairs
    assert (pair.source, pair.why) == ("made", "")


@pytest.mark.parametrize(
    ("table", "line", "problem"),
    [
        ("pages", "one,pages/two.html.gz,,en,made", "id 'one' is repeated"),
        ("pages", ",pages/two.html.gz,,en,made", "no id"),
        ("pages", "out,../../etc/passwd,,en,made", "outside of the folder"),
        ("pages", "short,pages/two.html.gz", "not 5 cells"),
        ("pages", "long,pages/two.html.gz,,en,made,more,more", "not 5 cells"),
        ("pairs", "one,nobody,dup,a,", "no page 'nobody'"),
        ("pairs", "one,one,dup,a,", "'one' is paired with itself"),
        ("pairs", "one,two,maybe,a,", "label 'maybe'"),
    ],
)
def test_a_bad_row_of_a_table_is_named_and_left_out(
    folder: Path, table: str, line: str, problem: str
) -> None:
    whole = read_corpus(folder)
    add_line(folder / f"{table}.csv", line)
    corpus = read_corpus(folder)
    (named,) = corpus.problems
    assert problem in named
    assert f"{table}.csv line" in named
    assert (corpus.pages, corpus.pairs) == (whole.pages, whole.pairs)


def test_a_table_without_its_columns_is_no_corpus(folder: Path) -> None:
    write_table(folder / "pages.csv", ("id", "file"), [])
    with pytest.raises(CorpusError, match="no column path; it has id, file"):
        read_corpus(folder)


@pytest.mark.parametrize("octets", [b"\xff\xfe\x00", b'id,path\n"open'])
def test_a_table_that_is_no_text_is_refused(folder: Path, octets: bytes) -> None:
    (folder / "pages.csv").write_bytes(octets)
    with pytest.raises(CorpusError, match=r"pages\.csv"):
        read_corpus(folder).pages["nobody"].read()


DAMAGED = gzip.compress(b"x" * 1_000, mtime=0)[:-9]  # no time in the name of the test


@pytest.mark.parametrize("octets", [b"no gzip", DAMAGED, b""])
def test_a_damaged_page_says_so(folder: Path, octets: bytes) -> None:
    (folder / "pages" / "two.html.gz").write_bytes(octets)
    page = read_corpus(folder).pages["two"]
    if octets:
        with pytest.raises(OSError, match=r"gzip|Not a gzipped file"):
            page.read()
    else:
        assert page.read() == b""


def test_a_byte_order_mark_does_no_harm(folder: Path) -> None:
    text = (folder / "pages.csv").read_text(encoding="utf-8")
    (folder / "pages.csv").write_text(text, encoding="utf-8-sig")
    assert read_corpus(folder).problems == []
    assert PAGE_COLUMNS[0] == "id"
