"""Worker processes: what a page can do to them, and what ends them."""

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrapy_simhash.detector import Workers
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.pages import PageFingerprint, Recipe, fingerprint_page
from tests.helpers.hostile import TRIGGER
from tests.helpers.needing import slow_but
from tests.helpers.pages import page
from tests.helpers.processes import (
    PATIENCE_SECONDS,
    ROOT,
    is_running,
    start_python,
    wait_until,
)

COUNT = 2
DEADLINE_SECONDS = 1.0
PAGE_MEMORY_BYTES = 64 * 2**20
BAD_PAGE = f"<html><p>{TRIGGER}</p></html>"


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    workers = Workers(COUNT, DEADLINE_SECONDS)
    workers.start()
    yield workers
    workers.stop()


async def read(
    workers: Workers, html: str, extractor: str = "html2txt", *, keep_text: bool = True
) -> PageFingerprint:
    name = extractor if extractor == "html2txt" else f"tests.helpers.hostile.{extractor}"
    return await workers.fingerprint(
        html.encode(), "utf-8", Recipe(name, "words-2"), seed=7, keep_text=keep_text
    )


def processes() -> set[int]:
    return {process.pid for process in multiprocessing.active_children() if process.pid}


async def test_page_gets_the_fingerprint_it_gets_anywhere(workers: Workers) -> None:
    made = await read(workers, page(1))
    expected = fingerprint_page(page(1), recipe=Recipe("html2txt", "words-2"), seed=7)
    assert made.fingerprint == expected.fingerprint
    assert made.text_digest == expected.text_digest
    assert made.text == expected.text


async def test_text_stays_in_the_worker_unless_it_is_kept(workers: Workers) -> None:
    made = await read(workers, page(1), keep_text=False)
    assert made.text == ""
    assert made.words > 0


async def test_unjudged_page_says_why(workers: Workers) -> None:
    with pytest.raises(UnjudgedError) as raised:
        await read(workers, " ")
    assert raised.value.reason == "empty"


@pytest.mark.parametrize(
    "extractor", slow_but(["hang", "hang_deaf"], ["hang", "spin", "hang_natively", "hang_deaf"])
)
async def test_deadline_kills_the_worker_of_its_page_only(workers: Workers, extractor: str) -> None:
    await asyncio.gather(*(read(workers, page(1), "slow") for _ in range(4)))  # all are up
    before = processes()
    started = time.monotonic()
    bad = asyncio.ensure_future(read(workers, BAD_PAGE, extractor))
    while not bad.done():
        await asyncio.wait_for(read(workers, page(2), extractor), PATIENCE_SECONDS)
    with pytest.raises(UnjudgedError) as raised:
        await bad
    assert raised.value.args == ("timed_out", f"{DEADLINE_SECONDS} seconds")
    assert time.monotonic() - started >= DEADLINE_SECONDS
    wait_until(lambda: len(before - processes()) == 1)  # killed, and gone
    assert (await read(workers, page(1), extractor)).words


async def test_deadline_runs_from_the_start_of_the_work(workers: Workers) -> None:
    started = time.monotonic()
    made = await asyncio.gather(*(read(workers, page(1), "slow") for _ in range(10)))
    assert time.monotonic() - started > DEADLINE_SECONDS  # the last ones waited longer than that
    assert len(made) == 10


@pytest.mark.parametrize("extractor", slow_but(["crash"], ["crash", "leave"]))
async def test_crash_costs_its_page_only(workers: Workers, extractor: str) -> None:
    pages = [page(1), BAD_PAGE, page(2), page(3), page(4)]
    made = await asyncio.gather(
        *(read(workers, html, extractor) for html in pages), return_exceptions=True
    )
    assert isinstance(made[1], UnjudgedError), made[1]
    assert made[1].reason == "worker_died"
    assert "exit code" in made[1].detail
    assert all(isinstance(good, PageFingerprint) for good in made[:1] + made[2:])
    assert (await read(workers, page(5), extractor)).words


@pytest.mark.skipif(sys.platform != "linux", reason="memory has no bound elsewhere")
@pytest.mark.parametrize("extractor", slow_but(["eat_quietly"], ["eat", "eat_quietly"]))
async def test_memory_costs_its_page_only(workers: Workers, extractor: str) -> None:
    del workers  # keeps the processes
    bounded = Workers(COUNT, PATIENCE_SECONDS, PAGE_MEMORY_BYTES)
    bounded.start()
    pages = [page(1), BAD_PAGE, page(2), page(3), page(4)]
    made = await asyncio.gather(
        *(read(bounded, html, extractor) for html in pages), return_exceptions=True
    )
    assert isinstance(made[1], UnjudgedError), made[1]
    assert made[1].args == ("out_of_memory", f"{PAGE_MEMORY_BYTES} bytes")
    assert all(isinstance(good, PageFingerprint) for good in made[:1] + made[2:])
    assert (await read(bounded, page(5), extractor)).words
    bounded.stop()


async def test_workers_outlive_the_thread_that_started_them(workers: Workers) -> None:
    others = processes()
    three = Workers(3, DEADLINE_SECONDS)
    thread = threading.Thread(target=three.start)
    thread.start()
    thread.join()
    started = processes() - others
    made = await asyncio.gather(*(read(three, page(1), "slow") for _ in range(9)))
    assert len(made) == 9
    assert processes() - others == started
    assert len(started) == 3
    await asyncio.to_thread(three.stop)
    del workers  # keeps the processes that are left


