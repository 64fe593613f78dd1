"""A page is done when its items came through; a drop for one that never does is taken back."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from http import HTTPMethod, HTTPStatus
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scrapy import Spider, signals
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import Request, Response

from scrapy_simhash.crawl.packing import Packing, read_requests, unpack_request
from scrapy_simhash.signals import near_duplicate_found
from scrapy_simhash.stores.opening import open_store
from tests.helpers.children import running
from tests.helpers.commanding import Run
from tests.helpers.crawling import Crawl, PagesSpider, crawl, describe, path_of, read_lines
from tests.helpers.crawlscript import finish_crawl, start_crawl
from tests.helpers.losing import list_lost
from tests.helpers.pages import page
from tests.helpers.processes import wait_until
from tests.helpers.reporting import report
from tests.helpers.server import Answer, Site

pytestmark = pytest.mark.usefixtures("warm_worker")


ANSWERS = {"/one": page(1), "/twin": page(1, menu="Other"), "/else": page(2)}


def states(store: Path) -> dict[str, str]:
    """State of each document by path."""
    with open_store(str(store), readonly=True) as opened:
        found = [opened.get_document(number) for number in range(1, 9)]
    return {each.facts.url.rpartition("/")[2]: each.state for each in found if each}


def lost(store: Path) -> int:
    with open_store(str(store), readonly=True) as opened:
        return int(opened.stats()["lost"])


class Pipeline:
    """Ends the items of "/one" as the setting says, once something was dropped for it."""

    def __init__(self, crawler: Any) -> None:
        self.how = crawler.settings["HOW"]
        self.dropped = asyncio.Event()
        self.states: dict[str, str] = {}
        self.store = Path(crawler.settings["SIMHASH_STORE"])
        crawler.signals.connect(self.note, near_duplicate_found)

    @classmethod
    def from_crawler(cls, crawler: Any) -> "Pipeline":
        return cls(crawler)

    def note(self) -> None:
        self.dropped.set()

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["path"] == "/one":
            await asyncio.wait_for(self.dropped.wait(), 30)
            self.states |= states(self.store)
            if self.how == "raise":
                raise RuntimeError("the database is down")
            if self.how == "drop":
                raise DropItem("not wanted")
        return item


class FailingSpider(PagesSpider):
    """Raises for "/one", once something was dropped for it."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        yield describe(response)
        if response.url.endswith("/one"):
            dropped = asyncio.Event()

            def note() -> None:
                dropped.set()

            self.crawler.signals.connect(note, near_duplicate_found)
            await asyncio.wait_for(dropped.wait(), 30)
            raise RuntimeError("a bug of the spider's")


def refusing(site: Site) -> Callable[[], object]:
    """Make what has a site refuse the second page for now."""
    return partial(site.answers.__setitem__, "/twin", Answer(b"", status=503))


def failing(then: Callable[[], object], spider: type[Spider] = FailingSpider) -> type[Spider]:
    """Make a spider that fails for "/one", and does something when a callback has ended."""

    class Then(spider):  # type: ignore[misc, valid-type]
        async def parse(self, response: Response) -> AsyncIterator[Any]:
            try:
                async for entry in super().parse(response):
                    yield entry
            finally:
                then()

    return Then


async def crawl_twins(
    site: Site, store: Path, how: str = "", spider: type[Spider] = PagesSpider, **settings: Any
) -> Crawl:
    pipelines = {"ITEM_PIPELINES": {Pipeline: 300}} if how else {}
    urls = [site.url("/one"), site.url("/twin")]
    return await crawl(store, urls, spider, HOW=how, **pipelines, **settings)


async def test_a_page_is_pending_until_its_items_came_through(site: Site, tmp_path: Path) -> None:
    done = await crawl_twins(site, tmp_path, "pass")
    assert done.paths == ["/one"]
    assert done.verdicts == {"/one": "new", "/twin": "near_duplicate"}
    assert done.decisions[1]["match_pending"] is True
    assert states(tmp_path) == {"one": "done", "twin": "duplicate"}
    assert (lost(tmp_path), done.counted.get("requested_again")) == (0, None)


class SilentSpider(PagesSpider):
    """Finds nothing on "/one"."""

    def parse(self, response: Response) -> Iterator[Any]:
        if not response.url.endswith("/one"):
            yield describe(response)


