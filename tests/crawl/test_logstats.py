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
from scrapy_simhash.crawl.logstats import SimhashLogStats, describe_end, list_warnings

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


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, LOGGER.name)
    return caplog


def log_both(
    log: pytest.LogCaptureFixture, **stats: int
) -> tuple[logging.LogRecord, logging.LogRecord]:
    """Let Scrapy's extension and ours log a line about the same crawl."""
    crawler = get_crawler()
    collector = MemoryStatsCollector(crawler)
    collector.set_stats({"response_received_count": 7, "item_scraped_count": 3})
    for key, count in stats.items():
        collector.set_value(f"simhash/{key}", count)
    for extension in (LogStats, SimhashLogStats):
        made = extension(collector)
        made.pagesprev = made.itemsprev = 0
        made.log(DefaultSpider())
        assert LOGGER.filters == []
    plain, ours = log.records
    return plain, ours


def test_line_is_that_of_scrapy_and_more(log: pytest.LogCaptureFixture) -> None:
    plain, ours = log_both(log, pages=6, near_duplicate=2)
    assert ours.getMessage() == f"{plain.getMessage()}, near-duplicates 2 (33.3 %)"
    assert ours.name == plain.name
    # One message for all lines, so that collectors of structured logs can group them.
    assert isinstance(ours.args, dict)
    assert ours.args["near_duplicates"] == 2


@pytest.mark.parametrize(
    ("stats", "acted", "expected"),
    [
        ({}, {}, "No page was judged"),
        ({"unjudged/failed": 1_004}, {}, "No page was judged (1,004 failed)"),
        ({"pages": 1}, {}, "No near-duplicates among 1 page"),
        ({"pages": 1_800}, {}, "No near-duplicates among 1,800 pages"),
        (
            {"pages": 180, "dropped": 37, "bytes_dropped": 1_204_511, "links_dropped": 512},
            {"drop": 37},
            "Dropped 37 near-duplicates of 180 pages (1.2 MB, 512 links)",
        ),
        ({"pages": 9}, {"flag": 1}, "Flagged 1 near-duplicate of 9 pages"),
        (
            {"pages": 9, "outlinks_ignored": 1_000},
            {"ignore-outlinks": 2},
            "Ignored the outlinks of 2 near-duplicates of 9 pages (1,000 requests)",
        ),
        (
            {
                "pages": 9,
                "dropped": 3,
                "bytes_dropped": 900,
                "links_dropped": 1,
            },
            {"drop": 1, "follow": 2, "flag": 3},
            (
                "Dropped 3 near-duplicates of 9 pages (900 bytes, 1 link; followed the links of 2 "
                "of them), flagged 3"
            ),
        ),
        (
            {"pages": 9, "failed/text": 2},
            {},
            "No near-duplicates among 9 pages, found no main text in 2 pages",
        ),
        (
            {"pages": 9, "near_duplicate": 1},
            {"pass": 1},
            "Kept 1 near-duplicate of 9 pages for another callback or spider",
        ),
    ],
)
def test_a_crawl_in_one_line(stats: dict[str, int], acted: dict[str, int], expected: str) -> None:
    collector = MemoryStatsCollector(get_crawler())
    collector.set_stats({f"simhash/{key}": count for key, count in stats.items()})
    assert describe_end(collector, acted) == expected


@pytest.mark.parametrize(
    ("stats", "acted", "expected"),
    [
        ({"pages": 100, "new": 50, "dropped": 50}, {}, ""),
        ({"pages": 9, "new": 1, "dropped": 8}, {}, ""),
        ({"pages": 100, "new": 1, "dropped": 99}, {"follow": 9}, "99% of the pages were dropped"),
        ({"pages": 2, "revisit/unchanged": 1, "dropped": 1}, {}, "no page was new"),
        ({"pages": 2, "revisit/changed": 1, "dropped": 1}, {}, ""),
        ({"pages": 2, "revisit/undelivered": 1, "dropped": 1}, {}, ""),
        ({"pages": 1, "dropped": 1, "skipped/never_drop": 5}, {}, ""),
        ({"pages": 1, "dropped": 1, "unjudged/timed_out": 1}, {}, ""),
        ({"pages": 1, "dropped": 1, "skipped/no_callback": 1}, {}, "no page was new"),
        ({"pages": 2, "revisit/unchanged": 2}, {}, ""),
        ({"pages": 9, "unjudged/failed": 2}, {}, ""),
        ({"pages": 9, "unjudged/store_unavailable": 2}, {}, "2 pages passed unjudged"),
        ({"pages": 2, "near_duplicate": 2, "dropped": 1}, {"pass": 1}, ""),
        (
            {"pages": 2, "new": 2, "links/only_on_dropped_pages": 1},
            {"ignore-outlinks": 1, "flag": 1},
            "1 link of near-duplicates stayed",
        ),
        (
            {"pages": 2, "links/only_on_dropped_pages": 1},
            {"flag": 1},
            "dropping them would leave 1 link unseen (listed at level DEBUG; `scrapy simhash ",
        ),
    ],
)
def test_what_somebody_should_look_at_is_told_with_a_command(
    stats: dict[str, int], acted: dict[str, int], expected: str
) -> None:
    collector = MemoryStatsCollector(get_crawler())
    collector.set_stats({f"simhash/{key}": count for key, count in stats.items()})
    warnings = "; ".join(list_warnings(collector, acted, {}))
    assert expected in warnings
    assert ("`scrapy simhash " in warnings) == bool(expected)


@pytest.mark.parametrize(("links", "part"), [(3, ""), (4, "3 of them ")])
def test_the_page_with_most_unseen_links_is_named(links: int, part: str) -> None:
    collector = MemoryStatsCollector(get_crawler())
    collector.set_stats({"simhash/links/only_on_dropped_pages": links})
    (said,) = list_warnings(collector, {"drop": 1}, {"/a": ["/1"], "/b": ["/2", "/3", "/4"]})
    assert f"{links} links of near-duplicates stayed unseen, {part}on '/b' (listed" in said
