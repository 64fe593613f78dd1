"""Log lines: one a page at most, and nothing in them that a terminal or a log reader would obey."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter

from scrapy_simhash import _printable
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
