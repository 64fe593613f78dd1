"""Folders of labelled pages for `benchmarks/study`."""

import csv
import shutil
from pathlib import Path

from tests.helpers.processes import ROOT

LABELLED = ROOT / "tests" / "labelled"


def gather_labelled_pages(folder: Path, source: str = "") -> Path:
    """Put the pages that may be shipped together: those of the example and those of the tests.

    A source leaves the pages and pairs of the others out.
    """
    manuals = ROOT / "example_project" / "docsite" / "pages"
    for name in ("postgresql", "httpd"):
        shutil.copytree(manuals / name, folder / name)
    shutil.copytree(LABELLED, folder, dirs_exist_ok=True)
    for table in (folder / "pages.csv", folder / "pairs.csv"):
        with table.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        at = head.index("source")
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *(row for row in rows if source in {"", row[at]})])
    return folder
