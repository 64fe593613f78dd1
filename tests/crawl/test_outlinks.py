"""Links of near-duplicates whose original does not give them in this crawl."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scrapy.http import Response

from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import FollowingSpider, crawl
from tests.helpers.pages import page
from tests.helpers.server import serve

pytestmark = pytest.mark.usefixtures("warm_worker")

LEAVES = [f"/leaf{number}" for number in range(3)]
ANSWERS = {
    **{path: page(1, links=LEAVES) for path in ("/list", "/copy1", "/copy2")},
    **{path: page(10 + number) for number, path in enumerate(LEAVES)},
}


@pytest.mark.parametrize(
    ("action", "copies", "actions"),
    [
        ("drop", [], ["follow", "drop"]),
        ("ignore-outlinks", ["/copy1", "/copy2"], ["flag", "ignore-outlinks"]),
    ],
)
async def test_links_of_a_page_that_an_earlier_crawl_kept_are_followed_once(
    tmp_path: Path, action: str, copies: list[str], actions: list[str]
) -> None:
    """The first near-duplicate gives its links, and not its items; later ones give neither."""
    with serve(ANSWERS) as site:
        await crawl(tmp_path, [site.url("/list")], FollowingSpider)
        urls = [site.url("/copy1"), site.url("/copy2")]
        done = await crawl(tmp_path, urls, FollowingSpider, SIMHASH_ACTION=action)
    assert sorted(done.paths) == [*copies, *LEAVES]
    assert [each["action"] for each in done.decisions[:2]] == actions
    # The log, the report and the closing line count the same drops.
    assert done.counted.get("dropped", 0) == 2 * (not copies)


async def test_links_of_a_bulk_loaded_page_are_followed_once(tmp_path: Path) -> None:
    """Nothing is known of it but its fingerprint, which a copy need not have."""
    with serve(ANSWERS) as site:
        done = await crawl(tmp_path / "other", [site.url("/list")])
        with open_store(str(tmp_path / "other"), readonly=True) as store:
            seed = store.seed
        loaded = int(done.decisions[0]["fingerprint"], 16) ^ 0b11
        with open_store(str(tmp_path / "s"), confirm=0.9, seed=seed) as store:
            store.bulk_load(np.array([loaded], np.uint64))
        done = await crawl(tmp_path / "s", [*map(site.url, ("/copy1", "/copy2"))], FollowingSpider)
    assert sorted(done.paths) == LEAVES
    assert [each["action"] for each in done.decisions[:2]] == ["follow", "drop"]
    assert done.decisions[0]["match_fingerprint"] == f"{loaded:016x}"


async def test_a_job_that_is_resumed_is_the_same_crawl(tmp_path: Path) -> None:
    settings = {"JOBDIR": str(tmp_path / "job")}
    with serve(ANSWERS) as site:
        await crawl(tmp_path, [site.url("/list")], FollowingSpider, **settings)
        again = await crawl(tmp_path, [site.url("/copy1")], FollowingSpider, **settings)
        other = await crawl(tmp_path, [site.url("/copy2")], FollowingSpider)
    assert [each["action"] for each in again.decisions] == ["drop"]
    assert other.decisions[0]["action"] == "follow"


class FailingSpider(FollowingSpider):
    """Fails on the first copy, after it gave its first link."""

    name = "following"

    def parse(self, response: Response) -> Iterator[Any]:
        for number, entry in enumerate(super().parse(response)):
            if response.url.endswith("/copy1") and number == 2:
                raise ValueError("as a callback may")
            yield entry


async def test_if_the_callback_fails_the_next_copy_gives_its_links(tmp_path: Path) -> None:
    with serve(ANSWERS) as site:
        await crawl(tmp_path, [site.url("/list")], FollowingSpider)
        done = await crawl(tmp_path, [site.url("/copy1"), site.url("/copy2")], FailingSpider)
    assert sorted(done.paths) == LEAVES
    actions = {each["url"].rpartition("/")[2]: each["action"] for each in done.decisions}
    assert (actions["copy1"], actions["copy2"]) == ("follow", "follow")
