"""What links of dropped pages, and a list of rules on addresses, save and lose.

Live crawls of the example's site, whose documents are known, each in a process of its own with
pages from memory: `first` is the plugin with its defaults, `follows` with
`SIMHASH_FOLLOW_NEW_LINKS`; `scrapy simhash urls` writes the rules that the pages of `first` prove;
`discarder` is the plugin beside duplicate-url-discarder with these rules, in a new store; the last
one goes on with that of `first`, although requests have other fingerprints then. Ends with 1 if a
crawl loses documents that `off` delivered.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urlsplit

from crawling import PLUGIN, crawl
from measuring import (
    ROOT,
    make_parser,
    print_figures,
    run_apart,
    run_script,
    take_medians,
    take_turns,
    write_result,
)
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from tldextract import tldextract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_BOTH = {**PLUGIN, "duplicate_url_discarder.Addon": 600}
# By name: the add-ons, and the store; a crawl that finds one goes on.
_CRAWLS: dict[str, tuple[dict[str, int], str]] = {
    "off": ({}, ""),
    "first": (PLUGIN, "first"),
    "follows": (PLUGIN, "follows"),
    "discarder": (_BOTH, "discarder"),
    "discarder, store of first": (_BOTH, "first"),
}
_VERSIONS = ("scrapy-simhash", "scrapy", "duplicate-url-discarder", "turbohtml")
HOST = "manuals.example"


class SiteSpider(Spider):
    """Follows every link of the site, and remembers the documents that it got."""

    name = "site"
    delivered: set[str]

    async def start(self) -> AsyncIterator[Request]:
        """Begin at the front page."""
        yield Request(f"http://{HOST}/")

    def parse(self, response: Response) -> Iterator[Any]:
        """Take a page, and follow its links."""
        self.delivered.add((response.headers["X-Document"] or b"").decode())
        yield {"url": response.url}
        links = dict.fromkeys(response.css("a::attr(href)").getall())
        urls = (urldefrag(response.urljoin(link.strip())).url for link in links)
        yield from (Request(url) for url in urls if urlsplit(url).hostname == HOST)


def crawl_here(settings: dict[str, Any]) -> dict[str, Any]:
    """Crawl once in this process, breadth first, so that a page is met before its copies."""
    # duplicate-url-discarder would download the list of public suffixes.
    vars(tldextract)["extract"] = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    sys.path.append(str(ROOT / "example_project"))
    site, urls, delivered = __import__("docsite").Site(0), set[str](), set[str]()

    async def answer(request: Request) -> Response:
        urls.add(request.url)
        made = site.answer(request.url)
        document = made.document if made.status == 200 else ""
        headers = {"Content-Type": "text/html", "X-Document": document}
        status, body = 200 if document else 404, made.text.encode()
        return HtmlResponse(request.url, status, headers, body, request=request)

    settings |= {
        "DEPTH_PRIORITY": 1,
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    }
    crawl(SiteSpider, answer, settings, delivered=delivered)
    return {"requests": len(urls), "documents": sorted(delivered - {""})}


def crawl_all() -> dict[str, dict[str, int]]:
    """Crawl in all these ways; returns the figures by name."""
    figures: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (addons, store) in _CRAWLS.items():
            found = run_apart(
                {
                    "ADDONS": addons,
                    "SIMHASH_STORE": f"{folder}/{store}",
                    "SIMHASH_FOLLOW_NEW_LINKS": name == "follows",
                    "DUD_LOAD_RULE_PATHS": [f"{folder}/rules.json"],
                }
            )
            if name == "off":
                every = found
            if name == "first":
                command = [sys.executable, "-m", "scrapy", "simhash", "urls"]
                command += ["--store", f"{folder}/first", "--output", f"{folder}/rules.json"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            figures[name] = {
                "requests": found["requests"],
                "documents": len(found["documents"]),
                "lost": len({*every["documents"]} - {*found["documents"]}),
            }
    return figures


def main() -> bool:
    """Crawl, print the table, and fail where a document was lost."""
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=3, help="rounds (default 3)")
    options = parser.parse_args()
    runs = take_turns({"crawls": crawl_all}, options.runs)["crawls"]
    print_figures({name: take_medians([run[name] for run in runs]) for name in _CRAWLS})
    write_result(options.output, _VERSIONS, crawls=runs)
    return any(each["lost"] for run in runs for each in run.values())


if __name__ == "__main__":
    run_script(main, crawl_here)
