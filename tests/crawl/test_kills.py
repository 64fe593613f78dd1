"""Crawls that are stopped at random moments in every way, and resumed.

`SIMHASH_TEST_KILLS=500 pytest -m '' tests/crawl/test_kills.py` runs as many rounds.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.crawling import crawl, list_states, path_of, read_lines
from tests.helpers.crawlscript import finish_crawl, start_crawl
from tests.helpers.pages import make_groups
from tests.helpers.processes import list_judges, wait_until
from tests.helpers.server import Site

ROUNDS = int(os.environ.get("SIMHASH_TEST_KILLS", "8"))
GROUPS, COPIES = 40, 3
SETTINGS: dict[str, Any] = {"CONCURRENT_REQUESTS": 8, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}
MODES = ("SIGTERM", "SIGINT twice", "kill -9", "SIGTERM twice")
ANSWERS = make_groups(GROUPS, COPIES)
EVERY_GROUP = {f"g{group}" for group in range(GROUPS)}


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
@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_nothing_is_lost_however_a_crawl_is_stopped(
    site: Site, tmp_path: Path, seed: int
) -> None:
    """What a crawl dropped before had come through; and the next one has a page of each group.

    An incremental one has those that did not come through by then.
    """
    draw = random.Random(seed)  # noqa: S311 - reproducible
    # Every way comes as often as any other, with a JOBDIR or not.
    mode, jobdir = MODES[seed % 4], seed // 4 % 2
    pages, delay_seconds = draw.randint(1, GROUPS * COPIES), draw.choice([0, draw.random() * 0.1])
    settings = SETTINGS | ({"JOBDIR": str(tmp_path / "job")} if jobdir else {})
    settings["SIMHASH_INCREMENTAL"] = bool(seed // 8 % 2)
    urls = random.Random(seed).sample(site.urls(), GROUPS * COPIES)  # noqa: S311 - reproducible
    first = start_crawl(tmp_path, urls, "first", **settings)
    wait_until(lambda: len(site.asked) >= pages or first.poll() is not None)
    await asyncio.sleep(delay_seconds)
    stop(first, mode)
    finish_crawl(first, tmp_path, "first")
    log, before = tmp_path / "store" / "log.jsonl", read_lines(tmp_path / "first.jsonl")
    came = groups_of(item["path"] for item in before)
    assert list_dropped(read_lines(log)) <= came
    mend_job(tmp_path / "job")
    second = await crawl(tmp_path / "store", urls, **settings)
    assert second.stats["finish_reason"] == "finished"
    assert list_dropped(second.decisions) <= came | second.groups
    list_states(tmp_path / "store")
    if not jobdir or mode == "SIGTERM":  # after the others Scrapy forgets requests of a JOBDIR
        assert came | second.groups == EVERY_GROUP
    if not jobdir and not settings["SIMHASH_INCREMENTAL"]:
        assert second.groups == EVERY_GROUP


def groups_of(paths: Iterable[str]) -> set[str]:
    return {path.split("/")[1] for path in paths}


def list_dropped(decisions: list[dict[str, Any]]) -> set[str]:
    """List the groups of which pages were dropped, each for another page of its own."""
    dropped = [line for line in decisions if line["action"] == "drop"]
    for line in dropped:
        assert line["match_url"] != line["url"]
        assert groups_of(map(path_of, (line["match_url"], line["url"]))) < EVERY_GROUP
    return groups_of(path_of(line["url"]) for line in dropped)


class SlowPipeline:
    """Takes some time for each item, so that pages are young when their judge is killed."""

    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(0.02)
        return item


@pytest.mark.slow
@pytest.mark.usefixtures("judge_apart")
@pytest.mark.parametrize("seed", range(max(3, ROUNDS // 3)))
@pytest.mark.parametrize("processes", [1, 2])
async def test_kills_of_judges_cost_a_page_twice_at_most(
    site: Site, tmp_path: Path, seed: int, processes: int
) -> None:
    """Nothing is lost; what is young then, or was not written yet, may come twice."""
    random_, kills = random.Random(seed), 0  # noqa: S311 - reproducible

    async def kill() -> None:
        nonlocal kills
        while kills < 2:
            await asyncio.sleep(random_.uniform(0.2, 0.8))
            # One that dies while it opens the store at first stops the crawl.
            for judge in sorted(list_judges())[: bool(site.asked)]:
                os.kill(judge, signal.SIGKILL)
                kills += 1

    killing = asyncio.ensure_future(kill())
    urls = [*site.urls(), *(url.replace("127.0.0.1", "localhost") for url in site.urls())]
    settings = SETTINGS | {"ITEM_PIPELINES": {SlowPipeline: 300}, "SIMHASH_SCOPE": "host"}
    done = await crawl(tmp_path, urls, SIMHASH_PROCESSES=processes, **settings)
    killing.cancel()
    assert (done.stats["finish_reason"], list_judges()) == ("finished", set())
    assert done.groups == EVERY_GROUP
    assert len(done.paths) <= 2 * GROUPS + 25 * kills
    assert {each["status"] for each in done.decisions} <= {"new", "near_duplicate"}
    list_states(tmp_path)
