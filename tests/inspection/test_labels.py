"""Labels: a folder of pages is read as far as it is good."""

import gzip
from pathlib import Path

import pytest

from scrapy_simhash.errors import CorpusError
from scrapy_simhash.inspection.labels import read_corpus
from tests.helpers.labelling import PAGE_COLUMNS, PAIR_COLUMNS, make_corpus, write_table


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
