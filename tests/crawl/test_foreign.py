"""With another duplicate filter, scheduler or engine than Scrapy's own."""

import logging
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Request, Response, TextResponse

from scrapy_simhash.judge import judge
from tests.helpers.crawling import PagesSpider, crawl, describe, path_of
from tests.helpers.pages import page
from tests.helpers.server import Site

# A list whose second page is a near-duplicate of the first, with links of its own; a page whose
# callback fails, with a copy; and a page that is only downloaded inline.
ANSWERS = {
    "/list?page=1": page(1, links=["/a", "/b", "/list?page=2"]),
    "/list?page=2": page(1, links=["/a", "/c", "/d", "/list?page=1"]),
    "/a": page(10, links=["/b"]),
    "/b": page(11, links=["/a"]),
    "/c": page(12),
    "/d": page(13),
    "/broken": page(14),
    "/copy": page(14, menu="Another"),
    "/inline": page(15),
    "/twin": page(15, menu="Another"),
}
REACHED = {"/list?page=1", "/a", "/b", "/c", "/d", "/copy", "/twin"}
UNWATCHED = "cannot be watched"


class RealSpider(PagesSpider):
    """Follows every link, fails on a page, and downloads another one itself."""

    name = "real"

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        if path_of(response.url) == "/broken":
            raise ValueError("a bug of the spider's")
        yield describe(response)
        if path_of(response.url) == "/d":
            inline = Request(response.urljoin("/inline"))
            assert (await self.crawler.engine.download_async(inline)).status == 200
            yield response.follow("/twin")
        if isinstance(response, TextResponse):
            for request in response.follow_all(css="a"):
                yield request


class OwnScheduler:
    """A queue of its own, with its own filter; it derives from nothing."""

    def __init__(self) -> None:
        self.queue: deque[Request] = deque()
        self.known: set[str] = set()

    def has_pending_requests(self) -> bool:
        return bool(self.queue)

    def enqueue_request(self, request: Request) -> bool:
        if not request.dont_filter and request.url in self.known:
            return False
        self.known.add(request.url)
        self.queue.append(request)
        return True

    def next_request(self) -> Request | None:
        return self.queue.popleft() if self.queue else None


class SlottedScheduler(OwnScheduler):
    """None of its methods can be replaced."""

    __slots__ = ("known", "queue")

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self.__slots__:
            raise AttributeError(f"{name} cannot be replaced")
        super().__setattr__(name, value)


@pytest.mark.parametrize(
    ("scheduler", "watched"), [(OwnScheduler, True), (SlottedScheduler, False)]
)
async def test_another_scheduler(
    site: Site,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    scheduler: type[OwnScheduler],
    watched: bool,
) -> None:
    # Else a copy of what is downloaded inline waits half a minute, if nobody says that it is.
    monkeypatch.setattr(judge, "WAIT_SECONDS", 0.6)
    given = {"SIMHASH_FOLLOW_NEW_LINKS": True, "SCHEDULER": scheduler, "SIMHASH_PROCESSES": 0}
    start = site.urls("/broken", "/copy", "/list?page=1")
    done = await crawl(tmp_path, start, RealSpider, **given)
    # Every page came once, whatever failed on the way; what was not watched was said once.
    assert (sorted(done.paths), done.stats["finish_reason"]) == (sorted(REACHED), "finished")
    assert done.counted["forgotten/failed"] == 1
    told = [each.getMessage() for each in caplog.records if UNWATCHED in each.getMessage()]
    assert len(told) == (not watched)
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert {each.name for each in errors} == {"scrapy.core.scraper"}  # the callback that fails
