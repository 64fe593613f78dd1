"""A judge's process without memory or disk, beside another one, forked, and without a lease."""

import asyncio
import os
import resource
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.detector.test_client import kill, pid_of
from tests.helpers.crawling import read_files, read_lines
from tests.helpers.detecting import fetched, judge, running
from tests.helpers.pages import page
from tests.helpers.processes import (
    PATIENCE_SECONDS,
    ROOT,
    is_running,
    list_workers,
    start_python,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("warm_worker", "judge_apart")

limited = pytest.mark.skipif(sys.platform != "linux", reason="limits no other process")


@limited
async def test_a_judge_without_memory_is_replaced(tmp_path: Path) -> None:
    """The next one judges what it had, and writes the line that was too long for it."""
    async with running(tmp_path / "s", workers=1) as detector:
        decision, first = await detector.judge(fetched("first", page(0))), pid_of(detector)
        less = 2**20, 2**20  # than it has
        resource.prlimit(first, resource.RLIMIT_AS, less)
        decision.own_words = ["x" * 2**23]
        detector.write(decision)
        pages = [fetched(str(number), page(number)) for number in range(1, 10)]
        said = await asyncio.gather(*(judge(detector, each) for each in pages))
        assert {each for (each,) in said} <= {"new", "revisit unchanged"}
        assert pid_of(detector) != first
    assert len(read_lines(tmp_path / "s" / "log.jsonl")) == 1


@limited
async def test_a_judge_whose_file_cannot_grow_lets_pages_pass(tmp_path: Path) -> None:
    async with running(tmp_path / "s", workers=1) as detector:
        assert await judge(detector, fetched("first", page(0))) == ["new"]
        size, hard = (tmp_path / "s" / "data.mdb").stat().st_size, resource.RLIM_INFINITY
        resource.prlimit(pid_of(detector), resource.RLIMIT_FSIZE, (size, hard))
        said = await judge(detector, *(fetched(str(n), page(n)) for n in range(1, 40)))
        assert said[-1] == "not_judged store_unavailable"
        resource.prlimit(pid_of(detector), resource.RLIMIT_FSIZE, (hard, hard))
        assert await judge(detector, fetched("last", page(99))) == ["new"]


async def test_two_crawls_of_one_process_have_a_judge_each(tmp_path: Path) -> None:
    """Of each two copies one is new, also where a judge dies; a detector is opened once."""
    before = list_workers("judge")
    async with running(tmp_path / "s", workers=1) as one, running(tmp_path / "s", workers=1) as two:
        assert pid_of(one) != pid_of(two)
        with pytest.raises(RuntimeError, match="is open"):
            await one.open("spider")
        names = [
            (detector, f"{name}{n}", n)
            for n in range(20)
            for detector, name in ((one, "one"), (two, "two"))
        ]
        pages = (detector.judge(fetched(name, page(n))) for detector, name, n in names)
        judging = asyncio.gather(*pages)
        await kill(one)
        decisions = await asyncio.wait_for(judging, PATIENCE_SECONDS)
        new = Counter(
            n
            for (_, _, n), each in zip(names, decisions, strict=True)
            if each.status != "near_duplicate"
        )
        assert new == dict.fromkeys(range(20), 1)
    assert list_workers("judge") == before


async def test_a_crawl_that_only_reads_has_a_judge_without_a_lease(tmp_path: Path) -> None:
    async with running(tmp_path / "s", workers=1) as detector:
        assert await judge(detector, fetched("one", page(1))) == ["new"]
    files = set(read_files(tmp_path))
    async with running(tmp_path / "s", workers=1, readonly=True) as detector:
        assert await judge(detector, fetched("copy", page(1))) == ["near_duplicate"]
        await kill(detector)
        assert await judge(detector, fetched("copy", page(1))) == ["near_duplicate"]
    assert set(read_files(tmp_path)) == files


FORKING = """
import asyncio, os, sys, time
from pathlib import Path
from tests.helpers.crawling import read_files, read_lines
from tests.helpers.detecting import fetched, judge, running
from tests.helpers.pages import page

async def main():
    async with running(Path(sys.argv[1]), workers=1) as detector:
        child = os.fork()
        if not child:
            time.sleep(3600)
        said = await judge(detector, fetched("one", page(1)))
        print(child, detector._client._judge.process.pid, *said, flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks")
def test_a_child_of_the_crawl_keeps_no_judge_alive(tmp_path: Path) -> None:
    """It has the other end of the judge's socket, which so does not end."""
    with start_python("-c", FORKING, tmp_path / "s", cwd=ROOT) as crawl:
        assert crawl.stdout
        child, pid, said = crawl.stdout.readline().split()
        try:
            assert said == "new"
            assert is_running(int(pid))
            crawl.kill()
            wait_until(lambda: not is_running(int(pid)))
        finally:
            os.kill(int(child), 9)
