"""A crawl with a store in memory: it drops as any other, keeps nothing, and says so."""

import os
from pathlib import Path

import pytest

from tests.helpers.crawling import crawl
from tests.helpers.pages import page
from tests.helpers.server import serve

pytestmark = pytest.mark.usefixtures("warm_worker")


async def test_nothing_is_kept_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serve({"/one": page(1), "/two": page(1, menu="Another menu")}) as site:
        for _ in range(2):
            done = await crawl(tmp_path, site.urls(), SIMHASH_STORE="memory:")
            assert (done.paths, done.counted["dropped"]) == (["/one"], 1)
    assert [record.levelname for record in caplog.records if "nothing is kept" in record.msg] == [
        "WARNING"
    ] * 2
    assert not any(os.scandir(tmp_path))


async def test_a_log_is_written_where_one_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with serve({"/one": page(1)}) as site:
        done = await crawl(tmp_path, site.urls(), SIMHASH_STORE="memory:", SIMHASH_LOG=str(log))
    assert [decision["status"] for decision in done.decisions] == ["new"]
