"""Crawls that are stopped at random moments in every way, and resumed.

`SIMHASH_TEST_KILLS=500 pytest -m '' tests/crawl/test_kills.py` runs as many rounds.
"""

import asyncio
import os
import random
import signal
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from queuelib import FifoDiskQueue

from scrapy_simhash.detector.log import CUT_OFF
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import crawl, path_of, read_lines
from tests.helpers.crawlscript import finish_crawl, start_crawl
from tests.helpers.dyingspider import KilledError, dying_unlink
from tests.helpers.pages import make_groups
from tests.helpers.processes import wait_until
from tests.helpers.server import Site

ROUNDS = int(os.environ.get("SIMHASH_TEST_KILLS", "8"))
GROUPS, COPIES = 40, 3
SETTINGS: dict[str, Any] = {"CONCURRENT_REQUESTS": 8, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}
MODES = ("SIGTERM", "SIGINT twice", "kill -9", "SIGTERM twice")


class Round(NamedTuple):
    """How a crawl is stopped: in which way, with a JOBDIR or not, after how many pages."""

    mode: str
    jobdir: bool
    pages: int
    delay_seconds: float


def draw(seed: int) -> Round:
    """Every way comes as often as any other."""
    random_ = random.Random(seed)  # noqa: S311 - reproducible
    return Round(
        MODES[seed % 4],
        bool(seed // 4 % 2),
        random_.randint(1, GROUPS * COPIES),
        random_.choice([0, random_.random() * 0.1]),
    )


ANSWERS = make_groups(GROUPS, COPIES)


def mend_job(folder: Path) -> None:
    """Take away what keeps Scrapy from ever ending when a job goes on, with this plugin or without.

    An empty queue of requests is removed file by file, the requests first. A crawl that is killed
    just then leaves `info.json`, which says from where on to read. The next crawl puts a request
    into a new file, looks for it there, finds none, and waits, because it knows that there is one.
    """
    for count in folder.rglob("info.json"):
        if not any(count.parent.glob("q*")):
            count.unlink()


def stop(process: Any, mode: str) -> None:
    if mode == "kill -9":
        process.kill()
        return
    name, *twice = mode.split()
    process.send_signal(signal.Signals[name])
    if twice:
        time.sleep(0.03)
        process.send_signal(signal.Signals[name])


@pytest.mark.slow
@pytest.mark.usefixtures("warm_worker")
@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_nothing_is_lost_however_a_crawl_is_stopped(
    site: Site, tmp_path: Path, seed: int
) -> None:
    mode, jobdir, pages, delay_seconds = draw(seed)
    settings = SETTINGS | ({"JOBDIR": str(tmp_path / "job")} if jobdir else {})
    urls = random.Random(seed).sample(site.urls(), GROUPS * COPIES)  # noqa: S311 - reproducible
    first = start_crawl(tmp_path, urls, "first", **settings)
    wait_until(lambda: len(site.asked) >= pages or first.poll() is not None)
    await asyncio.sleep(delay_seconds)
    stop(first, mode)
    finish_crawl(first, tmp_path, "first")
    store, through = tmp_path / "store", defaultdict[str, set[str]](set)
    log = read_lines(store / "log.jsonl")
    kept = set() if jobdir else {line["url"] for line in log if line["status"] == "new"}
    mend_job(tmp_path / "job")
    # Nobody asks for those a second time: where their items did not come through, others must.
    second = await crawl(store, [url for url in urls if url not in kept], **settings)
    assert second.stats["finish_reason"] == "finished"
    for item in [*read_lines(tmp_path / "first.jsonl"), *second.items]:
        through[item["path"].split("/")[1]].add(item["path"])
    decisions = [line for line in read_lines(store / "log.jsonl") if line["status"] != CUT_OFF]
    check_decisions(decisions, through)
    check_store(store, decisions)
    if not jobdir or mode == "SIGTERM":
        # After the other two Scrapy itself forgets requests of a JOBDIR.
        assert set(through) == {f"g{group}" for group in range(GROUPS)}
    if mode == "SIGTERM":
        assert {len(kept) for kept in through.values()} == {1}


def check_decisions(decisions: list[dict[str, Any]], through: dict[str, set[str]]) -> None:
    """Whatever was dropped, something like it came through; nothing was dropped for itself."""
    for decision in decisions:
        assert decision["status"] != "not_judged", decision
        if decision["status"] == "near_duplicate":
            assert decision["match_url"] != decision["url"]
            group = path_of(decision["url"]).split("/")[1]
            assert path_of(decision["match_url"]).split("/")[1] == group
            assert through[group], decision


def check_store(folder: Path, decisions: list[dict[str, Any]]) -> None:
    """Every decision that was told is in the store; nothing waits for an original any more."""
    with open_store(str(folder)) as store:
        assert store.check() == []
        assert store.stats()["lost"] == 0
        for decision in decisions:
            stored = store.get_document(decision["document"])
            assert stored
            assert stored.facts.url == decision["url"]


@pytest.mark.parametrize("mended", [False, True])
def test_scrapy_waits_for_requests_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, mended: bool
) -> None:
    """When this fails without mending, Scrapy's queues mend it themselves: `mend_job` can go."""
    queue = FifoDiskQueue(tmp_path / "queue")
    queue.push(b"request")
    assert queue.pop() == b"request"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dying_unlink(KilledError))
        with pytest.raises(KilledError):
            queue.close()
    if mended:
        mend_job(tmp_path)
    queue = FifoDiskQueue(tmp_path / "queue")
    queue.push(b"request")
    assert (queue.pop(), len(queue)) == ((b"request", 0) if mended else (None, 1))
    queue.close()


@pytest.mark.slow
@pytest.mark.usefixtures("warm_worker")
async def test_a_job_that_was_killed_while_a_queue_was_removed_goes_on(
    site: Site, tmp_path: Path
) -> None:
    settings = SETTINGS | {"JOBDIR": str(tmp_path / "job")}
    spider = "tests.helpers.dyingspider.DyingSpider"
    first = start_crawl(tmp_path, site.urls(), "first", SPIDER=spider, **settings)
    assert finish_crawl(first, tmp_path, "first").exit_code == -signal.SIGKILL
    (left,) = (tmp_path / "job").rglob("info.json")
    assert list(left.parent.iterdir()) == [left]
    mend_job(tmp_path / "job")
    second = await crawl(tmp_path / "store", site.urls(), **settings)
    assert second.stats["finish_reason"] == "finished"
    assert set(site.urls()) == {decision["url"] for decision in second.decisions}
