"""A text that moved: its copies are dropped for what another page showed before the crawl."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from scrapy.http import Request, Response

from scrapy_simhash.crawl import lost
from scrapy_simhash.crawl.packing import Packing
from scrapy_simhash.detector.detector import Detector
from scrapy_simhash.pages.facts import Page
from scrapy_simhash.signals import near_duplicate_found
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import Crawl, FollowingSpider, PagesSpider, crawl, describe, read_lines
from tests.helpers.losing import list_lost
from tests.helpers.pages import page
from tests.helpers.processes import wait_until
from tests.helpers.reporting import report
from tests.helpers.server import Answer, Site

pytestmark = pytest.mark.usefixtures("warm_worker")
ANSWERS = {
    "/latest": page(1),
    "/archive": page(1, menu="Other", links=["/else"]),
    "/print": page(1, links=["/more"]).replace("</article>", "<p>Printed for you.</p></article>"),
    "/else": page(3),
    "/more": page(5),
}
COPIES = ("/archive", "/print")
CHANGED = Answer(page(2).encode())


async def crawl_moved(
    site: Site,
    store: Path,
    *paths: str,
    latest: Answer = CHANGED,
    spider: type[PagesSpider] = PagesSpider,
    **settings: Any,
) -> Crawl:
    """Crawl the original; then these paths, once it answers something else."""
    await crawl(store, [site.url("/latest")], spider)
    site.answers["/latest"] = latest
    site.asked.clear()
    return await crawl(store, map(site.url, paths), spider, **settings)


def list_owed(store: Path) -> list[str]:
    with open_store(str(store), readonly=True) as opened:
        return [row.url for row in list_lost(opened)]


@pytest.mark.usefixtures("judge_apart")
@pytest.mark.parametrize("first", [True, False], ids=["copies first", "original first"])
async def test_a_text_that_moved_comes_once_whatever_is_fetched_first(
    site: Site, tmp_path: Path, *, first: bool
) -> None:
    paths = (*COPIES, "/latest") if first else ("/latest", *COPIES)
    done = await crawl_moved(site, tmp_path, *paths)
    assert done.paths == ["/latest", "/archive"]
    assert done.verdicts == {
        "/latest": "revisit changed",
        "/archive": "new",
        "/print": "near_duplicate",
    }
    assert done.counted.get("requested_again", 0) == 2 * first
    assert site.asked == [*paths, *(COPIES if first else ())]
    assert not any(name.startswith("owed/") for name in done.counted)
    assert list_owed(tmp_path) == []


@pytest.mark.parametrize(
    "latest",
    [Answer(ANSWERS["/latest"].encode()), Answer(b"", 404), None],
    ids=["unchanged", "gone", "not fetched"],
)
async def test_copies_of_what_did_not_change_cost_no_request(
    site: Site, tmp_path: Path, latest: Answer | None
) -> None:
    """Nor do those of pages that are gone, or that nobody links to: the report counts these."""
    paths = (*COPIES, "/latest") if latest else COPIES
    done = await crawl_moved(site, tmp_path, *paths, latest=latest or CHANGED)
    assert site.asked == [*paths]
    assert done.counted["dropped"] == 2
    assert list_owed(tmp_path) == []
    unchanged = latest is not None and latest.status == 200
    told = report(tmp_path, tmp_path, crawl="last")["answers"]["What did it save?"]
    said = "Of these, 2 repeat pages of earlier crawls, not fetched again."
    assert (said in told) is not unchanged


async def test_copies_of_what_changed_within_the_crawl_cost_no_request(
    site: Site, tmp_path: Path
) -> None:
    class Changing(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            site.answers["/latest"] = CHANGED
            yield describe(response)

    await crawl(tmp_path, [site.url("/latest")])
    latest = site.url("/latest")
    copies, again = map(site.url, COPIES), Request(latest, dont_filter=True)
    done = await crawl(tmp_path, [latest, *copies, again], Changing)
    assert done.verdicts["/latest"] == "revisit changed"
    assert "requested_again" not in done.counted


async def test_a_copy_that_fails_then_is_no_copy_of_what_failed(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            if not response.url.endswith("/latest"):
                raise RuntimeError("a bug of the spider's")
            yield describe(response)

    done = await crawl_moved(site, tmp_path, "/archive", "/latest", spider=Failing)
    assert done.counted["requested_again"] == 1
    assert "failed as its copy did" not in caplog.text


class FailingSpider(PagesSpider):
    """Fails for a page that was changed."""

    def parse(self, response: Response) -> Iterator[Any]:
        if response.meta["simhash"]["reason"] == "changed":
            raise RuntimeError("a bug of the spider's")
        yield describe(response)


@pytest.mark.parametrize("spider", [PagesSpider, FailingSpider])
async def test_what_the_original_shows_as_well_by_now_is_only_lost_if_that_fails(
    site: Site, tmp_path: Path, spider: type[PagesSpider]
) -> None:
    """Both have got another sentence since."""
    edited = page(1).replace("</article>", "<p>Something was added.</p></article>")
    copy = edited.replace("Menu", "Other")
    site.answers["/archive"] = Answer(copy.encode())
    edited_answer = Answer(edited.encode())
    done = await crawl_moved(
        site, tmp_path, "/archive", "/latest", latest=edited_answer, spider=spider
    )
    failed = spider is FailingSpider
    assert done.paths == ["/archive" if failed else "/latest"]
    assert site.asked == ["/archive", "/latest", *["/archive"] * failed]
    assert list_owed(tmp_path) == []


async def test_an_original_that_is_judged_next_overtakes_no_copy(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy, whose links are followed, waits for its text meanwhile."""
    log, gate = tmp_path / "log.jsonl", Event()
    read_text = Detector.read_text

    async def wait(detector: Detector, page: Page) -> tuple[str, str]:
        if page.url.endswith("/archive") and not gate.is_set():
            before = len(read_lines(log))
            gate.set()
            await asyncio.to_thread(wait_until, lambda: len(read_lines(log)) > before)
        return await read_text(detector, page)

    monkeypatch.setattr(Detector, "read_text", wait)
    latest = replace(CHANGED, gate=gate)
    settings: dict[str, Any] = {"SIMHASH_HAND_OVER_TEXT": True, "CONCURRENT_REQUESTS": 2}
    done = await crawl_moved(site, tmp_path, "/archive", "/latest", latest=latest, **settings)
    assert [line["status"] for line in done.decisions] == ["revisit", "near_duplicate", "new"]
    assert done.paths == ["/latest", "/archive"]


