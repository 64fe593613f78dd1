"""Scrapy's periodic line with the near-duplicates in it."""

import logging
from typing import Any

import pytest
from scrapy.extensions.logstats import LogStats
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.misc import load_object
from scrapy.utils.spider import DefaultSpider
from scrapy.utils.test import get_crawler

from scrapy_simhash import Addon
from scrapy_simhash.crawl.end import SimhashLogStats

LOGGER = logging.getLogger("scrapy.extensions.logstats")
SCRAPYS = "scrapy.extensions.logstats.LogStats"


class OwnLogStats(LogStats):
    """Of a user."""


def enabled(extensions: dict[Any, Any]) -> dict[Any, Any]:
    """List what is like LogStats after the add-on did its work, with its position."""
    settings = Settings({"EXTENSIONS": extensions})
    Addon().update_settings(settings)
    merged = settings.get_component_priority_dict_with_base("EXTENSIONS")
    classes = [(load_object(key), position) for key, position in merged.items()]
    assert len(classes) == len(dict(classes))
    return {key: position for key, position in classes if issubclass(key, LogStats)}


@pytest.mark.parametrize(
    ("extensions", "expected"),
    [
        ({}, {SimhashLogStats: 0}),
        ({"scrapy.extensions.closespider.CloseSpider": None}, {SimhashLogStats: 0}),
        ({SCRAPYS: 700}, {SimhashLogStats: 700}),
        ({LogStats: 700}, {SimhashLogStats: 700}),
        ({SCRAPYS: None}, {}),
        ({LogStats: None}, {}),
        ({SCRAPYS: None, OwnLogStats: 5}, {OwnLogStats: 5}),
    ],
)
def test_choice_of_the_user_stays(extensions: dict[Any, Any], expected: dict[Any, int]) -> None:
    assert enabled(extensions) == expected


def test_line_is_that_of_scrapy_and_more(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    counts = {"response_received_count": 7, "item_scraped_count": 3}
    collector = MemoryStatsCollector(get_crawler())
    collector.set_stats(counts | {"simhash/pages": 6, "simhash/near_duplicate": 2})
    for extension in (LogStats, SimhashLogStats):
        made = extension(collector)
        made.pagesprev = made.itemsprev = 0
        made.log(DefaultSpider())
        assert LOGGER.filters == []
    plain, ours = caplog.records
    assert ours.getMessage() == f"{plain.getMessage()}, near-duplicates 2 (33.3 %)"
    assert ours.name == plain.name
    # One message for all lines, so that collectors of structured logs can group them.
    assert isinstance(ours.args, dict)
    assert ours.args["near_duplicates"] == 2
