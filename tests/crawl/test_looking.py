"""`scrapy fetch`, `shell`, `parse` and `check` look at pages; no crawl must believe it saw them."""

import shutil
from pathlib import Path

import pytest

from tests.helpers.crawling import crawl, read_files
from tests.helpers.pages import page
from tests.helpers.processes import run_scrapy
from tests.helpers.server import Site

ANSWERS = {"/one": page(1), "/copy": page(1, menu="Other menu")}
SETTINGS = """
BOT_NAME = "bot"
SPIDER_MODULES = ["bot.spiders"]
ADDONS = {"scrapy_simhash.Addon": 500}
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


@pytest.fixture
def project(tmp_path: Path, site: Site) -> Path:
    """A project without a store."""
    (tmp_path / "bot").mkdir()
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = bot.settings\n", encoding="ascii")
    (tmp_path / "bot" / "settings.py").write_text(SETTINGS, encoding="ascii")
    spider = SPIDER.format(url=site.url("/copy"))
    (tmp_path / "bot" / "spiders.py").write_text(spider, encoding="ascii")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
async def test_commands_judge_nothing_and_leave_the_store_alone(
    site: Site, project: Path, command: str
) -> None:
    store = project / "store"
    await crawl(store, [site.url("/one")])
    for kept in (None, project / ".scrapy" / "kept"):
        if kept:
            shutil.copytree(store, kept)
        options, shown = COMMANDS[command]
        url = [] if command == "check" else [site.url("/copy")]
        arguments = [*url, *options] if command == "shell" else [*options, *url]
        done = run_scrapy(command, *arguments, cwd=project)
        said = done.stdout + done.stderr
        assert shown in said
        for told in ("Traceback", " ERROR: ", "is missing in", "Judged", "ot judged"):
            assert told not in said
        assert "not_judged/no_store': 1" in said or command in {"shell", "check"}
    assert read_files(project / ".scrapy" / "kept") == read_files(store)
