"""Enabling: by one line, by hand, or not at all; and on which event loops."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_simhash import Addon
from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
from scrapy_simhash.spidermiddlewares import SimhashSpiderMiddleware
from scrapy_simhash.stores import open_store
from tests.helpers.crawling import crawl
from tests.helpers.crawlscript import run_crawl
from tests.helpers.pages import page
from tests.helpers.server import Site, serve

DOWNLOADER = "scrapy_simhash.downloadermiddlewares.SimhashDownloaderMiddleware"
SPIDER = "scrapy_simhash.spidermiddlewares.SimhashSpiderMiddleware"
SELECT = "twisted.internet.selectreactor.SelectReactor"
PATHS = ("/one", "/one-again")


@pytest.fixture
def site() -> Iterator[Site]:
    with serve({"/one": page(1), "/one-again": page(1, menu="Other menu")}) as site:
        yield site


def added(settings: dict[str, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    made = Settings(settings)
    Addon().update_settings(made)
    return dict(made["DOWNLOADER_MIDDLEWARES"]), dict(made["SPIDER_MIDDLEWARES"])


def test_addon_puts_both_middlewares_in_place() -> None:
    assert added({}) == ({SimhashDownloaderMiddleware: 545}, {SimhashSpiderMiddleware: 60})


def test_others_stay_where_they_are() -> None:
    other = "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware"
    downloader, spider = added({"DOWNLOADER_MIDDLEWARES": {other: 543}})
    assert downloader == {other: 543, SimhashDownloaderMiddleware: 545}
    assert spider == {SimhashSpiderMiddleware: 60}


@pytest.mark.parametrize("position", [400, 1000, None])
@pytest.mark.parametrize("by_class", [True, False])
def test_position_of_the_user_stays(position: int | None, by_class: bool) -> None:
    downloader = {SimhashDownloaderMiddleware if by_class else DOWNLOADER: position}
    spider = {SimhashSpiderMiddleware if by_class else SPIDER: position}
    assert added({"DOWNLOADER_MIDDLEWARES": downloader, "SPIDER_MIDDLEWARES": spider}) == (
        downloader,
        spider,
    )


def of(site: Site) -> list[str]:
    return [site.url(path) for path in PATHS]


@pytest.mark.usefixtures("warm_worker")
async def test_listing_both_by_hand_works(site: Site, tmp_path: Path) -> None:
    done = await crawl(
        tmp_path,
        of(site),
        ADDONS={},
        DOWNLOADER_MIDDLEWARES={DOWNLOADER: 545},
        SPIDER_MIDDLEWARES={SPIDER: 60},
    )
    assert done.paths == ["/one"]
    assert done.counted["dropped"] == 1


@pytest.mark.usefixtures("warm_worker")
async def test_listed_by_hand_and_by_the_addon_is_one(site: Site, tmp_path: Path) -> None:
    done = await crawl(
        tmp_path, of(site), DOWNLOADER_MIDDLEWARES={DOWNLOADER: 545}, SPIDER_MIDDLEWARES={SPIDER: 9}
    )
    assert done.counted["pages"] == 2
    assert done.paths == ["/one"]


@pytest.mark.usefixtures("warm_worker")
async def test_without_the_spider_middleware_pages_are_flagged_and_done(
    site: Site, tmp_path: Path
) -> None:
    done = await crawl(tmp_path, of(site), SPIDER_MIDDLEWARES={SPIDER: None})
    assert [item["flags"] for item in done.items] == [[], ["near_duplicate"]]
    with open_store(str(tmp_path), readonly=True) as store:
        assert store.stats()["done"] == 1


@pytest.mark.usefixtures("warm_worker")
async def test_without_the_downloader_middleware_nothing_happens(
    site: Site, tmp_path: Path
) -> None:
    done = await crawl(tmp_path / "store", of(site), DOWNLOADER_MIDDLEWARES={DOWNLOADER: None})
    assert done.paths == list(PATHS)
    assert done.counted == {}
    assert "log_count/ERROR" not in done.stats
    assert not (tmp_path / "store").exists()


# The default reactor is that of `test_crawl_processes` and `test_crawl_input`.
@pytest.mark.slow
def test_no_reactor_works(site: Site, tmp_path: Path) -> None:
    done = run_crawl(tmp_path, of(site), TWISTED_REACTOR_ENABLED=False)
    assert done.paths == ["/one"]
    assert done.counted["dropped"] == 1


def test_other_reactor_is_refused_and_the_crawl_goes_on(site: Site, tmp_path: Path) -> None:
    done = run_crawl(tmp_path, of(site), TWISTED_REACTOR=SELECT)
    assert done.paths == list(PATHS)
    assert done.counted == {}
    (line,) = [line for line in done.log.splitlines() if "scrapy_simhash needs asyncio" in line]
    assert "WARNING" in line
    assert "twisted.internet.asyncioreactor.AsyncioSelectorReactor" in line
    assert not (tmp_path / "store").exists()
