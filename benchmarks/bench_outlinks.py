"""What becomes of the links of near-duplicates: live crawls of sites whose pages are known.

Each crawl is a process of its own, with pages from memory. Sites:

* `example`: that of the example project, with documents that only duplicates link to;
* `linked`: pages of real sites, listed in `site.csv` (url, id, path, cluster) beside `seeds.txt`.

The second crawl of a site finds the store that the first one left. Ends with 1 if a promise broke.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import logging
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urldefrag, urlsplit

from machine import write_result
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response, TextResponse
from tldextract import tldextract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from scrapy.crawler import Crawler

VERSIONS = ("scrapy-simhash", "scrapy", "lmdb", "turbohtml")
_OURS: dict[str, Any] = {"ADDONS": {"scrapy_simhash.Addon": 500}}
KINDS: dict[str, dict[str, Any]] = {
    "off": {},
    "False": {**_OURS, "SIMHASH_FOLLOW_NEW_LINKS": "False"},
    "True": {**_OURS, "SIMHASH_FOLLOW_NEW_LINKS": "True"},
    # With the store that `False` left.
    "again": {**_OURS, "SIMHASH_FOLLOW_NEW_LINKS": "False"},
}
_DEFAULT = ("off", "False", "True", "again")
EXAMPLE = Path(__file__).parent.parent / "example_project"
_SETTINGS: dict[str, Any] = {
    # Breadth first, as the example crawl: a page is met before its copies.
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
}


class Page(NamedTuple):
    """A page, and which document it is; "": there is no such page."""

    document: str
    body: bytes = b""


class Example:
    """The site of the example project."""

    def __init__(self) -> None:
        sys.path.append(str(EXAMPLE))
        docsite = __import__("docsite")
        self.starts = (f"http://{docsite.HOST}/",)
        self._host, self._site = docsite.HOST, docsite.Site(0)

    def answer(self, url: str) -> Page:
        """Answer a request for an absolute URL."""
        answer = self._site.answer(url)
        return Page(answer.document if answer.status == 200 else "", answer.text.encode())

    def has(self, url: str) -> bool:
        """Whether a spider follows a link."""
        return urlsplit(url).hostname == str(self._host)


class Linked:
    """Pages of many sites; an address leads to one whatever its scheme, `www.` and ending."""

    def __init__(self, folder: Path) -> None:
        self.starts = (folder / "seeds.txt").read_text().split()
        with (folder / "site.csv").open(newline="") as rows:
            self._pages = {_bare(row["url"]): row for row in csv.DictReader(rows)}
        self._folder = folder.parent

    def answer(self, url: str) -> Page:
        """Answer a request for an absolute URL."""
        row = self._pages.get(_bare(url))
        if row is None:
            return Page("")
        body = gzip.decompress((self._folder / row["path"]).read_bytes())
        return Page(row["cluster"] or row["id"], body)

    def has(self, url: str) -> bool:
        """Whether a spider follows a link."""
        return _bare(url) in self._pages


def _bare(url: str) -> str:
    """Bring an address to the form that all its spellings have."""
    parts = urlsplit(urldefrag(url).url)
    host = (parts.hostname or "").removeprefix("www.")
    path = re.sub(r"(/index)?\.html$", "", parts.path.rstrip("/")).removesuffix("/index")
    return f"{host}{path.rstrip('/')}?{parts.query}".rstrip("?")


def make_site(name: str, folder: str) -> Example | Linked:
    """Make a site by its name."""
    return Example() if name == "example" else Linked(Path(folder))


class SiteHandler:
    """Answers every request from the site, without a network."""

    lazy = False
    site: Any

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the site from the settings."""
        handler = cls()
        handler.site = crawler.settings["BENCH_SITE"]
        return handler

    async def download_request(self, request: Request) -> Response:
        """Answer a request."""
        answer = self.site.answer(request.url)
        headers = {"Content-Type": "text/html", "X-Document": answer.document.encode()}
        status = 200 if answer.document else 404
        return HtmlResponse(request.url, status, headers, answer.body, request=request)

    async def close(self) -> None:
        """Nothing to close."""


class SitesSpider(Spider):
    """Follows every link that its site has, and remembers which documents came."""

    name = "site"

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[tuple[str, str]] = []  # address, document

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Listen to what is fetched, because a dropped page never comes to `parse`."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.remember, signals.response_received)
        return spider

    def remember(self, response: Response) -> None:
        """Remember what was fetched."""
        self.fetched.append((response.url, (response.headers["X-Document"] or b"").decode()))

    def parse(self, response: Response) -> Iterator[Any]:
        """Take a page, and follow its links."""
        if not isinstance(response, TextResponse):
            return
        yield {"url": response.url}
        yield from map(Request, self._list_links(response))

    async def start(self) -> AsyncIterator[Request]:
        """Begin where the site says."""
        for url in self.crawler.settings["BENCH_SITE"].starts:
            yield Request(url)

    def _list_links(self, response: TextResponse) -> Iterator[str]:
        has = self.crawler.settings["BENCH_SITE"].has
        links = response.css("a::attr(href)").getall()
        for link in dict.fromkeys(links):
            try:
                url = urldefrag(response.urljoin(link.strip())).url
                follows = url.startswith("http") and has(url)
            except ValueError:
                continue
            if follows:
                yield url


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("scrapy_simhash"):
            self.lines.append(record.getMessage())


