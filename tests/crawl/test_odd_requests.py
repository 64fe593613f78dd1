"""Requests that are not what one expects: their pages pass, and take nothing from others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.request import RequestFingerprinter, fingerprint

from tests.helpers.crawling import PagesSpider, crawl, describe
from tests.helpers.pages import page
from tests.helpers.server import Answer, Answers, serve

pytestmark = pytest.mark.usefixtures("warm_worker")


class RaisingFingerprinter(RequestFingerprinter):
    def fingerprint(self, request: Request) -> bytes:
        if "/odd" in request.url:
            raise ValueError("no fingerprint for this one")
        return super().fingerprint(request)


class LongFingerprinter:
    def fingerprint(self, request: Request) -> bytes:
        return 10 * fingerprint(request)


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


async def test_page_passes_when_its_request_cannot_be_fingerprinted(tmp_path: Path) -> None:
    with serve({"/odd": page(1), "/even": page(2)}) as site:
        requests = [Request(url, dont_filter=True) for url in site.urls()]
        done = await crawl(tmp_path, requests, REQUEST_FINGERPRINTER_CLASS=RaisingFingerprinter)
    assert done.verdicts == {"/odd": "unjudged failed", "/even": "new"}
    assert sorted(done.paths) == ["/even", "/odd"]
    assert done.counted["unjudged/failed"] == 1


async def test_long_fingerprints_of_requests_are_shortened(tmp_path: Path) -> None:
    with serve({"/one": page(1), "/again": page(1, menu="Other")}) as site:
        urls = [site.url("/one"), site.url("/again")]
        fingerprinter: dict[str, Any] = {"REQUEST_FINGERPRINTER_CLASS": LongFingerprinter}
        first = await crawl(tmp_path, urls, **fingerprinter)
        second = await crawl(tmp_path, urls, **fingerprinter)
    assert first.verdicts == {"/one": "new", "/again": "near_duplicate"}
    assert second.verdicts == {"/one": "revisit unchanged", "/again": "near_duplicate"}


async def test_copied_redirects_make_no_page_the_one_redirected_to(tmp_path: Path) -> None:
    answers: Answers = {
        "/old": Answer(status=302, location="/new"),
        "/new": page(1),
        "/copy": page(1, menu="Other menu"),
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url("/old")], CopyingSpider)
    assert done.verdicts == {"/new": "new", "/copy": "near_duplicate"}


async def test_page_asked_for_twice_is_not_its_own_duplicate(tmp_path: Path) -> None:
    fingerprinter: dict[str, Any] = {"REQUEST_FINGERPRINTER_CLASS": PurposeFingerprinter}
    with serve({"/one": page(1), "/copy": page(1, menu="Other")}) as site:
        requests = [Request(url, meta={"purpose": n}) for url in site.urls() for n in range(2)]
        first = await crawl(tmp_path, requests, **fingerprinter)
        second = await crawl(tmp_path, requests[::-1], **fingerprinter)
        site.answers["/one"] = Answer(page(2).encode())
        third = await crawl(tmp_path, requests[1::-1], **fingerprinter)
    assert site.asked[:4] == ["/one", "/one", "/copy", "/copy"]
    assert first.paths == second.paths == ["/one", "/one"]
    assert first.counted["revisit/unchanged"] == 1
    assert second.counted["revisit/unchanged"] == 2
    assert third.paths == ["/one", "/one"]
    assert "near_duplicate" not in third.counted
