"""A page is an original only once its items came through; until then, copies of it wait."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import FormRequest, Request, Response
from scrapy.http.request import NO_CALLBACK

from scrapy_simhash import downloadermiddlewares
from scrapy_simhash.crawl.running import is_closing
from scrapy_simhash.judge import judge as judging
from scrapy_simhash.signals import near_duplicate_found
from tests.helpers.crawling import (
    Crawl,
    PagesSpider,
    crawl,
    crawl_pages,
    describe,
    list_states,
    path_of,
)
from tests.helpers.pages import make_groups, page
from tests.helpers.server import Answer, Site, serve

ANSWERS = {"/one": page(1), "/twin": page(1, menu="Other"), "/else": page(2)}
TWINS = ("/one", "/twin")


def statuses(done: Crawl) -> list[str]:
    return [" ".join(filter(None, (each["status"], each["reason"]))) for each in done.decisions]


class Component:
    """Of a crawler, as Scrapy makes pipelines and middlewares."""

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        return cls(crawler)


class Pipeline(Component):
    """Takes its time for the item of "/one", and ends it as the setting says."""

    def __init__(self, crawler: Any) -> None:
        super().__init__(crawler)
        self.came = False
        crawler.signals.connect(self.note, near_duplicate_found)

    def note(self, verdict: dict[str, Any]) -> None:
        assert self.came or verdict["action"] != "drop"

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["path"] == "/one":
            await asyncio.sleep(0.3)
            if self.crawler.settings["HOW"] == "raise":
                raise RuntimeError("the database is down")
            if self.crawler.settings["HOW"] == "drop":
                raise DropItem("not wanted")
            self.came = True
        return item


class FailingSpider(PagesSpider):
    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        yield describe(response)
        if response.url.endswith("/one"):
            await asyncio.sleep(0.3)
            raise RuntimeError("a bug of the spider's")


class TurningAway:
    """Turns "/one" away nearer to the engine than ours, on either side of the spider."""

    def process_response(self, request: Request, response: Response) -> Response:
        if request.url.endswith("/one"):
            raise IgnoreRequest("not this one")
        return response

    def process_spider_input(self, response: Response) -> None:
        if response.url.endswith("/one"):
            raise IgnoreRequest("not this one")


class OneByOne(Component):
    """Has "/twin" fetched once "/one" was judged."""

    async def process_request(self, request: Request) -> None:
        judged = partial(self.crawler.stats.get_value, "simhash/pages")
        while request.url.endswith("/twin") and not judged():  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # no signal says so


class Handling:
    """Handles what a callback raises, so that no signal says so."""

    def process_spider_exception(self, response: Response, exception: Exception) -> list[Any]:
        del response, exception
        return []


class RefusingSpider(PagesSpider):
    """Its errback handles what is turned away beyond ours: no callback is called."""

    async def start(self) -> AsyncIterator[Request]:
        async for request in super().start():
            yield request.replace(errback=self.handle)

    def handle(self, failure: Any) -> None:
        """Do nothing about it."""


async def crawl_twins(
    site: Site, store: Path, how: str = "", spider: type[Spider] = PagesSpider, **settings: Any
) -> Crawl:
    settings = {"HOW": how, "CONCURRENT_REQUESTS": 4, **settings}
    settings |= {"ITEM_PIPELINES": {Pipeline: 300}} if how else {}
    middlewares = {OneByOne: 50, **settings.pop("DOWNLOADER_MIDDLEWARES", {})}
    settings["DOWNLOADER_MIDDLEWARES"] = middlewares
    return await crawl(store, site.urls(*TWINS), spider, **settings)


async def test_a_copy_waits_until_items_of_its_original_came(site: Site, tmp_path: Path) -> None:
    done = await crawl_twins(site, tmp_path, "pass")
    assert (done.paths, statuses(done)) == (["/one"], ["new", "near_duplicate"])
    assert 0 < done.counted["waited_seconds"] < 5
    assert list_states(tmp_path) == {"/one": "done", "/twin": "duplicate"}


@pytest.mark.parametrize(
    ("paths", "reason", "given"),
    [
        *((["/twin"], "failed", {"how": "raise"}), (["/twin"], "unwanted", {"how": "drop"})),
        (["/one", "/twin"], "failed", {"spider": FailingSpider}),  # its item had come through
        (
            ["/one", "/twin"],
            "failed",
            {"spider": FailingSpider, "SPIDER_MIDDLEWARES": {Handling: 543}},
        ),
        (
            ["/twin"],
            "not_arrived",
            {"spider": RefusingSpider, "SPIDER_MIDDLEWARES": {TurningAway: 543}},
        ),
        (["/twin"], "not_arrived", {"DOWNLOADER_MIDDLEWARES": {TurningAway: 100}}),
        (["/twin"], "not_arrived", {"SPIDER_MIDDLEWARES": {TurningAway: 10}}),
    ],
    ids=[
        *("pipeline", "DropItem", "callback", "handled", "errback"),
        *("downloader middleware", "spider middleware"),
    ],
)
async def test_a_page_that_does_not_come_through_is_no_original(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    paths: list[str],
    reason: str,
    given: dict[str, Any],
) -> None:
    """Something raises, or another middleware turns the page away after it was judged.

    Then no signal says so, and its copy waits in vain.
    """
    monkeypatch.setattr(judging, "WAIT_SECONDS", 0.6)
    done = await crawl_twins(site, tmp_path, SIMHASH_PROCESSES=0, **given)
    assert done.paths == paths
    said = statuses(done)
    assert said.count("new") == 2 or reason == "not_arrived"
    assert f"forgotten {reason}" in said
    assert (done.counted[f"forgotten/{reason}"], list_states(tmp_path)) == (1, {"/twin": "done"})


@pytest.mark.parametrize("copied", [False, True])
async def test_an_inline_download_waits_for_nobody_and_is_no_original(
    site: Site, tmp_path: Path, *, copied: bool
) -> None:
    """Of a copy of the page itself, whatever meta the request has."""
    seen: dict[str, Any] = {}

    class Inline(PagesSpider):
        async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
            if response.url.endswith("/one"):
                assert self.crawler.engine
                meta = dict(response.meta) if copied else {}
                inline = Request(site.url("/twin"), meta=meta)
                seen.update((await self.crawler.engine.download_async(inline)).meta["simhash"])
            yield describe(response)

    done = await crawl(tmp_path, [site.url("/one")], Inline)
    assert (seen["status"], seen["action"], done.paths) == ("near_duplicate", "flag", ["/one"])
    assert list_states(tmp_path) == {"/one": "done"}


class Banned(dict[str, Answer]):
    """Every third page is a ban page when it is asked for first."""

    def __init__(self, *for_ever: int) -> None:
        self.asked, self.for_ever = Counter[str](), for_ever

    def get(self, path: str, default: Any = None) -> Any:  # noqa: ARG002
        self.asked[path] += 1
        number = int(path[1:])
        banned = number % 3 == 0 and (self.asked[path] == 1 or number in self.for_ever)
        return Answer(page(999 if banned else number, title="Slow down" * banned).encode())


class PatientSpider(PagesSpider):
    """Asks again for a ban page, in the way that the setting names."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        request, way = response.request, self.settings["HOW"]
        assert request
        assert self.crawler.engine
        again = request.replace(dont_filter=True, meta={"tries": request.meta.get("tries", 0) + 1})
        if "Slow down" not in response.text:
            yield describe(response)
        elif way == "inline":
            inline = Request(response.url, NO_CALLBACK)
            yield describe(await self.crawler.engine.download_async(inline))
        elif way == "engine":
            self.crawler.engine.crawl(again)
        elif way == "other callback":
            yield again.replace(callback=self.parse_again)
        elif way == "form":
            yield FormRequest(response.url, formdata={"captcha": "1"})
        elif way == "fragment":
            yield Request(f"{response.url}#again", dont_filter=True)
        elif way == "yield" and again.meta["tries"] <= 2:
            yield again

    def parse_again(self, response: Response) -> Iterator[Any]:
        yield describe(response)


