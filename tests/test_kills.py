"""Crawls that are stopped at random moments in every way, and resumed.

`SIMHASH_TEST_KILLS=500 pytest tests/test_kills.py` runs as many rounds.
"""

import asyncio
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scrapy_simhash.stores import open_store
from tests.crawling import crawl, path_of, read_lines
from tests.crawlscript import finish_crawl, start_crawl
from tests.pages import page
from tests.processes import wait_until
from tests.server import Site, serve

ROUNDS = int(os.environ.get("SIMHASH_TEST_KILLS", "6"))
GROUPS, COPIES = 40, 3
SETTINGS: dict[str, Any] = {"CONCURRENT_REQUESTS": 8, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}
MODES = ("SIGTERM", "SIGINT twice", "kill -9")


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
        MODES[seed % 3],
        bool(seed // 3 % 2),
        random_.randint(1, GROUPS * COPIES),
        random_.choice([0, random_.random() * 0.1]),
    )


@pytest.fixture
def site() -> Iterator[Site]:
    """Groups of copies; those of a group come far from each other."""
    answers = {
        f"/g{group}/c{copy}": page(group, title="Title" + " again" * copy, menu=f"Menu {copy}")
        for copy in range(COPIES)
        for group in range(GROUPS)
    }
    with serve(answers) as site:
        yield site


def stop(process: Any, mode: str) -> None:
    if mode == "kill -9":
        process.kill()
        return
    process.send_signal(signal.SIGTERM if mode == "SIGTERM" else signal.SIGINT)
    if mode == "SIGINT twice":
        time.sleep(0.03)
        process.send_signal(signal.SIGINT)


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
    # Nobody asks for those a second time: where their items did not come through, others must.
    second = await crawl(store, [url for url in urls if url not in kept], **settings)
    assert second.stats["finish_reason"] == "finished"
    for item in [*read_lines(tmp_path / "first.jsonl"), *second.items]:
        through[item["path"].split("/")[1]].add(item["path"])
    decisions = read_lines(store / "log.jsonl")
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
        assert decision["status"] != "unjudged", decision
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
            assert stored.url == decision["url"]
