"""Who gets a page: it is dropped only for one that the same callback of its spider got."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import FormRequest, Request, Response, TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from tests.helpers.crawling import Crawl, PagesSpider, crawl, crawl_pages, describe, path_of
from tests.helpers.pages import page
from tests.helpers.server import serve

LEAVES = [f"/leaf{number}" for number in range(3)]
COPIES = ["/a", "/b", "/c", "/d"]
SITE = {
    **{path: page(1, links=LEAVES) for path in COPIES},
    **{path: page(10 + number) for number, path in enumerate(LEAVES)},
    "/search": page(1, menu="Your results"),
}


class ShopSpider(PagesSpider):
    """Its callbacks do different things with one page; `callbacks` names that of each request."""

    name = "shop"
    callbacks: tuple[str, ...] = ("parse",)

    async def start(self) -> AsyncIterator[Request]:
        async for request in super().start():
            place = -request.priority % len(self.callbacks)
            yield request.replace(callback=getattr(self, self.callbacks[place]))

    def look(self, response: Response) -> Iterator[Any]:  # noqa: ARG002
        yield from ()

    def parse_item(self, response: Response) -> Iterator[Any]:
        yield describe(response)

    def follow(self, response: TextResponse) -> Iterator[Any]:
        yield from response.follow_all(css="a", callback=self.parse_item)


def spider_with(*callbacks: str, name: str = "shop") -> type[ShopSpider]:
    """Make a spider that hands its pages to these callbacks, one after the other."""
    return type("Spider", (ShopSpider,), {"callbacks": callbacks, "name": name})


async def crawl_copies(store: Path, *callbacks: str, name: str = "shop", **settings: Any) -> Crawl:
    """Fetch as many copies of one page as there are callbacks."""
    spider = spider_with(*callbacks, name=name)
    return await crawl_pages(store, SITE, COPIES[: len(callbacks)], spider, **settings)


def actions(done: Crawl) -> list[str]:
    return [each["action"] or each["status"] for each in done.decisions]


async def test_callbacks_keep_pages_of_their_own(tmp_path: Path) -> None:
    done = await crawl_copies(tmp_path, "look", "parse_item", "parse_item", "look")
    assert (actions(done), done.paths) == (["new", "new", "drop", "drop"], ["/b"])
    assert [path_of(each["match_url"]) for each in done.decisions[2:]] == ["/b", "/a"]


@pytest.mark.parametrize("across", [False, True])
async def test_a_page_is_dropped_for_one_of_another_spider_only_if_one_says_so(
    tmp_path: Path, across: bool
) -> None:
    settings = {"SIMHASH_ACROSS_SPIDERS": across, "SIMHASH_INCREMENTAL": True}
    await crawl_copies(tmp_path, "parse_item", name="prices", **settings)
    spider = spider_with("parse_item", name="reviews")
    done = await crawl_pages(tmp_path, SITE, ["/b", "/c"], spider, **settings)
    assert done.paths == ([] if across else ["/b"])
    assert actions(done)[:2] == ["drop" if across else "new", "drop"]


async def test_a_store_of_other_callbacks_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A callback that was renamed is another one."""
    caplog.set_level(logging.INFO, "scrapy_simhash")
    await crawl_copies(tmp_path, "parse_item")
    await crawl_pages(tmp_path, SITE, ["/b"], type("Renamed", (PagesSpider,), {"name": "shop"}))
    said = "The store has pages of 'shop', but of other callbacks (parse_item): they are compared "
    assert [text.startswith(said) for text in caplog.messages].count(True) == 1


async def test_answers_to_forms_are_not_judged_and_nobody_s_original(tmp_path: Path) -> None:
    """A search, or a login that shows the page again from which one came."""

    class Searching(ShopSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            for word in ("one", "two"):
                url = response.urljoin("/search")
                yield FormRequest(url, formdata={"q": word}, callback=self.parse_item)

    with serve(SITE) as site:
        done = await crawl(tmp_path, [site.url("/a")], Searching)
        assert done.paths == ["/search", "/search"]
        assert done.verdicts["/search"] == "not_judged method"
        assert done.counted["not_judged/method"] == 2
        again = await crawl(tmp_path / "other", [site.url("/search")], Searching)
        assert again.verdicts["/search"] == "not_judged method"


@pytest.mark.parametrize(
    "make", [lambda spider: partial(spider.parse_item), lambda spider: spider.parse_part]
)
async def test_pages_of_callbacks_without_a_name_are_kept_and_no_originals(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Callable[[ShopSpider], Any]
) -> None:
    class Nameless(ShopSpider):
        parse_part = partialmethod(ShopSpider.parse_item)

        async def start(self) -> AsyncIterator[Request]:
            async for request in super().start():
                yield request.replace(callback=make(self))

    caplog.set_level(logging.WARNING, "scrapy_simhash")
    with serve(SITE) as site:
        *others, last = site.urls(*COPIES)
        done = await crawl(tmp_path, others, Nameless)
        assert (done.paths, actions(done)) == (["/a", "/b", "/c"], ["new"] * 3)
        assert caplog.text.count("is no method of the spider") == 1
        # And nothing is dropped for them.
        done = await crawl(tmp_path, [last], spider_with("parse_item"), SIMHASH_INCREMENTAL=True)
    assert done.paths == ["/d"]


class RulesSpider(CrawlSpider):
    """Comes to an item by a list of another rule first."""

    name = "rules"
    rules = (
        Rule(LinkExtractor(allow="/list")),
        Rule(LinkExtractor(allow="/item"), callback="parse_item"),
    )

    def __init__(self, requests: list[str]) -> None:
        super().__init__()
        self.start_urls = requests

    def parse_item(self, response: Response) -> Iterator[Any]:
        yield describe(response)


async def test_the_callback_of_a_rule_is_that_of_its_pages(tmp_path: Path) -> None:
    answers = {
        "/": page(2, links=["/list"]),
        "/list": page(1, links=["/item1", "/item2"]),
        "/item1": page(1),
        "/item2": page(1, menu="Other"),
    }
    done = await crawl_pages(tmp_path, answers, ["/"], RulesSpider)
    assert (len(done.paths), actions(done)) == (1, ["new", "new", "new", "drop"])
