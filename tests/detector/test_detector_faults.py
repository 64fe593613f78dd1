"""The detector when pages, workers, disks and callers do what they should not."""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.detector import judge as judge_module
from scrapy_simhash.detector.workers import Workers
from scrapy_simhash.errors import StoreUnavailableError, StoreUnusableError
from scrapy_simhash.stores.lmdb.engine import environments
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import read_files
from tests.helpers.detecting import fetched, judge, make, running
from tests.helpers.fakestore import FakeStore
from tests.helpers.pages import page
from tests.helpers.processes import PATIENCE_SECONDS, list_workers

LOGGER = "scrapy_simhash.detector.detector"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


async def test_store_that_fails_later_lets_pages_pass(
    store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeStore()
    monkeypatch.setattr(judge_module, "open_store", lambda *_, **__: fake)
    full = StoreUnavailableError("the disk is full")
    pages = [fetched(str(number), page(number)) for number in range(7)]

    def warnings() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.name == LOGGER]

    async with running(store, log=None) as detector:
        assert await judge(detector, pages[0], done=False) == ["new"]
        # What is no failure of the store as such is tried once more, page by page.
        fake.failures += [full, full, OSError(5, "I/O error"), OSError(5, "I/O error")]
        assert await judge(detector, *pages[1:4]) == ["not_judged store_unavailable"] * 3
        assert len(warnings()) == 1
        assert "the disk is full" in warnings()[0]
        assert await judge(detector, pages[4], done=False) == ["new"]
        fake.failures.append(full)
        assert await judge(detector, *pages[5:]) == ["not_judged store_unavailable", "new"]
        assert len(warnings()) == 2  # another failure, another warning


async def test_whoever_comes_while_it_closes_is_told(store: Path) -> None:
    """Nobody waits for an answer that never comes, or gets one of a store that is closed."""
    answers: list[str] = []

    async def ask_on() -> None:
        while detector.is_open or len(answers) < 200:
            answers.append(f"{len(await detector.find_due())} due")
            answers.append((await detector.judge(fetched("one", page(1), is_file=True))).reason)

    async with running(store) as detector:
        asking = asyncio.ensure_future(ask_on())
        while "unchanged" not in answers:  # noqa: ASYNC110 - nobody else says so
            await asyncio.sleep(0)
    await asyncio.wait_for(asking, PATIENCE_SECONDS)
    assert set(answers) == {"0 due", "", "unchanged", "store_unavailable"}


def open_things() -> tuple[set[str], set[str], int]:
    """Name the running threads but for those that asyncio keeps, the processes, the stores."""
    threads = {t.name for t in threading.enumerate() if not t.name.startswith("asyncio")}
    processes = {str(pid) for pid in list_workers("judge")}
    return threads, processes, len(environments._entries)


@pytest.mark.usefixtures("judge_apart")
async def test_nothing_is_left_open(store: Path) -> None:
    before = open_things()
    for workers in (0, 2):
        async with running(store, workers=workers) as detector:
            await judge(detector, fetched("one", page(1)))
            threads, processes, stores = open_things()
            here = workers == 0
            assert (threads > before[0]) == here
            assert len(processes) == len(before[1]) + workers + (not here)
            assert stores == before[2] + here
        assert open_things() == before
    assert {name for name in read_files(store) if name[-5:] != ".lock"} == {"data.mdb", "log.jsonl"}


async def test_opening_twice_leaves_nothing_open(store: Path) -> None:
    before = open_things()
    detector = make(store)
    await detector.open("spider")
    with suppress(Exception):  # refusing is as good as ignoring
        await detector.open("spider")
    await detector.close()
    assert open_things() == before


def break_workers(monkeypatch: pytest.MonkeyPatch, _: Path) -> dict[str, Any]:
    async def start(_: Workers) -> None:
        raise OSError(11, "no more processes")

    monkeypatch.setattr(Workers, "start", start)
    return {}


def break_log(_: pytest.MonkeyPatch, store: Path) -> dict[str, Any]:
    return {"log": str(store.parent)}  # a folder


def break_store(_: pytest.MonkeyPatch, store: Path) -> dict[str, Any]:
    store.mkdir()
    (store / "data.mdb").write_bytes(b"something else" * 1_000)
    return {}


def break_recipe(_: pytest.MonkeyPatch, store: Path) -> dict[str, Any]:
    open_store(str(store)).close()  # made with the default extractor
    return {}


@pytest.mark.parametrize("break_it", [break_workers, break_log, break_store, break_recipe])
async def test_failed_opening_leaves_nothing_open(
    store: Path, monkeypatch: pytest.MonkeyPatch, break_it: Any
) -> None:
    fields = break_it(monkeypatch, store)
    before = open_things()
    detector = make(store, **fields)
    with pytest.raises((StoreUnusableError, OSError)):
        await detector.open("spider")
    assert open_things() == before
    assert not list((store / "leases").glob("*"))
    await detector.close()  # harmless
