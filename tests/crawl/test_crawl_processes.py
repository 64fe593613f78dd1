"""Crawls in processes of their own: two at once, one that is killed, and what one leaves behind."""

import gc
import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Response

from scrapy_simhash.judge import client, judge
from scrapy_simhash.stores import lmdb as lmdb_kind
from tests.helpers.children import HOLDER, Child, running
from tests.helpers.crawling import PagesSpider, crawl, crawl_pages, describe, list_states, path_of
from tests.helpers.pages import page
from tests.helpers.processes import PATIENCE_SECONDS, ROOT, list_judges, run_python
from tests.helpers.server import serve

MANY: dict[str, Any] = {"CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}


class WaitingSpider(PagesSpider):
    """Has something happen to its store at one page, and the opposite at another one."""

    at: dict[str, Callable[[], object]]

    def parse(self, response: Response) -> Iterator[Any]:
        self.at.get(path_of(response.url), list)()
        return super().parse(response)


async def test_a_crawl_goes_on_beside_one_that_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be written meanwhile counts in memory, and is written afterwards."""
    monkeypatch.setattr(lmdb_kind, "WAIT_SECONDS", 0.2)
    # What came through is written at once: before the crawl comes to where it goes on.
    monkeypatch.setattr(judge, "_COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(judge, "_SHARE_OF_COMMITS", 1e9)
    answers = {f"/{number}": page(number // 2) for number in range(12)}
    with serve(answers) as site, ExitStack() as stack:
        children: list[Child] = []

        def stop() -> None:
            children.append(stack.enter_context(running(HOLDER, tmp_path, "write")))
            children[0].process.send_signal(signal.SIGSTOP)

        def go_on() -> None:
            children[0].process.send_signal(signal.SIGCONT)
            children[0].tell("go on")
            children[0].process.wait(PATIENCE_SECONDS)

        monkeypatch.setattr(WaitingSpider, "at", {"/2": stop, "/8": go_on}, raising=False)
        # What is set above is of this process.
        done = await crawl(tmp_path, site.urls(), WaitingSpider, SIMHASH_PROCESSES=0)
    assert done.paths == [f"/{number}" for number in range(0, 12, 2)]
    told = [text for text in caplog.messages if text.startswith("The store cannot be written, ")]
    assert ["another process has been writing" in text for text in told] == [True]
    assert len(list_states(tmp_path)) == 12


async def test_a_crawl_whose_store_is_removed_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "s"
    at = {"/2": partial(shutil.rmtree, folder)}
    monkeypatch.setattr(WaitingSpider, "at", at, raising=False)
    answers = {f"/{number}": page(number // 2) for number in range(8)}
    done = await crawl_pages(folder, answers, spider=WaitingSpider)
    assert done.paths == ["/0", "/2", "/4", "/6"]
    told = [text for text in caplog.messages if f"store at {folder} was removed" in text]
    assert [text.partition(",")[0] for text in told] == ["The store cannot be written"]
    assert any("not written: the store cannot be; their pages" in text for text in caplog.messages)
    assert (await crawl(folder, [], PagesSpider)).stats["finish_reason"] == "finished"


@pytest.mark.usefixtures("judge_apart")
async def test_a_disk_that_is_full_costs_no_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The judge can write no file from one page on until another one."""
    answers = {f"/{number}": page(number // 2) for number in range(12)}
    for number, what in (3, "disk is full"), (8, "disk is free"):
        answers[f"/{number}"] = page(100 + number).replace("Heading", what)
    settings: dict[str, Any] = {"SIMHASH_SCOPE": "tests.helpers.hostile.fill_disk"}
    done = await crawl_pages(tmp_path, answers, DOWNLOAD_DELAY=0.06, **settings)
    assert done.paths == ["/0", "/2", "/3", "/4", "/6", "/8", "/9", "/10"]
    (told,) = (each for each in caplog.records if "cannot be written" in each.getMessage())
    assert (told.name, told.levelname) == ("scrapy_simhash.judge.judge", "WARNING")
    assert len(list_states(tmp_path)) == 12


# What a second crawl leaves behind: a first one loads modules and starts what stays for ever.
LEAKS = """
import asyncio, json, os, sys, threading
from pathlib import Path
from tests.helpers.crawling import crawl
from tests.helpers.pages import make_groups, page
from tests.helpers.server import serve

def open_things():
    files = sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                   if os.path.exists(f"/proc/self/fd/{fd}"))
    children = Path("/proc/self/task").glob("*/children")
    threads = sorted(t.name for t in threading.enumerate() if not t.name.startswith("asyncio"))
    return {
        "files": [name for name in files if not name.startswith(("socket", "/proc"))],
        "sockets": len([name for name in files if name.startswith("socket")]),
        "children": sorted(pid for path in children for pid in path.read_text().split()),
        "threads": threads,
    }

async def main():
    seen = []
    with serve({"/one": page(1), "/two": page(1, menu="Other")}) as site:
        for number in range(2):
            done = await crawl(Path(sys.argv[1]) / str(number), site.urls(), SIMHASH_PROCESSES=1)
            assert done.paths == ["/one"], done.paths
            seen.append(open_things())
    print(json.dumps(seen))

asyncio.run(main())
"""


@pytest.mark.slow
def test_crawl_leaves_no_thread_process_or_file_open(tmp_path: Path) -> None:
    done = run_python("-c", LEAKS, tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert first == second
    assert not [name for name in second["threads"] if "simhash" in name]
    assert not [name for name in second["files"] if str(tmp_path) in name]


class StoppingSpider(PagesSpider):
    """Stops its judge, which takes no page any more."""

    def parse(self, response: Response) -> Iterator[Any]:
        for each in list_judges() if response.url.endswith("/0") else ():
            os.kill(each, signal.SIGSTOP)
        yield describe(response)


@pytest.mark.slow
@pytest.mark.usefixtures("judge_apart")
async def test_pages_that_fill_the_pipe_of_a_stopped_judge_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_STILL_SECONDS", 2.0)
    space = f"<!--{'x' * 1_000_000}-->"
    answers = {f"/{n}": page(n).replace("</body>", f"{space}</body>") for n in range(20)}
    done = await crawl_pages(tmp_path, answers, spider=StoppingSpider, **MANY)
    assert len(done.paths) == 20


class ForkingSpider(PagesSpider):
    """Forks at each page a process that ends at once, and one that lives on."""

    children: list[Any]

    def parse(self, response: Response) -> Iterator[Any]:
        for work in (gc.collect, partial(time.sleep, PATIENCE_SECONDS)):
            child = FORK.Process(target=work, daemon=True)
            child.start()
            self.children.append(child)
        return super().parse(response)


FORK = multiprocessing.get_context("fork")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")  # since Python 3.12
@pytest.mark.parametrize("processes", [0, 1])
async def test_processes_that_a_spider_forks_neither_hold_a_crawl_nor_harm_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    children: list[Any] = []
    monkeypatch.setattr(ForkingSpider, "children", children, raising=False)
    answers = {f"/{n}": page(n // 2, menu=f"Menu {n}") for n in range(12)}
    try:
        done = await crawl_pages(
            tmp_path, answers, spider=ForkingSpider, SIMHASH_PROCESSES=processes
        )
        assert (len(done.paths), done.counted["dropped"]) == (6, 6)
        for child in children[::2]:
            child.join(PATIENCE_SECONDS)
        assert (list_judges(), [child.exitcode for child in children]) == (set(), [0, None] * 6)
    finally:
        for child in children:
            child.kill()
            child.join()
    assert [*list_states(tmp_path).values()].count("duplicate") == 6
