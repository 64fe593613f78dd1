"""Crawls that leave out what changes by itself (`SIMHASH_IGNORE`)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commanding import Run
from tests.helpers.crawling import crawl, crawl_pages
from tests.helpers.pages import make_page, make_words
from tests.helpers.server import serve

WORDS = make_words(1, 200)


def make_copy(number: int) -> str:
    """Make a copy of a page with another stock, a number in a cell of its own."""
    stock = f'<table><tr><td class="stock">{number}</td></tr></table><a href="/link{number}"></a>'
    return make_page(WORDS, title="A thing").replace("</h1>", f"</h1><div>{stock}</div>")


COPIES = {f"/{name}": make_copy(40 + n) for n, name in enumerate(("one", "two", "three"))}
ALL, FIRST = ["/one", "/two", "/three"], ["/one"]


@pytest.mark.parametrize(
    ("ignore", "kept"),
    [
        *(((), ALL), ([".stock"], FIRST), ({"127.0.0.1": [".stock"]}, FIRST)),
        ({"shop.example": [".stock"]}, ALL),
    ],
)
async def test_copies_are_found_but_for_what_changes(
    tmp_path: Path, ignore: Any, kept: list[str]
) -> None:
    done = await crawl_pages(tmp_path, COPIES, SIMHASH_IGNORE=ignore)
    assert done.paths == kept


async def test_what_was_read_otherwise_is_compared(tmp_path: Path) -> None:
    """Fetched again it is a changed page."""
    with serve(COPIES) as site:
        await crawl(tmp_path, [site.url("/one")])
        done = await crawl(tmp_path, site.urls(), SIMHASH_IGNORE=[".stock"])
    copies = dict.fromkeys(("/two", "/three"), "near_duplicate")
    assert done.verdicts == {"/one": "revisit changed"} | copies


def test_an_import_leaves_out_the_same(run: Run, tmp_path: Path) -> None:
    rows = [{"url": f"http://a.example{path}", "html": html} for path, html in COPIES.items()]
    (tmp_path / "feed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for ignore, new in (".none", 3), (".stock", 1):
        given = ("-s", "SIMHASH_PROCESSES=0", "-s", f"SIMHASH_IGNORE={ignore}")
        (answer,) = run(*given, "import", "feed.jsonl", "--store", ignore[1:], "--json").answers
        assert answer["verdicts"]["new"] == new
