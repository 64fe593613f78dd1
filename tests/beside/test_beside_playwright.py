"""Beside scrapy-playwright: pages that a real browser has drawn."""

import json
from collections.abc import Iterator

import pytest

from tests.helpers.beside import settings_of
from tests.helpers.crawlscript import ScriptCrawl, run_crawl
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
    """Make a page that a script puts in place."""
    script = json.dumps(html).replace("</", "<\\/")
    return (
        "<!DOCTYPE html><html><head><title>Loading</title></head><body>"
        f"<script>document.documentElement.innerHTML = {script}</script></body></html>"
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptCrawl]:
    require_modules("beside", "scrapy_playwright")
    chromium = require_program("chromium", "chromium-browser", "google-chrome")
    settings = settings_of("beside.md", "PLAYWRIGHT_LAUNCH_OPTIONS")
    settings["PLAYWRIGHT_LAUNCH_OPTIONS"]["executable_path"] = chromium
    answers = {path: drawn(page(seed, menu=f"Menu of {path}")) for path, seed in PATHS.items()}
    with serve(answers) as site:
        yield run_crawl(
            tmp_path_factory.mktemp("playwright"),
            site.urls(),
            SPIDER="tests.helpers.renderedspider.RenderedSpider",
            **settings,
            PLAYWRIGHT_MAX_PAGES_PER_CONTEXT=len(PATHS),
        )


def test_pages_are_judged_as_the_browser_has_drawn_them(done: ScriptCrawl) -> None:
    assert done.exit_code == 0, done.log
    assert done.stats["finish_reason"] == "finished"
    # Of each group the first; without its script a page says nothing.
    assert {path for path in done.paths if not path.startswith("errback")} == {
        *("/page", "/open", "/open-last"),
        "/failing-copy-open",
    }
    assert done.counted["dropped"] == 3


def test_browser_pages_of_dropped_pages_are_closed(done: ScriptCrawl) -> None:
    opened = {item["path"]: item["open"] for item in done.items if item.get("open")}
    # Its own one only, however many pages were dropped before.
    assert opened["/open-last"] == 1


def test_errback_gets_the_browser_page_open(done: ScriptCrawl) -> None:
    (heard,) = [item for item in done.items if item["path"].startswith("errback")]
    assert heard == {"path": "errback /open-copy-errback", "closed": False, "title": "A page"}


def test_a_copy_of_a_page_that_failed_has_its_browser_page(done: ScriptCrawl) -> None:
    (copy,) = [item for item in done.items if item["path"] == "/failing-copy-open"]
    assert copy["open"] is not None
