"""A judge's process that is killed, stopped, or dies of a page: what it was told is done once."""

import asyncio
import logging
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.detector import client as client_module
from scrapy_simhash.detector.client import JudgeProcess
from scrapy_simhash.detector.detector import Detector
from scrapy_simhash.detector.judge import GroupJudge
from scrapy_simhash.detector.log import DecisionLog
from scrapy_simhash.detector.messages import Mark
from scrapy_simhash.judging.documents import State
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import read_lines
from tests.helpers.detecting import fetched, judge, running
from tests.helpers.pages import make_groups, page
from tests.helpers.processes import PATIENCE_SECONDS, ROOT, is_running, start_python, wait_until

ROUNDS = int(os.environ.get("SIMHASH_TEST_JUDGE_KILLS", "20"))
GROUPS, COPIES, KILLS = 12, 3, 2

pytestmark = pytest.mark.usefixtures("warm_worker", "judge_apart")


@pytest.fixture
async def detector(tmp_path: Path) -> AsyncIterator[Detector]:
    async with running(tmp_path / "s", workers=1) as detector:
        yield detector


def pid_of(detector: Detector) -> int:
    """The number of the judge's process."""
    assert detector._client
    assert isinstance(detector._client._judge, JudgeProcess)
    return detector._client._judge.process.pid


async def kill(detector: Detector) -> None:
    """Kill the judge, and wait until another one is there."""
    before = pid_of(detector)
    os.kill(before, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while detector._client and (detector._client._judge is None or pid_of(detector) == before):  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def count_done(store: Path) -> int:
    with open_store(str(store), readonly=True) as opened:
        return sum(each.state == State.DONE.name.lower() for each in opened.list_documents())


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, ROUNDS))]
)
async def test_whenever_the_judge_is_killed_every_page_is_judged(
    home: str, tmp_path: Path, seed: int
) -> None:
    """The crawl goes on, nothing is dropped for itself or for what was not kept, all is told."""
    draw, log = random.Random(seed), tmp_path / "log.jsonl"  # noqa: S311 - reproducible
    answers = make_groups(GROUPS, COPIES)
    kept: set[str] = set()

    async def crawl(detector: Detector, name: str) -> None:
        await asyncio.sleep(draw.random() * 0.3)
        body = answers[name]
        decision = await detector.judge(fetched(name.strip("/"), body))
        assert decision.status != "not_judged", decision.reason
        detector.write(decision)
        if decision.status == "near_duplicate":
            assert decision.match_url != decision.url
        else:
            kept.add(name.split("/")[1])
            detector.mark(Mark(done=decision.document))

    async with running(home, workers=1, log=str(log)) as detector:
        crawling = [asyncio.ensure_future(crawl(detector, name)) for name in answers]
        for _ in range(KILLS):
            await asyncio.sleep(draw.random() * 0.2)
            await kill(detector)
        await asyncio.wait_for(asyncio.gather(*crawling), PATIENCE_SECONDS)
    assert kept == {f"g{group}" for group in range(GROUPS)}
    told = sorted(line["url"] for line in read_lines(log))
    assert told == sorted(f"http://site.example{name}" for name in answers)
    with open_store(home) as opened:
        assert opened.check() == []
        assert opened.stats()["pending"] == 0


async def test_marks_and_lines_outlive_the_judge(tmp_path: Path, detector: Detector) -> None:
    decisions = [await detector.judge(fetched(str(n), page(n))) for n in range(3)]
    os.kill(pid_of(detector), signal.SIGSTOP)
    for decision in decisions:
        detector.write(decision)
        detector.mark(Mark(done=decision.document))
    await kill(detector)
    await detector.settle()
    assert count_done(tmp_path / "s") == 3
    assert len(read_lines(tmp_path / "s" / "log.jsonl")) == 3


async def test_marks_and_lines_outlive_a_judge_that_dies_at_the_end(tmp_path: Path) -> None:
    async with running(tmp_path / "s", workers=1) as detector:
        decision = await detector.judge(fetched("one", page(1)))
        detector.write(decision)
        detector.mark(Mark(done=decision.document))
        os.kill(pid_of(detector), signal.SIGKILL)
    assert count_done(tmp_path / "s") == 1
    assert len(read_lines(tmp_path / "s" / "log.jsonl")) == 1


