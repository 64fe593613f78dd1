"""Crawls that cannot begin: a bad setting, or a store that cannot be used and stays as it is."""

import asyncio
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from scrapy_simhash.config import Config
from scrapy_simhash.crawl.running import resolve_paths
from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
from scrapy_simhash.judge.client import Judges
from scrapy_simhash.judge.messages import Opened
from scrapy_simhash.pages.facts import Recipe
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import Crawl, PagesSpider, crawl, read_files
from tests.helpers.documents import document
from tests.helpers.pages import page
from tests.helpers.processes import run_python, run_scrapy

LOGGER = "scrapy_simhash.downloadermiddlewares"
PAGE = "data:text/html;charset=utf-8," + quote(page(1))
# Scrapy leaves the sessions of HTTP handlers open when a crawl stops at its opening.
SETTINGS: dict[str, Any] = {"DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https", "ftp"))}
SETTINGS["URLLENGTH_LIMIT"] = 0


def assert_stopped(done: Crawl) -> None:
    assert done.stats["finish_reason"] == "simhash_store_unusable"
    assert "downloader/request_count" not in done.stats
    assert done.items == []


def fill(store: Path, **arguments: Any) -> None:
    arguments = {"recipe": Recipe(), **arguments}
    with open_store(str(store), **arguments) as opened:
        opened.find_and_add([document("a", 1), document("b", 1 << 40)])


def write_text(store: Path) -> None:
    store.mkdir()
    (store / "data.mdb").write_text("this is no store\n" * 1_000, encoding="utf-8")


STORE = "SIMHASH_STORE"
WIDER = {"SIMHASH_TABLES": 20, "SIMHASH_DISTANCE": 4}
CURES = ["another design: 10, and 20 is wanted", "SIMHASH_TABLES", "scrapy simhash check --rebuild"]


@pytest.mark.parametrize(
    ("made", "settings", "facts"),
    [
        ({"recipe": Recipe(window=3)}, {}, ["another recipe", "window=3", f"name another {STORE}"]),
        ({"tables": 10}, WIDER, CURES),
        (
            {"tables": "6:2", "distance": 2},
            {"SIMHASH_DISTANCE": 4},
            ["distance 4", "6:2", "0 to 3 bits", "SIMHASH_DISTANCE"],
        ),
        (None, {}, ["not an LMDB file", "another folder"]),
        ({}, {"SIMHASH_LOG": "{store}"}, ["decision log", "SIMHASH_LOG"]),
    ],
    ids=["recipe", "design", "narrower design", "text file", "folder for a log"],
)
async def test_unusable_store_stops_the_crawl_and_stays_as_it_is(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    made: dict[str, Any] | None,
    settings: dict[str, Any],
    facts: list[str],
) -> None:
    """Whatever else is no store is refused by the same call, see `stores/test_lmdb_opening.py`."""
    store = tmp_path / "store"
    write_text(store) if made is None else fill(store, **made)
    settings = {name: str(value).format(store=store) for name, value in settings.items()}
    before = read_files(tmp_path)
    caplog.clear()
    assert_stopped(await crawl(store, [PAGE], **{**SETTINGS, **settings}))
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.name == LOGGER
    assert not record.exc_info  # the message says it all
    for fact in facts:
        assert fact in record.getMessage()
    after = read_files(tmp_path)
    assert after == before


async def test_a_crawl_that_ends_while_its_store_is_opened_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, open_now = asyncio.Event(), Judges.open

    async def open_late(judges: Judges) -> Opened:
        await ended.wait()
        return await open_now(judges)

    class Spider(PagesSpider):
        def closed(self, reason: str) -> None:
            assert reason == "closespider_timeout"
            ended.set()

    monkeypatch.setattr(Judges, "open", open_late)
    done = await crawl(tmp_path / "store", [PAGE], Spider, CLOSESPIDER_TIMEOUT=0.01, **SETTINGS)
    judging = done.crawler.get_downloader_middleware(SimhashDownloaderMiddleware)
    assert judging is not None
    assert judging._judges is None
    assert ended.is_set()


@pytest.mark.usefixtures("judge_apart")
@pytest.mark.parametrize("program", ["/bin/false", "/bin/there-is-none"])
async def test_a_judge_that_cannot_start_stops_the_crawl(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert_stopped(await crawl(tmp_path / "store", [PAGE], **SETTINGS))
    why = "exit code 1" if program == "/bin/false" else program
    said = "the process that judges pages ended while it opened the store: "
    assert said in caplog.text
    assert why in caplog.text.partition(said)[2]


SPIDER = """
import scrapy

class PageSpider(scrapy.Spider):
    name = "page"
    start_urls = ["data:,page"]
    custom_settings = {"ADDONS": {"scrapy_simhash.Addon": 500}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("SIMHASH_DISTANCE=9", "SIMHASH_DISTANCE = 9: must be 0 to 7 bits"),
        ("SIMHASH_HAND_OVER_TEXT=none", "SIMHASH_HAND_OVER_TEXT: 'none' is none of "),
        # Where settings are and no `scrapy.cfg`, as under Scrapyd.
        ("", "SIMHASH_STORE = 'simhash': is a path below the project's folder, which "),
    ],
)
def test_bad_setting_is_told_once(tmp_path: Path, setting: str, told: str) -> None:
    (tmp_path / "spider.py").write_text(SPIDER, encoding="utf-8")
    given, extra = ["-s", setting], {}
    if not setting:
        (tmp_path / "settings.py").write_text("", encoding="utf-8")
        given, extra = [], {"SCRAPY_SETTINGS_MODULE": "settings"}
    command = ("-m", "scrapy", "runspider", "spider.py", *given)
    done = run_python(*command, cwd=tmp_path, extra=extra)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert f"SettingError: {told}" in lines[-1]
    assert setting or "must be an absolute path" in lines[-1]
    assert "Traceback" not in done.stderr
    assert len([line for line in lines if " ERROR: " in line or "  File " in line]) == 1
    assert "Spider opened" not in done.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert names <= {"spider.py", "settings.py", "__pycache__"}


@pytest.mark.slow
def test_a_refused_store_is_told_by_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "spider.py").write_text(SPIDER, encoding="utf-8")
    write_text(tmp_path / "store")
    setting = f"SIMHASH_STORE={tmp_path / 'store'}"
    done = run_scrapy("runspider", "spider.py", "-s", setting, cwd=tmp_path)
    assert done.returncode == 1
    assert len([line for line in done.stderr.splitlines() if " ERROR: " in line]) == 1
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["data.mdb"]


def test_a_relative_log_is_in_the_folder_of_the_project_or_in_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    absolute = str(tmp_path / "inside" / "own.jsonl")
    for given, placed in (("own.jsonl", "own.jsonl"), (absolute, absolute)):
        assert resolve_paths(Config(log=given), "s").log == placed
    (tmp_path / "scrapy.cfg").touch()
    for given, placed in (("own.jsonl", str(tmp_path / "own.jsonl")), (absolute, absolute)):
        assert resolve_paths(Config(log=given), "s").log == placed
