"""Crawls in processes of their own: two at once, one that is killed, and what one leaves behind."""

import json
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
from scrapy.exceptions import CloseSpider
from scrapy.http import Response

from scrapy_simhash.stores.lmdb import engine
from scrapy_simhash.stores.opening import open_store
from tests.helpers.children import HOLDER, Child, running
from tests.helpers.crawling import PagesSpider, crawl, describe, path_of, read_lines
from tests.helpers.crawlscript import ScriptCrawl, finish_crawl, start_crawl
from tests.helpers.pages import make_groups, page
from tests.helpers.processes import PATIENCE_SECONDS, ROOT, run_python, wait_until
from tests.helpers.server import Site, serve

GROUPS, COPIES, HELD = 20, 4, 6


ANSWERS = make_groups(GROUPS, COPIES)


MANY: dict[str, Any] = {"CONCURRENT_REQUESTS": 16, "CONCURRENT_REQUESTS_PER_DOMAIN": 16}


def crawl_at_once(site: Site, folder: Path, lists: dict[str, list[str]]) -> list[ScriptCrawl]:
    """Crawl lists of URLs, each in a process of its own; none gets a page before all have asked."""
    gate = Event()
    site.answers |= {path: replace(page_, gate=gate) for path, page_ in site.answers.items()}
    running = {name: start_crawl(folder, urls, name, **MANY) for name, urls in lists.items()}
    site.wait_until_asked(len(lists) * MANY["CONCURRENT_REQUESTS"])
    gate.set()
    return [finish_crawl(process, folder, name) for name, process in running.items()]


@pytest.mark.slow
@pytest.mark.parametrize("same", [False, True], ids=["halves", "the same pages"])
def test_two_processes_keep_one_of_each_group(site: Site, tmp_path: Path, *, same: bool) -> None:
    """Of the same pages the same one: in the other crawl it is a revisit, no near-duplicate."""
    urls = site.urls()
    half = len(urls) // 2  # of all groups
    first, second = (urls, urls[::-1]) if same else (urls[:half], urls[half:])
    done = crawl_at_once(site, tmp_path, {"first": first, "second": second})
    for crawled in done:
        assert crawled.exit_code == 0
        assert "log_count/ERROR" not in crawled.stats
    kept = [Counter(path.split("/")[1] for path in crawled.paths) for crawled in done]
    one_of_each = {f"g{group}": 1 for group in range(GROUPS)}
    if same:
        assert kept == [one_of_each] * 2
        assert set(done[0].paths) == set(done[1].paths)
        assert sum(crawled.counted.get("revisit/unchanged", 0) for crawled in done) >= GROUPS
    else:
        assert sum(kept, Counter()) == one_of_each
    assert sum(crawled.counted.get("new", 0) for crawled in done) == GROUPS
    with open_store(str(tmp_path / "store")) as store:
        assert store.check() == []
        assert store.stats()["done"] == GROUPS
    decisions = read_lines(tmp_path / "store" / "log.jsonl")  # of both, line by line
    assert len(decisions) == len(first) + len(second)
    assert len({decision["crawl"] for decision in decisions}) == 2


class WaitingSpider(PagesSpider):
    """Has something happen to its store at one page, and the opposite at another one."""

    at: dict[str, Callable[[], object]]

    def parse(self, response: Response) -> Iterator[Any]:
        self.at.get(path_of(response.url), list)()
        return super().parse(response)


async def test_a_crawl_goes_on_beside_one_that_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was not judged meanwhile is not in the store afterwards, either."""
    monkeypatch.setattr(engine, "WAIT_SECONDS", 0.2)
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

        monkeypatch.setattr(WaitingSpider, "at", {"/2": stop, "/7": go_on}, raising=False)
        done = await crawl(tmp_path, site.urls(), WaitingSpider)
        pid = children[0].process.pid
    passed = [
        number for number, each in enumerate(done.decisions) if each["status"] == "not_judged"
    ]
    assert passed == [3, 4, 5, 6, 7]
    assert [path for path in answers if path not in done.paths] == ["/1", "/9", "/11"]
    (told,) = [text for text in caplog.messages if "Pages are not judged" in text]
    assert f"process {pid} has been writing" in told
    assert done.counted["not_judged/store_unavailable"] == 5
    said = "Not judged: 5 pages (5 store unavailable); all came through, even copies."
    assert said in caplog.messages
    with open_store(str(tmp_path), readonly=True) as store:
        assert len(store.list_documents()) == 7
        assert store.check() == []


def has_open(pid: int, name: str) -> bool:
    """Whether a process has a file of this name open."""
    found = False
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found |= each.readlink().name == name
    return found


@pytest.mark.slow
def test_a_crawl_that_cannot_begin_ends_at_the_first_signal(site: Site, tmp_path: Path) -> None:
    """It waits for another process, as for one that is stopped."""
    open_store(str(tmp_path / "store")).close()
    with running(HOLDER, tmp_path / "store", "write"):
        process = start_crawl(tmp_path, site.urls())
        crawl = psutil.Process(process.pid)  # its judge waits
        wait_until(lambda: any(has_open(one.pid, "writer.lock") for one in crawl.children()))
        process.send_signal(signal.SIGTERM)
        done = finish_crawl(process, tmp_path)
    assert done.log.count("Received SIGTERM") == 1
    assert (done.exit_code, site.asked) == (0, [])


class ClosingSpider(PagesSpider):
    """Has enough after a page, while others are judged."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        raise CloseSpider("enough")