async def test_a_spider_that_changes_its_folder_keeps_store_and_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    async with running("s", workers=1, log="log.jsonl") as detector:
        monkeypatch.chdir("elsewhere")
        await kill(detector)
        decision = await detector.judge(fetched("one", page(1)))
        assert decision.status == "new", decision.reason
        detector.write(decision)
    assert len(read_lines(tmp_path / "log.jsonl")) == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_a_thread_in_place_of_one_that_failed_has_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What the first one could not write to the log counts, too."""

    def lose(log: DecisionLog, _: bytes) -> None:
        log.lost += 1

    monkeypatch.setattr(DecisionLog, "write", lose)
    async with running(tmp_path / "s") as detector:
        detector.write(await detector.judge(fetched("one", page(1))))
        await detector.settle()
        with monkeypatch.context() as patched:
            patched.setattr(GroupJudge, "_answer", lambda _: 1 // 0)
            await detector.judge(fetched("two", page(2)))
            client: Any = detector._client
            await asyncio.to_thread(client._started[0].join)
        assert await judge(detector, fetched("copy", page(2)), done=False) == ["near_duplicate"]
        with open_store(str(tmp_path / "s"), readonly=True) as opened:
            assert opened.engine.leases.alive(detector.crawl)
    assert detector.lost_lines == 1
    assert "The judge of the crawl failed" in caplog.text


async def test_a_judge_that_is_stopped_and_goes_on_costs_nothing(detector: Detector) -> None:
    """More pages wait than its socket takes."""
    os.kill(stopped := pid_of(detector), signal.SIGSTOP)
    pages = (detector.judge(fetched(str(number), page(number))) for number in range(100))
    judging = [asyncio.ensure_future(each) for each in pages]
    client: Any = detector._client
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(client._sent) < len(judging):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert client._judge._outgoing
    assert not any(each.done() for each in judging)
    os.kill(stopped, signal.SIGCONT)
    assert {(await each).status for each in judging} == {"new"}
    assert pid_of(detector) == stopped


async def test_a_judge_that_stands_still_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_SILENT_SECONDS", 2.0)
    async with running(tmp_path / "s", workers=1) as detector:
        os.kill(stopped := pid_of(detector), signal.SIGSTOP)
        assert await judge(detector, fetched("one", page(1))) == ["new"]
        assert not is_running(stopped)
        os.kill(pid_of(detector), signal.SIGSTOP)
    assert count_done(tmp_path / "s") == 1


async def test_a_judge_that_nobody_asked_for_long_is_not_replaced(detector: Detector) -> None:
    client: Any = detector._client
    client._last_heard -= 3_600
    client._watch()  # nothing is awaited
    os.kill(stopped := pid_of(detector), signal.SIGSTOP)
    judging = asyncio.ensure_future(judge(detector, fetched("one", page(1))))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not client._sent:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    client._watch()
    os.kill(stopped, signal.SIGCONT)
    assert await judging == ["new"]
    assert pid_of(detector) == stopped


async def test_a_page_that_ends_two_judges_passes(
    detector: Detector, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = JudgeProcess.send

    def send_and_die(process: JudgeProcess, messages: list[bytes]) -> None:
        if any(b"/deadly" in message for message in messages):
            process.kill()  # before it could answer
        send(process, messages)

    monkeypatch.setattr(JudgeProcess, "send", send_and_die)
    names = ["one", "deadly", "two"]
    pages = [fetched(name, page(number)) for number, name in enumerate(names)]
    first, deadly, last = await asyncio.gather(*map(detector.judge, pages))
    assert (deadly.status, deadly.reason) == ("not_judged", "worker_died")
    # A revisit, if it was committed, but not answered.
    assert {first.status, last.status} <= {"new", "revisit"}


async def test_after_three_deaths_pages_pass_for_a_while(
    detector: Detector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for number in range(3):
        assert await judge(detector, fetched(str(number), page(number))) == ["new"]
        before = pid_of(detector)
        os.kill(before, signal.SIGKILL)
        client: Any = detector._client
        async with asyncio.timeout(PATIENCE_SECONDS):
            while client._judge is not None and pid_of(detector) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    passing = [fetched(str(number), page(number)) for number in range(3, 6)]
    assert await judge(detector, *passing) == ["not_judged store_unavailable"] * 3
    (told,) = [each for each in caplog.messages if "Pages are not judged" in each]
    assert "the process that judges pages ended: exit code -9" in told
    client._passing_until = 0.0  # a minute later
    assert await judge(detector, *passing) == ["new"] * 3


ORPHANED = """
import asyncio, sys
from pathlib import Path
from tests.helpers.detecting import running

async def main():
    async with running(Path(sys.argv[1]), workers=1) as detector:
        loads = [name for name in ("lmdb", "scrapy") if name in sys.modules]
        print(detector._client._judge.process.pid, detector.crawl, *loads, flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_the_judge_ends_with_its_crawl_and_the_lease_not_with_the_judge(tmp_path: Path) -> None:
    store = tmp_path / "s"
    with start_python("-c", ORPHANED, store, cwd=ROOT) as crawl:
        assert crawl.stdout
        pid, name, *loads = crawl.stdout.readline().split()
        assert loads == []
        with open_store(str(store), readonly=True) as opened:
            os.kill(int(pid), signal.SIGKILL)
            wait_until(lambda: not is_running(int(pid)))
            assert opened.engine.leases.alive(name)
            crawl.kill()
            wait_until(lambda: not opened.engine.leases.alive(name))
