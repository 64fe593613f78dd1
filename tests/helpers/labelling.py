"""Folders of labelled pages for the tests of `benchmarks/study`."""

import csv
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.helpers.processes import ROOT

LABELLED = ROOT / "tests" / "labelled"
PAGE_COLUMNS = ("id", "path", "url", "lang", "source")
PAIR_COLUMNS = ("id_a", "id_b", "label", "source", "why")


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])


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
