"""What it costs the crawl's process to know the links of all pages, a page.

The pages are those of the example site, read beforehand. Each row is the median of the runs; the
first two rows say what it costs to take answers of workers, without the links and with them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy.http import Request, Response
from scrapy.settings import Settings

from scrapy_simhash.config import Config
from scrapy_simhash.crawl.followers import JudgedPage
from scrapy_simhash.crawl.links import Outlinks
from scrapy_simhash.detector.log import Decision
from scrapy_simhash.detector.worker import pack_answer, take_answers
from scrapy_simhash.pages.fingerprint import fingerprint_page
from scrapy_simhash.pages.links import NO_LINKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_simhash.pages.fingerprint import PageFingerprint

PROJECT = Path(__file__).parent.parent / "example_project"


def read_pages() -> dict[str, PageFingerprint]:
    """Fingerprint every page of the example site that its lists lead to, by URL."""
    sys.path.insert(0, str(PROJECT))
    from docsite import HOST, Site  # noqa: PLC0415 - of the example project

    site, root = Site(), f"http://{HOST}"
    pages: dict[str, PageFingerprint] = {}
    waiting = [f"{root}/"]
    for url in waiting:
        answer = site.answer(url)
        if answer.status != 200 or not answer.content_type.startswith("text/html"):
            continue
        pages[url] = fingerprint_page(answer.body, "utf-8", url=url)
        for link in pages[url].targets.addresses.decode().split("\n"):
            if link.startswith(root) and link not in waiting:
                waiting.append(link)
    return pages


def time_pages(work: Callable[[Any], object], pages: Sequence[Any], runs: int) -> float:
    """Take the median of the runs, in microseconds a page."""
    seconds = []
    for _ in range(runs):
        started = time.process_time()
        for page in pages:
            work(page)
        seconds.append((time.process_time() - started) / len(pages))
    return 1e6 * statistics.median(seconds)


def make_links() -> Outlinks:
    """Make what remembers links, in a crawl that writes nothing."""
    crawler = SimpleNamespace(settings=Settings(), spider=SimpleNamespace(name="bench"))
    detector = SimpleNamespace(acting=None, tell=lambda *_: None)
    return Outlinks(crawler, Config(), detector, None)  # type: ignore[arg-type]  # as much as it needs


def keep(links: Outlinks) -> Callable[[tuple[Request, PageFingerprint, list[Request]]], None]:
    """Make a function that hands over what a callback yields for a page, all its links."""

    def work(page: tuple[Request, PageFingerprint, list[Request]]) -> None:
        request, made, yielded = page
        judged = JudgedPage(Decision(url=request.url, status="new"), links=made.targets)
        for each in yielded:
            links.asked(each, judged)
        links.consumed(judged)

    return work


def drop(links: Outlinks) -> Callable[[tuple[Request, PageFingerprint, list[Request]]], None]:
    """Make a function that hands the links of a dropped page over, as the middleware does."""

    def work(page: tuple[Request, PageFingerprint, list[Request]]) -> None:
        request, made, _ = page
        url = request.url
        decision = Decision(url=url, status="", action="drop", match_url=f"{url}?print=1")
        noted = links.judged(request, Response(url), JudgedPage(decision, links=made.targets))
        with suppress(StopIteration):  # it awaits nothing
            noted.send(None)

    return work


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=9, help="passes over all pages (default: 9)")
    runs = parser.parse_args().runs
    pages = [
        (Request(url), page, list(map(Request, page.targets.addresses.decode().split())))
        for url, page in read_pages().items()
    ]
    made = [page for _, page, _ in pages]
    bare = [pack_answer(1, replace(page, targets=NO_LINKS)) for page in made]
    full = [pack_answer(1, page) for page in made]
    kept, dropped = make_links(), make_links()

    def take(answer: bytes) -> None:
        take_answers(bytearray(answer))

    rows = {
        "to take an answer without links": time_pages(take, bare, runs),
        "to take an answer with links": time_pages(take, full, runs),
        "to note the links and requests of a page that is kept": time_pages(
            keep(kept), pages, runs
        ),
        "to look for new links on a dropped page": time_pages(drop(dropped), pages, runs),
    }
    links = sum(len(page.targets.digests) for page in made) / 8 / len(made)
    size = sum(map(len, full)) / len(made) - sum(map(len, bare)) / len(made)
    print(f"{len(made):,} pages with {links:.0f} links and {size:,.0f} bytes of them a page\n")
    print("| | us a page |\n| --- | ---: |")
    for name, microseconds in rows.items():
        print(f"| {name} | {microseconds:.1f} |")


if __name__ == "__main__":
    main()