def _crawl_here(job: str) -> None:
    """Crawl once in this process, and print what came of it."""
    name, folder, settings = json.loads(job)
    handler = {"DOWNLOAD_HANDLERS": {"http": SiteHandler, "https": SiteHandler}}
    # duplicate-url-discarder would download the list of public suffixes.
    vars(tldextract)["extract"] = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    given = {**_SETTINGS, **handler, "BENCH_SITE": make_site(name, folder), **settings}
    process = AsyncCrawlerProcess(given)
    warnings = _Warnings()
    logging.getLogger().addHandler(warnings)
    crawler = process.create_crawler(SitesSpider)
    items: list[str] = []
    take = lambda item: items.append(item["url"])  # noqa: E731
    crawler.signals.connect(take, signals.item_scraped)
    process.crawl(crawler)
    process.start()
    spider, stats = crawler.spider, crawler.stats
    assert isinstance(spider, SitesSpider)  # noqa: S101
    assert stats is not None  # noqa: S101
    counted = stats.get_stats()
    documents = dict(spider.fetched)
    found = {
        "fetched": spider.fetched,
        "delivered": [(url, documents[url]) for url in items],
        "errors": counted.get("log_count/ERROR", 0),
        "reason": counted["finish_reason"],
        "counted": {k[8:]: v for k, v in counted.items() if k.startswith("simhash/")},
        "warnings": warnings.lines,
    }
    print(json.dumps(found))


def crawl(name: str, folder: str, settings: Mapping[str, Any]) -> Any:
    """Crawl once, in a process of its own."""
    job = json.dumps([name, folder, settings])
    command = [sys.executable, __file__, "--one", job]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, folder: str, kinds: Sequence[str], stores: Path) -> Any:
    """Crawl a site in several ways; figures by kind, beside those of a crawl that drops nothing."""
    figures: dict[str, dict[str, Any]] = {}
    off = crawl(name, folder, {})
    pages = {url: document for url, document in off["fetched"] if document}
    for kind in kinds:
        store = "False" if kind == "again" else kind
        settings = {**KINDS[kind], "SIMHASH_STORE": str(stores / f"{name}-{store}")}
        found = off if kind == "off" else crawl(name, folder, settings)
        figures[kind] = describe(found, pages)
        print(name, kind, json.dumps(figures[kind])[:1000], file=sys.stderr)
    return figures


def describe(found: Mapping[str, Any], pages: Mapping[str, str]) -> dict[str, Any]:
    """Hold a crawl against one without the plugin."""
    fetched = {url for url, _ in found["fetched"]}
    shown = {document for _, document in found["fetched"] if document}
    delivered = {document for _, document in found["delivered"] if document}
    documents = set(pages.values())
    return {
        "requests": len(found["fetched"]),
        "without": len(pages),
        "never_requested": len(set(pages) - fetched),
        "unreached": len(documents - shown),
        "delivered": len(delivered),
        **{key: found[key] for key in ("errors", "reason", "counted", "warnings")},
    }


def print_table(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Print the figures as a Markdown table."""
    titles = ["site", "crawl", "requests", "pages never requested", "documents unreached"]
    titles += ["documents delivered", "links unseen", "saved"]
    print(f"| {' | '.join(titles)} |\n| --- | --- |{' ---: |' * (len(titles) - 2)}")
    keys = ("requests", "never_requested", "unreached", "delivered")
    for site, kinds in results.items():
        for kind, found in kinds.items():
            cells = [site, kind, *(f"{found[key]:,}" for key in keys)]
            counted = found["counted"]
            cells += [f"{counted.get('links/only_on_dropped_pages', 0):,}"]
            cells += [f"{1 - found['requests'] / found['without']:.1%}"]
            print(f"| {' | '.join(cells)} |")
    print()


def find_faults(site: str, kinds: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Name the promises that were broken."""
    for kind, found in kinds.items():
        if found["reason"] != "finished":
            yield f"{site}, {kind}: ended as {found['reason']}"
    never = kinds.get("False", {"unreached": 0, "warnings": ()})
    if never["unreached"] and "Not followed" not in " ".join(never["warnings"]):
        yield f"{site}: no warning of links that nobody followed"


def main() -> None:
    """Crawl, print the table, and fail where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", default=",".join(_DEFAULT), help="such as off,True")
    parser.add_argument("--linked", default="", help="folder with site.csv")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _crawl_here(options.one)
        return
    kinds = options.kinds.split(",")
    with tempfile.TemporaryDirectory() as stores:
        results = {
            name: measure(name, options.linked, kinds, Path(stores))
            for name in ("example", *["linked"] * bool(options.linked))
        }
    print_table(results)
    faults = list(itertools.chain(*(find_faults(site, results[site]) for site in results)))
    print("\n".join(faults) or "every promise was kept")
    write_result(options.output, VERSIONS, faults=faults, sites=results)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
