"""What becomes of the links of near-duplicates: live crawls of sites whose pages are known.

Each crawl is a process of its own, with pages from memory. Sites:

* `example`, `shelf`: with documents that only duplicates link to; three seeds;
* `handbook`: the Debian handbook in all languages, a folder of HTML files;
* `sessions`: a manual whose every link has a session that is another one in each crawl, `?sid=`; in
  the second crawl it has 30 new pages, and 30 that changed by 60 words;
* `flat`: forty pages in one folder, each linked with and without a slash at its end, and three
  more in the second crawl;
* `linked`: pages of real sites, listed in `site.csv` (url, id, path, cluster) beside `seeds.txt`;
* `endless`: a list whose every page has one text and links to pages that nobody has seen.

The second crawl of a site finds the store that the first one left. Ends with 1 if a promise broke.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import logging
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urldefrag, urlsplit

from machine import write_result
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response, TextResponse
from tldextract import tldextract
from urlsite import ARTICLES, ExampleSite, Page, UrlSite

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
_CHANGED, _ADDED_WORDS = 30, 60
_FLAT, _FLAT_ADDED = 40, 3
_MOST_ENDLESS = 20_000  # pages of a list without end, after which its crawl is given up
# Months of a calendar without end that a crawl asks for, as its owner would bound it.
_MONTHS = 60
_SETTINGS: dict[str, Any] = {
    # Breadth first, as the example crawl: a page is met before its copies.
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
}
_HREF = re.compile(rb"""(<a\b[^>]*?\shref=["'])([^"'#:]*\.html)""")
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


class Known:
    """A site whose documents are known."""

    def __init__(self, site: ExampleSite | UrlSite, start: str) -> None:
        self.starts, self.answer = [start], site.answer
        self._domain = ".".join((urlsplit(start).hostname or "").split(".")[-2:])

    def has(self, url: str) -> bool:
        """Whether a spider follows a link."""
        return f".{urlsplit(url).hostname}".endswith(f".{self._domain}")


class Folder:
    """HTML files of a folder; every page is a document."""

    def __init__(self, folder: Path, *starts: str) -> None:
        self._folder = folder
        self.starts = [f"http://manual.example/{start}" for start in starts]

    def answer(self, url: str) -> Page:
        """Answer a request for an absolute URL."""
        path = urlsplit(url).path
        file = self._folder / path.lstrip("/")
        if file.is_dir():
            file /= "index.html"
        return Page(path, file.read_bytes()) if file.is_file() else Page("")

    def has(self, url: str) -> bool:
        """Whether a spider follows a link."""
        return urlsplit(url).hostname == "manual.example" and bool(self.answer(url).document)


class Sessions(Folder):
    """The same, with the number of the crawl on every link; the second one meets new pages."""

    def __init__(self, folder: Path, start: str, crawl: int) -> None:
        super().__init__(folder, f"{start}?sid=s{crawl}")
        chance = random.Random("sessions")  # noqa: S311 - of a site
        names = sorted(path.name for path in folder.glob("*.html"))
        chosen = chance.sample(names, 2 * _CHANGED) if crawl else []
        self._crawl = crawl
        self._changed = set(chosen[:_CHANGED])
        self._leading = {name: f"new-{n}.html" for n, name in enumerate(chosen[_CHANGED:])}

    def answer(self, url: str) -> Page:
        """Answer a request for an absolute URL."""
        name = urlsplit(url).path.lstrip("/")
        if name in self._leading.values():
            text = _write(name, 300)
            body = f"<html><head><title>{text[:30]}</title></head><body><p>{text}".encode()
            return Page(f"/{name}", body)
        found = super().answer(url)
        body = found.body
        if name in self._changed:
            body = body.replace(b"</p>", f" {_write(name, _ADDED_WORDS)}</p>".encode(), 1)
        if name in self._leading:
            more = f'<p><a href="{self._leading[name]}">More</a></p></body>'.encode()
            body = body.replace(b"</body>", more, 1)
        return Page(found.document, _HREF.sub(rb"\1\2?sid=s%d" % self._crawl, body))


class Flat:
    """Pages in one folder, each under two addresses; the second crawl meets some more."""

    starts = ("http://flat.example/",)

    def __init__(self, crawl: int) -> None:
        self._pages = {f"/page-{n}" for n in range(_FLAT + _FLAT_ADDED * crawl)}

    def answer(self, url: str) -> Page:
        """Answer a request for an absolute URL."""
        path = urlsplit(url).path
        name = path.rstrip("/")
        if name and name not in self._pages:
            return Page("")
        links = "".join(f'<a href="{page}">A</a> <a href="{page}/">B</a> ' for page in self._pages)
        text = _write(name, 300)
        head = f"<html><head><title>{text[:30]}</title></head><body><p>{text}</p>"
        return Page(name or "/", f"{head}{links if path == '/' else ''}".encode())

    def has(self, url: str) -> bool:
        """Whether a spider follows a link."""
        return bool(self.answer(url).document)


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


class Endless:
    """A list without end: one text, and on each page ten links to other pages of it."""

    starts = ("http://endless.example/0",)

    def answer(self, url: str) -> Page:
        """Answer a request for an absolute URL."""
        number = int(urlsplit(url).path.strip("/") or 0)
        links = "".join(f'<a href="/{10 * number + n}">Next</a> ' for n in range(1, 11))
        text = _write("endless", 300)
        head = "<html><head><title>List</title></head>"
        return Page("list", f"{head}<body><h1>List</h1><p>{text}</p>{links}".encode())

    def has(self, url: str) -> bool:
        """Whether a spider follows a link."""
        return bool(url)


def _list_editions(folder: Path) -> list[str]:
    """List the contents pages of a manual in many languages."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/index.html"))


def _bare(url: str) -> str:
    """Bring an address to the form that all its spellings have."""
    parts = urlsplit(urldefrag(url).url)
    host = (parts.hostname or "").removeprefix("www.")
    path = re.sub(r"(/index)?\.html$", "", parts.path.rstrip("/")).removesuffix("/index")
    return f"{host}{path.rstrip('/')}?{parts.query}".rstrip("?")


def _write(key: str, words: int) -> str:
    """Write that many words, always the same ones for one key."""
    chance = random.Random(key)  # noqa: S311 - of a site
    return " ".join(
        "".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4))) for _ in range(words)
    )


def make_site(name: str, seed: int, crawl: int, folder: str) -> Any:
    """Make a site as it is in the first crawl (0) or the second one."""
    if name == "example":
        return Known(ExampleSite(seed), "http://manuals.example/")
    if name == "shelf":
        return Known(UrlSite(seed, ARTICLES, hidden=True), "http://www.example.com/")
    makes = {
        "handbook": lambda: Folder(Path(folder), *_list_editions(Path(folder))),
        "sessions": lambda: Sessions(Path(folder), "index.html", crawl),
        "flat": lambda: Flat(crawl),
        "linked": lambda: Linked(Path(folder)),
        "endless": Endless,
    }
    return makes[name]()


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
        self._months: set[str] = set()
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
        """Take a page, and follow its links; those of a calendar up to a bound."""
        if not isinstance(response, TextResponse):
            return
        yield {"url": response.url}
        for url in self._list_links(response):
            if "/calendar/" in url and url not in self._months:
                if len(self._months) == _MONTHS:
                    continue
                self._months.add(url)
            yield Request(url)

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
    name, seed, number, folder, settings = json.loads(job)
    handler = {"DOWNLOAD_HANDLERS": {"http": SiteHandler, "https": SiteHandler}}
    most = {"CLOSESPIDER_PAGECOUNT": _MOST_ENDLESS} if name == "endless" else {}
    site = make_site(name, seed, number, folder)
    # duplicate-url-discarder would download the list of public suffixes.
    vars(tldextract)["extract"] = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    given = {**_SETTINGS, **handler, **most, "BENCH_SITE": site, **settings}
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


def crawl(name: str, seed: int, number: int, folder: str, settings: Mapping[str, Any]) -> Any:
    """Crawl once, in a process of its own."""
    job = json.dumps([name, seed, number, folder, settings])
    command = [sys.executable, __file__, "--one", job]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, seed: int, folder: str, kinds: Sequence[str], stores: Path) -> Any:
    """Crawl a site in several ways; figures by kind, beside those of a crawl that drops nothing."""
    figures: dict[str, dict[str, Any]] = {}
    pages: dict[int, dict[str, str]] = {}
    for kind in kinds:
        number = int(kind.endswith("again"))
        store = "False" if kind == "again" else kind.removesuffix(" again")
        if number not in pages:
            off = crawl(name, seed, number, folder, {})
            pages[number] = {url: document for url, document in off["fetched"] if document}
        settings = dict(KINDS[kind])
        if settings:
            settings["SIMHASH_STORE"] = str(stores / f"{name}-{seed}-{store}")
        found = off if kind == "off" else crawl(name, seed, number, folder, settings)
        figures[kind] = describe(found, pages[number], pages.get(0, {}))
        print(name, seed, kind, json.dumps(figures[kind])[:1000], file=sys.stderr)
    return figures


def describe(
    found: Mapping[str, Any], pages: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, Any]:
    """Hold a crawl against one without the plugin; `before` are the pages of the first crawl."""
    fetched = {url for url, _ in found["fetched"]}
    shown = {document for _, document in found["fetched"] if document}
    delivered = {document for _, document in found["delivered"] if document}
    documents = set(pages.values())
    new = documents.difference(before.values())
    return {
        "requests": len(found["fetched"]),
        "without": len(pages),
        "never_requested": len(set(pages) - fetched),
        "unreached": len(documents - shown),
        "delivered": len(delivered),
        "new": f"{len(new & delivered)} of {len(new)}",
        **{key: found[key] for key in ("errors", "reason", "counted", "warnings")},
    }


def print_table(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Print the figures as a Markdown table."""
    titles = ["site", "crawl", "requests", "pages never requested", "documents unreached"]
    titles += ["documents delivered", "new ones of the second crawl", "links unseen"]
    titles += ["saved"]
    print(f"| {' | '.join(titles)} |\n| --- | --- |{' ---: |' * (len(titles) - 2)}")
    keys = ("requests", "never_requested", "unreached", "delivered")
    for site, kinds in results.items():
        for kind, found in kinds.items():
            cells = [site, kind, *(f"{found[key]:,}" for key in keys)]
            cells += [found["new"] if kind.endswith("again") else ""]
            counted = found["counted"]
            cells += [f"{counted.get('links/only_on_dropped_pages', 0):,}"]
            cells += [f"{1 - found['requests'] / found['without']:.1%}"]
            print(f"| {' | '.join(cells)} |")
    print()


def find_faults(site: str, kinds: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Name the promises that were broken."""
    for kind, found in kinds.items():
        if found["reason"] != "finished" and site != "endless":
            yield f"{site}, {kind}: ended as {found['reason']}"
    never = kinds.get("False", {"unreached": 0, "warnings": ()})
    if never["unreached"] and "SIMHASH_FOLLOW_NEW_LINKS" not in " ".join(never["warnings"]):
        yield f"{site}: no warning of links that nobody followed"
    if "again" in kinds and len({*kinds["again"]["new"].split(" of ")}) > 1:
        yield f"{site}, again: found {kinds['again']['new']} new documents"


def main() -> None:
    """Crawl, print the table, and fail where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sites", default="example,shelf", help="such as shelf")
    parser.add_argument("--seeds", type=int, default=3, help="of `shelf`")
    parser.add_argument("--kinds", default=",".join(_DEFAULT), help="such as off,True")
    parser.add_argument("--handbook", default="", help="folder of debian-handbook's html")
    parser.add_argument("--manual", default="", help="folder of postgresql-doc's html")
    parser.add_argument("--linked", default="", help="folder with site.csv")
    parser.add_argument("--output", type=Path, help="write the results as JSON, too")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _crawl_here(options.one)
        return
    given = {"handbook": options.handbook, "sessions": options.manual, "linked": options.linked}
    kinds = options.kinds.split(",")
    results = {}
    with tempfile.TemporaryDirectory() as stores:
        names = [*filter(None, options.sites.split(",")), *(name for name in given if given[name])]
        for name in names:
            for seed in range(options.seeds if name == "shelf" else 1):
                site = f"{name} {seed}" if name == "shelf" else name
                results[site] = measure(name, seed, given.get(name, ""), kinds, Path(stores))
    print_table(results)
    faults = list(itertools.chain(*(find_faults(site, results[site]) for site in results)))
    print("\n".join(faults) or "every promise was kept")
    write_result(options.output, VERSIONS, faults=faults, sites=results)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
