"""Near-duplicates of pages on other sites: a mirror must not make the original vanish."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scrapy.http import Request

from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import Crawl, FollowingSpider, crawl
from tests.helpers.documents import open_lmdb
from tests.helpers.pages import page
from tests.helpers.server import Site

pytestmark = pytest.mark.usefixtures("warm_worker")

PAGES = 4


# Some pages, a print view of the first one, and pages they link to.
ANSWERS = {
    **{f"/{number}": page(number, links=[f"/n{number}"]) for number in range(PAGES)},
    **{f"/n{number}": page(10 + number) for number in range(PAGES)},
    "/print": page(0, menu="Print"),
}


def on_mirror(site: Site, path: str) -> str:
    """The same server under another name, which is another site."""
    return site.url(path).replace("127.0.0.1", "localhost")


async def crawl_mirror_first(site: Site, store: Path, **settings: Any) -> Crawl:
    """Crawl copies of some pages on a mirror, then the originals and what these link to."""
    settings["SIMHASH_ACROSS_SPIDERS"] = True
    mirrored = [on_mirror(site, f"/{number}") for number in range(PAGES)]
    first = await crawl(store, mirrored, **settings)
    assert first.counted == {"pages": PAGES, "new": PAGES}
    return await crawl(
        store, [site.url(f"/{n}") for n in range(PAGES)], FollowingSpider, **settings
    )


async def test_poisoned_by_a_mirror_nothing_vanishes_under_flag(site: Site, tmp_path: Path) -> None:
    done = await crawl_mirror_first(site, tmp_path, SIMHASH_CROSS_SITE="flag")
    assert set(done.paths) == {f"/{n}" for n in range(PAGES)} | {f"/n{n}" for n in range(PAGES)}
    flagged = [each for each in done.decisions if each["status"] == "near_duplicate"]
    assert [each["action"] for each in flagged] == ["flag"] * PAGES
    assert [each["match_url"] for each in flagged] == [
        on_mirror(site, f"/{number}") for number in range(PAGES)
    ]
    assert [item["flags"] for item in done.items if item["path"] == "/0"] == [["near_duplicate"]]
    assert done.counted["near_duplicate_cross_site"] == PAGES
    assert "dropped" not in done.counted


async def test_by_default_they_are_dropped_as_in_the_paper(site: Site, tmp_path: Path) -> None:
    done = await crawl_mirror_first(site, tmp_path)
    # Their links are followed, because the pages that were kept are those of an earlier crawl.
    assert sorted(done.paths) == [f"/n{n}" for n in range(PAGES)]
    assert done.counted["items_dropped"] == done.counted["near_duplicate_cross_site"] == PAGES


async def test_in_the_scope_of_a_site_the_mirror_is_not_asked(site: Site, tmp_path: Path) -> None:
    done = await crawl_mirror_first(site, tmp_path, SIMHASH_SCOPE="site")
    assert len(done.paths) == 2 * PAGES
    assert "near_duplicate" not in done.counted


async def test_within_a_site_near_duplicates_are_dropped_all_the_same(
    site: Site, tmp_path: Path
) -> None:
    await crawl(tmp_path, [site.url("/0")])
    urls = [site.url("/print"), on_mirror(site, "/print")]
    done = await crawl(tmp_path, urls, SIMHASH_CROSS_SITE="flag")
    assert done.paths == ["/print"]
    actions = {decision["url"]: decision["action"] for decision in done.decisions}
    assert actions == dict(zip(urls, ["follow", "flag"], strict=True))
    assert done.counted["near_duplicate_cross_site"] == 1


@pytest.mark.parametrize(
    "settings", [{"SIMHASH_ACTION": "ignore-outlinks"}, {"SIMHASH_FOLLOW_NEW_LINKS": True}]
)
async def test_nothing_of_it_is_dropped_whatever_the_action(
    site: Site, tmp_path: Path, settings: dict[str, Any]
) -> None:
    done = await crawl_mirror_first(site, tmp_path, SIMHASH_CROSS_SITE="flag", **settings)
    assert len(done.paths) == 2 * PAGES
    assert "items_dropped" not in done.counted
    assert "outlinks_ignored" not in done.counted


async def test_request_that_asks_to_drop_does_not_undo_it(site: Site, tmp_path: Path) -> None:
    await crawl(tmp_path, [on_mirror(site, "/0")])
    asked = Request(site.url("/0"), meta={"simhash_action": "drop"})
    done = await crawl(tmp_path, [asked], SIMHASH_CROSS_SITE="flag")
    assert done.paths == ["/0"]


async def test_match_without_url_counts_as_another_site(site: Site, tmp_path: Path) -> None:
    first = await crawl(tmp_path / "first", [site.url("/0")])
    fingerprint = int(first.decisions[0]["fingerprint"], 16)
    with open_lmdb(tmp_path / "first") as store:
        seed = store.seed
    for number, (cross_site, paths) in enumerate([("drop", []), ("flag", ["/0"])]):
        folder = tmp_path / str(number)
        with open_store(str(folder), distance=None, confirm=0.8, seed=seed) as store:
            store.bulk_load(np.array([fingerprint], np.uint64))
        done = await crawl(folder, [site.url("/0")], SIMHASH_CROSS_SITE=cross_site)
        assert done.decisions[0]["match_url"] is None
        assert done.paths == paths
        assert done.counted["near_duplicate_cross_site"] == 1
