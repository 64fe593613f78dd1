"""Whole crawls of a local site, in this process."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Request, Response

from scrapy_simhash.judge import client
from tests.helpers.crawling import Crawl, PagesSpider, crawl, describe, list_states
from tests.helpers.hostile import TRIGGER
from tests.helpers.pages import make_groups, page
from tests.helpers.server import Answer, Answers, Site, serve

GROUPS, COPIES = 12, 3
ANSWERS = make_groups(GROUPS, COPIES)
ONE_OF_EACH = {f"g{group}": 1 for group in range(GROUPS)}


def assert_quiet(done: Crawl) -> None:
    assert "log_count/ERROR" not in done.stats
    assert done.stats["finish_reason"] == "finished"


@pytest.mark.usefixtures("judge_apart")
async def test_two_crawls_of_one_process_are_two(site: Site, tmp_path: Path) -> None:
    """Each is complete by itself, and keeps a page of each group."""
    both = [
        crawl(tmp_path, urls, CONCURRENT_REQUESTS=8, SIMHASH_LOG=str(tmp_path / name))
        for name, urls in (("there", site.urls()), ("back", site.urls()[::-1]))
    ]
    for done in await asyncio.gather(*both):
        assert_quiet(done)
        assert done.groups == ONE_OF_EACH.keys()
    assert len(list_states(tmp_path)) == GROUPS * COPIES


async def test_redirects(tmp_path: Path) -> None:
    answers: Answers = {
        "/old": Answer(status=302, location="/new"),
        "/new": page(1),
        "/login?from=a": Answer(status=302, location="/login"),
        "/login": page(2),
        "/copy": Answer(page(1, menu="Other menu").encode(), gzip=True),
    }
    with serve(answers) as site:
        first = await crawl(tmp_path, site.urls("/old", "/copy"))
        second = await crawl(tmp_path, site.urls("/new", "/copy"))
        # The same text, now at the address that redirected.
        site.answers["/old"] = Answer(page(1).encode())
        third = await crawl(tmp_path, site.urls("/old", "/login?from=a"))
    assert first.verdicts == {"/new": "new", "/copy": "near_duplicate"}
    assert second.verdicts == {"/new": "revisit unchanged", "/copy": "near_duplicate"}
    assert third.verdicts == {"/old": "near_duplicate first_copy", "/login": "new"}


class ImpatientSpider(PagesSpider):
    """Gives an inline download up while it is being judged."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        yield describe(response)
        if response.meta.get("inline"):
            assert self.crawler.engine is not None
            inline = self.crawler.engine.download_async(Request(response.meta["inline"]))
            try:
                await asyncio.wait_for(inline, 0.5)
            except TimeoutError:
                yield {"path": "gave up"}


@pytest.mark.usefixtures("judge_apart")
async def test_giving_up_an_inline_download_does_no_harm(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.answers["/endless"] = Answer(page(2, title=f"{TRIGGER}hang").encode())
    first = Request(site.url("/g1/c0"), meta={"inline": site.url("/endless")})
    others = site.urls("/g2/c0", "/g3/c0", "/g3/c1")
    monkeypatch.setattr(client, "PAGE_SECONDS", 1.0)
    settings = {"SIMHASH_SCOPE": "tests.helpers.hostile.misbehave"}
    done = await crawl(tmp_path, [first, *others], ImpatientSpider, **settings)
    assert sorted(done.paths) == ["/g1/c0", "/g2/c0", "/g3/c0", "gave up"]
    assert "/endless" not in done.verdicts
    assert_quiet(done)


async def test_a_store_in_memory_keeps_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It drops as any other, and writes a log where one is named."""
    monkeypatch.chdir(tmp_path)
    urls = site.urls("/g1/c0", "/g1/c1")
    for _ in range(2):
        done = await crawl(tmp_path, urls, SIMHASH_STORE="memory:")
        assert (done.paths, done.counted["dropped"]) == (["/g1/c0"], 1)
    assert not any(os.scandir(tmp_path))
    log = str(tmp_path / "log.jsonl")
    done = await crawl(tmp_path, urls, SIMHASH_STORE="memory:", SIMHASH_LOG=log)
    assert [decision["status"] for decision in done.decisions] == ["new", "near_duplicate"]


async def test_unchanged_is_what_shows_nothing_new_at_all(tmp_path: Path) -> None:
    """A price beside the main text was lost, crawl after crawl."""
    shown = {
        "/price": ("<aside>Price 15</aside>", "<aside>Price 17</aside>"),
        "/sign": ("<p>-5", "<p>5"),
        "/picture": ("<p><img alt=red>", "<p><img alt=blue>"),
        "/same": ("", ""),
    }
    with serve({}) as site:
        for turn in range(2):
            for number, (path, texts) in enumerate(shown.items()):
                html = page(number).replace("</body>", texts[turn])
                site.answers[path] = Answer(html.encode())
            done = await crawl(tmp_path, site.urls(), SIMHASH_UNCHANGED="drop")
    assert done.paths == ["/price", "/sign", "/picture"]
