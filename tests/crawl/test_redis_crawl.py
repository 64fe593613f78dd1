"""Crawls and commands with a store on a server."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Response

from scrapy_simhash.stores import redis as redis_kind
from tests.helpers.commanding import AGAIN, ONE, Run, crawl_into
from tests.helpers.crawling import PagesSpider, crawl
from tests.helpers.pages import page
from tests.helpers.redisservers import RedisServer, run_redis
from tests.helpers.server import serve

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("at", ["middle", "end"])
async def test_a_server_that_never_answers_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """It is stopped; most pages pass at once, and the crawl ends."""
    monkeypatch.setattr(redis_kind, "TIMEOUT_SECONDS", 1.0)
    pages = {f"/{number}": page(number) for number in range(30)}
    with run_redis() as server, serve(pages) as site:

        class StoppingSpider(PagesSpider):
            def parse(self, response: Response) -> Iterator[Any]:
                if response.url.endswith("/5" if at == "middle" else "/29"):
                    server.process.send_signal(signal.SIGSTOP)
                    stopped.append(time.monotonic())
                yield from super().parse(response)

        stopped: list[float] = []
        settings = {"SIMHASH_STORE": server.url("store"), "SIMHASH_PROCESSES": 0}
        done = await crawl(tmp_path, site.urls(), spider=StoppingSpider, **settings)
        took = time.monotonic() - stopped[0]
    assert len(done.items) == len(pages)
    # Two time-outs, where 15 seconds are allowed for two of 5 seconds.
    assert took < 2 * 1.0 + 4
    if at == "middle":
        assert done.stats["simhash/not_judged/store_unavailable"] == 24


@pytest.mark.usefixtures("store_seed")
def test_commands(redis_server: RedisServer, tmp_path: Path, run: Run) -> None:
    url = redis_server.url()
    crawl_into(url)  # type: ignore[arg-type]
    (stats,) = run("check", "--store", url, "--json").answers
    assert (stats["documents"], stats["near_duplicates"]) == (4, 1)
    assert stats["bytes"] > 0
    for command in (["check"], ["find-all"]):
        done = run(*command, "--store", url, "--json")
        assert done.exit_code in (0, 1), (command, done.err)
        # Near-duplicates are in no table.
        nothing = "scrapy simhash find-all: no two of 3 fingerprints are within 3 bits\n"
        assert done.err == nothing * ("find-all" in command), command
    assert run("explain", ONE, "--store", url).exit_code == 0
    assert run("undo", AGAIN, "--store", url).exit_code == 0
    archive = tmp_path / "fingerprints.simhash"
    (exported,) = run("export", "fingerprints", "-o", archive, "--store", url, "--json").answers
    (imported,) = run("import", url, "--store", redis_server.url(), "--json").answers
    assert imported["pages"] == exported["fingerprints"] == 3
    backup = run("export", "store", "-o", tmp_path / "copy", "--store", url)
    assert backup.exit_code == 2
    assert "BGSAVE" in backup.err
