"""Pages that a worker got together, one of which is bad; the second reader; faults of the crew."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing import popen_fork
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.detector import Workers, channel, crew
from scrapy_simhash.detector.channel import Channel, Job
from scrapy_simhash.errors import UnjudgedError
from scrapy_simhash.pages import PageFingerprint, Recipe, fingerprint_page
from tests.helpers.crawling import crawl
from tests.helpers.needing import slow_but
from tests.helpers.pages import page
from tests.helpers.processes import PATIENCE_SECONDS, ROOT, run_python, wait_until
from tests.helpers.server import Answer, serve

DEADLINE_SECONDS = 2.0
PAGE_MEMORY_BYTES = 64 * 2**20
HOSTILE = "tests.helpers.hostilereaders"


@pytest.fixture(scope="module")
def worker() -> Iterator[Workers]:
    """One process, so that all pages of a moment go to it together."""
    workers = Workers(1, DEADLINE_SECONDS)
    workers.start()
    yield workers
    workers.stop()


async def read(
    workers: Workers, html: str, features: str = "WORDS", *, keep_text: bool = True
) -> PageFingerprint:
    recipe = Recipe(features=f"{HOSTILE}.{features}")
    return await workers.fingerprint(html.encode(), "utf-8", recipe, 7, keep_text=keep_text)


async def read_all(workers: Workers, pages: Sequence[str]) -> list[Any]:
    reading = asyncio.gather(*(read(workers, html) for html in pages), return_exceptions=True)
    return await asyncio.wait_for(reading, PATIENCE_SECONDS)


def says(*ways: str, seed: int = 99) -> str:
    """Make a page on which readers misbehave in these ways."""
    return page(seed, menu=" ".join(ways))


def check_ordinary(seed: int, found: Any) -> None:
    """Check that a page has its own fingerprint, made by the first reader."""
    assert isinstance(found, PageFingerprint), found
    expected = fingerprint_page(page(seed), recipe=Recipe(), seed=7)
    assert (found.fingerprint, found.text) == (expected.fingerprint, expected.text)
    assert (found.extractor, found.second_opinion) == ("turbohtml", "")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Sizes of the pages of each message to a worker."""
    messages: list[list[int]] = []
    send = Channel.send

    def note_and_send(to: Channel, jobs: Sequence[Job]) -> None:
        messages.append([len(job.body) for job in jobs])
        send(to, jobs)

    monkeypatch.setattr(Channel, "send", note_and_send)
    return messages


async def test_what_waits_goes_in_one_message(worker: Workers, sent: list[list[int]]) -> None:
    found = await read_all(worker, [page(seed) for seed in range(20)])
    for seed, each in enumerate(found):
        check_ordinary(seed, each)
    assert max(map(len, sent)) == 8
    assert sum(map(len, sent)) == 20
    del sent[:]
    large = "<p>" + "word " * 50_000
    await read_all(worker, [large] * 4)
    assert [len(message) for message in sent] == [1] * 4


PLACES = slow_but([3], [0, 3, 6])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", ["crashes", "aborts", "babbles"])
async def test_page_that_kills_its_worker_is_read_by_the_second_reader(
    worker: Workers, way: str, place: int, sent: list[list[int]]
) -> None:
    pages = [page(seed) for seed in range(7)]
    pages[place] = says(f"turbohtml {way}")
    found = await read_all(worker, pages)
    assert len(sent[0]) == 7
    bad = found[place]
    assert isinstance(bad, PageFingerprint), bad
    assert (bad.extractor, bad.second_opinion) == ("trafilatura-fast", "worker_died")
    recipe = Recipe("trafilatura-fast")
    expected = fingerprint_page(pages[place], recipe=recipe, seed=7)
    assert (bad.fingerprint, bad.text) == (expected.fingerprint, expected.text)
    for seed in set(range(7)) - {place}:
        check_ordinary(seed, found[seed])
    # Once with the others, once by itself, once for the second reader; the others once more at
    # most, each by itself. On a busy machine a worker that babbles may be at the next page when
    # that is heard: then this page is one of the others.
    assert len(sent) <= 1 + 2 + 6 + (way == "babbles")
    assert all(len(message) == 1 for message in sent[1:])


