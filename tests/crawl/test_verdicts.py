"""Verdicts: where they show (meta, flag, stats, log, signal), and what a request says of them."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Request, Response

from scrapy_simhash import signals
from scrapy_simhash._printable import show_bytes
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import PagesSpider, crawl, describe
from tests.helpers.detecting import new_decision
from tests.helpers.pages import page
from tests.helpers.server import Answer, Site, serve

pytestmark = pytest.mark.usefixtures("warm_worker")
LOGGER = "scrapy_simhash.downloadermiddlewares"
LINKS = ["/x", "/y", "/x"]


@pytest.fixture
def site() -> Iterator[Site]:
    answers = {
        "/one": page(1, links=LINKS),
        "/two": page(2),
        "/one-again": page(1, title="A page, again", menu="Other menu", links=LINKS),
    }
    with serve(answers) as site:
        yield site


async def test_verdict_is_in_meta_flags_stats_and_log(site: Site, tmp_path: Path) -> None:
    urls = [site.url(path) for path in ("/one", "/two", "/one-again")]
    done = await crawl(tmp_path, urls, SIMHASH_ACTION="flag")
    assert done.paths == ["/one", "/two", "/one-again"]
    assert [item["flags"] for item in done.items] == [[], [], ["near_duplicate"]]
    assert [item["verdict"] for item in done.items] == done.published
    verdict = done.decisions[2]
    assert list(verdict) == list(new_decision("", "").to_dict())
    assert verdict["status"] == "near_duplicate"
    assert verdict["action"] == "flag"
    assert verdict["match_url"] == site.url("/one")
    assert verdict["match_document"] == done.decisions[0]["document"] > 0
    assert verdict["distance"] == 0
    assert verdict["tests"] == [
        "distance 0 bits",
        "main text 1.00 alike, whole text 1.00: main text is alike, whole text agrees",
        "titles 0.67 alike, headings same",
    ]
    assert verdict["similarity"] > 0.99
    assert verdict["new_links"] == 0.0
    assert verdict["links"] == 2
    assert verdict["language"] == "en"
    assert verdict["extractor"] == "turbohtml"
    assert verdict["fingerprint"] == done.decisions[0]["fingerprint"]
    assert len(verdict["fingerprint"]) == 16
    assert verdict["features"] > 200
    assert min(verdict["extract_ms"], verdict["fingerprint_ms"], verdict["store_ms"]) > 0
    assert len({decision["crawl"] for decision in done.decisions}) == 1
    assert json.loads(json.dumps(verdict)) == verdict
    assert done.counted == {"pages": 3, "new": 2, "near_duplicate": 1, "distance/0": 1}


async def test_crawled_line_shows_the_flag(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "scrapy.core.engine")
    await crawl(tmp_path, [site.url("/one"), site.url("/one-again")])
    lines = [record.getMessage() for record in caplog.records]
    flagged = [line for line in lines if "Crawled" in line and "near_duplicate" in line]
    assert len(flagged) == 1
    assert "/one-again" in flagged[0]


async def test_last_line_sums_the_crawl_up(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", LOGGER)
    await crawl(tmp_path, [site.url(path) for path in ("/one", "/two", "/one-again")])
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    size = show_bytes(len(site.answers["/one-again"].body))
    log = tmp_path / "log.jsonl"
    assert lines[-1] == (
        f"Dropped 1 near-duplicate of 3 pages ({size}, 2 links); decisions in {log}"
    )


class LinkingSpider(PagesSpider):
    """Yields an item and a request that Scrapy's filter drops."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        yield response.follow("/one")


