"""Beside scrapy-playwright: pages that a real browser has drawn."""

import json
from pathlib import Path

import pytest

from tests.helpers.beside import settings_of
from tests.helpers.crawlscript import run_crawl
from tests.helpers.needing import require_modules, require_program
from tests.helpers.pages import page
from tests.helpers.server import serve

pytestmark = pytest.mark.slow
PATHS = {
    "/page": 1,
    "/page-copy": 1,
    "/open": 2,
    "/open-copy": 2,
    "/open-copy-errback": 2,
    "/failing": 3,
    "/failing-copy-open": 3,
    "/open-last": 4,
}


def drawn(html: str) -> str:
    script = json.dumps(html).replace("</", "<\\/")
    return (
        "<!DOCTYPE html><html><head><title>Loading</title></head><body>"
        f"<script>document.documentElement.innerHTML = {script}</script></body></html>"
    )


def test_pages_are_judged_as_the_browser_has_drawn_them(tmp_path: Path) -> None:
    require_modules("beside", "scrapy_playwright")
    chromium = require_program("chromium", "chromium-browser", "google-chrome")
    settings = settings_of("beside.md", "PLAYWRIGHT_LAUNCH_OPTIONS")
    settings["PLAYWRIGHT_LAUNCH_OPTIONS"]["executable_path"] = chromium
    answers = {path: drawn(page(seed, menu=f"Menu of {path}")) for path, seed in PATHS.items()}
    with serve(answers) as site:
        done = run_crawl(
            tmp_path,
            site.urls(),
            SPIDER="tests.helpers.renderedspider.RenderedSpider",
            **settings,
            PLAYWRIGHT_MAX_PAGES_PER_CONTEXT=len(PATHS),
        )
    assert (done.exit_code, done.stats["finish_reason"]) == (0, "finished"), done.log
    items = {item["path"]: item for item in done.items}
    # Of each group the first; without its script a page says nothing.
    kept = {"/page", "/open", "/open-last", "/failing-copy-open"}
    # An errback gets the browser page of a dropped page open.
    heard = items.pop("errback /open-copy-errback")
    assert (heard["closed"], heard["title"]) == (False, "A page")
    assert items.keys() == kept
    assert done.counted["dropped"] == 3
    # Its own one only, however many pages were dropped before: those of dropped pages are closed.
    assert items["/open-last"]["open"] == 1
    # A copy of a page that failed has its browser page.
    assert items["/failing-copy-open"]["open"] is not None
