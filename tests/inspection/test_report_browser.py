"""The report and a difference in a real Chromium: they work, and nothing in them runs."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from scrapy_simhash.config import Config
from scrapy_simhash.inspection.explanation import explain
from tests.helpers.browser import Watched, start_browser, watching
from tests.helpers.reporting import (
    HOSTILE_TITLE,
    HOSTILE_URL,
    crawl_hostile_pages,
    make_decision,
    make_drop,
    report,
)

DROPS = 260
NO_VALUE = "–"  # noqa: RUF001 - as typeset


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
            make_drop(302, url=HOSTILE_URL, match_url=None, similarity=None, distance=None),
        ],
    )
    return folder / "report.html"


def addresses(page: Page) -> list[str]:
    """The pages in the rows that are shown."""
    return page.locator("#drops tbody td:first-child bdi").all_inner_texts()


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"#drops tbody td:nth-child({number})").all_inner_texts()


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
            ink = page.evaluate("getComputedStyle(document.querySelector('.plot text')).fill")
            shades = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (paper, ink)]
            assert (shades[0] > shades[1]) == (scheme == "light")
            # A plot has its colours from the page.
            assert page.evaluate(
                "getComputedStyle(document.querySelector('.plot .fill-dropped')).fill"
                " === getComputedStyle(document.querySelector('.text-dropped')).color"
            )


def test_table_is_searched_sorted_filtered_and_turned(browser: Browser, large: Path) -> None:
    with watching(browser, large) as watched:
        page = watched.page
        expect(page.locator("#found")).to_have_text(f"{DROPS} of {DROPS}")
        assert len(addresses(page)) == 50
        page.locator("#next").click()
        assert addresses(page)[0] == "http://host1.example/051"
        expect(page.locator("#place")).to_have_text("2 of 6")

        page.get_by_role("button", name="bits").click()
        assert column(page, 3) == sorted(column(page, 3))
        assert column(page, 3)[0] == "0"
        page.get_by_role("button", name="bits").click()
        assert column(page, 3) == sorted(column(page, 3), reverse=True)
        assert column(page, 3)[0] == "7"
        expect(page.locator("th[aria-sort=descending]")).to_have_text(re.compile("bits"))
        page.get_by_role("button", name="alike").click()
        assert column(page, 4)[0] == "0.80"
        page.get_by_role("button", name="page", exact=True).click()
        assert addresses(page) == sorted(addresses(page))

        page.locator("#search").fill("HOST1.example 01")
        wanted = [f"{n:03}" for n in range(1, DROPS - 2, 2) if "01" in f"{n:03}"]
        assert addresses(page) == [f"http://host1.example/{name}" for name in wanted]
        page.locator("#search").fill("")
        page.locator("#filter-bits").select_option(label="3 bits (32)")
        expect(page.locator("#found")).to_have_text(f"32 of {DROPS}")
        page.locator("#filter-host").select_option(index=1)
        expect(page.locator("#found")).to_have_text(f"32 of {DROPS}")
        assert all("host1.example" in each for each in addresses(page))
        page.locator("#search").fill("no such page")
        expect(page.locator("#found")).to_have_text(f"0 of {DROPS}")


@pytest.mark.parametrize(("name", "number"), [("bits", 3), ("alike", 4)])
def test_rows_without_a_value_come_last(
    browser: Browser, large: Path, name: str, number: int
) -> None:
    with watching(browser, large) as watched:
        page = watched.page
        for _ in range(2):
            page.get_by_role("button", name=name).click()
            page.evaluate("while (!next.disabled) next.click()")
            assert column(page, number)[-1] == NO_VALUE
        assert f"{NO_VALUE} bits (1)" in page.locator("#filter-bits option").all_inner_texts()
        shown = page.locator(".bits, .group .muted, option").all_text_contents()
        assert not any("None" in each or "null" in each for each in shown)


def test_each_row_names_its_rule(browser: Browser, large: Path) -> None:
    with watching(browser, large, width=375) as watched:
        page = watched.page
        page.emulate_media(media="print")
        expect(page.locator("#drops tbody tr").first).to_contain_text("alike")
        assert page.locator("[title]").count() == 0


def test_keyboard_alone_will_do(browser: Browser, hostile: Path) -> None:
    with watching(browser, hostile) as watched:
        page = watched.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        page.locator("#search").focus()
        page.keyboard.type("again")
        expect(page.locator("#found")).to_have_text("1 of 7")
        page.locator("#drops thead button").last.focus()
        page.keyboard.press("Enter")
        expect(page.locator("th[aria-sort=ascending]")).to_have_text(re.compile("when"))
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "difference"
        page.keyboard.press("Enter")
        difference = page.locator("details.pair[open]")
        expect(difference).to_be_visible()
        expect(difference.locator("mark").first).to_be_visible()
        assert page.evaluate("document.activeElement.localName") == "summary"
        page.keyboard.press("Space")
        expect(difference).to_have_count(0)


def test_difference_shows_both_sides(browser: Browser, hostile: Path) -> None:
    with watching(browser, hostile) as watched:
        page = watched.page
        pair = page.locator("details.pair", has_text="http://site.example/press/again/")
        pair.locator("summary").click()
        heads = pair.locator(".head .side")
        expect(heads.first).to_contain_text("http://site.example/one")
        expect(heads.last).to_contain_text("http://site.example/press/again/")
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
            assert page.locator("script").count() == 2
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
    assert HOSTILE_TITLE[:9] not in re.sub(r"</script>\n", "", hostile.read_text("utf-8"))


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
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<p>'")
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
        store,
        path,
        overwrite=False,
    )
    assert answer["html"] == str(path)
    with watching(browser, path, width=375) as watched:
        page = watched.page
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        expect(page.locator(".head")).to_contain_text("http://mirror.example/one")
        expect(page.locator(".difference mark").first).to_be_visible()
        assert page.locator("script").count() == 2
        assert page.evaluate("'hacked' in window") is False


def test_paper_shows_groups_and_differences_in_black(browser: Browser, hostile: Path) -> None:
    with watching(browser, hostile, scheme="dark") as watched:
        page = watched.page
        page.emulate_media(media="print", color_scheme="dark")
        for name, visible in (("#controls", False), ("nav", False), ("#drops", True)):
            assert page.locator(name).is_visible() == visible
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        page.emulate_media(media="screen")
        page.locator(".pair summary").first.click()
        page.evaluate(
            """() => addEventListener("beforeprint", () => {
            const count = (found) => document.querySelectorAll(found).length;
            window.printed = {
                closed: count(".group:not([open]), .card details:not([open])"),
                pairs: count(".pair"),
                shown: count(".pair[open] .head"),
            };
            })"""
        )
        page.pdf()
        printed = page.evaluate("printed")
        assert (printed["closed"], printed["shown"]) == (0, min(5, printed["pairs"]))
        expect(page.locator("details[open]")).to_have_count(1)
