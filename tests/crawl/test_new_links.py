"""Near-duplicates that lead to new pages, and pages that are never to be dropped."""

from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import Crawl, FollowingSpider, crawl
from tests.helpers.pages import page
from tests.helpers.server import Site, serve

pytestmark = pytest.mark.usefixtures("warm_worker")

# Two pages of a list whose text is the same, the second with other links; and a print view.
ANSWERS = {
    "/list?page=1": page(1, links=["/a", "/b", "/list?page=2", "/print"]),
    "/list?page=2": page(1, links=["/c", "/d", "/e", "/a"]),
    "/print": page(1, links=["/a", "/b", "/list?page=2"]),
    **{f"/{name}": page(10 + number) for number, name in enumerate("abcde")},
}


async def crawl_list(store: Path, site: Site, **settings: Any) -> Crawl:
    return await crawl(store, [site.url("/list?page=1")], FollowingSpider, **settings)


def near_duplicates(done: Crawl, key: str) -> dict[str, Any]:
    """Get one key of the decisions on near-duplicates, by the end of their URLs."""
    return {
        decision["url"].rpartition("/")[2]: decision[key]
        for decision in done.decisions
        if decision["status"] == "near_duplicate"
    }


async def test_links_of_a_near_duplicate_are_ignored_by_default(tmp_path: Path) -> None:
    with serve(ANSWERS) as site:
        done = await crawl_list(tmp_path, site)
    assert set(done.paths) == {"/list?page=1", "/a", "/b"}
    assert near_duplicates(done, "new_links") == {"list?page=2": 0.75, "print": 0.0}


async def test_new_links_are_followed_when_asked_for(tmp_path: Path) -> None:
    with serve(ANSWERS) as site:
        done = await crawl_list(
            tmp_path,
            site,
            SIMHASH_FOLLOW_NEW_LINKS=True,
        )
    assert set(done.paths) == {"/list?page=1", "/a", "/b", "/c", "/d", "/e"}
    assert done.counted["items_dropped"] == 1
    assert done.counted["dropped"] == 1
    assert near_duplicates(done, "action") == {"list?page=2": "follow", "print": "drop"}


async def test_items_pass_with_ignored_outlinks_and_new_links(tmp_path: Path) -> None:
    with serve(ANSWERS) as site:
        done = await crawl_list(
            tmp_path,
            site,
            SIMHASH_ACTION="ignore-outlinks",
            SIMHASH_FOLLOW_NEW_LINKS=True,
        )
    assert set(done.paths) == set(ANSWERS)
    assert "items_dropped" not in done.counted


async def test_never_drop(tmp_path: Path) -> None:
    with serve(ANSWERS) as site:
        done = await crawl_list(
            tmp_path,
            site,
            SIMHASH_NEVER_DROP=[r"/list\?page=", "^ftp:"],
        )
    assert set(done.paths) == set(ANSWERS)
    assert done.counted["skipped/never_drop"] == 2
    with open_store(str(tmp_path), readonly=True) as store:
        assert store.stats()["documents"] == len(ANSWERS) - 2


@pytest.mark.slow
async def test_scope_language_keeps_languages_apart(tmp_path: Path) -> None:
    english = "The house on the hill was sold to an old man who lived in the town. "
    answers = {
        "/en": page(1),
        "/undeclared": f"<!DOCTYPE html><html><body><p>{english * 9}</p></body></html>",
        "/de": page(1).replace('lang="en"', 'lang="de-AT"'),
        "/de-copy": page(1).replace('lang="en"', 'lang="de"'),
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, site.urls(), SIMHASH_SCOPE="language")
    scopes = {decision["url"].rpartition("/")[2]: decision["scope"] for decision in done.decisions}
    assert scopes == {"en": "en", "undeclared": "en", "de": "de", "de-copy": "de"}
    assert "/de" in done.paths
    assert "/de-copy" not in done.paths
