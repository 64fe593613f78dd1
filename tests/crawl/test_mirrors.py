"""Near-duplicates of pages on other sites, such as those of a mirror."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import Crawl, FollowingSpider, crawl
from tests.helpers.documents import open_lmdb
from tests.helpers.pages import page
from tests.helpers.server import Site

pytestmark = pytest.mark.usefixtures("warm_worker")

PAGES = 4


# Some pages, and pages they link to.
ANSWERS = {
    **{f"/{number}": page(number, links=[f"/n{number}"]) for number in range(PAGES)},
    **{f"/n{number}": page(10 + number) for number in range(PAGES)},
}


async def crawl_mirror_first(site: Site, store: Path, **settings: Any) -> Crawl:
    """Crawl copies of some pages on a mirror, then the originals and what these link to."""
    settings["SIMHASH_ACROSS_SPIDERS"] = True
    urls = [site.url(f"/{number}") for number in range(PAGES)]
    # The same server under another name, which is another site.
    mirrored = [url.replace("127.0.0.1", "localhost") for url in urls]
    first = await crawl(store, mirrored, **settings)
    assert first.counted == {"pages": PAGES, "new": PAGES}
    return await crawl(store, urls, FollowingSpider, **settings)


async def test_by_default_they_are_dropped_as_in_the_paper(site: Site, tmp_path: Path) -> None:
    done = await crawl_mirror_first(site, tmp_path)
    # Their links are followed, because the pages that were kept are those of an earlier crawl.
    assert sorted(done.paths) == [f"/n{n}" for n in range(PAGES)]


async def test_in_the_scope_of_a_site_the_mirror_is_not_asked(site: Site, tmp_path: Path) -> None:
    done = await crawl_mirror_first(site, tmp_path, SIMHASH_SCOPE="site")
    assert len(done.paths) == 2 * PAGES
    assert "near_duplicate" not in done.counted


async def test_a_match_may_have_no_url(site: Site, tmp_path: Path) -> None:
    first = await crawl(tmp_path / "first", [site.url("/0")])
    fingerprint = int(first.decisions[0]["fingerprint"], 16)
    with open_lmdb(tmp_path / "first") as store:
        seed = store.seed
    with open_store(str(tmp_path / "s"), distance=None, confirm=0.8, seed=seed) as store:
        store.bulk_load(np.array([fingerprint], np.uint64))
    done = await crawl(tmp_path / "s", [site.url("/0")])
    assert done.decisions[0]["match_url"] is None
    assert done.paths == []
