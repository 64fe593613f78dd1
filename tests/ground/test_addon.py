"""Enabling: by one line, by hand, or not at all; and on which event loops."""

import json
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import SETTINGS_PRIORITIES, Settings

from scrapy_simhash import Addon
from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
from scrapy_simhash.spidermiddlewares import SimhashCallbackMiddleware, SimhashSpiderMiddleware
from tests.helpers.crawling import crawl, list_states
from tests.helpers.crawlscript import run_crawl
from tests.helpers.pages import page
from tests.helpers.server import Site

DOWNLOADER = "scrapy_simhash.downloadermiddlewares.SimhashDownloaderMiddleware"
SPIDER = "scrapy_simhash.spidermiddlewares.SimhashSpiderMiddleware"
CALLBACK = "scrapy_simhash.spidermiddlewares.SimhashCallbackMiddleware"
SELECT = "twisted.internet.selectreactor.SelectReactor"
OTHER = "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware"
ANSWERS = {"/one": page(1), "/one-again": page(1, menu="Other menu")}
HALF: dict[str, Any] = {"DOWNLOADER_MIDDLEWARES": {DOWNLOADER: 545}}
WITHOUT: dict[str, Any] = {"SPIDER_MIDDLEWARES": {SPIDER: 60}}
OTHER_HALF: dict[str, Any] = {"SPIDER_MIDDLEWARES": {SPIDER: 60, CALLBACK: 10_000}}


def added(settings: dict[str, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    made = Settings(settings)
    Addon().update_settings(made)
    return dict(made["DOWNLOADER_MIDDLEWARES"]), dict(made["SPIDER_MIDDLEWARES"])


def test_addon_puts_the_middlewares_in_place() -> None:
    spider = {SimhashSpiderMiddleware: 60, SimhashCallbackMiddleware: 10_000}
    assert added({}) == ({SimhashDownloaderMiddleware: 545}, spider)


@pytest.mark.parametrize("position", [400, 1000, None])
@pytest.mark.parametrize("by_class", [True, False])
def test_position_of_the_user_stays(position: int | None, by_class: bool) -> None:
    downloader = {SimhashDownloaderMiddleware if by_class else DOWNLOADER: position}
    spider = {SimhashSpiderMiddleware if by_class else SPIDER: position}
    given = {"DOWNLOADER_MIDDLEWARES": downloader, "SPIDER_MIDDLEWARES": spider}
    assert added(given) == (downloader, spider | {SimhashCallbackMiddleware: 10_000})


def test_settings_of_the_command_line_are_added_to() -> None:
    """They have the highest priority, and are JSON."""
    made = Settings()
    made.set("DOWNLOADER_MIDDLEWARES", json.dumps({OTHER: 543}), "cmdline")
    made.set("SPIDER_MIDDLEWARES", json.dumps({SPIDER: 70}), "cmdline")
    Addon().update_settings(made)
    assert dict(made["DOWNLOADER_MIDDLEWARES"]) == {OTHER: 543, SimhashDownloaderMiddleware: 545}
    assert made.getpriority("DOWNLOADER_MIDDLEWARES") == SETTINGS_PRIORITIES["cmdline"]
    assert dict(made["SPIDER_MIDDLEWARES"]) == {SPIDER: 70, SimhashCallbackMiddleware: 10_000}


def test_other_reactor_is_refused_and_the_crawl_goes_on(site: Site, tmp_path: Path) -> None:
    done = run_crawl(tmp_path, site.urls(), TWISTED_REACTOR=SELECT)
    assert (done.paths, done.counted) == ([*ANSWERS], {})
    (line,) = [line for line in done.log.splitlines() if "scrapy_simhash needs asyncio" in line]
    assert "WARNING" in line
    assert "twisted.internet.asyncioreactor.AsyncioSelectorReactor" in line
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (HALF, "SPIDER_MIDDLEWARES, so no page is dropped"),
        (HALF | WITHOUT, "SPIDER_MIDDLEWARES, so no page is dropped"),
        (OTHER_HALF, "DOWNLOADER_MIDDLEWARES, so no page is judged"),
        *((HALF | OTHER_HALF, ""), (OTHER_HALF | {"SIMHASH_ENABLED": False}, "")),
    ],
)
async def test_half_an_installation_is_named_with_the_line_that_mends_it(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, given: dict[str, Any], said: str
) -> None:
    done = await crawl(tmp_path, site.urls(), ADDONS={}, **given)
    whole = given == HALF | OTHER_HALF
    assert done.paths == (["/one"] if whole else [*ANSWERS])
    if given == HALF:  # a kept page is done all the same
        assert [*list_states(tmp_path).values()] == ["done", "duplicate"]
    line = 'ADDONS = {"scrapy_simhash.Addon": 500} enables all of it'
    warned = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    told = [text for text in warned if text.startswith("scrapy_simhash is missing in ")]
    assert told == ([f"scrapy_simhash is missing in {said}; {line}"] if said else [])
