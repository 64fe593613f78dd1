"""The downloader middleware: what is judged, what is skipped and why, and when it stays off."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import HtmlResponse, Request, Response, TextResponse
from scrapy.http.request import NO_CALLBACK

from scrapy_simhash.config import Config
from scrapy_simhash.crawl.delivery import Delivery
from scrapy_simhash.crawl.links import LostLinks
from scrapy_simhash.crawl.policy import Eligibility
from scrapy_simhash.crawl.refetch import LostPages
from scrapy_simhash.errors import SettingError
from tests.helpers.crawling import crawl, read_files
from tests.helpers.pages import page
from tests.helpers.server import Answer, Answers, Site, serve

pytestmark = pytest.mark.usefixtures("warm_worker")
MOST_BYTES = Config.max_bytes


@pytest.fixture
def site() -> Iterator[Site]:
    answers: Answers = {
        "/one": page(1),
        "/two": page(2),
        "/one-again": page(1, title="A page, again", menu="Other menu"),
        "/text": Answer(b"plain text", content_type="text/plain"),
        "/image": Answer(b"\x89PNG\r\n\x1a\n" + bytes(50), content_type="image/png"),
        "/missing": Answer(page(3).encode(), status=404),
        "/broken": Answer(page(3).encode(), status=500),
        "/created": Answer(page(3).encode(), status=201),
    }
    with serve(answers) as site:
        yield site


def make(kind: type[Response], **arguments: Any) -> Response:
    return kind("http://site.example/", body=b"x" * 10, **arguments)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (make(HtmlResponse), None),
        (make(HtmlResponse, status=201), None),
        (make(HtmlResponse, status=299), None),
        (make(TextResponse), "not_html"),
        (make(Response), "not_html"),
        (make(HtmlResponse, status=199), "status"),
        (make(HtmlResponse, status=300), "status"),
        (make(HtmlResponse, status=404), "status"),
        (make(HtmlResponse, status=503), "status"),
        (make(HtmlResponse, flags=["dataloss"]), "truncated"),
        (make(HtmlResponse, flags=["cached", "partial"]), "truncated"),
        (make(HtmlResponse, flags=["download_stopped"]), "truncated"),
        (make(HtmlResponse, flags=["cached"]), None),
        (HtmlResponse("http://site.example/", body=bytes(MOST_BYTES)), None),
        (HtmlResponse("http://site.example/", body=bytes(MOST_BYTES + 1)), "too_large"),
        (HtmlResponse("http://site.example/"), None),  # empty: the detector says so
    ],
)
def test_which_responses_are_skipped(response: Response, reason: str | None) -> None:
    assert Eligibility(Config()).find_skip_reason(Request(response.url), response) == reason


def test_downloads_without_callback_are_skipped() -> None:
    request = Request("http://site.example/robots.txt", callback=NO_CALLBACK)
    assert Eligibility(Config()).find_skip_reason(request, make(HtmlResponse)) == "no_callback"


async def test_skipped_responses_are_counted_and_logged(site: Site, tmp_path: Path) -> None:
    site.answers["/large"] = Answer((page(9) + " " * 5_000).encode())
    done = await crawl(
        tmp_path,
        [*site.urls(), Request(site.url("/two?skip"), meta={"simhash_skip": True})],
        HTTPERROR_ALLOW_ALL=True,
        RETRY_ENABLED=False,
        SIMHASH_MAX_BYTES=len(page(9)) + 4_999,
        SIMHASH_ACTION="flag",
    )
    assert done.verdicts == {
        "/one": "new",
        "/two": "new",
        "/one-again": "near_duplicate",
        "/text": "unjudged skipped: not_html",
        "/image": "unjudged skipped: not_html",
        "/missing": "unjudged skipped: status",
        "/broken": "unjudged skipped: status",
        "/created": "new",
        "/large": "unjudged skipped: too_large",
    }
    assert done.counted["skipped/not_html"] == 2
    assert done.counted["skipped/status"] == 2
    assert done.counted["skipped/simhash_skip"] == 1
    assert done.counted["skipped/too_large"] == 1
    assert done.counted["pages"] == 4


async def test_readonly_judges_and_writes_nothing(site: Site, tmp_path: Path) -> None:
    store = tmp_path / "store"
    await crawl(store, [site.url("/one")])
    before = read_files(store)
    done = await crawl(
        store,
        [site.url("/one-again"), site.url("/two"), site.url("/one")],
        SIMHASH_READONLY=True,
        SIMHASH_LOG=str(tmp_path / "decisions.jsonl"),
    )
    assert list(done.verdicts.values()) == ["near_duplicate", "new", "revisit unchanged"]
    assert done.paths == ["/two", "/one"]
    assert before == read_files(store)


async def test_readonly_without_a_store_lets_all_pages_pass(site: Site, tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = await crawl(store, [site.url("/one"), site.url("/one-again")], SIMHASH_READONLY=True)
    assert done.paths == ["/one", "/one-again"]
    assert done.counted == {"skipped/no_store": 2}
    assert not store.exists()


def fail(*_: object) -> None:
    raise OverflowError("too many")


@pytest.mark.parametrize("moment", ["judged", "arrived"])
@pytest.mark.parametrize("broken", [Delivery, LostPages, LostLinks])
async def test_a_page_that_cannot_be_followed_passes(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: type, moment: str
) -> None:
    monkeypatch.setattr(broken, moment, fail)
    done = await crawl(tmp_path / "store", [site.url("/one"), site.url("/two")])
    assert done.paths == ["/one", "/two"]
    assert done.counted["failed/page"] == 2
    assert "spider_exceptions/count" not in done.stats


async def test_a_follower_that_fails_at_the_end_keeps_no_other_from_it(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(Delivery, "close", fail)
    site.answers["/one-again"] = Answer(page(1, links=["/only/here"]).encode())
    done = await crawl(tmp_path, [site.url("/one"), site.url("/one-again")])
    assert done.counted["links/only_on_dropped_pages"] == 1
    assert "Not settled at the end of the crawl: Delivery: " in caplog.text
    assert any("decisions in" in message for message in caplog.messages)


async def test_switched_off_leaves_no_trace(site: Site, tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = await crawl(store, [site.url("/one"), site.url("/one-again")], SIMHASH_ENABLED=False)
    assert done.paths == ["/one", "/one-again"]
    assert done.items[0]["verdict"] is None
    assert done.counted == {}
    assert not store.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SIMHASH_DISTANCE", 9),
        ("SIMHASH_EXTRACTOR", "no.such.extractor"),
        ("SIMHASH_FEATURES", "words-99"),
        ("SIMHASH_SCOPE", "planet"),
        ("SIMHASH_STORE", "ftp://host/0"),
        ("SIMHASH_STORE", "lmdb://host/folder"),
    ],
)
async def test_bad_setting_stops_the_crawl_before_it_starts(
    site: Site, tmp_path: Path, name: str, value: object
) -> None:
    # Scrapy leaves handlers of a crawl open that does not start.
    settings: dict[str, Any] = {
        name: value,
        "DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https", "ftp")),
    }
    with pytest.raises(SettingError) as raised:
        await crawl(tmp_path / "store", site.urls(), **settings)
    assert str(raised.value).startswith(name)
    assert str(value) in str(raised.value)
    assert site.asked == []
    assert not (tmp_path / "store").exists()
