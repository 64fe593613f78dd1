"""Folders of labelled pages: what is wrong is named, the rest is read."""

import gzip
from pathlib import Path

import pytest

from scrapy_simhash.errors import CorpusError
from scrapy_simhash.inspection.evaluation.labels import read_corpus
from tests.helpers.labelling import PAGE_COLUMNS, PAIR_COLUMNS, make_corpus, write_table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "corpus")


def add_line(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def test_reads_pages_and_pairs(folder: Path) -> None:
    corpus = read_corpus(folder)
    assert corpus.problems == []
    assert list(corpus.pages) == ["one", "copy", "two", "empty"]
    assert b"First thing" in corpus.pages["one"].read()
    assert corpus.pages["one"].language == "en"
    pair = corpus.pairs[0]
    assert (pair.first, pair.second, pair.label) == ("one", "copy", "dup")
    assert (pair.source, pair.why) == ("a", "edited; easy")
    assert corpus.pairs[-1].why == ""


def test_source_of_a_pair_is_that_of_its_first_page(folder: Path) -> None:
    write_table(folder / "pairs.csv", PAIR_COLUMNS[:3], [("one", "two", "distinct")])
    (pair,) = read_corpus(folder).pairs
    assert (pair.source, pair.why) == ("made", "")


def test_pages_need_not_be_compressed(folder: Path) -> None:
    (folder / "plain.html").write_text("<p>plain</p>", encoding="utf-8")
    add_line(folder / "pages.csv", "plain,plain.html,,,")
    assert read_corpus(folder).pages["plain"].read() == b"<p>plain</p>"


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
def test_a_bad_row_is_named_and_left_out(folder: Path, table: str, line: str, problem: str) -> None:
    whole = read_corpus(folder)
    add_line(folder / f"{table}.csv", line)
    corpus = read_corpus(folder)
    (named,) = corpus.problems
    assert problem in named
    assert f"{table}.csv line" in named
    assert (corpus.pages, corpus.pairs) == (whole.pages, whole.pairs)


def test_an_unknown_column_is_named(folder: Path) -> None:
    write_table(
        folder / "pairs.csv", ("id_a", "id_b", "label", "mood"), [("one", "two", "dup", "")]
    )
    corpus = read_corpus(folder)
    assert corpus.problems == ["pairs.csv: unknown column 'mood' is ignored"]
    assert len(corpus.pairs) == 1


@pytest.mark.parametrize("name", ["pages.csv", "pairs.csv"])
def test_a_folder_without_its_tables_is_no_corpus(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CorpusError, match=name):
        read_corpus(folder)


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
