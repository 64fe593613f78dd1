"""Crawls and commands with a store on a server."""

import asyncio
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from scrapy_simhash.stores.redis.commits import Committer
from scrapy_simhash.stores.redis.values import RedisValues
from tests.helpers.commanding import AGAIN, ONE, Run, crawl_into
from tests.helpers.crawling import crawl, read_lines
from tests.helpers.crawlscript import ScriptCrawl, finish_crawl, start_crawl
from tests.helpers.pages import page
from tests.helpers.processes import wait_until
from tests.helpers.redisservers import RedisServer, run_redis
from tests.helpers.server import serve
from tests.helpers.sourcing import json_lines, make_pages

pytestmark = pytest.mark.slow


async def test_pages_that_another_crawl_overtakes_are_judged_again_and_counted(
    redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole other crawl runs between what this one reads and what it commits."""
    settings: dict[str, Any] = {"SIMHASH_STORE": redis_server.url(), "SIMHASH_WORKERS": 0}
    log = str(tmp_path / "log.jsonl")
    others: list[ScriptCrawl] = []
    commit = Committer.commit

    def come_late(self: Committer, values: RedisValues, **options: bool) -> bool:
        if values.probed and not others:
            other = start_crawl(tmp_path, [site.url("/two")], "other", **settings)
            others.append(finish_crawl(other, tmp_path, "other"))
        return commit(self, values, **options)

    monkeypatch.setattr(Committer, "commit", come_late)
    with serve({"/one": page(1), "/two": page(1, menu="Another menu")}) as site:
        done = await crawl(tmp_path, [site.url("/one")], **settings, SIMHASH_LOG=log)
    assert (done.verdicts, done.paths) == ({"/one": "near_duplicate"}, [])
    assert done.stats["simhash/judged_again"] == 1
    assert others[0].counted["new"] == 1
    assert "judged_again" not in others[0].counted


async def test_pages_pass_unjudged_while_the_server_is_gone(tmp_path: Path) -> None:
    """It goes after the crawl began, and a crawl that begins without it stops."""
    with run_redis() as server, serve({"/one": page(1), "/two": page(2)}) as site:
        settings: dict[str, Any] = {
            "SIMHASH_STORE": server.url("store"),
            "SIMHASH_WORKERS": 0,
            "SIMHASH_LOG": str(tmp_path / "log.jsonl"),
        }
        site.answers["/two"] = replace(site.answers["/two"], gate=(gate := Event()))
        crawling = asyncio.create_task(
            crawl(tmp_path, [site.url("/one"), site.url("/two")], **settings)
        )
        await asyncio.to_thread(wait_until, lambda: read_lines(tmp_path / "log.jsonl"))
        server.kill()
        gate.set()
        done = await crawling
        assert done.verdicts == {"/one": "new", "/two": "unjudged store_unavailable"}
        assert sorted(done.paths) == ["/one", "/two"]
        # Scrapy leaves the sessions of HTTP handlers open when a crawl stops at its opening.
        settings["DOWNLOAD_HANDLERS"] = dict.fromkeys(("http", "https", "ftp"))
        gone = await crawl(tmp_path, ["data:text/html,<p>text"], **settings)
        assert gone.stats["finish_reason"] == "simhash_store_unusable"
        assert gone.items == []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder outside of any project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("store_seed")
def test_commands(redis_server: RedisServer, project: Path, run: Run) -> None:
    url = redis_server.url()
    log = str(project / ".scrapy" / "simhash" / "log.jsonl")
    asyncio.run(crawl_into(url, log=log))  # type: ignore[arg-type]
    (stats,) = run("stats", "--store", url, "--json").answers
    assert (stats["documents"], stats["near_duplicates"]) == (4, 1)
    assert stats["memory_bytes"] > 0
    for command in (["check"], ["find-all"], ["log"]):
        done = run(*command, "--store", url, "--json")
        assert done.exit_code in (0, 1), (command, done.err)
        assert done.err == "", command
    (matched, *_) = run("query", ONE, "--store", url, "--json").answers
    assert matched["url"] == ONE
    assert run("explain", ONE, "--store", url).exit_code == 0
    assert run("undo", AGAIN, "--store", url).exit_code == 0
    archive = project / "fingerprints.simhash"
    (exported,) = run("export", "fingerprints", archive, "--store", url, "--json").answers
    other = redis_server.url()
    (imported,) = run("import", archive, "--store", other, "--json").answers
    assert imported["new"] == exported["fingerprints"]
    backup = run("export", "store", project / "copy", "--store", url)
    assert backup.exit_code == 2
    assert "BGSAVE" in backup.err


def test_imports_into_two_stores_have_a_journal_each(
    redis_server: RedisServer, project: Path, run: Run
) -> None:
    (project / "pages.jsonl").write_bytes(json_lines(make_pages(4)))
    stores = [redis_server.url(), redis_server.url()]
    command = ("-s", "SIMHASH_WORKERS=0", "import", "pages.jsonl", "--json", "--store")
    first = [run(*command, url).answers[0]["resumed_at"] for url in stores]
    assert (first, [run(*command, url).answers[0]["resumed_at"] for url in stores]) == (
        [0, 0],
        [4, 4],
    )
