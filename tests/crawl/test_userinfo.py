"""A user or a token in an address is kept in the store alone, where pages are fetched from."""

import logging
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_simhash._printable import printable
from tests.helpers.commanding import Run
from tests.helpers.crawling import crawl
from tests.helpers.pages import page

SECRETS = ("TOKEN", "hush")
USERS = ("TOKEN", "user:hush", "user%3Ahush", ":hush", "a@hush")
URLS = [f"http://{user}@site.example/{number}" for number, user in enumerate(USERS)]


class Answers:
    """Answers without a server, because Scrapy's handlers do not fetch such addresses."""

    def process_request(self, request: Request) -> HtmlResponse:
        return HtmlResponse(request.url, body=page(1), encoding="utf-8", request=request)


async def test_a_user_in_an_address_is_shown_nowhere(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answered: dict[str, Any] = {"DOWNLOADER_MIDDLEWARES": {Answers: 1000}, "SIMHASH_ACTION": "flag"}
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
    undone = [f"undo {URLS[2]} -o urls.txt", f"undo {URLS[2]}"]
    for command in ("export duplicates", *others, *explained, *undone):
        done = run(*command.split(), "--store", "s")
        assert done.exit_code == 0, done.err
        shown.append(done.out + done.err)
    assert (tmp_path / "urls.txt").read_text() == f"{URLS[2]}\n"
    shown.append((tmp_path / "report.html").read_text())
    assert [text for text in shown if any(secret in text for secret in SECRETS)] == []
    assert sum("http://***@site.example/1" in text for text in shown) >= 6


@pytest.mark.parametrize(
    "text", ["//*[@role='main']", "a // b@c.example", "//b@c.example", "://b@c"]
)
def test_what_is_no_address_is_shown_as_it_is(text: str) -> None:
    assert printable(text) == text
