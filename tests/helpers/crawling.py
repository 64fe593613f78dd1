"""Real crawls, in this process: Scrapy without a reactor, on the event loop of the test."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy import Spider, signals
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.http import Request, Response, TextResponse
from scrapy.utils.engine import format_engine_status

from scrapy_simhash.judging.documents import VERDICT
from scrapy_simhash.stores.opening import open_store
from tests.helpers.processes import PATIENCE_SECONDS
from tests.helpers.server import Answers, serve

_HANDLERS = "scrapy.core.downloader.handlers"
# Those that need no reactor. Before Scrapy 2.19 it is another one, by httpx.
_HANDLER = (
    f"{_HANDLERS}._aiohttp.AiohttpDownloadHandler"
    if find_spec(f"{_HANDLERS}._aiohttp")
    else f"{_HANDLERS}._httpx.HttpxDownloadHandler"
)
SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_simhash.Addon": 500},
    "SIMHASH_PROCESSES": 0,
    # One after the other, so that it is known which of two pages is the original.
    "CONCURRENT_REQUESTS": 1,
    "RETRY_TIMES": 0,
    "ROBOTSTXT_OBEY": False,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "TWISTED_REACTOR_ENABLED": False,
    "DOWNLOAD_HANDLERS": {"ftp": None, "http": _HANDLER, "https": _HANDLER},
}
# For a crawl that found no end to stop when it is told to.
_STOPPING_SECONDS = 10


class PagesSpider(Spider):
    """Asks for what it is given, in order; yields one item a page."""

    name = "pages"

    def __init__(self, requests: Iterable[Request | str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests = [Request(r) if isinstance(r, str) else r for r in requests]

    async def start(self) -> AsyncIterator[Request]:
        for number, request in enumerate(self.requests):
            yield request.replace(priority=-number)

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)


class FollowingSpider(PagesSpider):
    """Follows every link as well."""

    name = "following"

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        if isinstance(response, TextResponse):
            yield from response.follow_all(css="a")


def describe(response: Response) -> dict[str, Any]:
    """Say in an item what a callback can see."""
    return {
        "path": path_of(response.url),
        "flags": list(response.flags),
        "verdict": response.meta.get("simhash"),
        "bytes": len(response.body),
    }


def path_of(url: str) -> str:
    """Cut scheme and host off."""
    return urlsplit(url)._replace(scheme="", netloc="").geturl()


class Ended:
    """What there is of a crawl that has ended: what came out of its spider, and its stats."""

    items: list[dict[str, Any]]
    stats: dict[str, Any]

    @property
    def counted(self) -> dict[str, int]:
        """The plugin's own stats, without their prefix."""
        own = {key: count for key, count in self.stats.items() if key.startswith("simhash/")}
        return {key.removeprefix("simhash/"): count for key, count in own.items()}

    @property
    def paths(self) -> list[str]:
        """Of the items."""
        return [item["path"] for item in self.items]

    @property
    def groups(self) -> set[str]:
        """The first folders of the paths, which are the groups of `make_groups`."""
        return {path.split("/")[1] for path in self.paths}


@dataclass
class Crawl(Ended):
    """A crawl in this process.

    Attributes:
        crawler: with its spider.
        items, stats: as always.
        decisions: the decision log; the lines of this crawl only.
        root: of the site that was served meanwhile, or "".
    """

    crawler: Crawler
    items: list[dict[str, Any]]
    stats: dict[str, Any]
    decisions: list[dict[str, Any]]
    root: str = ""

    @property
    def published(self) -> list[dict[str, Any]]:
        """What meta, signal and exception show of the decisions."""
        return [{key: line[key] for key in VERDICT} for line in self.decisions]

    @property
    def verdicts(self) -> dict[str, str]:
        """Status and reason by path, from the decision log."""
        return {
            path_of(decision["url"]): f"{decision['status']} {decision['reason']}".strip()
            for decision in self.decisions
        }

    @property
    def spider(self) -> Any:
        return self.crawler.spider


async def crawl(
    store: Path,
    requests: Iterable[Request | str],
    spider: type[Spider] = PagesSpider,
    **settings: Any,
) -> Crawl:
    """Crawl to the end with the plugin enabled; one that finds none fails, and says where it is."""
    given = {**SETTINGS, "SIMHASH_STORE": str(store), **settings}
    crawler = AsyncCrawlerRunner(given).create_crawler(spider)
    items: list[dict[str, Any]] = []

    def take(item: dict[str, Any]) -> None:
        items.append(item)

    crawler.signals.connect(take, signals.item_scraped)
    log = Path(settings.get("SIMHASH_LOG") or store / "log.jsonl")
    before = len(read_lines(log))
    crawling = asyncio.ensure_future(crawler.crawl_async(requests=requests))
    await _require_end(crawler, crawling)
    assert crawler.stats is not None
    return Crawl(crawler, items, crawler.stats.get_stats(), read_lines(log)[before:])


async def crawl_pages(
    store: Path,
    answers: Answers,
    paths: Iterable[str] | None = None,
    spider: type[Spider] = PagesSpider,
    **settings: Any,
) -> Crawl:
    """Crawl a site that is served meanwhile: all its pages in order, or these paths."""
    with serve(answers) as site:
        done = await crawl(store, site.urls(*paths or answers), spider, **settings)
        done.root = site.root
    return done


async def _require_end(crawler: Crawler, crawling: asyncio.Future[None]) -> None:
    """Wait for the end of a crawl.

    Scrapy has no limit of its own, and of a hanging process one sees only that its event loop
    waits. What the crawl waits for is told by its engine.
    """
    try:
        ended, _ = await asyncio.wait([crawling], timeout=PATIENCE_SECONDS)
        if not ended and crawler.engine is not None:
            status = format_engine_status(crawler.engine)
            # So that the tests after this one find neither its store open nor its pages on the way.
            stopping = asyncio.ensure_future(crawler.stop_async())
            await asyncio.wait([stopping, crawling], timeout=_STOPPING_SECONDS)
            stopping.cancel()
            raise AssertionError(f"no end after {PATIENCE_SECONDS} seconds\n{status}")
        if not ended:
            raise AssertionError(f"not begun after {PATIENCE_SECONDS} seconds")
        await crawling
    finally:
        crawling.cancel()


def list_states(store: Path | str) -> dict[str, str]:
    """List the state of each document of a store, which must be sound, by its path."""
    with open_store(str(store), readonly=True) as opened:
        assert opened.check() == []
        return {
            path_of(each.facts.url): each.state.name.lower() for each in opened.list_documents()
        }


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines, or nothing where there is none."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def read_files(folder: Path) -> dict[str, bytes]:
    """Read every file of a folder but LMDB's table of readers, which changes when one looks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock.mdb"
    }
