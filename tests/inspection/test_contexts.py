"""What other pages tell of two: `evaluate` in both states, `explain`, `what-if` and labels."""

import asyncio
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from scrapy_simhash.config import Config
from scrapy_simhash.detector.messages import Mark
from scrapy_simhash.inspection.comparing import weigh
from scrapy_simhash.inspection.evaluation import evaluate
from scrapy_simhash.inspection.labels import read_corpus
from scrapy_simhash.judging.rule import CONFIRM, Deciding, Evidence
from scrapy_simhash.pages.recipe import SKETCH_BYTES
from tests.helpers.commanding import Run
from tests.helpers.detecting import fetched, running, write_decision
from tests.helpers.documents import begin_crawl, document, judge
from tests.helpers.labelling import PAGE_COLUMNS, PAIR_COLUMNS, write_table
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, html in SITE.items():
        (tmp_path / f"{name}.html").write_text(html, encoding="utf-8")
    rows = [(name, f"{name}.html", f"http://{HOST}/{name}/page/", "en", "made") for name in SITE]
    write_table(tmp_path / "pages.csv", PAGE_COLUMNS, rows)
    pairs = [("one", "copy", "dup", "made", ""), ("one", "other", "distinct", "made", "")]
    write_table(tmp_path / "pairs.csv", PAIR_COLUMNS, pairs)
    return tmp_path


def test_pages_of_one_template_are_told_apart_once_the_site_is_known(
    run: Run, folder: Path
) -> None:
    """Most of the two is template: only the other pages of the host tell."""
    figures, (same, other) = evaluate(read_corpus(folder), Config(workers=0))
    assert (same.known, same.duplicate, same.duplicate_if_unknown) == (True, True, True)
    assert (other.known, other.duplicate, other.duplicate_if_unknown) == (True, False, True)
    assert "site known from documents " in other.tests[-1]
    known, unknown = figures["site_known"], figures["site_unknown"]
    assert known["known"] == 2
    assert {name: figures[name] for name in unknown} == {name: known[name] for name in unknown}
    assert (known["precision"], known["recall"], known["false_positives"]) == (1.0, 1.0, 0)
    assert (unknown["precision"], unknown["recall"], unknown["false_positives"]) == (0.5, 1.0, 1)
    (answer,) = run("evaluate", folder, "--json").answers
    assert set(answer["site_known"]) == {"known", *answer["site_unknown"]}
    assert re.search(r"^site known +2 ", run("evaluate", folder).out, re.MULTILINE)


async def crawl_site(store: Path, first: tuple[str, ...] = ()) -> None:
    async with running(store) as detector:
        more = [name for name in SITE if name.startswith("more")]
        for name in dict.fromkeys((*first, *more, "other", "one", "copy")):
            url = f"http://{HOST}/{name}/page/"
            asked = replace(fetched("", SITE[name], identity=name.encode()), url=url)
            decision = await detector.judge(asked)
            detector.mark(Mark(done=decision.document))
            write_decision(detector, decision)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    asyncio.run(crawl_site(path))
    return path


def test_explain_says_what_the_store_said(run: Run, store: Path) -> None:
    one, copy = (f"http://{HOST}/{name}/page/" for name in ("one", "copy"))
    dropped = run.answer("explain", copy, "--store", store)
    assert dropped["site_known"] is True
    compared = run.answer("explain", copy, one, "--store", store)
    assert (compared["judged"], compared["site_known"]) == (True, True)
    assert compared["tests"] == dropped["tests"][1:]  # the first one says what proposed it
    assert (compared["own_words"], compared["match_own_words"]) == (["another", "menu"], [])
    out = " ".join(run.text("explain", copy, "--store", store).split())
    assert f"Near-duplicate: only 'another menu' differs from {one} " in out
    assert "as both were then" not in out
    assert "the site was known by other pages " in out


def test_explain_says_that_the_site_was_not_known_then(run: Run, tmp_path: Path) -> None:
    asyncio.run(crawl_site(tmp_path, first=("one", "other")))
    dropped = run.answer("explain", f"http://{HOST}/other/page/", "--store", tmp_path)
    assert " ...') differs from " in dropped["verdict"]
    assert dropped["now"].startswith("today it is no near-duplicate of it: ")
    assert dropped["verdict"].endswith(", as both were then")
    assert dropped["site_known"] is False
    out = " ".join(run.text("explain", f"http://{HOST}/other/page/", "--store", tmp_path).split())
    assert "the site was not known: fewer than six of its pages had been kept " in out


def test_explain_finds_by_name_what_was_dropped_by_name(run: Run, tmp_path: Path) -> None:
    """Whichever of the two is named first."""
    facts = {"sketch": bytes(SKETCH_BYTES), "words": 500, "whole_words": 600, "title": "Fire"}
    pages = [document(f"{HOST}/{n}/", bits, **facts) for n, bits in enumerate((0, 0xFFF))]
    urls = [page.facts.url for page in pages]
    with begin_crawl(str(tmp_path), confirm=CONFIRM) as opened:
        assert judge(opened, *pages) == ["new 1", "near_duplicate 2 of 1"]
    dropped = run.answer("explain", urls[1], "--store", tmp_path)
    assert (dropped["distance"], dropped["now"]) == (12, "")
    for both in (urls, reversed(urls)):
        assert run.answer("explain", *both, "--store", tmp_path)["judged"] is True
    changed = run.answer("explain", urls[1], "--store", tmp_path, "-s", "SIMHASH_CONFIRM=None")
    assert changed["now"].startswith("today it is no near-duplicate of it: ")
    out = run.text("explain", urls[1], "--store", tmp_path, "-s", "SIMHASH_CONFIRM=None")
    assert out.splitlines()[1].startswith("now             today it is no near-duplicate")


def test_of_two_equal_pages_of_template_only_no_share_of_content_is_told() -> None:
    """Nothing is left to share."""
    compared = weigh(
        Evidence(
            deciding=Deciding.TEXTS, distance=0, within=7, confirm=0.9, whole=1.0, main_alike=1.0
        )
    )
    assert compared["agreed"][1:3] == ["whole texts (1.00)", "main texts (1.00)"]
    assert compared["agreed"][3:] == ["all of it is the site's frame"]
    assert compared["differed"] == []


def test_what_other_pages_of_the_site_have_is_greyed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notice = "We have sold kiwis and nothing else since 1900."
    html = {name: page.replace("</p>", f".</p><p>{notice}</p>", 1) for name, page in SITE.items()}
    monkeypatch.setitem(globals(), "SITE", html)
    asyncio.run(crawl_site(tmp_path / "noticed"))
    two = (f"http://{HOST}/{name}/page/" for name in ("copy", "other"))
    answer = run.answer("explain", *two, "--store", tmp_path / "noticed")
    rows = answer["side_by_side"]
    greyed = [row.get("same") for row in rows if row.get("template")]
    # Paragraphs of the template that only one of the two has cut so, too.
    assert greyed == [notice.lower(), *[None] * (len(greyed) - 1)]
    assert any("first" in row for row in rows if not row.get("template"))
