"""What is logged and shown: nothing that a terminal would obey, and no user of an address."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import HtmlResponse
from scrapy.utils.request import RequestFingerprinter

from scrapy_simhash import _printable
from tests.helpers.commanding import Run
from tests.helpers.crawling import crawl
from tests.helpers.pages import page
from tests.helpers.server import Answer, Answers, serve

ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\n2026-01-01 [scrapy] forged\u2028\x9b\u202e"
LONG = "x" * 100_000


class QuotingFingerprinter(RequestFingerprinter):
    def fingerprint(self, request: Request) -> bytes:
        raise ValueError(f"cannot fingerprint {request.meta['title']}")


@given(st.text())
def test_nothing_unprintable_is_left(text: str) -> None:
    assert _printable.printable(text).isprintable()
    assert _printable.printable(_printable.printable(text)) == _printable.printable(text)
    assert _printable.quote(text).isprintable()


def test_error_is_one_line_with_its_end() -> None:
    assert [_printable.format_time(each) for each in (1e308, 1e12, float("nan"))] == ["?"] * 3
    said = _printable.describe_error(ValueError(f"{LONG}{ESCAPES}the end"))
    assert said.isprintable()
    assert "the end" in said
    assert len(said) < 2 * _printable.MOST_ERROR_CHARACTERS


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"REQUEST_FINGERPRINTER_CLASS": QuotingFingerprinter},
        {"SIMHASH_SCOPE": "tests.helpers.hostile.scope_that_quotes"},
    ],
)
async def test_a_page_makes_one_harmless_line(
    settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers: Answers = {
        "/one": page(1),
        "/again": page(1, menu="Other menu"),
        "/?" + "long" * 400: page(1, menu="Third menu"),
        "/escapes": page(2, title=ESCAPES).replace("Heading", f"{ESCAPES} {LONG}"),
        "/empty": Answer(b" "),
    }
    meta = {"title": ESCAPES} | ({} if settings else {"simhash_action": ESCAPES})
    with serve(answers) as site, caplog.at_level(logging.DEBUG, "scrapy_simhash"):
        *urls, empty = site.urls()
        requests = [Request(url, meta=meta, dont_filter=True) for url in urls]
        requests.append(Request(empty, meta={"title": ESCAPES}, dont_filter=True))
        requests.append(Request(site.url("/one?"), meta={"title": ESCAPES}, dont_filter=True))
        done = await crawl(tmp_path, requests, **settings)
    assert len(done.decisions) == len(requests)
    # As any handler would format it, tracebacks included.
    own = [record for record in caplog.records if record.name.startswith("scrapy_simhash")]
    lines = list(map(logging.Formatter().format, own))
    assert all(line.isprintable() for line in lines), lines
    most = _printable.MOST_ERROR_CHARACTERS + 2 * _printable.MOST_LOGGED_CHARACTERS
    assert all(len(line) < most for line in lines)
    assert sum("Not judged: 'http" in line for line in lines) == (len(requests) if settings else 1)
    for url, times in Counter(decision["url"] for decision in done.decisions).items():
        assert sum(_printable.quote(url) in line for line in lines) <= times
    raw = (tmp_path / "log.jsonl").read_text("ascii")
    assert all(line.isprintable() for line in raw.rstrip("\n").split("\n"))


SECRETS = ("TOKEN", "hush")
USERS = ("TOKEN", "user:hush", "user%3Ahush", ":hush", "a@hush")
URLS = [f"http://{user}@site.example/{number}" for number, user in enumerate(USERS)]


class Offline:
    """Answers without a server, because Scrapy's handlers do not fetch such addresses."""

    def process_request(self, request: Request) -> HtmlResponse:
        return HtmlResponse(request.url, body=page(1), encoding="utf-8", request=request)


async def test_a_user_in_an_address_is_shown_nowhere(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answered: dict[str, Any] = {"DOWNLOADER_MIDDLEWARES": {Offline: 1000}, "SIMHASH_ACTION": "flag"}
    with caplog.at_level(logging.DEBUG, "scrapy_simhash"):
        crawled = await crawl(tmp_path / "s", URLS, **answered)
        await crawl(tmp_path / "dropping", URLS, **(answered | {"SIMHASH_ACTION": "drop"}))
    assert crawled.counted["near_duplicate"] == len(URLS) - 1
    shown = [(tmp_path / "s" / "log.jsonl").read_text()]
    shown += [
        line.getMessage() for line in caplog.records if line.name.startswith("scrapy_simhash")
    ]
    explained = [f"explain {url}{how}" for url in URLS for how in ("", " --json")]
    others = ["log", "log --json", "check", "report", f"log --url {URLS[2]}"]
    for command in (*others, *explained, f"undo {URLS[2]}"):
        done = run(*command.split(), "--store", "s")
        assert done.exit_code == 0, done.err
        shown.append(done.out + done.err)
    shown.append((tmp_path / "report.html").read_text())
    assert [text for text in shown if any(secret in text for secret in SECRETS)] == []
    assert sum("http://***@site.example/1" in text for text in shown) >= 6


@pytest.mark.parametrize(
    "text", ["//*[@role='main']", "a // b@c.example", "//b@c.example", "://b@c"]
)
def test_what_is_no_address_is_shown_as_it_is(text: str) -> None:
    assert _printable.printable(text) == text
