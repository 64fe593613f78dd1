"""Near-duplicates of pages on other sites, such as those of a mirror."""

from pathlib import Path
from typing import Any

from tests.helpers.crawling import Crawl, FollowingSpider, crawl
from tests.helpers.pages import page
from tests.helpers.server import Site

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


async def test_an_incremental_crawl_drops_them_as_in_the_paper(site: Site, tmp_path: Path) -> None:
    done = await crawl_mirror_first(site, tmp_path, SIMHASH_INCREMENTAL=True)
    assert done.paths == []


async def test_in_the_scope_of_a_site_the_mirror_is_not_asked(site: Site, tmp_path: Path) -> None:
    done = await crawl_mirror_first(site, tmp_path, SIMHASH_SCOPE="site")
    assert len(done.paths) == 2 * PAGES
    assert "near_duplicate" not in done.counted
