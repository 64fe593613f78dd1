"""What links of dropped pages, and a list of rules on addresses, save and lose.

Live crawls of the example's site, whose documents are known, each in a process of its own with
pages from memory: `first` is the plugin with its defaults, `follows` with
`SIMHASH_FOLLOW_NEW_LINKS`; `scrapy simhash urls` writes the rules that the pages of `first` prove;
`discarder` is the plugin beside duplicate-url-discarder with these rules, in a new store. The last
two go on with the other's store, although requests have other fingerprints then. Ends with 1 if a
crawl loses documents that `off` delivered.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urldefrag, urlsplit

from machine import print_table, write_result
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response
from tldextract import tldextract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler

_PLUGIN = {"scrapy_simhash.Addon": 500}
_BOTH = {**_PLUGIN, "duplicate_url_discarder.Addon": 600}
# By name: the add-ons, and the store; a crawl that finds one goes on.
_CRAWLS: dict[str, tuple[dict[str, int], str]] = {
    "off": ({}, ""),
    "first": (_PLUGIN, "first"),
    "follows": (_PLUGIN, "follows"),
    "discarder": (_BOTH, "discarder"),
    "discarder, store of first": (_BOTH, "first"),
    "again, store of discarder": (_PLUGIN, "discarder"),
}
_VERSIONS = ("scrapy-simhash", "scrapy", "duplicate-url-discarder", "turbohtml")
EXAMPLE = Path(__file__).parent.parent / "example_project"
HOST = "manuals.example"
_SETTINGS: dict[str, Any] = {
    # Breadth first, as the example crawl: a page is met before its copies.
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
}


class SiteHandler:
    """Answers every request from the example's site, without a network."""

    lazy = False

    def __init__(self) -> None:
        sys.path.append(str(EXAMPLE))
        self._site = __import__("docsite").Site(0)

    @classmethod
    def from_crawler(cls, _: Crawler) -> Self:
        """Make the handler; called by Scrapy."""
        return cls()

    async def download_request(self, request: Request) -> Response:
        """Answer a request."""
        answer = self._site.answer(request.url)
        document = answer.document if answer.status == 200 else ""
        headers = {"Content-Type": "text/html", "X-Document": document}
        body, status = answer.text.encode(), 200 if document else 404
        return HtmlResponse(request.url, status, headers, body, request=request)

    async def close(self) -> None:
        """Nothing to close."""


class SiteSpider(Spider):
    """Follows every link of the site, and remembers which documents came."""

    name = "site"

    def __init__(self) -> None:
        super().__init__()
        self.fetched: dict[str, str] = {}  # documents by address

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Listen to what is fetched, because a dropped page never comes to `parse`."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.remember, signals.response_received)
        return spider

    def remember(self, response: Response) -> None:
        """Remember what was fetched."""
        self.fetched[response.url] = (response.headers["X-Document"] or b"").decode()

    def parse(self, response: Response) -> Iterator[Any]:
        """Take a page, and follow its links."""
        yield {"url": response.url}
        links = dict.fromkeys(response.css("a::attr(href)").getall())
        urls = (urldefrag(response.urljoin(link.strip())).url for link in links)
        yield from (Request(url) for url in urls if urlsplit(url).hostname == HOST)

    async def start(self) -> AsyncIterator[Request]:
        """Begin at the front page."""
        yield Request(f"http://{HOST}/")


def _crawl_here(given: str) -> None:
    """Crawl once in this process, and print what came of it."""
    # duplicate-url-discarder would download the list of public suffixes.
    vars(tldextract)["extract"] = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    handlers = {"DOWNLOAD_HANDLERS": {"http": SiteHandler, "https": SiteHandler}}
    process = AsyncCrawlerProcess({**_SETTINGS, **handlers, **json.loads(given)})
    crawler = process.create_crawler(SiteSpider)
    items: list[str] = []
    take = lambda item: items.append(item["url"])  # noqa: E731
    crawler.signals.connect(take, signals.item_scraped)
    process.crawl(crawler)
    process.start()
    spider = crawler.spider
    assert isinstance(spider, SiteSpider)  # noqa: S101
    delivered = sorted({spider.fetched[url] for url in items} - {""})
    print(json.dumps({"requests": len(spider.fetched), "documents": delivered}))


def crawl_all(folder: Path) -> dict[str, dict[str, Any]]:
    """Crawl in all these ways, with stores in the folder; returns the figures by name."""
    figures: dict[str, dict[str, Any]] = {}
    rules = folder / "rules.json"
    for name, (addons, store) in _CRAWLS.items():
        settings = {
            "ADDONS": addons,
            "SIMHASH_STORE": str(folder / store),
            "SIMHASH_FOLLOW_NEW_LINKS": name == "follows",
            "DUD_LOAD_RULE_PATHS": [str(rules)],
        }
        command = [sys.executable, __file__, "--one", json.dumps(settings)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        if name == "first":
            command = [sys.executable, "-m", "scrapy", "simhash", "urls", "--output", str(rules)]
            command += ["--store", str(folder / "first")]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        every = figures.get("off", found)
        figures[name] = {
            "requests": found["requests"],
            "documents": found["documents"] if name == "off" else [],
            "saved": 1 - found["requests"] / every["requests"],
            "found": len(found["documents"]),
            "lost": sorted({*every["documents"]} - {*found["documents"]}),
        }
    return figures


def main() -> None:
    """Crawl, print the table, and fail where a document was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="runs (default 3)")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _crawl_here(options.one)
        return
    runs = []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(crawl_all(Path(folder)))
    rows = []
    for name in _CRAWLS:
        found = [run[name] for run in runs]
        medians = (median(each[key] for each in found) for key in ("requests", "saved", "found"))
        rows.append((name, *medians, sum(len(each["lost"]) for each in found)))
    print_table(("crawl", "requests", "saved", "documents", "lost"), rows)
    write_result(options.output, _VERSIONS, crawls=runs)
    sys.exit(any(each["lost"] for run in runs for each in run.values()))


if __name__ == "__main__":
    main()