async def test_error_of_an_extractor_arrives_with_its_traceback(workers: Workers) -> None:
    with pytest.raises(UnjudgedError, match=r"ArithmeticError: .*always fails here") as raised:
        await read(workers, BAD_PAGE, "fail")
    assert raised.value.reason == "failed"


async def test_abandoned_page_costs_nothing_but_itself(workers: Workers) -> None:
    await asyncio.gather(*(read(workers, page(1), "slow") for _ in range(4)))  # all are up
    abandoned = asyncio.ensure_future(read(workers, BAD_PAGE, "hang"))
    await read(workers, page(1))
    abandoned.cancel()
    with pytest.raises(asyncio.CancelledError):
        await abandoned
    made = await asyncio.gather(*(read(workers, page(1), "slow") for _ in range(4)))
    assert len(made) == 4


async def test_pool_outlives_a_worker_killed_while_idle(workers: Workers) -> None:
    await read(workers, page(1))
    others = processes()
    three = Workers(3, DEADLINE_SECONDS)  # pools are shared by size: this one may break
    await asyncio.to_thread(three.start)
    victim = min(processes() - others)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in processes())
    await asyncio.sleep(0.5)  # the pool looks ten times a second; it shall find it gone
    for _ in range(4):
        assert (await asyncio.wait_for(read(three, page(1)), PATIENCE_SECONDS)).words
    wait_until(lambda: len(processes() - others) == 3)
    await asyncio.to_thread(three.stop)
    assert processes() == others


async def test_interrupt_leaves_workers_at_work(workers: Workers) -> None:
    await asyncio.gather(*(read(workers, page(1), "slow") for _ in range(4)))
    before = processes()
    working = asyncio.gather(*(read(workers, page(1), "slow") for _ in range(4)))
    await asyncio.sleep(0)
    for pid in before:
        os.kill(pid, signal.SIGINT)
    assert len(await working) == 4
    assert processes() == before


async def test_worker_loads_neither_main_module_nor_scrapy(workers: Workers) -> None:
    pid, *modules = (await read(workers, page(1), "describe_process")).text.split()
    assert int(pid) in processes()
    assert "scrapy_simhash.pages.text" in modules
    assert not {"scrapy", "twisted", "lmdb", "pytest"}.intersection(modules)


async def test_no_workers_means_this_process() -> None:
    workers = Workers(0, DEADLINE_SECONDS)
    workers.start()
    made = await read(workers, page(1), "describe_process")
    workers.stop()
    assert made.text.split()[0] == str(os.getpid())


@pytest.mark.slow
async def test_crawls_share_processes_until_the_last_ends() -> None:
    threads, others = threading.active_count(), processes()
    # Pools are shared by size, and other tests keep one of 1 and one of 2.
    first, second = Workers(3, DEADLINE_SECONDS), Workers(3, 2 * DEADLINE_SECONDS)
    for workers in (first, second):
        await asyncio.to_thread(workers.start)
    assert len(processes() - others) == 3
    await asyncio.to_thread(first.stop)
    await asyncio.to_thread(first.stop)  # harmless
    assert (await read(second, page(1))).words
    await asyncio.to_thread(second.stop)
    assert processes() == others
    # Those of asyncio.to_thread stay.
    pools = [t.name for t in threading.enumerate() if not t.name.startswith("asyncio")]
    assert len(pools) <= threads


def test_stopping_without_starting_is_harmless() -> None:
    Workers(3, DEADLINE_SECONDS).stop()


# No main guard: a worker that imported this would start a crawl of its own, or print.
SCRIPT = f"""
import asyncio, multiprocessing, sys
sys.path.insert(0, {str(ROOT)!r})
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.detector.workers import Workers

print("main module", flush=True)

async def main():
    workers = Workers(2, 600)
    workers.start()
    made = await workers.fingerprint(
        b"<html><p>one two three", None, Recipe("html2txt"), 0, keep_text=True
    )
    print(made.words, *(process.pid for process in multiprocessing.active_children()), flush=True)
    bad = b"<html><p>{TRIGGER}</p></html>"
    recipe = Recipe("tests.helpers.hostile." + sys.argv[1])
    await workers.fingerprint(bad, None, recipe, 0, keep_text=True)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "extractor", slow_but(["hang_deaf"], ["hang", "hang_natively", "hang_deaf"])
)
def test_workers_idle_or_not_end_with_a_killed_script(tmp_path: Path, extractor: str) -> None:
    script = tmp_path / "crawl.py"
    script.write_text(SCRIPT, encoding="utf-8")
    with start_python(script, extractor, cwd=tmp_path) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "main module\n"
        words, *pids = map(int, parent.stdout.readline().split())
        assert words == 3
        assert len(pids) == 2
        assert all(map(is_running, pids))
        if extractor != "hang":  # which takes no time; to load everything takes less than a second
            before = sum(map(cpu_seconds, pids))
            wait_until(lambda: sum(map(cpu_seconds, pids)) > before + 2)
        parent.kill()
        try:
            wait_until(lambda: not any(map(is_running, pids)))
        finally:
            for pid in filter(is_running, pids):  # only when this test fails
                os.kill(pid, signal.SIGKILL)
        assert parent.stdout.read() == ""


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")
