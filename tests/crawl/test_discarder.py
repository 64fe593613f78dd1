"""Crawls beside duplicate-url-discarder, whose rules change the identities of pages."""

import json
from pathlib import Path

import pytest

from tests.helpers.crawling import Crawl, FollowingSpider, crawl, path_of
from tests.helpers.pages import page
from tests.helpers.server import Site

pytestmark = pytest.mark.usefixtures("public_suffixes")
PAGES = 6
PLUGIN = "scrapy_simhash.Addon"
BOTH = {PLUGIN: 500, "duplicate_url_discarder.Addon": 600}
ANSWERS: dict[str, str] = {
    "/": page(90, links=[f"/p{n}{end}" for n in range(PAGES) for end in ("?sid=1", "", "?sid=2")]),
    **{
        f"/p{number}{end}": page(number, menu=f"Session {end}" if end else "Menu")
        for number in range(PAGES)
        for end in ("", "?sid=1", "?sid=2")
    },
}


@pytest.fixture
def rules(site: Site, tmp_path: Path) -> Path:
    """A list that drops the session."""
    rule = {"order": 1, "processor": "queryRemoval", "args": ["sid"]}
    pattern = {"include": [site.url("/").split("/")[2]]}
    (tmp_path / "rules.json").write_text(json.dumps([{**rule, "urlPattern": pattern}]))
    return tmp_path / "rules.json"


async def crawl_with(site: Site, store: Path, rules: Path, *, discards: bool) -> Crawl:
    given = {"ADDONS": BOTH if discards else {PLUGIN: 500}, "DUD_LOAD_RULE_PATHS": [str(rules)]}
    return await crawl(store, site.urls("/"), FollowingSpider, **given)


EVERY = {"/", *(f"/p{number}" for number in range(PAGES))}


@pytest.mark.parametrize("discards", [(True, False), (False, True), (True, True)], ids=str)
async def test_a_second_crawl_drops_nothing_that_it_did_not_deliver(
    site: Site, tmp_path: Path, rules: Path, discards: tuple[bool, bool]
) -> None:
    delivered = set[str]()
    for each in discards:
        asked = len(site.asked)
        done = await crawl_with(site, tmp_path / "store", rules, discards=each)
        assert len(site.asked) - asked == 1 + PAGES * (1 if each else 3)
        delivered |= {*done.paths}
        for line in done.decisions:
            if line["action"] == "drop":
                assert path_of(line["match_url"]) in delivered
                assert line["match_url"].partition("?")[0] == line["url"].partition("?")[0]
    assert {path.partition("?")[0] for path in delivered} == EVERY
