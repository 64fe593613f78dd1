"""Pages that attack what reads them, through a real crawl with the defaults of the plugin."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.judge.client import PAGE_SECONDS
from scrapy_simhash.judge.process import PAGE_MEMORY_BYTES
from tests.helpers.crawling import crawl
from tests.helpers.hostilepages import HOSTILE, Hostile
from tests.helpers.needing import slow_but
from tests.helpers.pages import page
from tests.helpers.processes import list_judges
from tests.helpers.server import Answer, serve

# What a judge has loaded, with room for an interpreter that needs more.
LOADED_BYTES = 128 * 2**20
ORDINARY = 6
SETTINGS: dict[str, Any] = {
    "SIMHASH_ACTION": "flag",
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_WARNSIZE": 0,
    # Scrapy's own middleware raises on charsets that are none, and the spider gets nothing.
    "METAREFRESH_ENABLED": False,
}


def answer(hostile: Hostile) -> Answer:
    return Answer(hostile.make(), content_type=hostile.content_type, gzip=hostile.gzip)


def peaks() -> dict[int, int]:
    """Read the most bytes that each judge had in use at a time."""
    found = {}
    for pid in list_judges():
        with suppress(FileNotFoundError, ProcessLookupError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    found[pid] = int(line.split()[1]) * 1_024
    return found


@asynccontextmanager
async def watching() -> AsyncIterator[dict[int, int]]:
    """Collect the peaks of all judges there are meanwhile."""
    found = peaks()

    async def look() -> None:
        while True:
            found.update(peaks())
            await asyncio.sleep(0.05)

    looking = asyncio.ensure_future(look())
    yield found
    looking.cancel()


# Three crawls, so that no single test takes long.
PARTS = [list(HOSTILE)[:6], list(HOSTILE)[6:22], list(HOSTILE)[22:]]


@pytest.mark.usefixtures("judge_apart")
@pytest.mark.parametrize("names", slow_but(PARTS[2:], PARTS), ids=["slow", "large", "odd"])
async def test_all_reach_the_spider_within_deadline_and_memory(
    names: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = {f"/{name}": answer(HOSTILE[name]) for name in names}
    ordinary = {f"/ordinary-{number}": Answer(page(number).encode()) for number in range(ORDINARY)}
    with serve(answers | ordinary) as site, caplog.at_level(logging.WARNING):
        async with watching() as memory:
            urls = [
                url.replace("127.0.0.1", "localhost") if "ordinary" in url else url
                for url in site.urls()
            ]
            done = await crawl(tmp_path, urls, **SETTINGS)
    assert sorted(done.paths) == sorted(answers | ordinary)
    told = {path[1:]: verdict.partition(" ") for path, verdict in done.verdicts.items()}
    outcomes = {
        name: reason if status == "not_judged" else "judged"
        for name, (status, _, reason) in told.items()
    }
    # After three time-outs the pages of their site pass.
    expected = {name: {*HOSTILE[name].outcomes, "judged", "slow_site"} for name in names}
    assert {name: outcomes[name] for name in names if outcomes[name] not in expected[name]} == {}
    # Pages in flight beside them are judged, on a host of their own.
    assert {outcomes[path[1:]] for path in ordinary} == {"judged"}
    assert 0 < max(memory.values()) < PAGE_MEMORY_BYTES + LOADED_BYTES
    # One line a page at most, and nothing a terminal would obey.
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("scrapy_simhash")]
    assert len(lines) <= len(HOSTILE)
    assert all(line.isprintable() for line in lines), lines
    # No page was judged that had taken more than its time.
    judged = [each for each in done.decisions if each["status"] != "not_judged"]
    assert [each for each in judged if each["read_ms"] > 1_000 * PAGE_SECONDS + 1_000] == []
    # Every page without a judgement is counted by its reason.
    reasons = Counter(reason for reason in outcomes.values() if reason != "judged")
    counts = done.counted.items()
    counted = {key[11:]: count for key, count in counts if key.startswith("not_judged/")}
    assert (counted, done.counted["pages"]) == (reasons, len(outcomes) - reasons.total())
