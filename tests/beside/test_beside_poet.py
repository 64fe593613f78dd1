"""Beside scrapy-poet and scrapy-playwright: page objects, drawn pages, and the page of the docs."""

import json
from pathlib import Path

import pytest

from tests.helpers.beside import settings_of
from tests.helpers.crawling import crawl
from tests.helpers.crawlscript import run_crawl
from tests.helpers.needing import require_modules, require_program
from tests.helpers.pages import page
from tests.helpers.server import Site, serve
from tests.project.test_docs_blocks import run_page

pytestmark = pytest.mark.slow
ANSWERS = {
    "/page": page(1, title="First"),
    "/copy": page(1, title="First", menu="Other"),
    "/other": page(2, title="Second"),
    "/nothing": page(3),
    "/client": page(4),
    "/more": page(2, menu="More"),
}


async def test_page_objects_of_near_duplicates_reach_nobody(site: Site, tmp_path: Path) -> None:
    """A page that no argument needs is not downloaded; what a page object asks for passes."""
    require_modules("beside", "scrapy_poet")
    from tests.helpers.poetspiders import PoetSpider  # noqa: PLC0415

    urls = site.urls("/page", "/copy", "/other", "/nothing", "/client")
    done = await crawl(tmp_path, urls, PoetSpider, **settings_of("beside.md", "ADDONS"))
    titles = {"/page": "First", "/other": "Second", "/nothing": None, "/client": None, "more": None}
    assert {item["path"]: item.get("title") for item in done.items} == titles
    assert done.counted["dropped"] == 1
    assert "log_count/ERROR" not in done.stats
    assert "/nothing" not in site.asked
    assert done.counted["not_judged/not_html"] == 1
    assert done.items[-1]["bytes"] == len(site.answers["/more"].body)
    assert done.verdicts["/more"] == "not_judged no_callback"


def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_modules("beside", "scrapy_poet", "scrapy_playwright")
    run_page("docs/beside.md", tmp_path, monkeypatch)


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
