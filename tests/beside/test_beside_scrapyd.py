"""Under Scrapyd: a project that is deployed as an egg."""

import http.client
import json
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.helpers.crawling import read_lines
from tests.helpers.needing import require_modules
from tests.helpers.pages import page
from tests.helpers.processes import PATIENCE_SECONDS, environment, wait_until
from tests.helpers.server import serve

pytestmark = pytest.mark.slow

CONFIGURATION = """
[scrapyd]
http_port = 0
unix_socket_path = socket
poll_interval = 0.1
"""
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


class Scrapyd:
    """A running Scrapyd, asked over its socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ask(self, method: str, name: str, body: str = "") -> dict[str, Any]:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.folder / "socket"))
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        connection.request(method, f"/{name}", body, headers)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        assert answer["status"] == "ok", answer
        return answer

    def run(self, **arguments: str) -> str:
        """Run the spider to its end, and get its log."""
        form = urlencode({"project": "news", "spider": "pages", **arguments})
        job = self.ask("POST", "schedule.json", form)["jobid"]
        wait_until(lambda: self.ask("GET", "listjobs.json")["finished"])
        return (self.folder / "logs" / "news" / "pages" / f"{job}.log").read_text()


@contextmanager
def serve_scrapyd() -> Iterator[Scrapyd]:
    require_modules("beside", "scrapyd")
    # The path of a socket has at most 107 bytes, that of a test's folder may have more.
    with TemporaryDirectory(prefix="scrapyd") as place:
        folder = Path(place)
        (folder / "scrapyd.conf").write_text(CONFIGURATION)
        # Where Scrapyd puts what is deployed.
        (folder / "eggs" / "news").mkdir(parents=True)
        with zipfile.ZipFile(folder / "eggs" / "news" / "1.egg", "w") as egg:
            for name, text in FILES.items():
                egg.writestr(name, text)
        with subprocess.Popen(
            [sys.executable, "-m", "scrapyd"],
            cwd=folder,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as server:
            try:
                wait_until(lambda: (folder / "socket").exists() or server.poll() is not None)
                assert server.poll() is None, "scrapyd ended"
                yield Scrapyd(folder)
            finally:
                server.terminate()
                server.wait(PATIENCE_SECONDS)


def test_job_with_a_scope_in_its_egg(tmp_path: Path) -> None:
    store = tmp_path / "store"
    answers = {"/one": page(1), "/copy": page(1, menu="Other")}
    with serve(answers) as site, serve_scrapyd() as scrapyd:
        log = scrapyd.run(urls=" ".join(site.urls()), setting=f"SIMHASH_STORE={store}")
    assert "'simhash/dropped': 1" in log, log
    assert " ERROR: " not in log
    kept, dropped = read_lines(store / "log.jsonl")
    assert kept["scope"] == "of the egg"
    assert (dropped["url"], dropped["match_url"]) == (site.url("/copy"), site.url("/one"))