async def test_last_line_names_every_action(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", LOGGER)
    actions = ("flag", "ignore-outlinks", "drop")
    site.answers |= {f"/{action}": site.answers["/one-again"] for action in actions}
    again = [Request(site.url(f"/{name}"), meta={"simhash_action": name}) for name in actions]
    await crawl(tmp_path, [site.url("/one"), *again], LinkingSpider, SIMHASH_LOG=None)
    size = show_bytes(len(site.answers["/one-again"].body))
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert lines[-1] == (
        f"Dropped 1 near-duplicate of 4 pages ({size}, 2 links), "
        "ignored the outlinks of 1 (1 request), flagged 1"
    )


async def test_revisits_are_counted_by_what_changed(site: Site, tmp_path: Path) -> None:
    urls = [site.url("/one"), site.url("/two")]
    await crawl(tmp_path, urls)
    site.answers["/two"] = Answer(page(5).encode())
    again = await crawl(tmp_path, urls)
    assert again.verdicts == {"/one": "revisit unchanged", "/two": "revisit changed"}
    assert again.counted == {"pages": 2, "revisit/unchanged": 1, "revisit/changed": 1}
    assert again.paths == ["/one", "/two"]


class Listener(PagesSpider):
    """Listens to the signal, as an extension would."""

    heard: list[dict[str, Any]]

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.heard = []
        crawler.signals.connect(spider.hear, signals.near_duplicate_found)
        return spider

    def hear(self, **arguments: Any) -> None:
        self.heard.append(arguments)


@pytest.mark.parametrize("action", ["drop", "ignore-outlinks", "flag"])
async def test_signal_whatever_the_action(site: Site, tmp_path: Path, action: str) -> None:
    urls = [site.url(path) for path in ("/one", "/two", "/one-again")]
    done = await crawl(tmp_path, urls, Listener, SIMHASH_ACTION=action)
    (heard,) = done.spider.heard
    assert heard["response"].url == heard["request"].url == site.url("/one-again")
    assert heard["verdict"] == heard["request"].meta["simhash"] == done.published[2]
    assert heard["verdict"]["action"] == action
    assert heard["spider"] is done.spider


class CopyingSpider(PagesSpider):
    """Hands the meta of a page on to the next request, verdict and all."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        if "next" in response.meta:
            meta = {"simhash": response.meta["simhash"], "simhash_skip": True}
            yield Request(response.meta["next"], meta=meta)


async def test_stale_verdict_does_not_outlive_its_page(site: Site, tmp_path: Path) -> None:
    skipped = await crawl(
        tmp_path,
        [Request(site.url("/one"), meta={"next": site.url("/two")})],
        CopyingSpider,
    )
    assert [item["verdict"] and item["verdict"]["status"] for item in skipped.items] == [
        "new",
        None,
    ]
    judged = await crawl(
        tmp_path,
        [Request(site.url("/two"), meta={"simhash": skipped.items[0]["verdict"]})],
    )
    assert judged.items[0]["verdict"]["url"] == site.url("/two")


async def test_skipped_page_is_not_looked_at(site: Site, tmp_path: Path) -> None:
    requests = [
        Request(site.url("/one")),
        Request(site.url("/one-again"), meta={"simhash_skip": True}),
        Request(site.url("/two"), meta={"simhash_skip": False}),
    ]
    done = await crawl(tmp_path, requests)
    assert done.paths == ["/one", "/one-again", "/two"]
    assert done.counted == {"pages": 2, "new": 2, "skipped/simhash_skip": 1}
    with open_store(str(tmp_path), readonly=True) as store:
        assert store.stats()["documents"] == 2


@pytest.mark.parametrize(
    ("action", "kept", "taken"),
    [("flag", True, "flag"), ("ignore-outlinks", True, "ignore-outlinks"), ("drop", False, "drop")],
)
async def test_action_of_a_request_goes_first(
    site: Site, tmp_path: Path, action: str, kept: bool, taken: str
) -> None:
    requests = [
        Request(site.url("/one")),
        Request(site.url("/one-again"), meta={"simhash_action": action}),
    ]
    other = "flag" if action == "drop" else "drop"
    done = await crawl(tmp_path, requests, SIMHASH_ACTION=other)
    assert ("/one-again" in done.paths) == kept
    assert done.decisions[1]["action"] == taken


@pytest.mark.parametrize("action", ["Drop", "", None, ["drop"]])
async def test_bad_action_flags_only_and_says_so(
    site: Site, tmp_path: Path, action: object, caplog: pytest.LogCaptureFixture
) -> None:
    requests = [
        Request(site.url("/one"), meta={"simhash_action": action}),
        Request(site.url("/one-again"), meta={"simhash_action": action}),
    ]
    done = await crawl(tmp_path, requests)
    assert done.paths == ["/one", "/one-again"]
    assert done.decisions[1]["action"] == "flag"
    assert done.counted["bad_action"] == 1
    logger = "scrapy_simhash.crawl.policy"
    (record,) = [record for record in caplog.records if record.name == logger]
    assert record.levelname == "WARNING"
    assert f"meta['simhash_action'] = {action!r}" in record.getMessage()
    assert "'drop' or 'ignore-outlinks' or 'flag'" in record.getMessage()


class InlineSpider(PagesSpider):
    """Downloads further pages from within its callback."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        yield describe(response)
        for url in response.meta.get("inline", ()):
            assert self.crawler.engine is not None
            inline = await self.crawler.engine.download_async(Request(url))
            assert inline.request is not None
            yield {
                "path": "inline",
                "flags": inline.flags,
                "status": inline.meta["simhash"]["status"],
            }


async def test_inline_downloads_are_flagged_and_done_at_once(site: Site, tmp_path: Path) -> None:
    urls = [site.url("/two"), site.url("/one-again")]
    requests = [Request(site.url("/one"), meta={"inline": urls})]
    done = await crawl(tmp_path, requests, InlineSpider)
    assert done.items[1:] == [
        {"path": "inline", "flags": [], "status": "new"},
        {"path": "inline", "flags": ["near_duplicate"], "status": "near_duplicate"},
    ]
    assert "dropped" not in done.counted
    with open_store(str(tmp_path), readonly=True) as store:
        states = {store.get_document(number).state for number in (1, 2)}  # type: ignore[union-attr]
    assert states == {"done"}
