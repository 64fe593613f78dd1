"""On uvloop and under Scrapyd: the same decisions, also where a judge dies."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.crawling import read_lines
from tests.helpers.crawlscript import run_crawl
from tests.helpers.hostile import TRIGGER
from tests.helpers.needing import require_modules
from tests.helpers.pages import page
from tests.helpers.processes import run_python
from tests.helpers.server import serve

pytestmark = pytest.mark.slow
REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


@pytest.mark.parametrize(
    "settings", [{"TWISTED_REACTOR": REACTOR}, {"TWISTED_REACTOR_ENABLED": False}], ids=str
)
def test_a_judge_that_dies_costs_only_its_page(settings: dict[str, Any], tmp_path: Path) -> None:
    require_modules("beside", "uvloop")
    answers = {
        "/crash": page(3, title=f"{TRIGGER}crash"),
        "/one": page(1),
        "/one-again": page(1, menu="Other menu"),
        "/two": page(2),
    }
    with serve(answers) as site:
        done = run_crawl(
            tmp_path,
            [site.url(path) for path in answers],
            ASYNCIO_EVENT_LOOP="uvloop.Loop",
            SIMHASH_SCOPE="tests.helpers.hostile.misbehave",
            SIMHASH_PROCESSES=1,
            **settings,
        )
    assert "uvloop.Loop" in done.log
    assert done.paths == ["/crash", "/one", "/two"], done.log
    assert (done.counted["dropped"], done.counted["not_judged/worker_died"]) == (1, 1)


FILES = {
    "news/__init__.py": "",
    "news/settings.py": """
SPIDER_MODULES = ["news.spiders"]
ADDONS = {"scrapy_simhash.Addon": 500}
SIMHASH_SCOPE = "news.texts.find_scope"
CONCURRENT_REQUESTS = 1
TELNETCONSOLE_ENABLED = False
""",
    "news/spiders.py": """
from scrapy import Request, Spider

class PagesSpider(Spider):
    name = "pages"

    async def start(self):
        for url in self.urls.split():
            yield Request(url)

    def parse(self, response):
        yield {"url": response.url}
""",
    # The judge finds it in the egg, too.
    "news/texts.py": """
def find_scope(url, page):
    return "of the egg"
""",
    "EGG-INFO/PKG-INFO": "Metadata-Version: 1.0\nName: news\nVersion: 1\n",
    "EGG-INFO/entry_points.txt": "[scrapy]\nsettings = news.settings\n",
}


def test_job_with_a_scope_in_its_egg(tmp_path: Path) -> None:
    """By the program that Scrapyd starts for each job."""
    require_modules("beside", "scrapyd")
    # Where Scrapyd puts what is deployed.
    (tmp_path / "eggs" / "news").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "eggs" / "news" / "1.egg", "w") as egg:
        for name, text in FILES.items():
            egg.writestr(name, text)
    store = tmp_path / "store"
    answers = {"/one": page(1), "/copy": page(1, menu="Other")}
    with serve(answers) as site:
        job = ("-a", f"urls={' '.join(site.urls())}", "-s", f"SIMHASH_STORE={store}")
        command = ("-m", "scrapyd.runner", "crawl", "pages", *job)
        done = run_python(*command, cwd=tmp_path, extra={"SCRAPY_PROJECT": "news"})
    assert "'simhash/dropped': 1" in done.stderr, done.stderr
    assert " ERROR: " not in done.stderr
    kept, dropped = read_lines(store / "log.jsonl")
    assert kept["scope"] == "of the egg"
    assert (dropped["url"], dropped["match_url"]) == (site.url("/copy"), site.url("/one"))
