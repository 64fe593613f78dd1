"""The report in a real Chromium: nothing in it runs, or is fetched."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Error, sync_playwright

from tests.helpers.needing import require_program
from tests.helpers.reporting import crawl_hostile_pages, report

GETS_IN = """() => {
    const picture = document.createElement("img");
    picture.src = "http://127.0.0.1:9/spy.png";
    try { picture.setAttribute("onerror", "window.hacked = 5"); } catch {}
    document.body.append(picture);
    return new Promise((resolve) => setTimeout(resolve));
}"""


@pytest.mark.slow
def test_hostile_pages_stay_text(tmp_path: Path) -> None:
    # Playwright has an event loop of its own in this thread.
    with ThreadPoolExecutor(1) as other:
        other.submit(crawl_hostile_pages, tmp_path / "store").result()
    report(tmp_path, tmp_path / "store")
    url, complaints = (tmp_path / "report.html").as_uri(), list[str]()
    found = require_program("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        # Its sandbox does not work for root, nor in many containers.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda made: complaints.extend([made.url] * (made.url != url)))
        page.goto(url)
        page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
        assert "\u202e" not in page.evaluate("document.body.innerText")
        assert complaints == []
        page.evaluate(GETS_IN)
        assert page.evaluate("'hacked' in window") is False
        with pytest.raises(Error, match="Failed to fetch"):
            page.evaluate("fetch('http://127.0.0.1:9/')")
        assert len([text for text in complaints if "Content Security Policy" in text]) > 1
