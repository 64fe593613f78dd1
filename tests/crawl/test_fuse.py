"""Most pages of a callback begin to repeat others, unlike in its last crawl: one warning."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.crawl import end
from scrapy_simhash.stores import documents
from tests.helpers.crawling import PagesSpider, crawl
from tests.helpers.needing import slow_but
from tests.helpers.pages import make_page, make_words
from tests.helpers.server import Answer, Site, serve

PAGES = 8


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end, "_RECENT", PAGES)
    monkeypatch.setattr(documents, "LEAST_OF_SHARE", PAGES)


@pytest.fixture
def site() -> Iterator[Site]:
    """A site of which each page has a text, until `break_down`."""
    pages = {f"/{n}": Answer(make_page(make_words(n)).encode()) for n in range(2 * PAGES)}
    with serve(pages) as served:
        yield served


def break_down(site: Site, paths: list[str]) -> None:
    """Let a site answer with one page for all."""
    site.answers |= dict.fromkeys(paths, Answer(make_page(make_words(99)).encode()))


def rename(site: Site) -> None:
    """Let all pages stand at other addresses."""
    site.answers = {f"{path}?again": answer for path, answer in site.answers.items()}


def take_warnings(log: pytest.LogCaptureFixture) -> list[str]:
    said = [each.getMessage() for each in log.records if "Of the last" in each.getMessage()]
    log.clear()
    return said


@pytest.mark.parametrize(
    ("action", "processes"), slow_but([("flag", 0)], [("drop", 2), ("flag", 0)])
)
async def test_it_names_both_shares_and_the_first_three(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, action: str, processes: int
) -> None:
    settings: dict[str, Any] = {"SIMHASH_ACTION": action, "SIMHASH_PROCESSES": processes}
    await crawl(tmp_path, site.urls(), **settings)
    assert take_warnings(caplog) == []
    paths = [*site.answers]
    break_down(site, paths[PAGES:])
    rename(site)
    await crawl(tmp_path, site.urls(), SIMHASH_INCREMENTAL=False, **settings)
    (said,) = take_warnings(caplog)
    assert said.startswith(f"Of the last {PAGES} pages of 'parse', 5 repeat another one; ")
    assert "of the 16 pages of its last crawl, under 1 % did" in said
    assert [url in said for url in map(site.url, site.answers)].count(True) == 3


async def test_who_dropped_many_before_is_not_warned(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    break_down(site, [*site.answers][PAGES:])
    await crawl(tmp_path, site.urls())
    await crawl(tmp_path, site.urls())
    assert take_warnings(caplog) == []


async def test_other_callbacks_and_short_crawls_say_nothing(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await crawl(tmp_path, site.urls(*[*site.answers][: PAGES - 1]))
    break_down(site, [*site.answers])
    await crawl(tmp_path, site.urls())
    await crawl(tmp_path, site.urls(), type("Other", (PagesSpider,), {"name": "other"}))
    assert take_warnings(caplog) == []


async def test_a_trial_of_some_pages_takes_the_place_of_no_crawl(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await crawl(tmp_path, site.urls(), SIMHASH_PROCESSES=0)  # patched here
    await crawl(tmp_path, site.urls(*[*site.answers][:3]), SIMHASH_PROCESSES=0)
    break_down(site, [*site.answers][PAGES:])
    rename(site)
    await crawl(tmp_path, site.urls(), SIMHASH_PROCESSES=0)
    assert len(take_warnings(caplog)) == 1
