"""Links between README, the pages in docs/ and the files beside them lead somewhere; lines fit."""

from pathlib import PurePosixPath
from urllib.parse import unquote

import pytest

from tests.helpers.documents_read import LINKED, PAGES, anchors_of, targets_of
from tests.helpers.processes import ROOT

WIDTH = 140


def find_broken(page: str) -> list[str]:
    broken = []
    for line, target in targets_of(page):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            broken.append(f"{page}:{line}: {target}: no such file")
        elif anchor and PurePosixPath(file).suffix == ".md":
            known = anchors_of(str(file.resolve().relative_to(ROOT)))
            if anchor not in known:
                broken.append(f"{page}:{line}: {target}: no such heading")
    return broken


@pytest.mark.parametrize("page", LINKED)
def test_links_lead_somewhere(page: str) -> None:
    assert find_broken(page) == []


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_lines_fit_on_a_screen(page: str) -> None:
    lines = (ROOT / page).read_text("utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > WIDTH] == []
