"""The downloader middleware: what is judged, or skipped and why, and where verdicts show."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import HtmlResponse, Request, Response, TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.test import get_crawler

from scrapy_simhash import signals
from scrapy_simhash.config import Config
from scrapy_simhash.crawl.policy import select_page
from scrapy_simhash.judging.documents import Decision
from scrapy_simhash.pages.facts import EVERYONE, MOST_BYTES
from tests.helpers.crawling import PagesSpider, crawl
from tests.helpers.pages import page
from tests.helpers.server import Site

LINKS = ["/x", "/y", "/x"]
ANSWERS = {
    "/one": page(1, links=LINKS),
    "/two": page(2),
    "/one-again": page(1, menu="Other menu", links=LINKS),
}


def make(kind: type[Response], size: int = 10, **arguments: Any) -> Response:
    return kind("http://site.example/", body=bytes(size), **arguments)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        *((make(HtmlResponse, status=status), None) for status in (200, 299)),
        *((make(HtmlResponse, status=status), "status") for status in (199, 300)),
        (make(TextResponse), "not_html"),
        (make(HtmlResponse, flags=["dataloss"]), "truncated"),
        (make(HtmlResponse, flags=["cached", "partial"]), "truncated"),
        (make(HtmlResponse, flags=["download_stopped"]), "truncated"),
        *((make(HtmlResponse, flags=["cached"]), None), (make(HtmlResponse, MOST_BYTES), None)),
        (make(HtmlResponse, MOST_BYTES + 1), "too_large"),
        (make(HtmlResponse, 0), None),  # the judge says so
    ],
)
def test_which_responses_are_skipped(response: Response, reason: str | None) -> None:
    request = Request(response.url)
    given = get_crawler(), Config()
    found = select_page(*given, request, response, EVERYONE)
    assert found == (reason or found)
    assert isinstance(found, str) is (reason is not None)
    without = request.replace(callback=NO_CALLBACK)
    assert select_page(*given, without, response, EVERYONE) == "no_callback"


async def test_readonly_without_a_store_lets_all_pages_pass(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    done = await crawl(store, site.urls("/one", "/one-again"), SIMHASH_READONLY=True)
    assert (done.paths, done.counted) == (["/one", "/one-again"], {"not_judged/no_store": 2})
    said = "Not judged: 2 pages (2 no store); all came through, even copies."
    assert said in caplog.messages
    assert not store.exists()


async def test_switched_off_leaves_no_trace(site: Site, tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = await crawl(store, site.urls("/one", "/one-again"), SIMHASH_ENABLED=False)
    assert done.paths == ["/one", "/one-again"]
    assert done.items[0]["verdict"] is None
    assert done.counted == {}
    assert not store.exists()


async def test_verdict_is_in_meta_flags_stats_and_log(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "scrapy.core.engine")
    done = await crawl(tmp_path, site.urls("/one", "/two", "/one-again"), SIMHASH_ACTION="flag")
    assert done.paths == ["/one", "/two", "/one-again"]
    assert [item["flags"] for item in done.items] == [[], [], ["near_duplicate"]]
    assert [item["verdict"] for item in done.items] == done.published
    first, _, verdict = done.decisions
    assert tuple(verdict) == Decision.__struct_fields__
    told = [verdict[key] for key in ("status", "action", "distance", "new_links", "links")]
    assert told == ["near_duplicate", "flag", 0, 0.0, 2]
    assert verdict["tests"] == ["distance 0 bits", "says nothing that the other one does not"]
    assert verdict["match_url"] == site.url("/one")
    assert verdict["fingerprint"] == first["fingerprint"]
    assert verdict["match_document"] == first["document"] > 0
    assert verdict["similarity"] > 0.99
    assert len(verdict["fingerprint"]) == 16
    assert min(verdict["read_ms"], verdict["store_ms"]) > 0
    assert len({decision["crawl"] for decision in done.decisions}) == 1
    assert json.loads(json.dumps(verdict)) == verdict
    assert done.counted == {"pages": 3, "new": 2, "near_duplicate": 1, "distance/0": 1}
    (shown,) = [each for each in caplog.messages if "Crawled" in each and "near_duplicate" in each]
    assert "/one-again" in shown


class Listener(PagesSpider):
    """Listens to the signal, as an extension would."""

    async def start(self) -> AsyncIterator[Request]:
        self.heard: list[dict[str, Any]] = []
        self.crawler.signals.connect(self.hear, signals.near_duplicate_found)
        async for request in super().start():
            yield request

    def hear(self, **arguments: Any) -> None:
        self.heard.append(arguments)


@pytest.mark.parametrize("action", ["drop", "ignore-outlinks", "flag"])
async def test_signal_whatever_the_action(site: Site, tmp_path: Path, action: str) -> None:
    urls = site.urls("/one", "/two", "/one-again")
    done = await crawl(tmp_path, urls, Listener, SIMHASH_ACTION=action)
    (heard,) = done.spider.heard
    assert heard["response"].url == heard["request"].url == site.url("/one-again")
    assert heard["verdict"] == heard["request"].meta["simhash"] == done.published[2]
    assert heard["verdict"]["action"] == action
    assert heard["spider"] is done.spider


@pytest.mark.parametrize("action", ["Drop", None, ["drop"]])
async def test_bad_action_flags_only_and_says_so(
    site: Site, tmp_path: Path, action: object, caplog: pytest.LogCaptureFixture
) -> None:
    meta = {"simhash_action": action}
    done = await crawl(
        tmp_path, [Request(url, meta=meta) for url in site.urls("/one", "/one-again")]
    )
    assert (done.paths, done.decisions[1]["action"]) == (["/one", "/one-again"], "flag")
    assert done.counted["failed/action"] == 2
    (record,) = [each for each in caplog.records if "must be" in each.getMessage()]
    assert record.levelname == "WARNING"
    assert f"meta['simhash_action'] = {action!r}" in record.getMessage()
    assert "'drop' or 'ignore-outlinks' or 'flag'" in record.getMessage()
