"""A judge that dies or stands still while it opens the store, first or in place of another one."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.detector import client as client_module
from scrapy_simhash.detector.client import JudgeClient
from scrapy_simhash.errors import StoreError
from tests.helpers.detecting import fetched, make, running
from tests.helpers.pages import page

pytestmark = pytest.mark.usefixtures("warm_worker", "judge_apart")


def kill(client: Any) -> None:
    os.kill(client._judge.process.pid, signal.SIGKILL)


async def check_not_opened(tmp_path: Path) -> None:
    detector = make(str(tmp_path / "s"), workers=1)
    with pytest.raises(StoreError, match="ended while it opened the store"):
        await detector.open("spider")


async def test_a_judge_that_dies_before_the_crawl_begins_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one would go on with a crawl of which the store knows nothing."""
    take = JudgeClient._take_lease

    def die(client: Any) -> None:
        kill(client)
        client._judge.join()
        take(client)

    monkeypatch.setattr(JudgeClient, "_take_lease", die)
    await check_not_opened(tmp_path)


async def test_a_judge_that_stands_still_at_the_start_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_OPENING_SECONDS", 0.5)
    monkeypatch.setattr(client_module, "_SILENT_SECONDS", 0.5)
    start = JudgeClient._start

    def stop(client: Any) -> None:
        start(client)
        os.kill(client._judge.process.pid, signal.SIGSTOP)

    monkeypatch.setattr(JudgeClient, "_start", stop)
    await check_not_opened(tmp_path)


async def test_no_store_is_made_in_the_place_of_one_that_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Pages pass as soon as two judges did not open it, and the crawl ends."""
    async with running(tmp_path / "s", workers=1, log=None) as detector:
        assert (await detector.judge(fetched("a", page(1)))).status == "new"
        shutil.rmtree(tmp_path / "s")
        kill(detector._client)
        decision = await detector.judge(fetched("b", page(2)))
        assert decision.reason == "store_unavailable"
    assert not (tmp_path / "s" / "data.mdb").exists()
    assert "Pages are not judged while the store fails" in caplog.text
