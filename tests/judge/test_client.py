"""The crawl's side of its judges: processes that hang, die, fill memory or stand still, and end."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.crawl.running import make_open
from scrapy_simhash.errors import NotJudgedError, SettingError, StoreError
from scrapy_simhash.judge import client
from scrapy_simhash.judge.client import JudgeProcess, Judges
from scrapy_simhash.judge.messages import Open, Said, Settled
from scrapy_simhash.pages.facts import Fetched
from scrapy_simhash.pages.fingerprint import fingerprint_page
from tests.helpers.crawling import list_states
from tests.helpers.hostile import TRIGGER
from tests.helpers.judging import fetched
from tests.helpers.pages import page
from tests.helpers.processes import (
    ROOT,
    is_running,
    list_judges,
    run_python,
    start_python,
    wait_until,
)

MISBEHAVE = "tests.helpers.hostile.misbehave"
# Time for a page that is read, and for one that fills its memory on a busy machine.
PAGE_SECONDS, FILLING_SECONDS = 1.5, 60.0


@asynccontextmanager
async def judging(
    store: Path | str, count: int = 1, seconds: float = PAGE_SECONDS, **fields: Any
) -> AsyncIterator[Judges]:
    config = Config(store=str(store), log=None, processes=count, **fields)
    judges = Judges(make_open(config), count)
    with patch.object(client, "PAGE_SECONDS", seconds):
        try:
            await judges.open()
            yield judges
        finally:
            await judges.close()


def ask(judges: Judges, name: str, html: str, host: str = "site.example") -> asyncio.Future[Said]:
    number, future = judges.ask(fetched(name, host), html.encode(), "drop", young=True)

    def settle(done: asyncio.Future[Said]) -> None:
        if not (done.cancelled() or done.exception()) and done.result().young:
            judges.tell(Settled(number, "done"))

    future.add_done_callback(settle)
    return future


async def outcomes(*futures: asyncio.Future[Said]) -> list[str]:
    """Status of each page, or the reason why it was not judged."""
    found = []
    answers = await asyncio.gather(*futures, return_exceptions=True)
    await asyncio.sleep(0)  # since Python 3.12 `settle` may not have been called by then
    for each in answers:
        if isinstance(each, NotJudgedError):
            found.append(each.reason)
        else:
            assert isinstance(each, Said)
            assert each.decision
            found.append(each.decision.status)
    return found


def kill_judges() -> None:
    for pid in list_judges():
        os.kill(pid, signal.SIGKILL)


def only_judge(judges: Judges) -> JudgeProcess:
    (judge,) = judges._judges
    assert isinstance(judge, JudgeProcess)
    return judge


@pytest.mark.parametrize("count", [0, 1, 2])
async def test_pages_are_judged(tmp_path: Path, count: int) -> None:
    async with judging(tmp_path, count) as judges:
        for n in range(4):
            assert await outcomes(ask(judges, str(n), page(n), f"h{n}.example")) == ["new"]
        await asyncio.sleep(0.1)
        found = [ask(judges, f"c{n}", page(n, menu="Copy"), f"h{n}.example") for n in range(4)]
        assert (await outcomes(*found), len(list_judges())) == (["near_duplicate"] * 4, count)
    assert (list_judges(), len(list_states(tmp_path))) == (set(), 8)


WAYS = dict.fromkeys(("crash", "leave", "fork"), "worker_died") | {"fail": "scope_failed"}
WAYS |= dict.fromkeys(("eat", "eat quietly"), "out_of_memory")
HANGS = dict.fromkeys(("hang", "hang deaf"), "timed_out")


@pytest.mark.parametrize(
    ("seconds", "ways"), [(PAGE_SECONDS, HANGS), (FILLING_SECONDS, WAYS)], ids=["slow", "others"]
)
async def test_a_page_that_ends_its_judge_passes_and_no_other(
    tmp_path: Path, seconds: float, ways: dict[str, str]
) -> None:
    async with judging(tmp_path, seconds=seconds, scope=MISBEHAVE) as judges:
        for place, (way, reason) in enumerate(ways.items()):
            pages = [page(10 * place + n) for n in range(6)]
            pages.insert(3, page(99, title=f"{TRIGGER}{way}"))
            futures = [ask(judges, f"{place}/{n}", html) for n, html in enumerate(pages)]
            assert await outcomes(*futures) == ["new"] * 3 + [reason] + ["new"] * 3
            # What came through is known to the next judge.
            await asyncio.sleep(0.1)
            copy = ask(judges, f"copy{place}", page(10 * place + 5, menu="Copy"))
            assert await outcomes(copy) == ["near_duplicate"]
    list_states(tmp_path)


async def test_pages_without_an_answer_are_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a judge that is killed, again and again: none is lost, all are written."""
    async with judging(tmp_path) as judges:
        for n in range(0, 30, 10):
            futures = [ask(judges, str(n + k), page(n + k)) for k in range(10)]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            kill_judges()
            assert await outcomes(*futures) == ["new"] * 10
            await until(lambda: judges.ends > n // 10)  # noqa: B023
    told = [text for text in caplog.messages if "may be kept twice" in text]
    begin = "The process that judges pages ended (signal 9; time "
    assert [text.startswith(begin) for text in told] == [True, True]  # not of the third one
    list_states(tmp_path)


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds, which is seen in the turn of the event loop when it does."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_judge_that_stands_still_while_pages_only_wait_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging(tmp_path) as judges:
        await judges.ask(fetched("0"), page(0).encode(), "drop", young=True)[1]
        waits = ask(judges, "copy", page(0, menu="Copy"))
        await until(lambda: not only_judge(judges)._sent)
        monkeypatch.setattr(client, "_STILL_SECONDS", 2.0)
        await asyncio.sleep(2.5)  # it is awake, and has nothing to say
        assert judges.ends == 0
        (pid,) = list_judges()
        os.kill(pid, signal.SIGSTOP)
        assert await asyncio.wait_for(outcomes(waits), 20) == ["new"]
    assert not is_running(pid)


async def test_an_event_loop_that_stood_still_costs_no_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging(tmp_path) as judges:
        await ask(judges, "0", page(0))
        monkeypatch.setattr(client, "_STILL_SECONDS", 0.5)
        future = ask(judges, "1", page(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        time.sleep(1)  # noqa: ASYNC251 - as a spider's callback may
        assert await outcomes(future) == ["new"]
        assert judges.ends == 0


async def test_the_end_does_not_wait_for_a_judge_that_is_being_started(tmp_path: Path) -> None:
    async with judging(tmp_path) as judges:
        judge = only_judge(judges)
        before = judge._running
        kill_judges()
        await until(lambda: judge._running is not before)
        await asyncio.wait_for(judges.close(), 20)
    assert list_judges() == set()


async def test_judges_that_die_all_the_time_let_pages_pass_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the machine has no memory left."""
    async with judging(tmp_path) as judges:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        kill_judges()
        assert await outcomes(ask(judges, "0", page(0))) == ["store_unavailable"]
        told = [text for text in caplog.messages if "Pages are not judged for" in text]
        begin = "Pages are not judged for 60 seconds: the process that judges them ended: exit"
        assert [text.startswith(begin) for text in told] == [True]
        assert await outcomes(ask(judges, "1", page(1))) == ["store_unavailable"]
        monkeypatch.undo()
        monkeypatch.setattr(judges._judges[0], "_passing_until", 0.0)
        assert await outcomes(ask(judges, "2", page(2))) == ["new"]


async def test_slow_sites_hold_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Eight pages that hang are asked about first; three of them are tried."""
    hanging = page(99, title=f"{TRIGGER}hang")
    async with judging(tmp_path, seconds=0.7, scope=MISBEHAVE) as judges:
        bad = [ask(judges, f"bad{n}", hanging, "slow.example") for n in range(8)]
        good = [ask(judges, str(n), page(n)) for n in range(20)]
        assert await outcomes(*good) == ["new"] * 20
        assert await outcomes(*bad) == ["timed_out"] * 3 + ["slow_site"] * 5
        assert await outcomes(ask(judges, "x", page(50), "slow.example")) == ["slow_site"]
        (told,) = [text for text in caplog.messages if "are not judged for 10 minutes" in text]
        assert told.startswith("Pages of 'slow.example' are not judged for 10 minutes: three of ")
        monkeypatch.setattr(judges._judges[0], "_site_passes_until", {})
        assert await outcomes(ask(judges, "y", page(51), "slow.example")) == ["new"]


async def test_pages_that_nobody_waits_for_are_not_asked_about(tmp_path: Path) -> None:
    async with judging(tmp_path) as judges:
        first = ask(judges, "0", page(0))
        given_up = [ask(judges, f"c{n}", page(n + 1)) for n in range(8)]
        for each in given_up:
            each.cancel()
        assert await outcomes(first) == ["new"]
    assert [*list_states(tmp_path)] == ["/0"]


@pytest.mark.parametrize(
    "fields",
    [{"url": "http://site.example/\ud800"}, {"requested": b"http://a/"}, {"requested": object()}],
)
async def test_an_address_that_cannot_be_sent_costs_no_other_page(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    async with judging(tmp_path) as judges:
        odd = fetched("odd", **fields)
        futures = [judges.ask(odd, page(1).encode())[1], ask(judges, "1", page(1))]
        assert await asyncio.wait_for(outcomes(*futures), 20) == ["failed", "new"]
        assert judges.ends == 0


async def test_settings_that_cannot_be_sent_are_refused(tmp_path: Path) -> None:
    """Nor may several processes share what is in memory, nor a reader's package be missing."""
    with pytest.raises(ValueError, match="for one process, but SIMHASH_PROCESSES = 2"):
        make_open(Config(store="memory:", processes=2))
    missing = Config(store="memory:", hand_over_text="no_package.read")
    with pytest.raises(SettingError, match=r"HAND_OVER_TEXT: 'no_package.read' cannot be imported"):
        make_open(missing)
    with pytest.raises(SettingError, match=r"SIMHASH_STORE: .*'\\udcff'"):
        make_open(Config(store=f"{tmp_path}/\udcff"))
    with pytest.raises(StoreError, match="UnicodeEncodeError"):
        await Judges(Open(Config(), spider="\udcff"), 1).open()


async def test_pages_that_are_only_read() -> None:
    reader = Judges(Open(Config(store="memory:"), seed=7), 1)
    await reader.open()
    try:
        asked = Fetched("http://a.example/", "utf-8"), page(1).encode()
        found = (await reader.ask(*asked, wanted="fingerprint")[1]).fingerprint
        made = fingerprint_page(page(1), seed=7, url="http://a.example/")
        assert found
        assert found.facts.fingerprint == made.facts.fingerprint
    finally:
        await reader.close()


async def test_after_the_end_pages_pass(tmp_path: Path) -> None:
    async with judging(tmp_path) as judges:
        await judges.close()
        assert await outcomes(ask(judges, "0", page(0))) == ["store_unavailable"]


async def test_sites_take_turns_and_within_a_site_the_first_comes_first(tmp_path: Path) -> None:
    """As long as pages come while no judge is there."""
    async with judging(tmp_path) as judges:
        kill_judges()
        await until(lambda: judges.ends)
        taken: list[int] = []

        def note(number: int, _: object) -> None:
            taken.append(number)

        futures = [ask(judges, str(n), page(n), f"{site}.example") for n, site in enumerate("aaab")]
        for n, future in enumerate(futures):
            future.add_done_callback(partial(note, n))
        await outcomes(*futures)
        assert taken == [0, 3, 1, 2]


async def test_a_site_passes_after_three_time_outs_in_a_hundred_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with judging(tmp_path) as judges:
        judge = only_judge(judges)
        monkeypatch.setattr(client, "_OF_PAGES", 5)
        for number, each in enumerate("x...x...x.x"):
            if each == "x":
                judge._note_late("site.example")
            else:
                name = str(number)
                assert await outcomes(ask(judges, name, page(number))) == ["new"]
        judge._note_late("site.example")
        assert await outcomes(ask(judges, "late", page(50))) == ["slow_site"]
        assert await outcomes(ask(judges, "other", page(51), "other.example")) == ["new"]


# The child watches as it would on the system that is named.
PARENT = """
import subprocess, sys
child = f'''
import os, sys, time
sys.platform = "{sys.argv[1]}"
from scrapy_simhash.judge.process import end_with
end_with(os.getppid())
print(os.getpid(), flush=True)
time.sleep(3600)
'''
subprocess.run([sys.executable, "-c", child])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("system", ["linux", "other"])
def test_a_judge_ends_with_a_killed_crawl(tmp_path: Path, system: str) -> None:
    with start_python("-c", PARENT, system, cwd=tmp_path) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
        wait_until(lambda: not is_running(child))


def test_a_judge_whose_crawl_ended_before_it_asked_ends_too() -> None:
    script = "from scrapy_simhash.judge.process import end_with; end_with(-1); print('still here')"
    done = run_python("-c", script, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
