"""Real crawls, in this process: Scrapy without a reactor, on the event loop of the test."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy import Spider, signals
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.http import Request, Response, TextResponse

_HANDLER = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"
SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_simhash.Addon": 500},
    "SIMHASH_WORKERS": 1,
    # One after the other, so that it is known which of two pages is the original.
    "CONCURRENT_REQUESTS": 1,
    "RETRY_TIMES": 0,
    "ROBOTSTXT_OBEY": False,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "TWISTED_REACTOR_ENABLED": False,
    "DOWNLOAD_HANDLERS": {"ftp": None, "http": _HANDLER, "https": _HANDLER},
}


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


@dataclass
class Crawl:
    """A crawl that has ended.

    Attributes:
        crawler: with its spider.
        items: what came out of the spider.
        decisions: the decision log; the lines of this crawl only.
    """

    crawler: Crawler
    items: list[dict[str, Any]]
    decisions: list[dict[str, Any]]

    @property
    def stats(self) -> dict[str, Any]:
        assert self.crawler.stats is not None
        return self.crawler.stats.get_stats()

    @property
    def counted(self) -> dict[str, int]:
        """The plugin's own stats, without their prefix."""
        return {
            key.removeprefix("simhash/"): count
            for key, count in self.stats.items()
            if key.startswith("simhash/")
        }

    @property
    def paths(self) -> list[str]:
        """Of the items."""
        return [item["path"] for item in self.items]

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
    """Crawl to the end with the plugin enabled."""
    given = {**SETTINGS, "SIMHASH_STORE": str(store), **settings}
    crawler = AsyncCrawlerRunner(given).create_crawler(spider)
    items: list[dict[str, Any]] = []

    def take(item: dict[str, Any]) -> None:
        items.append(item)

    crawler.signals.connect(take, signals.item_scraped)
    log = Path(settings.get("SIMHASH_LOG") or store / "log.jsonl")
    before = len(read_lines(log))
    await crawler.crawl_async(requests=requests)
    return Crawl(crawler, items, read_lines(log)[before:])


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
