"""Requests, and projects, that are not what one expects: pages pass, and take none from others."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scrapy import Field, Item, Request
from scrapy.http import Response
from scrapy.loader import ItemLoader
from scrapy.utils.request import RequestFingerprinter, fingerprint

from tests.helpers.crawling import PagesSpider, crawl, describe
from tests.helpers.pages import page
from tests.helpers.server import Answer, Site

ANSWERS = {"/one": page(1), "/copy": page(1, menu="Other menu"), "/two": page(2)}


class RaisingFingerprinter(RequestFingerprinter):
    def fingerprint(self, request: Request) -> bytes:
        if "/odd" in request.url:
            raise ValueError("no fingerprint for this one")
        return super().fingerprint(request)


class PurposeFingerprinter:
    """Tells requests for one page apart, as that of scrapy-poet does."""

    def fingerprint(self, request: Request) -> bytes:
        return fingerprint(request) + str(request.meta.get("purpose")).encode()


class CopyingSpider(PagesSpider):
    """Copies the meta of each response into the requests that follow from it."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        if response.url.endswith("/new"):
            meta = {k: v for k, v in response.meta.items() if k.startswith("redirect")}
            yield Request(response.urljoin("/copy"), meta=meta)


async def test_page_passes_whose_request_has_no_fingerprint(site: Site, tmp_path: Path) -> None:
    site.answers["/odd"] = site.answers["/copy"]
    requests = [Request(url, dont_filter=True) for url in site.urls("/odd", "/one")]
    done = await crawl(tmp_path, requests, REQUEST_FINGERPRINTER_CLASS=RaisingFingerprinter)
    assert done.verdicts == {"/odd": "not_judged failed", "/one": "new"}
    assert (sorted(done.paths), done.counted["not_judged/failed"]) == (["/odd", "/one"], 1)


async def test_copied_redirects_make_no_page_the_one_redirected_to(
    site: Site, tmp_path: Path
) -> None:
    site.answers |= {"/old": Answer(location="/new"), "/new": site.answers["/one"]}
    done = await crawl(tmp_path, [site.url("/old")], CopyingSpider)
    assert done.verdicts == {"/new": "new", "/copy": "near_duplicate"}


async def test_what_a_spider_keeps_in_redirects_costs_no_page(site: Site, tmp_path: Path) -> None:
    odd = Request(site.url("/one"), meta={"redirect_urls": [b"http://a.example/", object()]})
    done = await crawl(tmp_path, [odd, site.url("/two")])
    assert done.verdicts == {"/one": "new", "/two": "new"}


async def test_page_asked_for_twice_is_not_its_own_duplicate(site: Site, tmp_path: Path) -> None:
    fingerprinter: dict[str, Any] = {"REQUEST_FINGERPRINTER_CLASS": PurposeFingerprinter}
    urls = site.urls("/one", "/copy")
    requests = [Request(url, meta={"purpose": n}) for url in urls for n in range(2)]
    first = await crawl(tmp_path, requests, **fingerprinter)
    second = await crawl(tmp_path, requests, **fingerprinter)
    site.answers["/one"] = site.answers["/two"]
    third = await crawl(tmp_path, requests[1::-1], **fingerprinter)
    assert site.asked[:4] == ["/one", "/one", "/copy", "/copy"]
    assert first.paths == second.paths == ["/one", "/one"]
    assert (second.counted["revisit/unchanged"], third.paths) == (2, ["/one", "/one"])
    assert "near_duplicate" not in third.counted


class CarryingSpider(PagesSpider):
    """Its callback takes what its requests carry."""

    def parse(self, response: Response, **carried: Any) -> Iterator[Any]:  # noqa: ARG002
        yield describe(response)


@dataclass
class Goods:
    name: str = ""


class GoodsItem(Item):
    name = Field()


# What requests carry, and whether that may be an item of another page.
CARRIED: list[tuple[dict[str, Any], bool]] = [
    ({"cb_kwargs": {"item": {"name": "a"}}}, True),
    ({"cb_kwargs": {"row": Goods("a")}}, True),
    ({"cb_kwargs": {"row": GoodsItem(name="a")}}, True),
    *(({"meta": {"item": {"name": "a"}}}, True), ({"meta": {"goods": Goods("a")}}, True)),
    ({"meta": {"loader": ItemLoader(GoodsItem())}}, True),
    ({"cb_kwargs": {"rows": [{"name": "a"}]}}, True),
    *(({"meta": {"items": [{"name": "a"}]}}, True), ({"meta": {"rows": ("a", Goods("a"))}}, True)),
    ({"meta": {"product": {"name": "a"}}}, True),
    ({"cb_kwargs": {"item": {"name": "a"}}, "meta": {"simhash_action": "drop"}}, False),
    ({"cb_kwargs": {"number": 1, "names": ["a"]}}, False),
    ({"meta": {"playwright_context": {"name": "a"}, "more": {}, "item": None}}, False),
]


@pytest.mark.parametrize("action", ["drop", "ignore-outlinks"])
async def test_a_request_that_carries_an_item_of_another_page_is_not_dropped(
    site: Site, tmp_path: Path, action: str
) -> None:
    """The item of the first page would be lost with the second one."""
    site.answers |= {f"/copy/{n}": site.answers["/copy"] for n in range(len(CARRIED))}
    copies = [Request(site.url(f"/copy/{n}"), **given) for n, (given, _) in enumerate(CARRIED)]
    requests = [Request(site.url("/one")), *copies]
    done = await crawl(tmp_path, requests, CarryingSpider, SIMHASH_ACTION=action)
    assert [each["action"] for each in done.decisions[1:]] == [
        "flag" if kept else given.get("meta", {}).get("simhash_action", action)
        for given, kept in CARRIED
    ]
