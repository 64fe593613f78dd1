"""`scrapy fetch`, `shell`, `parse` and `check` look at pages; no crawl must believe it saw them."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

import pytest

from tests.helpers.crawling import crawl, read_files
from tests.helpers.needing import slow_but
from tests.helpers.pages import page
from tests.helpers.processes import PATIENCE_SECONDS, start_python
from tests.helpers.server import Site, serve

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
    (folder / "bot").mkdir()
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


class Looked(NamedTuple):
    """A command that has ended: in which project, and what it said."""

    command: str
    project: Path
    out: str
    log: str


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Path:
    store = tmp_path_factory.mktemp("looking") / "store"
    asyncio.run(crawl(store, [site.url("/one")], SIMHASH_WORKERS=0))
    return store


@pytest.fixture(scope="module")
def looked(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    site: Site,
    store: Path,
) -> Looked:
    """Run a command in a project with its own copy of the store."""
    command: str = request.param
    project = make_project(tmp_path_factory.mktemp("project"), site)
    if "without" not in command:
        shutil.copytree(store, project / ".scrapy" / "kept")
    with start(command, project, site) as process:
        return Looked(command, project, *process.communicate(timeout=PATIENCE_SECONDS))


LOOKED = slow_but(["fetch"], ["fetch", "shell", "parse", "check"])


@pytest.mark.parametrize("looked", LOOKED, indirect=True)
def test_store_and_log_stay_as_they_are(looked: Looked, store: Path) -> None:
    assert read_files(looked.project / ".scrapy" / "kept") == read_files(store)


@pytest.mark.parametrize("looked", LOOKED, indirect=True)
def test_nothing_fails_and_nothing_is_dropped(looked: Looked) -> None:
    command, _, out, log = looked
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


@pytest.mark.parametrize("looked", slow_but(["fetch"], ["fetch", "parse"]), indirect=True)
def test_pages_are_judged_all_the_same(looked: Looked) -> None:
    assert "'simhash/near_duplicate': 1" in looked.log
    assert "read-only" in looked.log


@pytest.mark.slow
@pytest.mark.parametrize("looked", ["fetch without a store"], indirect=True)
def test_looking_makes_no_store(looked: Looked) -> None:
    _, project, out, log = looked
    assert "<title>A page</title>" in out
    assert " ERROR: " not in log
    assert "Pages are not judged" in log
    assert not (project / ".scrapy" / "kept").exists()
