"""Pages whose items the pipelines drop on purpose (`DropItem`): a copy's may be wanted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.exceptions import DropItem
from scrapy.http import Response
from scrapy.pipelines.files import FilesPipeline

from scrapy_simhash._printable import plural
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import FollowingSpider, PagesSpider, crawl, path_of
from tests.helpers.pages import make_groups, page
from tests.helpers.server import Answer, Site, serve

pytestmark = pytest.mark.usefixtures("warm_worker")

PRODUCTS: dict[str, dict[str, Any]] = {
    "/first": {"id": 1, "price": 5, "file_urls": ["/good"]},
    # What each pipeline drops, and copies of it, of which they take the second one.
    "/bad": {"id": 1, "price": None, "file_urls": ["/missing"]},
    "/bad-again": {"id": 1, "price": None, "file_urls": ["/missing"]},
    "/good-again": {"id": 2, "price": 7, "file_urls": ["/good"]},
}
ANSWERS = {"/first": page(1)} | {path: page(2, menu=path) for path in [*PRODUCTS][1:]}


class DuplicatesPipeline:
    """As the documentation of Scrapy has it."""

    def __init__(self) -> None:
        self.ids_seen: set[int] = set()

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["id"] in self.ids_seen:
            raise DropItem(f"Item ID already seen: {item}")
        self.ids_seen.add(item["id"])
        return item


class PricePipeline:
    """As the documentation of Scrapy has it."""

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if not item["price"]:
            raise DropItem("Missing price")
        return item


class PicturesPipeline(FilesPipeline):
    """Drops what has no file, as the documentation of Scrapy has it."""

    def item_completed(self, results: list[Any], item: Any, info: Any) -> Any:  # noqa: ARG002
        if not any(found for found, _ in results):
            raise DropItem("Item contains no files")
        return item


class DroppingPipeline:
    """Drops all that it gets."""

    def process_item(self, item: Any) -> Any:  # noqa: ARG002
        raise DropItem("stored elsewhere")


class ProductSpider(PagesSpider):
    """Yields the product of each page."""

    def parse(self, response: Response) -> Iterator[Any]:
        path = path_of(response.url)
        files = [response.urljoin(url) for url in PRODUCTS[path]["file_urls"]]
        yield PRODUCTS[path] | {"path": path, "file_urls": files}


PIPELINES = [DuplicatesPipeline, PricePipeline, PicturesPipeline]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("first", [True, False], ids=["one came through", "none did"])
@pytest.mark.parametrize("at_once", [1, 8])
async def test_the_copy_that_pipelines_want_comes_through(
    site: Site, tmp_path: Path, pipeline: type, *, first: bool, at_once: int
) -> None:
    """Whether it is fetched with its original or after it, and whether others came through."""
    site.answers["/good"] = Answer(b"a picture", content_type="image/png")
    urls = [site.url(path) for path in PRODUCTS if first or path != "/first"]
    if pipeline is DuplicatesPipeline:  # it drops what comes second
        pipeline, at_once = (pipeline, 1) if first else (PricePipeline, at_once)
    done = await crawl(
        tmp_path / "s",
        urls,
        ProductSpider,
        ITEM_PIPELINES={pipeline: 300},
        FILES_STORE=str(tmp_path / "files"),
        CONCURRENT_REQUESTS=at_once,
    )
    wanted = {"/first", "/good-again"} if first else {"/good-again"}
    assert wanted <= set(done.paths)
    with open_store(str(tmp_path / "s"), readonly=True) as store:
        assert list(store.list_lost()) == []


@pytest.mark.parametrize("at_once", [1, 8])
@pytest.mark.parametrize("linked", [True, False])
async def test_pipelines_that_drop_all_cost_no_requests(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at_once: int, *, linked: bool
) -> None:
    """Copies are dropped as on any site, and two of one page are tried: their links cost more."""
    groups = make_groups(6, 8)
    answers = dict(groups)
    if linked:
        for path, text in groups.items():
            answers[path] = text.replace("<ul>", f'<ul><a href="{path}/s"></a>')
            answers[f"{path}/s"] = text
    asked = []
    for enabled in (False, True):
        with serve(answers) as site:
            done = await crawl(
                tmp_path,
                [site.url(path) for path in groups],
                FollowingSpider,
                ITEM_PIPELINES={DroppingPipeline: 300},
                SIMHASH_ENABLED=enabled,
                CONCURRENT_REQUESTS=at_once,
            )
            asked.append(len(site.asked))
    assert asked[0] == len(answers)
    assert asked[1] <= asked[0] + 2 * (not linked)
    assert done.counted["requested_again"] <= 2
    assert done.counted["without_items"] >= 5  # all groups but the one that was tried
    untried = done.counted["owed/untried"]
    assert untried >= 1  # of that group
    said = "not tried because pipelines dropped all items of their copies."
    assert f"Lost: {plural(untried, 'page')}, {said}" in caplog.messages
    with open_store(str(tmp_path), readonly=True) as store:
        assert list(store.list_lost()) == []