async def test_of_a_page_kept_without_its_links_only_these_come_again(
    site: Site, tmp_path: Path
) -> None:
    """All of the first copy come at once: the original gave no links in this crawl."""
    settings: dict[str, Any] = {"SIMHASH_ACTION": "ignore-outlinks"}
    paths = (*COPIES, "/latest")
    done = await crawl_moved(site, tmp_path, *paths, spider=FollowingSpider, **settings)
    assert sorted(done.paths) == sorted((*paths, "/else", "/more"))
    assert site.asked[-2:] == ["/print", "/more"]
    assert [site.asked.count(path) for path in paths] == [1, 2, 1]


async def test_a_job_that_is_resumed_knows_the_copies(site: Site, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"JOBDIR": str(tmp_path / "job")}
    await crawl_moved(site, tmp_path, "/archive", **settings)
    done = await crawl(tmp_path, [site.url("/latest")], **settings)
    assert done.paths == ["/latest", "/archive"]


async def test_requests_with_credentials_are_made_again(site: Site, tmp_path: Path) -> None:
    class AskingSpider(PagesSpider):
        async def start(self) -> AsyncIterator[Request]:
            async for request in super().start():
                yield request.replace(headers={"Authorization": "Bearer secret"})

    done = await crawl_moved(site, tmp_path, "/archive", "/latest", spider=AskingSpider)
    assert done.paths == ["/latest", "/archive"]