async def test_page_that_makes_the_fast_reader_raise_is_read_by_the_second_one(
    worker: Workers, sent: list[list[int]]
) -> None:
    pages = [page(0), says("turbohtml raises"), page(2)]
    found = await read_all(worker, pages)
    assert [len(message) for message in sent] == [3]
    assert isinstance(found[1], PageFingerprint), found[1]
    assert (found[1].extractor, found[1].second_opinion) == ("trafilatura-fast", "raised")
    check_ordinary(0, found[0])
    check_ordinary(2, found[2])


@pytest.mark.parametrize(
    ("ways", "reason"),
    [
        (("turbohtml crashes", "trafilatura-fast crashes"), "worker_died"),
        (("turbohtml raises", "trafilatura-fast raises"), "failed"),
        (("turbohtml raises", "trafilatura-fast crashes"), "worker_died"),
        (("turbohtml raises", "trafilatura-fast hangs"), "timed_out"),
    ],
)
async def test_page_that_the_second_reader_cannot_read_either_is_unjudged(
    worker: Workers, ways: Sequence[str], reason: str
) -> None:
    found = await read_all(worker, [page(0), says(*ways), page(2)])
    assert isinstance(found[1], UnjudgedError), found[1]
    assert found[1].reason == reason
    check_ordinary(0, found[0])
    check_ordinary(2, found[2])


async def test_second_opinions_are_counted_and_named_in_the_log(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"SIMHASH_WORKERS": 1, "SIMHASH_FEATURES": f"{HOSTILE}.WORDS"}
    answers = {
        "/good": Answer(page(1).encode()),
        "/raises": Answer(says("turbohtml raises", seed=2).encode()),
        "/crashes": Answer(says("turbohtml crashes", seed=3).encode()),
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, site.urls(), **settings)
    assert set(done.verdicts.values()) == {"new"}
    assert done.counted["second_opinion/raised"] == done.counted["second_opinion/worker_died"] == 1
    readers = {line["url"].rpartition("/")[2]: line["extractor"] for line in done.decisions}
    assert readers == {
        "good": "turbohtml",
        "raises": "trafilatura-fast",
        "crashes": "trafilatura-fast",
    }


@pytest.mark.parametrize("place", PLACES)
async def test_page_that_hangs_gets_no_second_reader(worker: Workers, place: int) -> None:
    pages = [page(seed) for seed in range(7)]
    pages[place] = says("turbohtml hangs")
    found = await read_all(worker, pages)
    assert isinstance(found[place], UnjudgedError), found[place]
    assert found[place].args == ("timed_out", f"{DEADLINE_SECONDS} seconds")
    for seed in set(range(7)) - {place}:
        check_ordinary(seed, found[seed])


@pytest.mark.skipif(sys.platform != "linux", reason="memory has no bound elsewhere")
@pytest.mark.parametrize("place", PLACES)
async def test_page_that_takes_memory_gets_no_second_reader(worker: Workers, place: int) -> None:
    del worker  # keeps the process
    workers = Workers(1, PATIENCE_SECONDS, PAGE_MEMORY_BYTES)
    workers.start()
    pages = [page(seed) for seed in range(7)]
    pages[place] = says("turbohtml eats")
    found = await read_all(workers, pages)
    assert isinstance(found[place], UnjudgedError), found[place]
    assert found[place].args == ("out_of_memory", f"{PAGE_MEMORY_BYTES} bytes")
    for seed in set(range(7)) - {place}:
        check_ordinary(seed, found[seed])
    workers.stop()


async def test_deadline_counts_for_each_page_of_a_batch(
    worker: Workers, sent: list[list[int]]
) -> None:
    pages = [says("turbohtml takes time", seed=seed) for seed in range(8)]
    started = time.monotonic()
    found = await read_all(worker, pages)
    assert all(isinstance(each, PageFingerprint) for each in found)
    assert time.monotonic() - started > DEADLINE_SECONDS
    assert len(sent[0]) == 8


async def test_loading_a_reader_is_not_a_pages_time() -> None:
    workers = Workers(1, 1.0)
    workers.start()
    assert (await read(workers, page(1), "WORDS_SLOW_TO_LOAD")).words
    workers.stop()


