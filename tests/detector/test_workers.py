"""Worker processes: what a page can do to them, what starts them, and what ends them."""

import asyncio
import errno
import fcntl
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from scrapy_simhash.detector.process import Parent
from scrapy_simhash.detector.worker import unpack_fingerprint
from scrapy_simhash.detector.workers import Workers
from scrapy_simhash.errors import NotJudgedError
from scrapy_simhash.pages.facts import Page, PageFingerprint
from scrapy_simhash.pages.recipe import Recipe
from tests.helpers.detecting import check_read, working
from tests.helpers.hostile import TRIGGER
from tests.helpers.needing import slow_but
from tests.helpers.pages import page
from tests.helpers.processes import (
    PATIENCE_SECONDS,
    ROOT,
    is_running,
    list_workers,
    start_python,
    wait_until,
)

DEADLINE_SECONDS = 1.0
FD_SETSIZE = 1_024  # `select` takes no file from this number on
PAGE_MEMORY_BYTES = 64 * 2**20
RECIPE = Recipe("html2txt", "words-2")
BAD_PAGE = f"<html><p>{TRIGGER}</p></html>"


@pytest.fixture(scope="module")
async def workers() -> AsyncIterator[Workers]:
    async with working(2) as two:
        yield two


async def read(workers: Workers, html: str, extractor: str = "html2txt") -> PageFingerprint:
    name = extractor if extractor == RECIPE.extractor else f"tests.helpers.hostile.{extractor}"
    recipe = Recipe(name, RECIPE.features)
    made = workers.fingerprint(html.encode(), "utf-8", recipe, seed=7)
    return await asyncio.wait_for(made, PATIENCE_SECONDS)


async def read_slowly(workers: Workers, count: int = 4) -> list[PageFingerprint]:
    """Read pages that take .3 seconds each; all workers are up then."""
    return await asyncio.gather(*(read(workers, page(1), "slow") for _ in range(count)))


@pytest.mark.parametrize(
    "extractor", slow_but(["hang", "hang_deaf"], ["hang", "spin", "hang_natively", "hang_deaf"])
)
async def test_deadline_kills_the_worker_of_its_page_only(workers: Workers, extractor: str) -> None:
    await read_slowly(workers)
    before = list_workers()
    began = time.monotonic()
    bad = asyncio.ensure_future(read(workers, BAD_PAGE, extractor))
    while not bad.done():
        await read(workers, page(2), extractor)
    with pytest.raises(NotJudgedError) as raised:
        await bad
    assert raised.value.args == ("timed_out", f"{DEADLINE_SECONDS} seconds")
    assert time.monotonic() - began >= DEADLINE_SECONDS
    wait_until(lambda: len(before - list_workers()) == 1)  # killed, and gone
    assert (await read(workers, page(1), extractor)).facts.words


async def test_deadline_runs_from_the_start_of_the_work(workers: Workers) -> None:
    began = time.monotonic()
    assert len(await read_slowly(workers, 10)) == 10
    assert time.monotonic() - began > DEADLINE_SECONDS  # the last ones waited longer than that


@pytest.mark.parametrize("extractor", slow_but(["crash"], ["crash", "leave"]))
async def test_crash_costs_its_page_only(workers: Workers, extractor: str) -> None:
    await check_one_bad_page(workers, extractor, r"'worker_died', 'exit code .*, 2 times'")


@pytest.mark.skipif(sys.platform != "linux", reason="memory has no bound elsewhere")
@pytest.mark.parametrize("extractor", slow_but(["eat_quietly"], ["eat", "eat_quietly"]))
async def test_memory_costs_its_page_only(workers: Workers, extractor: str) -> None:
    del workers  # keeps the processes
    async with working(2, PATIENCE_SECONDS, PAGE_MEMORY_BYTES) as bounded:
        reason = f"'out_of_memory', '{PAGE_MEMORY_BYTES} bytes'"
        await check_one_bad_page(bounded, extractor, reason)


async def check_one_bad_page(workers: Workers, extractor: str, reason: str) -> None:
    pages = [page(1), BAD_PAGE, page(2), page(3), page(4)]
    reading = (read(workers, html, extractor) for html in pages)
    made = await asyncio.gather(*reading, return_exceptions=True)
    bad = made.pop(1)
    assert all(isinstance(good, PageFingerprint) for good in made)
    with pytest.raises(NotJudgedError, match=reason):
        raise bad if isinstance(bad, Exception) else AssertionError(bad)
    assert (await read(workers, page(5), extractor)).facts.words