@pytest.mark.parametrize(
    ("spider", "how", "bare"), [(PagesSpider, "pass", 0), (SilentSpider, "", 1)]
)
async def test_a_page_without_items_is_counted_with_those_dropped_for_it(
    site: Site, tmp_path: Path, spider: type[Spider], how: str, bare: int
) -> None:
    done = await crawl_twins(site, tmp_path, how, spider)
    assert done.counted.get("without_items", 0) == bare
    figures = report(tmp_path, tmp_path)
    assert (figures["dropped"], figures["without_items"]) == (1, bare)
    shown = (tmp_path / "report.html").read_text("utf-8")
    assert ("1 page repeats one that gave no items" in shown) is bool(bare)
    assert "1 of 2 pages judged (50.0 %) was dropped as a near-duplicate of 1 page" in shown


class TurningAway:
    """A downloader middleware nearer to the engine than ours."""

    def process_response(self, request: Request, response: Response) -> Response:
        if request.url.endswith("/one"):
            raise IgnoreRequest("not this one")
        return response


class TurningInput:
    """A spider middleware nearer to the engine than ours."""

    def process_spider_input(self, response: Response) -> None:
        if response.url.endswith("/one"):
            raise IgnoreRequest("not this one")


@pytest.mark.parametrize(
    ("paths", "given"),
    [
        (["/twin"], {"how": "raise"}),
        (["/twin"], {"how": "drop"}),
        (["/one", "/twin"], {"spider": FailingSpider}),  # the first item had come through
        (["/twin"], {"DOWNLOADER_MIDDLEWARES": {TurningAway: 100}}),
        (["/twin"], {"SPIDER_MIDDLEWARES": {TurningInput: 10}}),
    ],
    ids=["pipeline", "DropItem", "callback", "downloader middleware", "spider middleware"],
)
async def test_a_page_that_does_not_come_through_takes_drops_back(
    site: Site,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    paths: list[str],
    given: dict[str, Any],
) -> None:
    """Something raises, or another middleware turns the page away after it was judged."""
    caplog.set_level("INFO", "scrapy_simhash")
    done = await crawl_twins(site, tmp_path, **given)
    assert done.paths == paths
    assert [line["status"] for line in done.decisions] == ["new", "near_duplicate", "new"]
    assert done.counted["requested_again"] == 1
    told = "Requested again: 1 page, dropped for one that failed or changed."
    assert told in caplog.messages
    assert states(tmp_path) == {"one": "pending", "twin": "done"}
    assert lost(tmp_path) == 0


@pytest.mark.parametrize("also", [True, False])
async def test_a_page_that_fails_as_its_copy_did_is_named_at_the_end(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, also: bool
) -> None:
    """Unless another copy of it comes through."""
    site.answers["/third"] = Answer(page(1, menu="Third").encode())

    class Failing(PagesSpider):
        async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
            yield describe(response)
            if response.url.endswith("/one"):
                self.crawler.signals.connect(note, near_duplicate_found)
                await both.wait()
            if also or not response.url.endswith("/third"):
                raise RuntimeError("a bug of the spider's")

    both, dropped = asyncio.Event(), []

    def note(verdict: dict[str, Any]) -> None:
        dropped.append(verdict)
        if len(dropped) == 2:
            both.set()

    urls = [site.url(path) for path in ("/one", "/twin", "/third")]
    done = await crawl(tmp_path, urls, Failing)
    assert done.counted["requested_again"] == 2
    said = "Lost: 1 page that failed as its copy did, such as "
    told = [text for text in caplog.messages if text.startswith("Lost: ")]
    assert [text.startswith(said) for text in told] == [True] * also
    assert done.counted.get("owed/failed", 0) == also


class OneByOne:
    """Lets the first text of "/one" through once something was dropped for the second one.

    Only then the items of the second one fail.
    """

    def __init__(self, crawler: Any) -> None:
        self.texts = 0
        self.dropped, self.scraped = asyncio.Event(), asyncio.Event()
        crawler.signals.connect(self.note_drop, near_duplicate_found)
        crawler.signals.connect(self.note_item, signals.item_scraped)

    @classmethod
    def from_crawler(cls, crawler: Any) -> "OneByOne":
        return cls(crawler)

    def note_drop(self) -> None:
        self.dropped.set()

    def note_item(self) -> None:
        self.scraped.set()

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["path"] == "/one":
            self.texts += 1
            first = self.texts == 1
            await asyncio.wait_for((self.dropped if first else self.scraped).wait(), 30)
            if not first:
                raise RuntimeError("the database is down")
        return item


