"""What other pages of a site tell of two, in `explain`."""

from pathlib import Path

import pytest

from tests.helpers.commanding import Run
from tests.helpers.judging import fill
from tests.helpers.pages import make_page, make_words

HOST = "site.example"
TEMPLATE = make_words(99)[:270]
OTHERS = 8


def on_the_site(seed: int, words: int = 60, *, title: str = "") -> str:
    """Make a page of which most is template; its names end in that of the site."""
    text = [*make_words(seed)[:words], *TEMPLATE]
    return make_page(text, title=f"{title or f'Thing {seed}'} - The site of sites")


# A document twice, another one of the same name, and more of the site.
SITE = {
    "one": on_the_site(1, title="Same"),
    "copy": on_the_site(1, title="Same"),
    "other": on_the_site(2, words=5, title="Same"),
    **{f"more{n}": on_the_site(10 + n) for n in range(OTHERS)},
}


def crawl_site(store: Path, first: tuple[str, ...] = ()) -> None:
    more = [name for name in SITE if name.startswith("more")]
    names = dict.fromkeys((*first, *more, "other", "one", "copy"))
    fill(store, ((f"http://{HOST}/{name}/page/", SITE[name]) for name in names))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    crawl_site(path)
    return path


def test_explain_says_what_the_store_said(run: Run, store: Path) -> None:
    one, copy = (f"http://{HOST}/{name}/page/" for name in ("one", "copy"))
    dropped = run.answer("explain", copy, "--store", store)
    assert dropped["site_known"] is True
    compared = run.answer("explain", copy, one, "--store", store)
    assert (compared["judged"], compared["site_known"]) == (True, True)
    assert compared["tests"] == dropped["tests"]
    assert (compared["own_words"], compared["match_own_words"]) == ([], [])
    out = " ".join(run.text("explain", copy, "--store", store).split())
    assert f"Dropped: it says nothing that {one} does not say" in out
    assert "as both were then" not in out
    assert "the site was known by other pages " in out
