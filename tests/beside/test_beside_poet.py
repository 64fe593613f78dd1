"""Beside scrapy-poet: callbacks that take page objects, and not the page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.beside import settings_of
from tests.helpers.crawling import Crawl, crawl
from tests.helpers.needing import require_modules
from tests.helpers.pages import page
from tests.helpers.server import Site, serve

pytestmark = pytest.mark.slow


@pytest.fixture
def site() -> Iterator[Site]:
    answers = {
        "/page": page(1, title="First"),
        "/copy": page(1, title="First", menu="Other"),
        "/other": page(2, title="Second"),
        "/nothing": page(3),
        "/client": page(4),
        "/more": page(2, menu="More"),
    }
    with serve(answers) as site:
        yield site


async def crawl_with(spider: str, site: Site, folder: Path, *paths: str) -> Crawl:
    require_modules("beside", "scrapy_poet")
    from tests.helpers import poetspiders  # noqa: PLC0415

    urls = [site.url(path) for path in paths]
    chosen: Any = getattr(poetspiders, spider)
    return await crawl(folder, urls, chosen, **settings_of("beside.md", "ADDONS"))


async def test_page_objects_of_near_duplicates_reach_no_callback(
    site: Site, tmp_path: Path
) -> None:
    done = await crawl_with("PoetSpider", site, tmp_path, "/page", "/copy", "/other")
    assert {item["path"]: item["title"] for item in done.items} == {
        "/page": "First",
        "/other": "Second",
    }
    assert done.counted["dropped"] == 1
    assert "log_count/ERROR" not in done.stats


async def test_page_that_is_not_downloaded_is_not_judged(site: Site, tmp_path: Path) -> None:
    done = await crawl_with("PoetSpider", site, tmp_path, "/nothing")
    assert done.paths == ["/nothing"]
    assert site.asked == []
    assert done.counted == {"not_judged/not_html": 1}


async def test_page_asked_for_by_two_page_objects_is_one_of_each(
    site: Site, tmp_path: Path
) -> None:
    done = await crawl_with("TwiceSpider", site, tmp_path, "/page", "/copy")
    assert site.asked == ["/page", "/page", "/copy", "/copy"]
    assert done.items[0]["title"] == "First"
    assert done.items[1]["words"] == 300
    assert done.paths == ["/page", "/page"]
    assert done.counted["new"] == 2  # one for each callback
    assert done.counted["dropped"] == 2


async def test_what_a_page_object_asks_for_itself_is_not_looked_at(
    site: Site, tmp_path: Path
) -> None:
    done = await crawl_with("PoetSpider", site, tmp_path, "/other", "/client")
    assert done.paths == ["/other", "/client", "more"]
    assert done.items[-1]["bytes"] == len(site.answers["/more"].body)
    assert done.verdicts["/more"] == "not_judged no_callback"
