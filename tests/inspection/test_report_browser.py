"""The report in a real Chromium: they work, and nothing in them runs."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright

from tests.helpers.needing import require_program
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
    found = require_program("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        # Its sandbox does not work for root, nor in many containers.
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def watching(browser: Browser, path: Path) -> Iterator[tuple[Page, list[str]]]:
    """Open a file; yields its page, and what that complains of, or requests."""
    page, own = browser.new_page(), path.as_uri()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda made: complaints.extend([made.url] * (made.url != own)))
    page.goto(own)
    assert complaints == []
    yield page, complaints
    page.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on hostile pages, with differences."""
    folder = tmp_path_factory.mktemp("hostile")
    # Playwright has an event loop of its own in this thread.
    with ThreadPoolExecutor(1) as other:
        other.submit(crawl_hostile_pages, folder / "store").result()
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


def test_hostile_pages_stay_text(browser: Browser, hostile: Path, large: Path) -> None:
    for path in (hostile, large):
        with watching(browser, path) as (page, complaints):
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
            assert complaints == []
    assert r"\u202e" in hostile.read_text("utf-8")
    assert "<script" not in hostile.read_text("utf-8")


def test_policy_stops_what_gets_in_all_the_same(browser: Browser, hostile: Path) -> None:
    with watching(browser, hostile) as (page, complaints):
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
        assert len([text for text in complaints if "Content Security Policy" in text]) >= 3
