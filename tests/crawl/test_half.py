"""Half an installation: one of the two middlewares, by hand."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.crawling import crawl
from tests.helpers.pages import page
from tests.helpers.server import Site

ANSWERS = {"/one": page(1), "/again": page(1, menu="Other")}
JUDGING = {"scrapy_simhash.downloadermiddlewares.SimhashDownloaderMiddleware": 545}
DROPPING = {"scrapy_simhash.spidermiddlewares.SimhashSpiderMiddleware": 60}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"DOWNLOADER_MIDDLEWARES": JUDGING}, "SPIDER_MIDDLEWARES, so no page is dropped"),
        ({"SPIDER_MIDDLEWARES": DROPPING}, "DOWNLOADER_MIDDLEWARES, so no page is judged"),
        ({"DOWNLOADER_MIDDLEWARES": JUDGING, "SPIDER_MIDDLEWARES": DROPPING}, ""),
        ({"SPIDER_MIDDLEWARES": DROPPING, "SIMHASH_ENABLED": False}, ""),
    ],
)
async def test_half_an_installation_is_named_with_the_line_that_mends_it(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, given: dict[str, Any], said: str
) -> None:
    done = await crawl(tmp_path, [site.url("/one"), site.url("/again")], ADDONS={}, **given)
    whole = len(given) == 2 and "SIMHASH_ENABLED" not in given
    assert done.paths == (["/one"] if whole else ["/one", "/again"])
    line = 'ADDONS = {"scrapy_simhash.Addon": 500} enables all of it'
    warned = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    told = [text for text in warned if text.startswith("scrapy_simhash is missing in ")]
    assert told == ([f"scrapy_simhash is missing in {said}; {line}"] if said else [])
