"""`scrapy fetch`, `shell`, `parse` and `check` look at pages; no crawl must believe it saw them."""

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.crawling import crawl, read_files
from tests.helpers.pages import page
from tests.helpers.processes import run_scrapy
from tests.helpers.server import Site, serve

SETTINGS = """
BOT_NAME = "bot"
SPIDER_MODULES = ["bot.spiders"]
ADDONS = {"scrapy_simhash.Addon": 500}
SIMHASH_PROCESSES = 1
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
        yield {{"status": response.meta["simhash"]["status"]}}
"""
SHOW = "print('verdict', response.meta['simhash']['status'])"
# Every one of them asks for the copy of a page that the store has; its options, what it shows.
COMMANDS = {
    "fetch": ([], "<title>A page</title>"),
    "shell": (["-c", SHOW], "verdict not_judged"),
    "parse": (["--spider", "page", "--nocolour"], "Scraped Items"),
    "check": ([], "OK"),
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


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Path:
    store = tmp_path_factory.mktemp("looking") / "store"
    asyncio.run(crawl(store, [site.url("/one")]))
    return store


def look(command: str, project: Path, site: Site) -> str:
    """Run a command to its end; what it printed and logged."""
    options, shown = COMMANDS[command]
    url = [] if command == "check" else [site.url("/copy")]
    arguments = [*url, *options] if command == "shell" else [*options, *url]
    done = run_scrapy(command, *arguments, cwd=project)
    assert "Traceback" not in done.stderr
    assert " ERROR: " not in done.stderr
    said = done.stdout + done.stderr
    assert shown in said
    return said


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_judge_nothing_and_leave_the_store_alone(
    site: Site, store: Path, tmp_path: Path, command: str
) -> None:
    kept = make_project(tmp_path, site) / ".scrapy" / "kept"
    shutil.copytree(store, kept)
    said = look(command, tmp_path, site)
    if command in {"fetch", "parse"}:
        assert "'simhash/not_judged/no_store': 1" in said
    assert "udged" not in re.sub(r"not_judged", "", said)
    assert "is missing in" not in said
    assert read_files(kept) == read_files(store)


@pytest.mark.slow
def test_looking_makes_no_store(site: Site, tmp_path: Path) -> None:
    look("fetch", make_project(tmp_path, site), site)
    assert not (tmp_path / ".scrapy" / "kept").exists()
