"""The report and a difference in a real Chromium: they work, and nothing in them runs."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, expect

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.explanation import explain
from tests.helpers.browser import Watched, start_browser, watching
from tests.helpers.reporting import (
    HOSTILE_URL,
    crawl_hostile_pages,
    make_decision,
    make_drop,
    report,
)

DROPS = 260


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with start_browser() as started:
        yield started


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on hostile pages, with differences."""
    folder = tmp_path_factory.mktemp("hostile")
    # Playwright has an event loop of its own in this thread.
    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, crawl_hostile_pages(folder / "store")).result()
    report(folder, folder / "store")
    return folder / "report.html"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on many near-duplicates, on two hosts and with hostile addresses."""
    folder = tmp_path_factory.mktemp("large")
    report(
        folder,
        lines=[
            make_decision(0),
            *(make_drop(n, url=f"http://host{n % 2}.example/{n:03}") for n in range(1, DROPS - 2)),
            make_drop(300, url="javascript:window.hacked=1//", match_url="data:text/html,<b>"),
            make_drop(301, url=f"http://site.example/{'long' * 500}"),
            make_decision(
                9, status="not_followed", match_url=f"http://site.example/{'x' * 200}", links=1
            ),
            make_drop(302, url=HOSTILE_URL, match_url=None, similarity=None, distance=None),
        ],
    )
    return folder / "report.html"


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (1280, "dark")])
def test_it_fits_in_light_and_dark(
    browser: Browser, large: Path, hostile: Path, width: int, scheme: str
) -> None:
    for path in (large, hostile):
        with watching(browser, path, width=width, scheme=scheme) as watched:
            page = watched.page
            page.evaluate(
                "document.querySelectorAll('details').forEach((each) => each.open = true)"
            )
            assert page.evaluate("document.documentElement.scrollWidth") == width
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            ink = page.evaluate("getComputedStyle(document.body).color")
            shades = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (paper, ink)]
            assert (shades[0] > shades[1]) == (scheme == "light")


def test_least_alike_stand_first_and_what_has_no_value_last(browser: Browser, large: Path) -> None:
    with watching(browser, large) as watched:
        page = watched.page
        drops = page.locator(".drop .bits").all_inner_texts()
        alike = [each for each in drops if "alike" in each]
        assert (len(drops), len(alike)) == (5, 4)  # three of a page
        assert alike == sorted(alike)
        assert alike[0].startswith("0.80 alike")
        assert drops[-1] == "– bits apart"  # noqa: RUF001 - as typeset
        shown = page.locator(".card, .drop").all_inner_texts()
        assert not any("None" in each or "null" in each for each in shown)


def test_first_screen_answers_three_questions(browser: Browser, large: Path) -> None:
    with watching(browser, large, width=400) as watched:
        page = watched.page
        for question in page.locator(".answers div").all():
            box = question.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < 900
        page.locator(".answers a[href='#drops']").click()
        assert page.evaluate("location.hash") == "#drops"


def test_keyboard_alone_will_do(browser: Browser, hostile: Path) -> None:
    with watching(browser, hostile) as watched:
        page = watched.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        page.locator("details.pair summary").first.focus()
        page.keyboard.press("Enter")
        difference = page.locator("details.pair[open]")
        expect(difference).to_be_visible()
        expect(difference.locator("mark").first).to_be_visible()
        page.keyboard.press("Space")
        expect(difference).to_have_count(0)


def test_difference_shows_both_sides(browser: Browser, hostile: Path) -> None:
    with watching(browser, hostile) as watched:
        page = watched.page
        pair = page.locator(".drop", has_text="http://site.example/press/one/").locator("details")
        pair.locator("summary").click()
        heads = pair.locator(".head .side")
        expect(heads.first).to_contain_text("http://site.example/one")
        expect(heads.last).to_contain_text("http://site.example/press/one/")
        assert all(
            "changed7x" in each for each in pair.locator(".side:last-child mark").all_inner_texts()
        )
        assert pair.locator(".side:first-child mark").count() == 3


def test_hostile_pages_stay_text(browser: Browser, hostile: Path, large: Path) -> None:
    for path in (hostile, large):
        with watching(browser, path) as watched:
            page = watched.page
            page.evaluate(
                "document.querySelectorAll('details').forEach((each) => each.open = true)"
            )
            assert page.locator("script").count() == 0
            assert page.locator("img, iframe, object, embed, form[action]").count() == 0
            assert page.evaluate("'hacked' in window") is False
            hrefs = page.eval_on_selector_all(
                "a", "(all) => all.map((a) => a.getAttribute('href'))"
            )
            assert len(hrefs) > 10
            assert all(re.match(r"https?://|#", href) for href in hrefs)
            outside = page.locator("a:not([href^='#'])")
            assert {each.get_attribute("rel") for each in outside.all()} == {"noreferrer noopener"}
            shown = page.evaluate("document.body.innerText")
            assert "\u202e" not in shown
            assert "\u202e" not in path.read_text("utf-8")
    assert r"\u202e" in hostile.read_text("utf-8")
    assert "<script" not in hostile.read_text("utf-8")


def test_policy_stops_what_gets_in_all_the_same(browser: Browser, hostile: Path) -> None:
    watched = Watched(browser.new_page())
    watched.open(hostile)
    page = watched.page
    page.evaluate(
        """() => {
        const picture = document.createElement("img");
        picture.src = "http://127.0.0.1:9/spy.png";
        try { picture.setAttribute("onerror", "window.hacked = 5"); } catch {}
        document.body.append(picture);
        const frame = document.createElement("iframe");
        frame.src = "http://127.0.0.1:9/spy.html";
        document.body.append(frame);
        return new Promise((resolve) => setTimeout(resolve));
        }"""
    )
    assert page.evaluate("'hacked' in window") is False
    with pytest.raises(Error, match="Failed to fetch"):
        page.evaluate("fetch('http://127.0.0.1:9/')")
    assert len([text for text in watched.complaints if "Content Security Policy" in text]) >= 3
    page.close()


def test_page_of_one_difference(browser: Browser, hostile: Path, tmp_path: Path) -> None:
    path = tmp_path / "difference.html"
    store = str(hostile.parent / "store")
    (answer,) = explain(
        Config(store=store),
        ["http://mirror.example/one", HOSTILE_URL],
        None,
        path,
        overwrite=False,
    )
    assert answer["html"] == str(path)
    with watching(browser, path, width=375) as watched:
        page = watched.page
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        expect(page.locator(".head")).to_contain_text("http://mirror.example/one")
        expect(page.locator(".difference mark:not(:empty)").first).to_be_visible()
        assert page.locator("script").count() == 0
        assert page.evaluate("'hacked' in window") is False


def test_paper_shows_what_is_closed_in_black(browser: Browser, hostile: Path) -> None:
    with watching(browser, hostile, scheme="dark") as watched:
        page = watched.page
        page.emulate_media(media="print", color_scheme="dark")
        for name, visible in ((".skip", False), ("#drops", True)):
            assert page.locator(name).is_visible() == visible
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert page.locator("details[open]").count() == 0
        box = page.locator(".pair .difference").first.bounding_box()
        assert box is not None
        assert box["height"] > 0