class AskingAgain:
    """Asks again for a ban page between the judge and the spider."""

    def process_response(self, request: Request, response: Response) -> Response | Request:
        return request.replace(dont_filter=True) if b"Slow down" in response.body else response


@pytest.mark.parametrize(
    "way", ["yield", "inline", "engine", "other callback", "form", "fragment", "middleware"]
)
async def test_a_ban_page_that_is_asked_for_again_is_no_original(tmp_path: Path, way: str) -> None:
    """Nor is one that the spider gives up at last: all that another address ever has comes."""
    settings: dict[str, Any] = {"HOW": way, "CONCURRENT_REQUESTS": 8}
    if way == "middleware":
        settings["DOWNLOADER_MIDDLEWARES"] = {AskingAgain: 543}
    with serve({}) as site:
        site.answers = Banned(*[0] * (way == "yield"))
        urls = [site.url(f"/{number}") for number in range(60)]
        done = await crawl(tmp_path, urls, PatientSpider, **settings)
    given_up = ["/0"] * (way == "yield")
    came = {path.partition("#")[0] for path in done.paths}
    assert came == {*map(path_of, urls)}.difference(given_up)
    assert done.counted["forgotten/asked_again"] == 20 + 2 * len(given_up)
    assert done.counted.get("waited_seconds", 0) < 60  # 30 for each page that waits in vain


class CarryingSpider(PagesSpider):
    """Its first callback hands the item on; the second one gives it."""

    def parse(self, response: Response) -> Iterator[Any]:
        item = {"item": describe(response)}
        yield Request(f"{response.url}/more", self.parse_more, cb_kwargs=item)

    def parse_more(self, response: Response, item: dict[str, Any]) -> Iterator[Any]:  # noqa: ARG002
        yield item


async def test_a_page_that_hands_its_item_on_is_no_original(site: Site, tmp_path: Path) -> None:
    """Whether that comes is not known; and the page that brings it is only flagged."""
    site.answers |= {f"{path}/more": Answer(page(3).encode()) for path in TWINS}
    done = await crawl(tmp_path, site.urls(*TWINS), CarryingSpider)
    assert (sorted(done.paths), done.counted["forgotten/handed_on"]) == (sorted(TWINS), 2)
    more = [each["action"] for each in done.decisions if "/more" in each["url"]]
    assert sorted(more) == ["", "flag"]