async def test_an_address_that_cannot_be_sent_costs_its_page_only(workers: Workers) -> None:
    urls = "http://a.example/\udc80", "http://a.example/"
    pages = (Page(url, page(1).encode(), "utf-8") for url in urls)
    bad, good = (workers.read(each, RECIPE, 7) for each in pages)
    with pytest.raises(NotJudgedError, match="surrogates"):
        await bad
    assert unpack_fingerprint((await asyncio.wait_for(good, PATIENCE_SECONDS)).packed).facts.words


# In a loop of its own, so that it shares no workers with other tests.
@pytest.mark.asyncio(loop_scope="function")
async def test_pool_outlives_a_worker_killed_while_idle() -> None:
    others = list_workers()
    async with working(1) as one:
        for _ in range(2):
            before = list_workers() - others
            for victim in before:
                os.kill(victim, signal.SIGKILL)
            # At once, when nobody has seen it yet; and by another crawl, which finds none ready.
            async with working(1) as another:
                assert (await read(another, page(1))).facts.words
                assert (await read(one, page(1))).facts.words
            now = list_workers() - others
            assert len(now) == len(before) == 1
            assert not before & now
    assert list_workers() == others


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.asyncio(loop_scope="function")
async def test_worker_killed_while_it_is_handed_pages_costs_none() -> None:
    others = list_workers()
    async with working(1) as one:
        (victim,) = list_workers() - others
        os.kill(victim, signal.SIGSTOP)  # so that it does not begin with them
        reading = asyncio.gather(*(read(one, page(seed)) for seed in range(5)))
        await asyncio.sleep(0.1)
        os.kill(victim, signal.SIGKILL)
        for seed, made in enumerate(await reading):
            check_read(seed, made, RECIPE)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while list_workers() != others:  # noqa: ASYNC110 - the system says it to nobody
            await asyncio.sleep(0.01)


async def describe_process(workers: Workers) -> list[str]:
    """List the number of the process that reads pages, and the modules that it has loaded."""
    scope = "tests.helpers.hostile.describe_process"
    read = await workers.read(Page("", page(1).encode(), "utf-8"), RECIPE, 7, scope)
    return read.answer.scope.split()


async def test_worker_loads_neither_main_module_nor_scrapy(workers: Workers) -> None:
    pid, *modules = await describe_process(workers)
    assert int(pid) in list_workers()
    assert "scrapy_simhash.pages.text" in modules
    assert not {"scrapy", "twisted", "lmdb", "pytest"}.intersection(modules)


async def test_no_workers_means_this_process() -> None:
    async with working(0) as none:
        assert (await describe_process(none))[0] == str(os.getpid())


async def test_crawls_share_processes_until_the_last_ends() -> None:
    threads, others = threading.active_count(), list_workers()
    # Three, because two would share those of other tests.
    first, second = Workers(3, DEADLINE_SECONDS), Workers(3, 2 * DEADLINE_SECONDS)
    await first.start()
    await second.start()
    assert len(list_workers() - others) == 3
    await first.stop()
    await first.stop()  # harmless
    assert (await read(second, page(1))).facts.words
    assert len(list_workers() - others) == 3
    await second.stop()
    assert list_workers() == others
    # Those of asyncio.to_thread stay.
    pools = [t.name for t in threading.enumerate() if not t.name.startswith("asyncio")]
    assert len(pools) <= threads


@pytest.mark.parametrize("all_are_up", [False, True])
async def test_stopping_ends_pages_on_their_way(all_are_up: bool) -> None:
    others = list_workers()
    async with working(3, PATIENCE_SECONDS) as three:
        if all_are_up:
            await read_slowly(three, 9)
        hanging = [asyncio.ensure_future(read(three, BAD_PAGE, "hang")) for _ in range(6)]
        await asyncio.sleep(0.1)
    ended = await asyncio.gather(*hanging, return_exceptions=True)
    assert {error.reason for error in ended if isinstance(error, NotJudgedError)} == {"worker_died"}
    assert len(ended) == 6
    assert list_workers() == others
    with pytest.raises(NotJudgedError, match="the workers are not running"):  # not in this process
        await read(three, page(1))


