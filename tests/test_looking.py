"""`scrapy fetch`, `shell`, `parse` and `check` look at pages; no crawl must believe it saw them."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from subprocess import Popen
from typing import TypeAlias

import pytest

from tests.crawling import crawl, read_files
from tests.pages import page
from tests.processes import PATIENCE_SECONDS, start_python
from tests.server import Site, serve

SETTINGS = """
BOT_NAME = "bot"
SPIDER_MODULES = ["bot.spiders"]
ADDONS = {"scrapy_simhash.Addon": 500}
SIMHASH_WORKERS = 0
SIMHASH_STORE = "kept"
LOG_LEVEL = "INFO"
"""
SPIDER = """
import scrapy

class PageSpider(scrapy.Spider):
    name = "page"

    def parse(self, response):
        '''
        @url {url}
        @returns items 1 1
        '''
        yield {{"status": response.meta["simhash"]["status"], "flags": response.flags}}
"""
SHOW = "print('verdict', response.meta['simhash']['status'], response.flags)"
# Every one of them asks for the copy of a page that the store has.
COMMANDS = {
    "fetch": ["fetch"],
    "fetch without a store": ["fetch"],
    "shell": ["shell", "-c", SHOW],
    "parse": ["parse", "--spider", "page", "--nocolour"],
    "check": ["check"],
}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    answers = {"/one": page(1), "/copy": page(1, menu="Other menu"), "/new": page(2)}
    with serve(answers) as site:
        yield site


def make_project(folder: Path, site: Site) -> Path:
    """Make a project; its store stands where Scrapy looks for it."""
    (folder / "bot").mkdir(parents=True)
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = bot.settings\n", encoding="ascii")
    (folder / "bot" / "settings.py").write_text(SETTINGS, encoding="ascii")
    spiders = folder / "bot" / "spiders.py"
    spiders.write_text(SPIDER.format(url=site.url("/copy")), encoding="ascii")
    return folder


def start(command: str, project: Path, site: Site) -> AbstractContextManager[Popen[str]]:
    url = [] if command == "check" else [site.url("/copy")]
    name, *options = COMMANDS[command]
    arguments = [*url, *options] if command == "shell" else [*options, *url]
    return start_python("-m", "scrapy", name, *arguments, cwd=project)


Looked: TypeAlias = dict[str, tuple[Path, dict[str, bytes], str, str]]


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Looked:
    """Run all commands at once, each in a project with its own copy of a store."""
    folder = tmp_path_factory.mktemp("looking")
    asyncio.run(crawl(folder / "store", [site.url("/one")], SIMHASH_WORKERS=0))
    before = read_files(folder / "store")
    with ExitStack() as stack:
        running = {}
        for command in COMMANDS:
            project = make_project(folder / command, site)
            if "without" not in command:
                shutil.copytree(folder / "store", project / ".scrapy" / "kept")
            running[command] = project, stack.enter_context(start(command, project, site))
        return {
            command: (project, before, *process.communicate(timeout=PATIENCE_SECONDS))
            for command, (project, process) in running.items()
        }


@pytest.mark.parametrize("command", ["fetch", "shell", "parse", "check"])
def test_store_and_log_stay_as_they_are(looked: Looked, command: str) -> None:
    project, before, *_ = looked[command]
    assert read_files(project / ".scrapy" / "kept") == before


@pytest.mark.parametrize("command", ["fetch", "shell", "parse", "check"])
def test_nothing_fails_and_nothing_is_dropped(looked: Looked, command: str) -> None:
    _, _, out, log = looked[command]
    assert "Traceback" not in log
    assert " ERROR: " not in log
    assert "simhash/dropped" not in log
    shown = {
        "fetch": "<title>A page</title>",
        "shell": "verdict near_duplicate ['near_duplicate']",
        "parse": "Scraped Items",
        "check": "OK",
    }[command]
    assert shown in out + log


@pytest.mark.parametrize("command", ["fetch", "parse"])
def test_pages_are_judged_all_the_same(looked: Looked, command: str) -> None:
    _, _, _, log = looked[command]
    assert "'simhash/near_duplicate': 1" in log
    assert "read-only" in log


def test_looking_makes_no_store(looked: Looked) -> None:
    project, _, out, log = looked["fetch without a store"]
    assert "<title>A page</title>" in out
    assert " ERROR: " not in log
    assert "Pages are not judged" in log
    assert not (project / ".scrapy" / "kept").exists()
