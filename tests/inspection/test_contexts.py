"""What other pages of a site tell of two, in `explain`."""

from pathlib import Path

import pytest

from scrapy_simhash.judging.rule import CONFIRM
from scrapy_simhash.pages.recipe import SKETCH_BYTES
from tests.helpers.commanding import Run
from tests.helpers.documents import document, judge, open_lmdb
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
    "copy": on_the_site(1, title="Same").replace("<ul>", "<p>Another menu</p><ul>"),
    "other": on_the_site(2, words=5, title="Same"),
    **{f"more{n}": on_the_site(10 + n) for n in range(OTHERS)},
}

OTHER = f"http://{HOST}/other/page/"
RULE = "-s", "SIMHASH_RULE=sketches"


def crawl_site(store: Path, first: tuple[str, ...] = ()) -> None:
    more = [name for name in SITE if name.startswith("more")]
    names = dict.fromkeys((*first, *more, "other", "one", "copy"))
    fill(store, ((f"http://{HOST}/{name}/page/", SITE[name]) for name in names), rule="sketches")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    crawl_site(path)
    return path


def test_explain_says_what_the_store_said(run: Run, store: Path) -> None:
    one, copy = (f"http://{HOST}/{name}/page/" for name in ("one", "copy"))
    dropped = run.answer("explain", copy, "--store", store, *RULE)
    assert dropped["site_known"] is True
    compared = run.answer("explain", copy, one, "--store", store, *RULE)
    assert (compared["judged"], compared["site_known"]) == (True, True)
    assert compared["tests"] == dropped["tests"][1:]  # the first one says what proposed it
    assert (compared["own_words"], compared["match_own_words"]) == (["another", "menu"], [])
    out = " ".join(run.text("explain", copy, "--store", store, *RULE).split())
    assert f"Dropped: only 'another menu' differs from {one} " in out
    assert "as both were then" not in out
    assert "the site was known by other pages " in out


def test_explain_says_that_the_site_was_not_known_then(run: Run, tmp_path: Path) -> None:
    crawl_site(tmp_path, first=("one", "other"))
    dropped = run.answer("explain", OTHER, "--store", tmp_path, *RULE)
    assert " ...') differs from " in dropped["verdict"]
    assert dropped["now"].startswith("today it is no near-duplicate of it: ")
    assert dropped["verdict"].endswith(", as both were then")
    assert dropped["site_known"] is False
    out = " ".join(run.text("explain", OTHER, "--store", tmp_path, *RULE).split())
    assert "the site was not known: fewer than six of its pages had been kept " in out


def test_explain_finds_by_name_what_was_dropped_by_name(run: Run, tmp_path: Path) -> None:
    """Whichever of the two is named first."""
    facts = {"sketch": bytes(SKETCH_BYTES), "words": 500, "whole_words": 600, "title": "Fire"}
    pages = [document(f"{HOST}/{n}/", bits, **facts) for n, bits in enumerate((0, 0xFFF))]
    urls = [page.facts.url for page in pages]
    with open_lmdb(str(tmp_path), confirm=CONFIRM) as opened:
        assert judge(opened, *pages) == ["new 1", "near_duplicate 2 of 1"]
    dropped = run.answer("explain", urls[1], "--store", tmp_path)
    assert (dropped["distance"], dropped["now"]) == (12, "")
    for both in (urls, reversed(urls)):
        assert run.answer("explain", *both, "--store", tmp_path)["judged"] is True
    changed = run.answer("explain", urls[1], "--store", tmp_path, "-s", "SIMHASH_CONFIRM=None")
    assert changed["now"].startswith("today it is no near-duplicate of it: ")
    out = run.text("explain", urls[1], "--store", tmp_path, "-s", "SIMHASH_CONFIRM=None")
    assert out.splitlines()[1].startswith("now             today it is no near-duplicate")