@pytest.mark.usefixtures("judge_apart")
async def test_a_spider_that_closes_while_pages_are_judged_loses_none(
    site: Site, tmp_path: Path
) -> None:
    first = await crawl(tmp_path, site.urls(), ClosingSpider, **MANY)
    assert first.stats["finish_reason"] == "enough"
    told = {line["status"] for line in first.decisions}
    assert told <= {"new", "near_duplicate", "cut_off"}
    second = await crawl(tmp_path, site.urls(), **MANY)
    came = {path.split("/")[1] for path in second.paths}
    assert came == {f"g{group}" for group in range(GROUPS)}
    with open_store(str(tmp_path)) as store:
        assert store.check() == []
        assert store.stats()["pending"] == 0


async def test_a_crawl_whose_store_is_removed_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "s"
    at = {"/2": partial(shutil.rmtree, folder)}
    monkeypatch.setattr(WaitingSpider, "at", at, raising=False)
    with serve({f"/{number}": page(number // 2) for number in range(8)}) as site:
        done = await crawl(folder, site.urls(), WaitingSpider)
    assert done.paths == ["/0", "/2", "/3", "/4", "/5", "/6", "/7"]
    told = [text for text in caplog.messages if f"the store at {folder} was removed" in text]
    assert [text.partition(":")[0] for text in told] == [
        "Pages are not judged while the store fails",
        "1 document stays pending, to be fetched and judged again",  # when the crawl ends
    ]
    assert (await crawl(folder, [], PagesSpider)).stats["finish_reason"] == "finished"


def count_pending(folder: Path) -> int:
    with open_store(str(folder), readonly=True) as store:
        return int(store.stats()["pending"])


@pytest.mark.usefixtures("warm_worker")
async def test_killed_crawl_loses_no_page(site: Site, tmp_path: Path) -> None:
    originals = [site.url(f"/g{group}/c0") for group in range(GROUPS)]
    held = originals[-HELD:]
    first = start_crawl(tmp_path, originals, HELD_URLS=held, **MANY)
    items = tmp_path / "crawl.jsonl"
    log = tmp_path / "store" / "log.jsonl"
    # All are judged and on disk; those that are held did not come through.
    wait_until(lambda: len(read_lines(log)) == GROUPS and len(read_lines(items)) == GROUPS - HELD)
    # "Done" follows the items by up to a second.
    wait_until(lambda: count_pending(tmp_path / "store") == HELD)
    first.kill()
    finish_crawl(first, tmp_path)
    before = {item["path"] for item in read_lines(items)}
    assert len(before) == GROUPS - HELD

    copies = [site.url(f"/g{group}/c1") for group in range(GROUPS)]
    second = await crawl(tmp_path / "store", [*copies, *originals], **MANY)
    assert second.stats["finish_reason"] == "finished"
    through = before | set(second.paths)
    assert {path.split("/")[1] for path in through} == {f"g{group}" for group in range(GROUPS)}
    for decision in second.decisions:
        if decision["status"] == "near_duplicate":
            assert decision["match_url"].removeprefix(site.root) in through
    # Nor was anything kept twice that had come through before.
    assert set(second.paths) & {f"/g{group}/c1" for group in range(GROUPS)} == {
        f"/g{group}/c1" for group in range(GROUPS - HELD, GROUPS)
    }
    with open_store(str(tmp_path / "store")) as store:
        assert store.check() == []
        assert store.stats()["pending"] == 0


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
            done = await crawl(Path(sys.argv[1]) / str(number), site.urls(), SIMHASH_WORKERS=1)
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