async def test_the_items_of_one_text_do_not_stand_for_those_of_the_next(
    site: Site, tmp_path: Path
) -> None:
    """Both are in flight; what was dropped for the second is requested again."""
    site.answers["/twin"] = Answer(page(2, menu="Other").encode())

    class Twice(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            yield describe(response)
            if response.url.endswith("/one") and not response.meta.get("again"):
                site.answers["/one"] = Answer(page(2).encode())
                yield Request(response.url, dont_filter=True, meta={"again": 1}, priority=2)
                yield Request(site.url("/twin"), priority=1)

    pipelines = {"ITEM_PIPELINES": {OneByOne: 300}}
    done = await crawl(tmp_path, [site.url("/one")], Twice, **pipelines)
    assert [line["reason"] or line["status"] for line in done.decisions] == [
        "new",
        "changed",
        "near_duplicate",
        "new",
    ]
    assert done.decisions[0]["text_digest"] != done.decisions[1]["text_digest"]
    assert done.decisions[1]["text_digest"] == done.decisions[2]["text_digest"]
    assert done.paths == ["/one", "/twin"]
    assert states(tmp_path) == {"one": "pending", "twin": "done"}
    assert (done.counted["requested_again"], lost(tmp_path)) == (1, 0)


async def test_what_comes_from_a_queue_on_disk_is_followed(site: Site, tmp_path: Path) -> None:
    settings = {"JOBDIR": str(tmp_path / "job")}
    done = await crawl_twins(site, tmp_path / "s", spider=FailingSpider, **settings)
    assert done.stats["scheduler/dequeued/disk"] >= 2
    assert states(tmp_path / "s") == {"one": "pending", "twin": "done"}


COPIES: dict[str, Callable[[Request, str], Request]] = {
    "replaced": lambda request, url: request.replace(url=url),
    "copied": lambda request, url: Request(url, meta=dict(request.meta)),
    "shared": lambda request, url: Request(url).replace(meta=request.meta),
}


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
async def test_an_inline_download_is_done_at_once_whatever_meta_it_has(
    site: Site, tmp_path: Path, copy: Callable[[Request, str], Request]
) -> None:
    """No spider middleware sees its page, so nobody else would note its end."""
    site.answers["/inline"] = Answer(page(7).encode())
    seen: dict[str, str] = {}

    class Inline(PagesSpider):
        async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
            yield describe(response)
            if response.url.endswith("/one"):
                other = Request(site.url("/else"))
                yield other  # it is in the queue from here on
                assert self.crawler.engine
                inline = await self.crawler.engine.download_async(copy(other, site.url("/inline")))
                seen[path_of(inline.url)] = inline.meta["simhash"]["status"]

    done = await crawl(tmp_path, [site.url("/one")], Inline)
    assert seen == {"/inline": "new"}
    assert done.paths == ["/one", "/else"]
    assert states(tmp_path) == {"one": "done", "inline": "done", "else": "done"}


async def test_a_page_is_requested_again_only_once_by_a_crawl(site: Site, tmp_path: Path) -> None:
    """It stays listed as lost until another crawl gets it."""
    twin = site.answers["/twin"]
    forgetting = failing(refusing(site))
    done = await crawl_twins(site, tmp_path, spider=forgetting)
    assert done.verdicts["/twin"].startswith("not_judged")  # 503
    assert (done.counted["requested_again"], done.counted["owed/lost"], lost(tmp_path)) == (1, 1, 1)
    site.answers["/twin"] = twin
    again = await crawl(tmp_path, [site.url("/else")])
    assert again.paths == ["/else", "/twin"]
    assert lost(tmp_path) == 0


# Holds the write lock of a store from one line that it is told to the next one.
HOLDING = """
import select, sys
from scrapy_simhash.stores.opening import open_store

def hold(stored):
    print("held", flush=True)
    told, _, _ = select.select([sys.stdin], [], [], 60)
    print("told" if told else "waited in vain", flush=True)

with open_store(sys.argv[1], confirm=0.9) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    store.write(hold)
"""


@pytest.mark.parametrize("stop", [False, True], ids=["to its end", "stopped"])
async def test_the_event_loop_does_not_wait_for_the_lock_of_another_process(
    site: Site, tmp_path: Path, stop: bool
) -> None:
    """At an idle moment, when lost pages are taken over; the lock is held until the loop says so.

    If the crawl is stopped meanwhile, the next one requests them.
    """
    open_store(str(tmp_path), confirm=0.9).close()
    with running(HOLDING, tmp_path) as child:

        class Locked(FailingSpider):
            async def start(self) -> AsyncIterator[Request]:
                self.letting_go: asyncio.Future[None] | None = None
                self.crawler.signals.connect(self.lock, near_duplicate_found)
                self.crawler.signals.connect(self.let_go, signals.spider_idle)
                async for request in super().start():
                    yield request

            def lock(self) -> None:
                assert child.ask("lock") == "held"

            def let_go(self) -> None:
                if self.letting_go is None:
                    self.letting_go = asyncio.ensure_future(self.go_on())

            async def go_on(self) -> None:
                for _ in range(50):
                    await asyncio.sleep(0.02)
                if stop:
                    assert self.crawler.engine
                    stopping = self.crawler.engine.close_spider_async(reason="enough")
                    await asyncio.wait([asyncio.ensure_future(stopping)], timeout=0.2)
                child.tell("let go")

        done = await crawl_twins(site, tmp_path, spider=Locked)
        assert child.read() == "told"
    assert done.stats["finish_reason"] == ("enough" if stop else "finished")
    assert done.paths == (["/one"] if stop else ["/one", "/twin"])
    assert lost(tmp_path) == stop
    if stop:
        again = await crawl(tmp_path, [site.url("/else")])
        assert again.paths == ["/else", "/twin"]


class LinkingSpider(FailingSpider):
    """Follows the links of what it does not fail on."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        async for entry in super().parse(response):
            yield entry
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


LINKING = page(1, menu="Other", links=["/else"])
LINKED: dict[str, Any] = {"SIMHASH_ACTION": "ignore-outlinks"}


async def test_what_is_requested_again_for_its_links_brings_its_items_once(
    site: Site, tmp_path: Path
) -> None:
    site.answers["/twin"] = Answer(LINKING.encode())
    done = await crawl_twins(site, tmp_path, spider=LinkingSpider, **LINKED)
    assert done.paths == ["/one", "/twin", "/else"]
    assert [line["status"] for line in done.decisions] == ["new", "near_duplicate", "new", "new"]
    assert done.counted["requested_again"] == 1
    assert states(tmp_path) == {"one": "pending", "twin": "done", "else": "done"}
    assert lost(tmp_path) == 0


@pytest.mark.parametrize("other", ["the same text", "another text"])
async def test_another_crawl_requests_a_page_again_for_its_links(
    site: Site, tmp_path: Path, other: str
) -> None:
    """Its items come once more if there is another text."""
    site.answers["/twin"] = Answer(LINKING.encode())
    forgetting = failing(refusing(site), LinkingSpider)
    first = await crawl_twins(site, tmp_path, spider=forgetting, **LINKED)
    assert (first.paths, first.counted["owed/lost"]) == (["/one", "/twin"], 1)
    changed = page(8, links=["/else"])
    site.answers["/twin"] = Answer((LINKING if other == "the same text" else changed).encode())
    again = await crawl(tmp_path, [], LinkingSpider, **LINKED)
    assert again.paths == (["/else"] if other == "the same text" else ["/twin", "/else"])
    assert lost(tmp_path) == 0


async def test_items_that_failed_come_again_with_the_links(site: Site, tmp_path: Path) -> None:
    class Broken:
        """Takes no item of "/twin" while "/one" is pending."""

        def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
            if item["path"] == "/twin" and item["flags"]:
                raise RuntimeError("the database is down")
            return item

    site.answers["/twin"] = Answer(LINKING.encode())
    settings = LINKED | {"ITEM_PIPELINES": {Broken: 300}}
    done = await crawl_twins(site, tmp_path, spider=LinkingSpider, **settings)
    assert done.paths == ["/one", "/twin", "/else"]


async def test_what_was_only_flagged_is_not_lost(site: Site, tmp_path: Path) -> None:
    done = await crawl_twins(site, tmp_path, "raise", SIMHASH_ACTION="flag")
    assert done.paths == ["/twin"]
    assert "requested_again" not in done.counted
    assert lost(tmp_path) == 0


async def test_what_reaches_the_spider_not_judged_is_lost_no_more(
    site: Site, tmp_path: Path
) -> None:
    growing = failing(lambda: site.answers.update({"/twin": Answer(b"x" * 9_000)}))
    done = await crawl_twins(site, tmp_path, spider=growing, SIMHASH_MAX_BYTES=8_000)
    assert done.verdicts["/twin"] == "not_judged too_large"
    assert done.paths == ["/one", "/twin"]
    assert lost(tmp_path) == 0


class ObjectSpider(FailingSpider):
    """What it hands to its callbacks cannot be written."""

    async def start(self) -> AsyncIterator[Request]:
        async for request in super().start():
            yield request.replace(meta=request.meta | {"object": object()})


async def test_what_cannot_be_stored_is_requested_again_by_its_own_crawl(
    site: Site, tmp_path: Path
) -> None:
    done = await crawl_twins(site, tmp_path, spider=ObjectSpider)
    assert done.paths == ["/one", "/twin"]
    assert done.counted["requested_again"] == 1
    assert lost(tmp_path) == 0


async def test_what_cannot_be_requested_again_is_listed(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, run: Run
) -> None:
    forgetting = failing(refusing(site), ObjectSpider)
    done = await crawl_twins(site, tmp_path, spider=forgetting)
    assert done.counted["owed/lost"] == lost(tmp_path) == 1
    assert "WARNING" in caplog.text
    said = f"Lost: 1 page, dropped for one that failed or changed, such as {site.url('/one')!r}"
    assert f"{said} (scrapy simhash owed)." in caplog.messages
    first, second = run.answers("explain", site.url("/twin"), "--store", tmp_path)
    begin = "Lost: its original failed, or has changed since. Dropped: it says"
    assert first["verdict"].startswith(begin)
    assert first["advice"].startswith(f"scrapy simhash owed --store {tmp_path}\n")
    assert second["verdict"].startswith("Not judged: its HTTP status is no success")
    failed = run.answer("explain", site.url("/one"), "--store", tmp_path)
    assert "; but no item of it came through (an error," in failed["verdict"]
    assert failed["advice"].endswith("Scrapy's log has the error")
    with open_store(str(tmp_path), readonly=True) as store:
        (row,) = list_lost(store)
        assert (row.url, row.request) == (site.url("/twin"), b"")


class OddSpider(FailingSpider):
    """Its requests have meta that msgspec fails on otherwise than on what it refuses."""

    async def start(self) -> AsyncIterator[Request]:
        endless: list[Any] = []
        endless.append(endless)
        async for request in super().start():
            yield request.replace(meta={"endless": endless})


@pytest.mark.parametrize("action", ["drop", "ignore-outlinks"])
async def test_whatever_meta_a_request_has_its_page_is_judged(
    site: Site, tmp_path: Path, action: str, caplog: pytest.LogCaptureFixture
) -> None:
    done = await crawl_twins(site, tmp_path, spider=OddSpider, SIMHASH_ACTION=action)
    assert done.paths == ["/one", "/twin"]
    assert "failed/page" not in done.counted
    assert "Not noted" not in caplog.text
    assert done.counted["requested_again"] == 1
    assert lost(tmp_path) == 0


class PickyRequest(Request):
    """Its maker's mind changed: those of an earlier crawl cannot be made any more."""

    refused: ClassVar[set[str]] = set()

    def __init__(self, url: str, *args: Any, **kwargs: Any) -> None:
        if url in self.refused:
            raise KeyError("a setting that is no longer there")
        super().__init__(url, *args, **kwargs)


async def test_a_request_that_cannot_be_made_holds_no_other_back(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PickySpider(PagesSpider):
        async def start(self) -> AsyncIterator[Request]:
            for path in ("/one", "/twin", "/other"):
                yield PickyRequest(site.url(path), dont_filter=True)
            PickyRequest.refused.add(site.url("/twin"))

        async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
            yield describe(response)
            if response.url.endswith("/one"):
                await asyncio.to_thread(wait_until, lambda: len(read_lines(log)) == 3)
                raise RuntimeError("a bug of the spider's")

    monkeypatch.setattr(PickyRequest, "refused", set())
    log = tmp_path / "log.jsonl"
    site.answers["/other"] = Answer(page(1, menu="A third").encode())
    done = await crawl(tmp_path, [], PickySpider, SIMHASH_LOG=str(log))
    # Both were dropped for the page whose callback fails.
    assert done.paths == ["/one", "/other"]
    assert done.counted["requested_again"] == 1
    assert done.counted["owed/lost"] == 1


async def test_another_crawl_requests_what_a_killed_one_dropped(site: Site, tmp_path: Path) -> None:
    first, twin = site.url("/one"), site.url("/twin")
    killed = start_crawl(tmp_path, [first, twin], HELD_URLS=[first])
    store = tmp_path / "store"
    wait_until(lambda: len(read_lines(store / "log.jsonl")) == 2)

    killed.kill()
    finish_crawl(killed, tmp_path)
    assert lost(store) == 1
    other = await crawl(
        store, [site.url("/else")], type("Other", (PagesSpider,), {"name": "other"})
    )
    assert other.paths == ["/else"]  # it is none of this spider's business
    again = await crawl(store, [site.url("/else")])
    assert again.paths == ["/else", "/twin"]
    assert lost(store) == 0


class AgainSpider(PagesSpider):
    """Starts from what `owed --json` printed to a file, as docs/running.md shows."""

    async def start(self) -> AsyncIterator[Request]:
        for request in read_requests(self.again, self):  # type: ignore[attr-defined]
            yield request


async def test_what_waits_for_another_crawl_is_counted_and_written_to_a_file(
    site: Site, tmp_path: Path, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    first, twin = site.url("/one"), site.url("/twin")
    other = start_crawl(tmp_path, [first], HELD_URLS=[first])
    store = tmp_path / "store"
    wait_until(lambda: read_lines(store / "log.jsonl"))
    caplog.set_level("INFO")
    done = await crawl(store, [Request(twin, meta={"mine": 1})])
    assert (done.paths, done.counted["owed/waiting"]) == ([], 1)
    assert "owed/lost" not in done.counted
    assert "Lost: " not in caplog.text
    other.kill()
    finish_crawl(other, tmp_path)
    path = tmp_path / "again.jsonl"
    path.write_text(run("owed", "--json", "--store", store).out)
    (line,) = read_lines(path)
    assert (line["url"], line["spider"]) == (twin, "pages")
    (restored,) = read_requests(path, PagesSpider())
    assert (restored.url, restored.dont_filter, restored.meta["mine"]) == (twin, True, 1)
    assert list(read_requests(path, type("Other", (PagesSpider,), {"name": "other"})())) == []
    spider = type("Again", (AgainSpider,), {"again": path})
    again = await crawl(store, [], spider)
    assert again.paths == ["/twin"]
    assert (again.counted, lost(store)) == ({"pages": 1, "new": 1}, 0)


class SwallowingMiddleware:
    """Nearer to the engine than ours: no signal tells what became of the item."""

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        del response
        async for _ in result:
            if False:
                yield


async def test_swallowed_items_make_a_page_done_at_the_end(site: Site, tmp_path: Path) -> None:
    middlewares = {SwallowingMiddleware: 10}
    done = await crawl(tmp_path, [site.url("/one")], SPIDER_MIDDLEWARES=middlewares)
    assert done.paths == []
    assert states(tmp_path) == {"one": "done"}


def pack(request: Request, spider: Spider) -> bytes:
    return Packing(spider, cookies=True).pack(request)


def test_requests_come_back_as_they_were() -> None:
    spider = PagesSpider()
    request = Request(
        "http://site.example/a",
        callback=spider.parse,
        method="POST",
        body=b"\xff\x00",
        headers={"Accept": ["1", "2"]},
        cb_kwargs={"number": 1, "names": ["a", None, 1.5]},
        meta={"own": {"x": [1]}, "simhash": {}, "simhash_text": "", "_simhash_lost": 1, "_own": 1},
        priority=3,
    )
    made = unpack_request(pack(request, spider), spider)
    assert made is not None
    assert made.to_dict(spider=spider) == {
        **request.to_dict(spider=spider),
        "meta": {"own": {"x": [1]}, "_own": 1},
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"callback": lambda _: None},
        {"cb_kwargs": {"pair": (1, 2)}},
        {"meta": {"thing": object()}},
        {"cb_kwargs": {"kind": HTTPMethod.GET}},
        {"cb_kwargs": {"kinds": [{HTTPMethod.GET: 1}]}},
        {"cb_kwargs": {"status": HTTPStatus.OK}},
        {"meta": {"groups": defaultdict(list)}},
    ],
    ids=["lambda", "tuple", "object", "StrEnum", "key", "IntEnum", "defaultdict"],
)
def test_requests_that_would_come_back_changed_are_not_kept(changes: dict[str, Any]) -> None:
    spider = PagesSpider()
    request = Request("http://site.example/a", callback=spider.parse).replace(**changes)
    assert pack(request, spider) == b""
