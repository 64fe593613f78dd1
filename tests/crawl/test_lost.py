"""Lost pages: how their requests are stored, who may make them, and when a crawl is asked."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest
from scrapy.exceptions import CloseSpider
from scrapy.http import Request, Response

from scrapy_simhash.crawl import lost
from scrapy_simhash.crawl.packing import Packing
from scrapy_simhash.pages.facts import NOBODY
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.rows import LOST, Lost, key_of_lost, pack_row
from tests.crawl.test_delivery import FailingSpider, crawl_twins, failing
from tests.helpers.crawling import PagesSpider, crawl, describe, read_lines
from tests.helpers.crawlscript import finish_crawl, start_crawl
from tests.helpers.losing import list_lost
from tests.helpers.pages import page
from tests.helpers.processes import wait_until
from tests.helpers.reporting import report
from tests.helpers.server import Answer, Site, serve

pytestmark = pytest.mark.usefixtures("warm_worker", "judge_apart")
ANSWERS = {
    "/one": page(1),
    "/twin": page(1, menu="Other"),
    "/two": page(2),
    "/else": page(2, menu="Other"),
}
SECRET = "T0PSECRET"  # noqa: S105 - none


class OwnSpider(PagesSpider):
    """Has methods that no request may name."""

    def parse_item(self, response: Response) -> None:
        """Be public."""

    def _own(self, response: Response) -> None:
        """Be private."""

    @property
    def boom(self) -> None:
        raise AssertionError("a property ran")


def pack(request: Request, *, cookies: bool = True) -> bytes:
    return Packing(OwnSpider(), cookies=cookies).pack(request)


CREDENTIALS: dict[str, dict[str, Any]] = {
    "Authorization": {"headers": {"Authorization": f"Bearer {SECRET}"}},
    "Proxy-Authorization": {"headers": {"proxy-authorization": SECRET}},
    "a header that may be one": {"headers": {"x-API-key": SECRET}},
    "cookies": {"cookies": {"sid": SECRET}},
    "Cookie that nobody else sets": {
        "headers": {"Cookie": SECRET},
        "meta": {"dont_merge_cookies": True},
    },
    "password in the URL": {"url": f"http://ann:{SECRET}@a.example/"},
    "password of a proxy": {"meta": {"proxy": f"http://ann:{SECRET}@proxy.example/"}},
}


@pytest.mark.parametrize("given", CREDENTIALS.values(), ids=CREDENTIALS)
def test_credentials_are_not_packed(given: dict[str, Any]) -> None:
    request = Request(**{"url": "http://a.example/", **given})
    assert pack(request) == b""


class AskingSpider(FailingSpider):
    """Its requests have a secret."""

    async def start(self) -> AsyncIterator[Request]:
        async for request in super().start():
            yield request.replace(headers={"Authorization": f"Bearer {SECRET}"})


async def test_a_request_with_credentials_is_made_again_by_its_own_crawl_only(
    site: Site, tmp_path: Path
) -> None:
    done = await crawl_twins(site, tmp_path / "a", spider=AskingSpider)
    assert done.paths == ["/one", "/twin"]
    assert list_lost_at(tmp_path / "a") == []
    busy = Answer(b"", status=503)
    forgetting = failing(partial(site.answers.__setitem__, "/twin", busy), AskingSpider)
    lost = await crawl_twins(site, tmp_path / "b", spider=forgetting)
    assert lost.counted["owed/lost"] == 1
    (owed,) = list_lost_at(tmp_path / "b")
    assert (owed.url, owed.request) == (site.url("/twin"), b"")
    for folder in (tmp_path / "a", tmp_path / "b"):
        assert SECRET.encode() not in (folder / "data.mdb").read_bytes()
    site.answers["/twin"] = Answer(ANSWERS["/twin"].encode())
    again = await crawl(tmp_path / "b", [site.url("/else")], AskingSpider)
    assert again.paths == ["/else"]
    assert len(list_lost_at(tmp_path / "b")) == 1


async def test_requests_that_are_stored_take_no_room_of_those_that_cannot_be(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(PagesSpider):
        async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
            yield describe(response)
            if response.url.endswith("/one"):
                await asyncio.to_thread(wait_until, lambda: len(read_lines(log)) == 3)
                raise RuntimeError("a bug of the spider's")

    log = tmp_path / "log.jsonl"
    monkeypatch.setattr(lost, "_MOST_HELD", 1)
    site.answers["/other"] = Answer(page(1, menu="A third").encode())
    asking = Request(site.url("/other"), headers={"Authorization": SECRET})
    done = await crawl(tmp_path, [*map(site.url, ("/one", "/twin")), asking], Failing)
    assert done.counted["requested_again"] == 2
    assert "owed/lost" not in done.counted


def list_lost_at(folder: Path) -> list[Lost]:
    with open_store(str(folder), readonly=True) as store:
        return list_lost(store)


@pytest.mark.parametrize("status", [404, 410, 403, 503])
async def test_a_lost_page_that_is_gone_is_told_and_no_more_owed(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """One that is only refused may come later."""
    gone = status in {404, 410}
    answer = Answer(b"", status=status)
    spider = failing(partial(site.answers.__setitem__, "/twin", answer), FailingSpider)
    done = await crawl_twins(site, tmp_path, spider=spider, RETRY_ENABLED=False)
    assert done.counted.get("owed/gone", 0) == gone
    assert done.counted.get("owed/lost", 0) == (not gone)
    assert (f"Gone ({status}): '{site.url('/twin')}', which was dropped for" in caplog.text) == gone
    assert len(list_lost_at(tmp_path)) == (not gone)


async def test_a_report_has_the_lost_pages_of_its_crawl(site: Site, tmp_path: Path) -> None:
    """Those of a crawl that requested them in vain as well."""
    refused = Answer(b"", status=403)
    spider = failing(partial(site.answers.__setitem__, "/twin", refused), FailingSpider)
    lost = await crawl_twins(site, tmp_path, spider=spider)
    again = await crawl(tmp_path, [site.url("/two")], FailingSpider)
    other = type("OtherSpider", (PagesSpider,), {"name": "other"})
    await crawl(tmp_path, [site.url("/two")], other)
    crawls = {
        "last": 0,
        "all": 1,
        lost.decisions[0]["crawl"]: 1,
        again.decisions[0]["crawl"]: again.counted["owed/lost"],
    }
    for crawl_id, pages in crawls.items():
        assert len(report(tmp_path, tmp_path, crawl=crawl_id)["lost"]) == pages


MANY = 100_000


def lose(store: Path, *rows: Lost) -> None:
    """Write rows of lost pages, whose originals are gone."""
    with open_store(str(store), confirm=0.9) as opened:
        for start in range(0, len(rows), 10_000):
            keys = enumerate(rows[start : start + 10_000], 1_000 + start)
            packed = [(key_of_lost(number), row) for number, row in keys]
            opened.write(
                lambda stored, packed=packed: [  # type: ignore[misc]
                    stored.values.put(LOST, key, pack_row(key, row)) for key, row in packed
                ]
            )


def make_lost(url: str, spider: str, request: bytes) -> Lost:
    """Make the row of a lost page, of a crawl that ended."""
    return Lost(url, spider, "before", 999, b"", NOBODY, request)


@pytest.mark.slow
async def test_a_hundred_thousand_lost_pages_hold_no_loop(site: Site, tmp_path: Path) -> None:
    """They are those of another spider; one that is not is requested."""
    packed = Packing(PagesSpider(), cookies=True).pack(Request(site.url("/else")))
    others = [
        make_lost(f"http://a.example/{number}", f"not {PagesSpider.name}", packed)
        for number in range(MANY)
    ]
    lose(tmp_path, *others, make_lost(site.url("/else"), PagesSpider.name, packed))
    longest = [0.0]

    class Watching(PagesSpider):
        async def start(self) -> AsyncIterator[Request]:
            self.watching = asyncio.ensure_future(self.watch())
            async for request in super().start():
                yield request

        async def watch(self) -> None:
            while True:
                before = time.thread_time()  # of the loop, however busy the machine is
                await asyncio.sleep(0)
                longest[0] = max(longest[0], time.thread_time() - before)
                await asyncio.sleep(0.001)

        def closed(self, reason: str) -> None:  # noqa: ARG002 - Scrapy gives it
            self.watching.cancel()

    done = await crawl(tmp_path, [site.url("/one")], Watching)
    assert done.paths == ["/one", "/else"]
    assert longest[0] < 0.05


class Moment(NamedTuple):
    """When a crawl is killed: while a page is not answered, or while its callback is at work."""

    held: str
    answered: bool
    requests: int  # for the lost page, of both crawls


MOMENTS = {
    "before it takes the page": Moment("/one", answered=False, requests=1),
    "while the request is under way": Moment("/else", answered=False, requests=2),
    "once its callback has the page": Moment("/else", answered=True, requests=1),
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
async def test_a_lost_page_reaches_its_callback_whenever_a_crawl_is_killed(
    site: Site, tmp_path: Path, moment: Moment
) -> None:
    """Then it is like any page whose crawl is killed."""
    store = tmp_path / "store"
    packed = Packing(PagesSpider(), cookies=True).pack(Request(site.url("/else")))
    before = await crawl(store, [site.url("/two"), site.url("/else")])
    assert before.counted["dropped"] == 1
    with open_store(str(store)) as opened:
        (original,) = opened.find_document(site.url("/two"))
        (page_,) = opened.find_document(site.url("/else"))
        key, number = key_of_lost(page_.document), original.document
        row = Lost(page_.facts.url, PagesSpider.name, "x", number, b"another text", NOBODY, packed)
        opened.write(lambda stored: stored.values.put(LOST, key, pack_row(key, row)))
        opened.spare([page_.document])
    site.asked.clear()
    gate = Event()
    site.answers[moment.held] = replace(site.answers[moment.held], gate=gate)
    held = [site.url(moment.held)] if moment.answered else []
    killed = start_crawl(tmp_path, [site.url("/one")], HELD_URLS=held)
    if moment.answered:
        gate.set()
        wait_until(lambda: len(read_lines(store / "log.jsonl")) == len(before.decisions) + 2)
    else:
        wait_until(lambda: moment.held in site.asked)
    killed.kill()
    gate.set()
    finish_crawl(killed, tmp_path)
    done = await crawl(store, [site.url("/one")])
    assert done.paths == ["/one", "/else"][: 1 if moment.answered else 2]
    assert site.asked.count("/else") == moment.requests
    assert list_lost_at(store) == []


async def test_a_job_that_is_resumed_without_writing_judges_all_its_pages(tmp_path: Path) -> None:
    """Its queue has lost pages; that they came is for the next crawl that writes."""

    class Closing(PagesSpider):
        async def parse(  # type: ignore[override]
            self, response: Response
        ) -> AsyncIterator[dict[str, Any]]:
            if response.url.endswith("/one"):
                await asyncio.sleep(0.5)  # its copies come meanwhile
                raise RuntimeError("a spider's fault")
            yield describe(response)
            raise CloseSpider("enough")

    paths = ["/one", *(f"/copy{number}" for number in range(6))]
    answers = {path: page(1, menu=path) for path in paths} | {"/two": page(2), "/three": page(3)}
    job: dict[str, Any] = {"JOBDIR": str(tmp_path / "job")}
    with serve(answers) as site:
        await crawl(tmp_path / "store", map(site.url, paths), Closing, **job)
        resumed = await crawl(
            tmp_path / "store", map(site.url, ("/two", "/three")), SIMHASH_READONLY=True, **job
        )
    assert resumed.paths >= ["/three"]
    assert not any("store_unavailable" in name for name in resumed.counted)