async def test_loading_a_reader_has_a_bound_of_its_own(
    worker: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_BEGINNING_SECONDS", 1.0)
    with pytest.raises(UnjudgedError, match="timed_out"):
        await asyncio.wait_for(read(worker, page(1), "WORDS_NEVER_LOADED"), PATIENCE_SECONDS)
    monkeypatch.undo()
    check_ordinary(1, await read(worker, page(1)))


async def test_worker_killed_while_it_is_handed_pages_costs_none(
    worker: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Channel.send
    killed: list[Channel] = []

    def kill_and_send(to: Channel, jobs: Sequence[Job]) -> None:
        if not killed:
            killed.append(to)
            to.process.kill()
            to.process.join()
        send(to, jobs)

    monkeypatch.setattr(Channel, "send", kill_and_send)
    found = await read_all(worker, [page(seed) for seed in range(5)])
    assert killed
    for seed, each in enumerate(found):
        check_ordinary(seed, each)


async def test_large_pages_and_texts_pass_each_other() -> None:
    workers = Workers(2, PATIENCE_SECONDS)
    await asyncio.to_thread(workers.start)
    words = [f"{seed} " + "word " * 600_000 for seed in range(6)]
    found = await read_all(workers, [f"<html><body><p>{each}</p></body></html>" for each in words])
    assert [each.text for each in found] == [each.strip() for each in words]
    await asyncio.to_thread(workers.stop)


async def test_no_process_at_the_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_start_process", refuse)
    with pytest.raises(RuntimeError, match="SIMHASH_WORKERS = 0"):
        await asyncio.to_thread(Workers(5, DEADLINE_SECONDS).start)
    assert crew.crews.find(5) is None


@pytest.mark.parametrize("error", [OSError(11, "no more processes"), AssertionError("daemonic")])
async def test_whatever_keeps_processes_from_starting_is_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fail() -> Channel:
        raise error

    monkeypatch.setattr(crew, "_start_process", fail)
    with pytest.raises(RuntimeError, match="SIMHASH_WORKERS = 0"):
        await asyncio.to_thread(Workers(5, DEADLINE_SECONDS).start)
    assert str(error) in caplog.text


async def test_crew_that_had_no_memory_for_processes_can_be_used_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = Workers(5, DEADLINE_SECONDS), Workers(5, DEADLINE_SECONDS)
    await asyncio.to_thread(first.start)
    team = crew.crews.find(5)
    assert team is not None
    wait_until(lambda: len(team._idle) == 5)
    with monkeypatch.context() as patched:
        patched.setattr(crew, "_start_process", refuse)
        patched.setattr(crew, "_RESTING_SECONDS", 0.0)
        for each in list(team._idle):
            team.replace(each)
        team._idle.clear()
        wait_until(lambda: team.is_hopeless)
    await asyncio.to_thread(second.start)
    check_ordinary(1, await read(second, page(1)))
    for workers in (first, second):
        await asyncio.to_thread(workers.stop)


IN_DAEMON = """
import asyncio, multiprocessing
from scrapy_simhash.detector import Workers
from scrapy_simhash.pages import Recipe
from tests.helpers.pages import page

async def read():
    workers = Workers(1, 30)
    workers.start()
    found = await workers.fingerprint(page(1).encode(), "utf-8", Recipe(), 7, keep_text=True)
    workers.stop()
    print(found.fingerprint, multiprocessing.current_process().daemon, flush=True)

context = multiprocessing.get_context("fork")
process = context.Process(target=lambda: asyncio.run(read()), daemon=True)
process.start()
process.join()
raise SystemExit(process.exitcode)
"""


def test_crew_works_in_a_daemonic_process() -> None:
    done = run_python("-c", IN_DAEMON, cwd=ROOT)
    expected = fingerprint_page(page(1), recipe=Recipe(), seed=7).fingerprint
    assert (done.returncode, done.stdout) == (0, f"{expected} True\n"), done.stderr


def refuse() -> Channel:
    raise OSError(11, "no more processes")


async def test_pages_pass_while_no_process_comes_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    workers = Workers(4, DEADLINE_SECONDS)
    await asyncio.to_thread(workers.start)
    team = crew.crews.find(4)
    assert team is not None
    wait_until(lambda: len(team._all) == 4)
    monkeypatch.setattr(crew, "_start_process", refuse)
    monkeypatch.setattr(crew, "_LONGEST_REST_SECONDS", 0.2)
    for each in team._all:
        each.process.kill()
    wait_until(lambda: not any(each.process.is_alive() for each in team._all))
    found = await read_all(workers, [page(seed) for seed in range(30)])
    assert {each.args for each in found} == {("worker_died", "no worker process comes up")}
    (record,) = caplog.records
    assert "no more processes" in record.getMessage()
    monkeypatch.undo()
    found = [None]
    while not isinstance(found[0], PageFingerprint):
        found = await read_all(workers, [page(1)])
        await asyncio.sleep(0.05)
    check_ordinary(1, found[0])
    await asyncio.to_thread(workers.stop)


def run_loop(found: dict[int, list[Any]], seed: int) -> None:
    """Read ten pages in an event loop of this thread, two and two."""

    async def work() -> None:
        workers = Workers(1, DEADLINE_SECONDS)
        workers.start()
        for start in range(seed, seed + 10, 2):
            found.setdefault(seed, []).extend(
                await read_all(workers, [page(start), page(start + 1)])
            )
        workers.stop()

    asyncio.run(work())


def test_event_loops_share_a_process(worker: Workers) -> None:
    del worker  # keeps the process
    found: dict[int, list[Any]] = {}
    threads = [threading.Thread(target=run_loop, args=(found, seed)) for seed in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert {seed: len(each) for seed, each in found.items()} == {0: 10, 100: 10, 200: 10}
    for seed, each in found.items():
        for number, one in enumerate(each):
            check_ordinary(seed + number, one)


def test_worker_of_a_closed_loop_works_for_others(worker: Workers) -> None:
    async def abandon() -> None:
        hanging = asyncio.ensure_future(read(worker, says("turbohtml hangs")))
        await asyncio.sleep(0.1)
        hanging.cancel()

    asyncio.run(abandon())
    check_ordinary(1, asyncio.run(asyncio.wait_for(read(worker, page(1)), PATIENCE_SECONDS)))


async def test_stopping_ends_pages_on_their_way() -> None:
    workers = Workers(4, PATIENCE_SECONDS)
    await asyncio.to_thread(workers.start)
    hanging = [asyncio.ensure_future(read(workers, says("turbohtml hangs"))) for _ in range(12)]
    await asyncio.sleep(0.1)
    await asyncio.to_thread(workers.stop)
    ended = await asyncio.wait_for(
        asyncio.gather(*hanging, return_exceptions=True), PATIENCE_SECONDS
    )
    assert {each.reason for each in ended if isinstance(each, UnjudgedError)} == {"worker_died"}
    assert len(ended) == 12


async def test_worker_whose_exit_code_is_not_known_yet_has_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = Workers(3, PATIENCE_SECONDS)  # none that another test shares
    await asyncio.to_thread(workers.start)
    hanging = asyncio.ensure_future(read(workers, says("turbohtml hangs")))
    await asyncio.sleep(0.1)
    # As while another thread reaps it.
    monkeypatch.setattr(popen_fork.Popen, "poll", lambda *_: None)
    await asyncio.to_thread(workers.stop)
    with pytest.raises(UnjudgedError, match="worker") as failed:
        await asyncio.wait_for(hanging, PATIENCE_SECONDS)
    assert failed.value.reason == "worker_died"


async def test_process_that_comes_up_while_the_crew_is_stopped_is_not_lent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = Workers(5, PATIENCE_SECONDS)  # none that another test shares
    came: list[Channel] = []
    greet = Channel.greet

    def greet_late(self: Channel) -> bool:
        ready = greet(self)
        came.append(self)
        if len(came) > 1:
            wait_until(lambda: workers._crew is None)
        return ready

    monkeypatch.setattr(Channel, "greet", greet_late)
    await asyncio.to_thread(workers.start)
    hanging = asyncio.ensure_future(read(workers, says("turbohtml hangs")))
    await asyncio.to_thread(wait_until, lambda: len(came) > 1)
    # As for a process that is killed, but not dead yet.
    monkeypatch.setattr(popen_fork.Popen, "poll", lambda *_: None)
    workers.stop()  # here, so that the page asks for another process after it
    with pytest.raises(UnjudgedError, match="worker"):
        await asyncio.wait_for(hanging, PATIENCE_SECONDS)


async def test_crew_whose_only_process_is_being_replaced_can_be_used(
    worker: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read(worker, page(1))
    team = crew.crews.find(1)
    assert team is not None
    used = threading.Event()
    start = crew._start_process

    def start_late() -> Channel:
        assert used.wait(PATIENCE_SECONDS)
        return start()

    monkeypatch.setattr(crew, "_start_process", start_late)
    team.replace(team._idle.pop())
    workers = Workers(1, DEADLINE_SECONDS)
    workers.start()
    used.set()
    check_ordinary(1, await asyncio.wait_for(read(workers, page(1)), PATIENCE_SECONDS))
    workers.stop()
