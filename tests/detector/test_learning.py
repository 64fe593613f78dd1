"""URL rules are learned in a process of its own; what becomes of it costs no page."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from scrapy_simhash.detector import learning
from scrapy_simhash.detector.learning import Learning
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.store import Store
from scrapy_simhash.urls.rules import parse_rule
from tests.helpers.addresses import SITE, crawl_addresses
from tests.helpers.detecting import fetched, judge, running
from tests.helpers.documents import CRAWL, document
from tests.helpers.pages import page
from tests.helpers.processes import PATIENCE_SECONDS, ROOT, start_python, wait_until

SID = parse_rule("site.example drop-parameter sid")
PATHS = [f"/{'abc'[number % 3]}/p{number}" for number in range(35)]


async def fill(store: Path) -> None:
    """Fill a store with pages that prove a rule; nothing is learned meanwhile."""
    pages = {path: number for number, path in enumerate(PATHS)}
    pages |= {f"{path}?sid={number}": number for path, number in pages.items()}
    await crawl_addresses(store, pages)


def list_acting(store: Path) -> list[str]:
    with open_store(str(store), readonly=True) as opened:
        assert opened.check() == []
        return [each.rule.text for each in opened.list_acting_rules()[1]]


async def test_a_crawl_that_skips_begins_with_what_the_last_one_showed(tmp_path: Path) -> None:
    await fill(tmp_path)
    async with running(tmp_path, url_rules="skip") as detector:
        assert detector.acting is not None
        assert detector.acting.find_target(f"{SITE}/a/x?sid=1") is not None
    with open_store(str(tmp_path), readonly=True) as opened:
        assert opened.measure_growth() == (70, 70)
        assert not Learning(opened, str(tmp_path)).has_grown


async def test_a_running_crawl_comes_to_use_what_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "_LEAST_PAGES_OF_CRAWL", 2 * len(PATHS))
    async with running(tmp_path, url_rules="learn") as detector:
        for number, path in enumerate(PATHS):
            for query in ("", f"?sid={number}"):
                await judge(detector, fetched(f"{path[1:]}{query}", page(number)))
        deadline = time.monotonic() + 60
        while detector.acting is None and time.monotonic() < deadline:
            await judge(detector, fetched("a/p0", page(0)))
        assert detector.acting is not None
    assert list_acting(tmp_path) == [SID.text]


@pytest.mark.parametrize("settings", [{"readonly": True}, {"url_rules": "off"}])
async def test_crawls_that_learn_nothing(tmp_path: Path, settings: dict[str, object]) -> None:
    await fill(tmp_path)
    async with running(tmp_path, **settings):
        pass
    assert list_acting(tmp_path) == []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that has grown enough."""
    with open_store(str(tmp_path)) as store:
        store.start_crawl(CRAWL, "spider")
        store.find_and_add([document(f"{number}", number) for number in range(64)])
        yield store


def begin(store: Store, monkeypatch: pytest.MonkeyPatch, code: str) -> Learning:
    """Begin to learn with other code in place of the process."""
    monkeypatch.setattr(Learning, "program", code)
    found = Learning(store, store.url)
    assert found.has_grown
    return found


def list_children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "learning" in child.cmdline()[-1]]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        pytest.param("import os; os.kill(os.getpid(), 9)  # learning", "exit code -9", id="dies"),
        pytest.param("raise SystemExit('broken')", "exit code 1 broken", id="fails"),
        pytest.param("import time; time.sleep(99)  # learning", "exit code -9", id="hangs"),
        pytest.param("print('no JSON')", "Expecting value", id="says nothing of use"),
        pytest.param(
            "sys.stderr.write('x' * 2**20); raise SystemExit('broken')", "xbroken", id="says much"
        ),
        pytest.param("import only_here", "exit code 1 found", id="looks where the crawl does"),
        pytest.param(
            "import scrapy_simhash.detector.learning as x; x._MOST_BYTES = 2**28; "
            "x.open_store = lambda *_, **__: bytes(2**29); x.main()",
            "MemoryError",
            id="memory",
        ),
    ],
)
def test_a_process_that_fails_is_one_warning(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: str,
    told: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "only_here.py").write_text("raise SystemExit('found')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(learning, "_MOST_SECONDS", 3)
    found = begin(store, monkeypatch, code)
    for _ in range(2):
        found.begin(wait=True)
    (warning,) = [text for text in caplog.messages if "URL rules were not learned" in text]
    assert told in warning
    found.close()


def test_a_command_that_is_not_there_is_one_warning(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = begin(store, monkeypatch, "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    found.begin(wait=True)
    assert "URL rules were not learned" in caplog.text
    found.close()


def test_the_process_ends_with_the_crawl(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = begin(store, monkeypatch, "import time; time.sleep(99)  # learning")
    found.begin()
    wait_until(lambda: bool(list_children()))
    found.begin()  # one at a time
    assert len(list_children()) == 1
    found.close()
    assert list_children() == []


ORPHANED = """
import time
from types import SimpleNamespace
from scrapy_simhash.detector.learning import Learning

Learning.program = '''
from scrapy_simhash.detector import learning
learning.open_store = lambda *_, **__: learning.threading.Event().wait()
learning.main()
'''
store = SimpleNamespace(distance=3, confirm=None, measure_growth=lambda: (0, 64))
Learning(store, "x").begin()
time.sleep(3600)
"""


def test_the_process_ends_when_its_parent_was_killed() -> None:
    with start_python("-c", ORPHANED, cwd=ROOT) as parent:
        children = psutil.Process(parent.pid).children
        wait_until(children)
        (child,) = children()
        parent.kill()
        _, left = psutil.wait_procs([child], PATIENCE_SECONDS)
        for each in left:
            each.kill()
        assert not left


def test_pages_that_double_begin_it_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "_LEAST_PAGES_OF_CRAWL", 100)
    found = begin(store, monkeypatch, "")
    begun: list[int] = []
    counting: Callable[[], None] = lambda: begun.append(pages)  # noqa: E731
    monkeypatch.setattr(found, "begin", counting)
    for pages in range(64, 1_100):
        if pages >= found.due_pages:
            found.begin_when_due(pages)
    assert begun == [128, 256, 512, 1_024]
