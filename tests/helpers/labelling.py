"""Folders of labelled pages for the tests of `benchmarks/study`."""

import csv
import gzip
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.helpers.pages import edit_words, make_page, make_words
from tests.helpers.processes import ROOT

LABELLED = ROOT / "tests" / "labelled"
PAGE_COLUMNS = ("id", "path", "url", "lang", "source")
PAIR_COLUMNS = ("id_a", "id_b", "label", "source", "why")


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])


def make_corpus(folder: Path) -> Path:
    """Make a folder with two sources: an original, a near copy, another page; and an empty one."""
    (folder / "pages").mkdir(parents=True)
    texts = {
        "one": make_page(make_words(1), title="First thing"),
        "copy": make_page(edit_words(make_words(1), 3), title="First thing"),
        "two": make_page(make_words(2), title="Second thing"),
        "empty": "",
    }
    for name, html in texts.items():
        (folder / "pages" / f"{name}.html.gz").write_bytes(gzip.compress(html.encode()))
    write_table(
        folder / "pages.csv",
        PAGE_COLUMNS,
        [
            (name, f"pages/{name}.html.gz", f"http://site.example/{name}/page", "en", "made")
            for name in texts
        ],
    )
    write_table(
        folder / "pairs.csv",
        PAIR_COLUMNS,
        [
            ("one", "copy", "dup", "a", "edited; easy"),
            ("one", "two", "distinct", "a", "other page; hard"),
            ("copy", "two", "distinct", "b", "other page; easy"),
            ("one", "empty", "dup", "b", "nothing there; hard"),
            ("two", "empty", "unknown", "b", ""),
        ],
    )
    return folder


def gather_labelled_pages(folder: Path, source: str = "") -> Path:
    """Put the pages that may be shipped together: those of the example and those of the tests.

    A source leaves the pages and pairs of the others out.
    """
    manuals = ROOT / "example_project" / "docsite" / "pages"
    for name in ("postgresql", "httpd"):
        shutil.copytree(manuals / name, folder / name)
    shutil.copytree(LABELLED, folder, dirs_exist_ok=True)
    for name, columns in (("pages.csv", PAGE_COLUMNS), ("pairs.csv", PAIR_COLUMNS)):
        with (folder / name).open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if source in {"", row["source"]}]
        write_table(folder / name, columns, [[row[each] for each in columns] for row in rows])
    return folder
