"""`urls`: rules on addresses are found in stored pages, and written."""

import json
from pathlib import Path

import pytest

from tests.helpers.commanding import Run, assert_printable
from tests.helpers.judging import fill
from tests.helpers.pages import page

pytestmark = pytest.mark.usefixtures("public_suffixes")
PAGES = 12
SITE = "http://site.example"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of pages with a session each; `page=` leads to other pages of a list."""
    pages = [
        (f"d/p{number}{session}", page(number))
        for number in range(PAGES)
        for session in ("", f"?sid={number}")
    ]
    pages += [(f"list?page={number}", page(100 + number)) for number in (1, 2, 3)]
    fill(tmp_path / "store", ((f"{SITE}/{name}", html) for name, html in pages))
    return tmp_path / "store"


def test_rules_are_shown_with_their_votes_and_pairs(run: Run, store: Path) -> None:
    done = run("urls", "--store", store)
    out = done.out
    assert_printable(out)
    assert out.startswith(
        "rule: site.example drop-parameter sid\nproven in:\n  /d/*\n"
        "grey: 0\nsame: 12\ndifferent: 0\npairs different: none\n"
        f"pairs same:\n  {SITE}/d/p0?sid=0 {SITE}/d/p0\n"
    )
    assert done.err == ""
    (answer,) = run("urls", "--store", store, "--json").answers
    assert (answer["proven_in"], answer["same"], answer["pairs_different"]) == (["/d/*"], 12, [])
    assert run("urls", "--store", store.parent / "none").exit_code == 2


def test_a_list_is_written_and_agrees_with_the_pages(run: Run, store: Path) -> None:
    path = store.parent / "rules.json"
    *_, last = run.answers("urls", "--store", store, "--output", path)
    assert last == {"file": str(path), "written": 1}
    (rule,) = json.loads(path.read_text())
    assert rule == {
        "order": 1,
        "processor": "queryRemoval",
        "args": ["sid"],
        "urlPattern": {
            "include": ["site.example/d/*|?sid=*"],
            "exclude": ["site.example/*/*/*", "site.example/d/*.*|"],
        },
    }
    assert "exists already" in run("urls", "--store", store, "--output", path).err


def test_without_pairs_nothing_is_proposed_and_with_few_nothing_proven(
    run: Run, tmp_path: Path
) -> None:
    fill(tmp_path, [])
    assert "two pairs of stored pages" in run.failed("urls", "--store", tmp_path)
    names = (f"p{n}{query}" for n in range(2) for query in ("", f"?from={n}"))
    fill(tmp_path, ((f"{SITE}/{name}", page(int(name[1]))) for name in names))
    done = run("urls", "--store", tmp_path)
    assert done.err.startswith("none is proven: that takes eleven pairs")
    assert "rule: site.example drop-parameter from\nproven in: none\n" in done.out