@pytest.mark.parametrize("status", [404, 503])
async def test_a_copy_that_does_not_come_again_is_told(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """One that is only refused is requested by the next crawl."""

    class Refusing(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            site.answers["/archive"] = Answer(b"", status)
            yield describe(response)

    await crawl(tmp_path, [site.url("/latest")])
    archive, site.answers["/latest"] = site.answers["/archive"], CHANGED
    done = await crawl(tmp_path, map(site.url, ("/archive", "/latest")), Refusing)
    gone = status == 404
    said = "Gone (404)" if gone else "Lost: 1 page, dropped for one that failed or changed"
    assert said in caplog.text
    assert done.counted.get("owed/lost", 0) == (not gone)
    site.answers["/archive"] = archive
    again = await crawl(tmp_path, [site.url("/else")])
    assert again.paths == ["/else", *["/archive"] * (not gone)]
    assert list_owed(tmp_path) == []


@pytest.mark.parametrize("stored", [True, False])
async def test_only_so_many_requests_are_held(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stored: bool
) -> None:
    """For the copies of the next original there is room again, if requests can be stored."""
    monkeypatch.setattr(lost, "_MOST_HELD", 1)
    if not stored:
        monkeypatch.setattr(Packing, "pack", lambda *_: b"")
    await crawl(tmp_path, [site.url("/else")])
    site.answers |= {
        "/copy": Answer(page(3, menu="Other").encode()),
        "/again": Answer(page(3, menu="Third").encode()),
    }
    paths = (*COPIES, "/latest", "/copy", "/again")
    await crawl(tmp_path, [site.url("/latest")])
    site.answers |= {"/latest": CHANGED, "/else": Answer(page(4).encode())}
    done = await crawl(tmp_path, map(site.url, (*paths, "/else")))
    assert done.paths == ["/latest", "/else", "/archive", *["/copy"] * stored]
    assert done.counted.get("owed/lost", 0) == (not stored)


async def test_a_copy_is_requested_again_only_once_by_a_crawl(site: Site, tmp_path: Path) -> None:
    """Even if it is then dropped for another page, which changes too; the next crawl does."""
    other = Answer(page(3, menu="Other").encode())
    await crawl(tmp_path, [site.url("/else")])

    class Asking(PagesSpider):
        async def start(self) -> AsyncIterator[Request]:
            self.crawler.signals.connect(self.ask, near_duplicate_found)
            async for request in super().start():
                yield request

        def ask(self, verdict: dict[str, Any]) -> None:
            if verdict["match_url"].endswith("/else"):
                site.answers["/else"] = Answer(page(4).encode())
                assert self.crawler.engine
                self.crawler.engine.crawl(Request(site.url("/else")))

        def parse(self, response: Response) -> Iterator[Any]:
            site.answers["/archive"] = other
            yield describe(response)

    await crawl(tmp_path, [site.url("/latest")])
    site.answers["/latest"] = CHANGED
    site.asked.clear()
    done = await crawl(tmp_path, map(site.url, ("/archive", "/latest")), Asking)
    assert site.asked == ["/archive", "/latest", "/archive", "/else"]
    assert done.paths == ["/latest", "/else"]
    assert list_owed(tmp_path) == [site.url("/archive")]
    assert (await crawl(tmp_path, [])).paths == ["/archive"]


@pytest.mark.parametrize("seed", [3, 6, 15])  # of 16 seeds 11 lost a text before
async def test_whatever_text_moves_where_each_comes(site: Site, tmp_path: Path, seed: int) -> None:
    """Half of all addresses show another text, some of them one that another address had."""
    draw = random.Random(seed)  # noqa: S311 - reproducible
    paths = [f"/a{number}/x{number}" for number in range(24)]
    shown = {path: draw.randrange(8) for path in paths}

    async def crawl_some(some: int) -> Crawl:
        for number, (path, text) in enumerate(shown.items()):
            html = page(text, title=f"Title of {text}", menu=f"Menu {number}")
            site.answers[path] = Answer(html.encode())
        urls = map(site.url, draw.sample(paths, some))
        return await crawl(tmp_path, urls, CONCURRENT_REQUESTS=4)

    await crawl_some(16)
    shown |= {path: draw.randrange(12) for path in draw.sample(paths, 12)}
    site.asked.clear()
    done = await crawl_some(24)
    assert {shown[path] for path in done.paths} == {*shown.values()}
    assert len(site.asked) == 24 + done.counted["requested_again"]


async def test_another_crawl_may_see_the_change_first(site: Site, tmp_path: Path) -> None:
    """It has no copies to request; to this one the original is unchanged when it comes."""

    class Meeting(PagesSpider):
        async def start(self) -> AsyncIterator[Request]:
            yield Request(site.url("/archive"))
            yield Request(site.url("/else"), self.parse_else, priority=-5)

        async def parse_else(self, _: Response) -> AsyncIterator[Request]:
            other = await crawl(tmp_path, [site.url("/latest")])
            assert other.verdicts["/latest"] == "revisit changed"
            yield Request(site.url("/latest"), priority=-9)

    await crawl(tmp_path, [site.url("/latest")])
    site.answers["/latest"] = CHANGED
    done = await crawl(tmp_path, [], Meeting)
    assert done.paths == ["/latest", "/archive"]
    assert done.verdicts["/latest"] == "revisit unchanged"
    assert done.counted["requested_again"] == 1