class DroppingPipeline(Component):
    def process_item(self, item: Any) -> Any:
        if item["path"] != self.crawler.settings["WANTED"]:
            raise DropItem("stored elsewhere")
        return item


@pytest.mark.parametrize("wanted", ["", "/g34/c0"])
async def test_pipelines_that_drop_all_items_may_mean_it(tmp_path: Path, wanted: str) -> None:
    """After 20 pages such ones count, until an item comes through; at the end they are written."""
    answers = make_groups(36, 2)
    order = [f"/g{group}/c{copy}" for group in range(36) for copy in range(2)]
    given: dict[str, Any] = {"WANTED": wanted, "ITEM_PIPELINES": {DroppingPipeline: 300}}
    done = await crawl_pages(tmp_path, answers, order, **given)
    dropped = [path_of(each["url"]) for each in done.decisions if each["action"] == "drop"]
    counting = range(10, 34) if wanted else range(10, 36)
    expected = [f"/g{group}/c1" for group in counting] + ["/g34/c1"] * bool(wanted)
    assert dropped == expected
    kept = {path for path, state in list_states(tmp_path).items() if state == "done"}
    # Those that counted are forgotten once an item came through: copies of theirs may be wanted.
    assert kept == ({wanted} if wanted else {f"/g{group}/c0" for group in counting})


class SwallowingMiddleware:
    """Nearer to the engine than ours: no signal tells what became of the item."""

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        del response
        async for _ in result:
            if False:
                yield


async def test_a_page_whose_items_are_swallowed_is_no_original(site: Site, tmp_path: Path) -> None:
    middlewares = {SwallowingMiddleware: 10}
    done = await crawl(tmp_path, [site.url("/one")], SPIDER_MIDDLEWARES=middlewares)
    assert (done.paths, list_states(tmp_path)) == ([], {})


class FailingOnce:
    async def process_item(self, item: Any) -> Any:
        if not hasattr(self, "came"):
            self.came = True
            await asyncio.sleep(0.5)
            raise RuntimeError("the database is down")
        return item


class SlowPipeline:
    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(1)
        return item


async def test_a_spider_that_closes_waits_for_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that wait are answered, and copies among them come through."""
    monkeypatch.setattr(downloadermiddlewares, "_POLLING_SECONDS", 0.1)
    settings: dict[str, Any] = {"CLOSESPIDER_PAGECOUNT": 4, "ITEM_PIPELINES": {SlowPipeline: 300}}
    done = await crawl_pages(tmp_path, make_groups(4, 4), CONCURRENT_REQUESTS=16, **settings)
    assert done.stats["finish_reason"] == "closespider_pagecount"
    assert len(done.paths) > 4
    assert done.groups == {f"g{group}" for group in range(4)}


async def test_what_comes_from_a_queue_on_disk_is_followed(site: Site, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"JOBDIR": str(tmp_path / "job")}
    done = await crawl_twins(site, tmp_path / "s", spider=FailingSpider, **settings)
    assert done.stats["scheduler/dequeued/disk"] >= 2
    assert list_states(tmp_path / "s") == {"/twin": "done"}


async def test_a_page_that_is_gone_is_forgotten(site: Site, tmp_path: Path) -> None:
    await crawl(tmp_path, [site.url("/one")])
    site.answers["/one"] = Answer(b"gone", status=410)
    await crawl(tmp_path, [site.url("/one")])
    assert list_states(tmp_path) == {}


@pytest.mark.parametrize("unchanged", ["pass", "drop"])
async def test_a_page_is_dropped_for_no_visit_of_which_nothing_came(
    site: Site, tmp_path: Path, unchanged: str
) -> None:
    requests = [Request(site.url("/one"), dont_filter=True, priority=-n) for n in range(2)]
    settings: dict[str, Any] = {"ITEM_PIPELINES": {FailingOnce: 300}, "CONCURRENT_REQUESTS": 1}
    done = await crawl(tmp_path, requests, SIMHASH_UNCHANGED=unchanged, **settings)
    assert done.paths == ["/one"]


class AwaitingSpider(PagesSpider):
    """Its callback for "/one" awaits that for "/twin", which waits for "/one"; or never ends."""

    came = False

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        yield describe(response)
        self.came |= response.url.endswith("/twin") and self.settings["HOW"] != "for ever"
        while not (self.came or is_closing(self.crawler)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", ["until the copy came", "for ever"])
async def test_a_callback_that_awaits_its_copy_gets_it(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(judging, "WAIT_SECONDS", 0.5)
    settings: dict[str, Any] = {"HOW": how, "SIMHASH_PROCESSES": 0, "CLOSESPIDER_TIMEOUT": 1.5}
    done = await crawl_twins(site, tmp_path, spider=AwaitingSpider, **settings)
    assert sorted(done.paths) == ["/one", "/twin"]