NO_INTERPRETER = ["/no/such/python", "/bin/false"]  # one cannot be started, one ends at once


def open_no_file(*_: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("sys.executable", NO_INTERPRETER[0], "No such file"),
        ("sys.executable", NO_INTERPRETER[1], "exit code 1"),
        ("socket.socketpair", open_no_file, "Too many open files"),
        ("mmap.mmap", open_no_file, "Too many open files"),
    ],
)
async def test_no_process_at_the_start_is_an_error(
    name: str,
    value: object,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = psutil.Process().num_fds()
    monkeypatch.setattr(name, value)
    with pytest.raises(RuntimeError, match="SIMHASH_WORKERS = 0"):
        await Workers(5, DEADLINE_SECONDS).start()
    assert told in caplog.text
    assert psutil.Process().num_fds() == before


@pytest.mark.parametrize("interpreter", slow_but(NO_INTERPRETER[1:], NO_INTERPRETER))
async def test_pages_pass_while_no_process_comes_up(
    interpreter: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "scrapy_simhash")
    others = list_workers()
    async with working(3) as workers:
        await read_slowly(workers, 9)
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", interpreter)
            for pid in list_workers() - others:
                os.kill(pid, signal.SIGKILL)
            reading = (read(workers, page(seed)) for seed in range(30))
            found = await asyncio.gather(*reading, return_exceptions=True)
            # A worker may answer the first ones before it is known that it was killed.
            failed = {error.args for error in found if isinstance(error, NotJudgedError)}
            assert failed == {("worker_died", "no worker process comes up")}
            assert len(caplog.records) == 1
        made = None
        while made is None:
            await asyncio.sleep(0.1)
            try:
                made = await read(workers, page(1))
            except NotJudgedError as error:
                assert error.reason == "worker_died"  # noqa: PT017
        async with working(3) as another:  # can be used by others, too
            assert (await read(another, page(1))).facts.fingerprint == made.facts.fingerprint
    assert list_workers() == others


async def count_words(pages: int) -> list[int]:
    async with working(1) as one:
        return [(await read(one, page(1))).facts.words for _ in range(pages)]


def test_event_loops_have_workers_of_their_own() -> None:
    """In several threads at once; and after a loop that was closed while a page hung."""
    found: list[list[int]] = []

    async def abandon() -> None:
        workers = Workers(1, PATIENCE_SECONDS)
        await workers.start()
        hanging = asyncio.ensure_future(read(workers, BAD_PAGE, "hang"))
        await asyncio.sleep(0.1)
        hanging.cancel()

    def run() -> None:
        asyncio.run(abandon())
        found.append(asyncio.run(count_words(3)))

    others = list_workers()
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert [len(words) for words in found] == [3] * 2
    assert len({number for words in found for number in words}) == 1
    wait_until(lambda: not any(map(is_running, list_workers() - others)))


# No main guard: a worker that imported this would start a crawl of its own, or print.
SCRIPT = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
from scrapy_simhash.pages.recipe import Recipe
from scrapy_simhash.detector.workers import Workers
from tests.helpers.processes import list_workers

print("main module", flush=True)

async def main():
    workers = Workers(2, 600)
    await workers.start()
    made = await workers.fingerprint(
        b"<html><p>one two three", None, Recipe("html2txt"), 0
    )
    print(made.facts.words, *list_workers(), flush=True)
    bad = b"<html><p>{TRIGGER}</p></html>"
    recipe = Recipe("tests.helpers.hostile." + sys.argv[1])
    await workers.fingerprint(bad, None, recipe, 0)

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


def test_a_process_with_a_thousand_files_gets_messages() -> None:
    """A worker sends its answers before it waits for the rest of an order."""
    crawl, process = socket.socketpair()
    with crawl, process:
        here = Parent(fcntl.fcntl(process, fcntl.F_DUPFD, FD_SETSIZE))
        assert not here.has_sent(1)
        with pytest.raises(queue.Empty):
            here.get(0.0)
        crawl.sendall(b"\x02\0\0\0ab\x01\0")
        wait_until(lambda: here.has_sent(1))
        assert not here.has_sent(2)
        assert here.get(0.0) == b"ab"
        here._socket.close()
