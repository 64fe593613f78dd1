"""Links of near-duplicates that lead to new pages: counted, followed at once or late."""

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Request, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_simhash.crawl import links, owed
from scrapy_simhash.crawl.places import DroppedPage, KnownLinks
from scrapy_simhash.judging.rows import Why
from scrapy_simhash.stores.opening import open_store
from tests.helpers.crawling import Crawl, FollowingSpider, PagesSpider, crawl, describe, path_of
from tests.helpers.owing import list_owed
from tests.helpers.pages import page
from tests.helpers.server import Answer, Site, serve

pytestmark = pytest.mark.usefixtures("warm_worker")

LATE: dict[str, Any] = {"SIMHASH_FOLLOW_NEW_LINKS": "late"}
ONLY, REQUESTED = "links/only_on_dropped_pages", "links/requested_late"

# Three pages of a list whose text is the same, and a print view. Only dropped pages lead to c, d
# and to the third page, and only that one to e.
ANSWERS = {
    "/list?page=1": page(1, links=["/a", "/b", "/list?page=2", "/print"]),
    "/list?page=2": page(1, links=["/a", "/b", "/c", "/d", "/list?page=3"]),
    "/list?page=3": page(1, links=["/a", "/b", "/e"]),
    "/print": page(1, links=["/a", "/b", "/list?page=2"]),
    "/a": page(10, links=["/b"]),
    "/b": page(11, links=["/a"]),
    "/c": page(12, links=["/f"]),
    "/d": page(13, links=["/a"]),
    "/e": page(14),
    "/f": page(15),
}
LOST = ["/c", "/d", "/list?page=3"]
DOCUMENTS = {"/list?page=1", "/a", "/b", "/c", "/d", "/e", "/f"}


async def crawl_list(store: Path, site: Site, **settings: Any) -> Crawl:
    return await crawl(store, [site.url("/list?page=1")], FollowingSpider, **settings)


def list_kept(store: Path, site: Site) -> list[str]:
    """List the links whose requests the store keeps, without their host."""
    with open_store(str(store), readonly=True) as opened:
        return sorted(row.url.removeprefix(site.root) for row in list_owed(opened, Why.LINK))


async def test_a_loss_is_seen(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "scrapy_simhash")
    done = await crawl_list(tmp_path, site)
    assert set(done.paths) == {"/list?page=1", "/a", "/b"}
    assert done.counted[ONLY] == len(LOST)
    assert REQUESTED not in done.counted
    assert list_kept(tmp_path, site) == []
    told = f"; 3 links of near-duplicates stayed unseen, on '{site.url('/list?page=2')}' ("
    assert told in caplog.records[-1].getMessage()
    assert "SIMHASH_FOLLOW_NEW_LINKS = 'late' follows them); " in caplog.records[-1].getMessage()
    assert caplog.records[-1].levelno == logging.WARNING
    for link in LOST:
        assert f"link on '{site.url('/list?page=2')}': '{site.url(link)}'" in caplog.text


@pytest.mark.parametrize(
    ("allowed", "unseen"), [((), 1), (("127.0.0.1", "elsewhere.example"), 1), (("127.0.0.1",), 0)]
)
async def test_links_to_other_hosts_are_lost_unless_the_spider_stays_on_its_own(
    tmp_path: Path, allowed: tuple[str, ...], unseen: int
) -> None:
    answers = {
        "/list": page(1, links=["/a", "/copy"]),
        "/copy": page(1, links=["/a", "http://elsewhere.example/"]),
        "/a": page(2),
    }
    with serve(answers) as site:
        spider = type("Staying", (FollowingSpider,), {"allowed_domains": list(allowed)})
        done = await crawl(tmp_path, [site.url("/list")], spider)
    assert done.counted.get(ONLY, 0) == unseen


async def test_they_are_requested_when_there_is_nothing_else_to_do(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "scrapy_simhash")
    done = await crawl_list(tmp_path, site, **LATE)
    assert set(done.paths) == DOCUMENTS
    # The third page of the list was dropped, too, and its link came with the next idle moment.
    assert done.counted[REQUESTED] == len(LOST) + 1
    assert ONLY not in done.counted
    assert "unseen" not in caplog.text
    assert "requested 4 links of dropped pages late" in caplog.records[-1].getMessage()
    assert list_kept(tmp_path, site) == []
    assert len(site.asked) == len(set(site.asked)) == len(ANSWERS)
    late = site.asked.index("/c")
    assert {"/a", "/b", "/list?page=2", "/print"} <= set(site.asked[:late])


async def test_flagging_says_what_dropping_would_lose(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is behind a link of a flagged page leads nobody there."""
    caplog.set_level(logging.INFO, "scrapy_simhash")
    done = await crawl_list(tmp_path, site, SIMHASH_ACTION="flag")
    assert set(done.paths) == set(ANSWERS)
    said = f"dropping them would leave 3 links unseen, on '{site.url('/list?page=2')}' ("
    assert said in caplog.records[-1].getMessage()
    assert caplog.records[-1].levelno == logging.WARNING


@pytest.mark.parametrize(("links", "unseen"), [([], 2), (["/b#part"], 1), (["/b", "/c"], 0)])
async def test_flagging_and_dropping_find_the_same_links(
    tmp_path: Path, links: list[str], unseen: int
) -> None:
    """Those that kept pages have, however late these come, and none that is reached by others."""
    answers = {
        "/list": page(1, links=["/copy", "/a"]),
        "/copy": page(1, links=["/b", "/c", "/list"]),
        "/a": page(2, links=["/d"]),
        "/b": page(3, links=["/b", "/a"]),
        "/c": page(4, links=["/b", "/c"]),
        "/d": page(5, links=["/a", *links]),
    }
    with serve(answers) as site:
        urls = [site.url("/list")]
        flagged = await crawl(tmp_path / "1", urls, FollowingSpider, SIMHASH_ACTION="flag")
        dropped = await crawl(tmp_path / "2", urls, FollowingSpider)
    assert set(flagged.paths) == set(answers)
    assert flagged.counted.get(ONLY, 0) == dropped.counted.get(ONLY, 0) == unseen


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"SIMHASH_ACTION": "flag"}, LOST),
        ({"SIMHASH_ACTION": "ignore-outlinks"}, LOST),
        # Of the links of the third page of the list, only one in three is new.
        ({"SIMHASH_FOLLOW_NEW_LINKS": True}, ["/e"]),
        ({"SIMHASH_FOLLOW_NEW_LINKS": True, "SIMHASH_ACTION": "ignore-outlinks"}, ["/e"]),
    ],
)
async def test_what_is_lost_under_other_settings(
    site: Site, tmp_path: Path, settings: dict[str, Any], kept: list[str]
) -> None:
    done = await crawl_list(tmp_path, site, **settings)
    assert done.counted.get(ONLY, 0) == len(kept)
    told = {each["url"].rpartition("/")[2]: each["new_links"] for each in done.decisions}
    assert (told["list?page=2"], told["print"]) == (0.6, 0.0)
    follows = "SIMHASH_FOLLOW_NEW_LINKS" in settings
    assert ("/c" in done.paths) == (follows or settings["SIMHASH_ACTION"] == "flag")
    # Under `drop` the items of a page whose links are followed are dropped, and only these.
    passes = settings.get("SIMHASH_ACTION", "drop") != "drop"
    assert ("/list?page=2" in done.paths) == passes
    assert done.counted.get("items_dropped", 0) == (not passes)


async def test_what_the_bound_leaves_stays_owed(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the spider's next crawl makes it, though nothing leads it to the dropped page."""
    with monkeypatch.context() as bounded:
        bounded.setattr(owed, "MOST_LATE", 1)
        done = await crawl_list(tmp_path, site, **LATE)
    assert done.counted[REQUESTED] == 1
    left = list_kept(tmp_path, site)
    assert done.counted["owed/link"] == len(left) >= len(LOST) - 1
    again = await crawl(tmp_path, [site.url("/a")], FollowingSpider, **LATE)
    assert set(done.paths) | set(again.paths) == DOCUMENTS
    assert list_kept(tmp_path, site) == []


async def test_a_list_without_end_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page has the text of the first one, and leads to pages that nobody has seen."""
    monkeypatch.setattr(owed, "MOST_LATE_OF_HOST", 20)

    class Endless(dict[str, Answer]):
        def get(self, path: str, default: Any = None) -> Any:
            links = [f"{path}/{number}" for number in range(3)] if path else default
            return Answer(page(1, links=links).encode())

    with serve({}) as site:
        site.answers = Endless()
        done = await crawl(tmp_path, [site.url("/x")], FollowingSpider, **LATE)
        assert len(site.asked) == 1 + 3 + 20, site.asked
        assert done.counted["owed/link"] == len(list_kept(tmp_path, site)) > 20
    assert done.stats["finish_reason"] == "finished"


async def test_a_page_that_fails_counts_as_requested(tmp_path: Path) -> None:
    """The store does not know it, and no page that was kept links to it."""
    answers = {
        "/one": page(1, links=["/copy", "/a"]),
        "/copy": page(1, links=["/gone", "/a"]),
        "/a": page(2),
    }
    with serve(answers) as site:
        urls = [site.url("/gone"), site.url("/one")]
        done = await crawl(tmp_path, urls, FollowingSpider)
    assert ONLY not in done.counted


async def test_a_readonly_crawl_writes_nothing_and_follows_them_at_once(
    site: Site, tmp_path: Path
) -> None:
    await crawl(tmp_path, [site.url("/list?page=1")], FollowingSpider, DEPTH_LIMIT=1)
    done = await crawl_list(tmp_path, site, SIMHASH_READONLY=True, **LATE)
    assert set(done.paths) == DOCUMENTS
    assert list_kept(tmp_path, site) == []


def make_mirror(**extra: list[str]) -> dict[str, str]:
    """Make a site of eight pages that link to each other, and its mirror."""
    names = [f"p{number}" for number in range(8)]

    def links(place: str, name: str) -> list[str]:
        others = [f"{place}/{other}" for other in names if other != name]
        return [*others, f"{place}/only-{name}"]

    pages = {f"/{name}": page(20 + n, links=links("", name)) for n, name in enumerate(names)}
    pages["/p0"] = page(20, links=[*links("", "p0"), "/mirror/p0"])
    mirror = {
        f"/mirror/{name}": page(20 + n, links=[*links("/mirror", name), *extra.get(name, [])])
        for n, name in enumerate(names)
    }
    only = {f"/only-{name}": page(40 + n) for n, name in enumerate(names)}
    copies = {f"/mirror{path}": text for path, text in only.items()}
    return pages | mirror | only | copies


BREADTH_FIRST = {
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}


@pytest.mark.parametrize("order", [BREADTH_FIRST, {}], ids=["breadth", "depth"])
async def test_a_mirror_is_not_crawled_by_this_door(tmp_path: Path, order: dict[str, Any]) -> None:
    """Depth first, its pages come before those of the site, which are dropped for them."""
    # The site links to some pages of the mirror, and one of these to a page that is only there.
    answers = make_mirror(p1=["/mirror/extra"]) | {"/mirror/extra": page(60)}
    entries = [f"/mirror/p{number}" for number in range(6)]
    answers["/p7"] = page(27, links=["/p0", "/only-p7", *entries])
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url("/p0")], FollowingSpider, **LATE, **order)
        asked = set(site.asked)
    assert "/mirror/extra" in asked
    assert ONLY not in done.counted
    # Three of the links that are known by the other place only, and some more by chance, are
    # followed to find out whether their pages are the same.
    sampled = done.counted[REQUESTED] - bool(order)
    assert sampled in range(3, 8)
    if order:
        mirrored = {path for path in asked if path.startswith("/mirror/")}
        assert len(mirrored - {*entries, "/mirror/extra"}) == sampled
        assert done.counted["links/known_elsewhere"] in range(5, 10)


def make_editions() -> dict[str, str]:
    """Make two editions whose lists are the same, and the sections behind them are not."""
    answers = {"/": page(90, links=["/v1/index.html", "/v2/index.html"])}
    for edition in (1, 2):
        lists = [f"/v{edition}/c{chapter}/index.html" for chapter in range(8)]
        answers[f"/v{edition}/index.html"] = page(91, links=lists)
        for chapter, path in enumerate(lists):
            sections = [f"/v{edition}/c{chapter}/s{number}.html" for number in range(4)]
            answers[path] = page(100 + chapter, links=sections)
            for number, section in enumerate(sections):
                answers[section] = page(100 + 100 * edition + 4 * chapter + number)
    return answers


async def test_a_new_edition_whose_lists_are_old_is_crawled(tmp_path: Path) -> None:
    """Five lists and more are the same in both places, and so is the page of contents."""
    answers = make_editions()
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url("/")], FollowingSpider, **LATE, **BREADTH_FIRST)
    assert {path for path in answers if "/s" in path} <= set(done.paths)
    assert "links/known_elsewhere" not in done.counted


async def test_what_a_crawl_left_out_when_it_was_stopped_stays_owed(tmp_path: Path) -> None:
    """Nobody knows what its sample would have brought."""
    with serve(make_editions()) as site:
        stopped = {"CLOSESPIDER_PAGECOUNT": 20, **LATE, **BREADTH_FIRST}
        done = await crawl(tmp_path, [site.url("/")], FollowingSpider, **stopped)
        again = await crawl(tmp_path, [site.url("/")], FollowingSpider, **LATE, **BREADTH_FIRST)
        sections = {path for path in site.answers if "/s" in path}
    assert not sections <= set(done.paths)
    assert sections <= {*done.paths, *again.paths}


async def test_links_beyond_those_in_memory_are_made(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_MOST_REMEMBERED", 1)
    done = await crawl_list(tmp_path, site, **LATE)
    assert set(done.paths) == DOCUMENTS


@pytest.mark.parametrize("how", [False, "late"])
async def test_the_event_loop_does_not_settle_links(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str | bool
) -> None:
    threads = set[threading.Thread]()

    class Watched(KnownLinks):
        def sort(self, pages: Sequence[DroppedPage]) -> Any:
            threads.add(threading.current_thread())
            return super().sort(pages)

    monkeypatch.setattr(links, "KnownLinks", Watched)
    await crawl_list(tmp_path, site, SIMHASH_FOLLOW_NEW_LINKS=how)
    assert threads
    assert threading.main_thread() not in threads


async def test_what_another_spider_fetched_is_unseen_by_this_one(
    site: Site, tmp_path: Path
) -> None:
    other = type("Other", (PagesSpider,), {"name": "other"})
    await crawl(tmp_path, list(map(site.url, LOST)), other)
    done = await crawl_list(tmp_path, site)
    assert done.counted[ONLY] == len(LOST)


class ShopSpider(PagesSpider):
    """Follows the links of lists; of items, which show others, only those to reviews."""

    name = "shop"

    def parse(self, response: Response) -> Iterator[Any]:
        for link in response.css("a::attr(href)").getall():
            item = link.startswith("/item")
            yield Request(response.urljoin(link), self.parse_item if item else None)

    def parse_item(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        yield Request(response.urljoin("/review"), self.parse_review)

    def parse_review(self, response: Response) -> Iterator[Any]:
        yield describe(response)


class ShopInOneSpider(FollowingSpider):
    """The same with one callback."""

    name = "shop"

    def parse(self, response: Response) -> Iterator[Any]:
        yield from [describe(response)] if "/item" in response.url else super().parse(response)


@pytest.mark.parametrize("spider", [ShopSpider, ShopInOneSpider])
@pytest.mark.parametrize("late", [False, True])
async def test_what_a_page_shows_and_its_callback_does_not_follow_is_not_known(
    tmp_path: Path, spider: type[PagesSpider], *, late: bool
) -> None:
    related = ["/item/5", "/item/6"]
    answers = {
        "/list?1": page(1, links=["/item/1", "/item/2", "/list?2"]),
        "/list?2": page(1, links=related),
        **{f"/item/{n}": page(10 + n, links=[*related, "/review"]) for n in (1, 2, 5, 6)},
        "/review": page(20),
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url("/list?1")], spider, **(LATE if late else {}))
        asked = set(site.asked)
    assert set(related) <= asked if late else asked.isdisjoint(related)
    assert done.counted.get(ONLY, 0) == (0 if late else 2)
    assert (REQUESTED in done.counted) == late


async def test_what_a_callback_leaves_out_of_a_page_that_it_follows_is_known(
    tmp_path: Path,
) -> None:
    """Or else somebody would be warned of each list for its login."""
    answers = {
        "/list?1": page(1, links=["/a", "/list?2", "/c"]),
        "/list?2": page(1, links=["/a", "/c"]),
        "/a": page(2),
    }

    class Leaving(FollowingSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            links = response.css("a:not([href='/c'])::attr(href)").getall()
            yield from response.follow_all(links)

    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url("/list?1")], Leaving)
    assert ONLY not in done.counted


class SteppingSpider(PagesSpider):
    """Follows the last link of each page."""

    name = "stepping"

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(response.css("a::attr(href)").getall()[-1:])


@pytest.mark.parametrize("settings", [{}, {"SIMHASH_ACTION": "flag"}, LATE])
@pytest.mark.parametrize(
    ("form", "names"), [("/at?day={}", "abcde"), ("/at/{}.html", "abcde"), ("/{}/at", "23456")]
)
async def test_links_that_a_callback_would_come_to_step_by_step_are_not_known(
    tmp_path: Path, form: str, names: str, settings: dict[str, Any]
) -> None:
    """Each page shows all, but its callback follows only the next one; the second is a copy."""
    chain = [form.format(name) for name in names]
    answers = {
        path: page(max(n, 1), links=[*chain, *chain[n + 1 :][:1]]) for n, path in enumerate(chain)
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url(chain[0])], SteppingSpider, **settings)
        assert site.asked == (chain if settings else chain[:2])
    assert done.counted.get(ONLY, 0) == (0 if settings is LATE else 3)


async def test_a_spider_that_follows_no_links_loses_none(site: Site, tmp_path: Path) -> None:
    done = await crawl(tmp_path, list(map(site.url, ("/list?page=1", "/list?page=2"))))
    assert done.counted["dropped"] == 1
    assert ONLY not in done.counted


class AskingAgainSpider(PagesSpider):
    """Asks for one address on each page of a list, past the filter, and twice for others."""

    name = "asking"

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        told = {"of": path_of(response.url)}
        yield Request(response.urljoin("/api"), self.parse_api, dont_filter=True, cb_kwargs=told)
        for link in response.css("a::attr(href)").getall():
            yield Request(response.urljoin(link))
            again = {"of": link}
            if "list" not in link:
                url = response.urljoin(link)
                yield Request(url, self.parse_api, dont_filter=True, cb_kwargs=again)

    def parse_api(self, response: Response, of: str) -> Iterator[Any]:
        yield {**describe(response), "of": of}


async def test_requests_past_the_filter_do_not_wait(tmp_path: Path) -> None:
    answers: dict[str, Answer | str | bytes] = {
        "/list?1": page(1, links=["/a", "/list?2"]),
        "/list?2": page(1, links=["/b"]),
        "/api": Answer(b"{}", content_type="application/json"),
        "/a": page(2),
        "/b": page(3),
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url("/list?1")], AskingAgainSpider, **LATE)
    assert "/list?2" not in done.paths
    got = {(item["path"], item.get("of", "")) for item in done.items}
    assert got >= {("/api", "/list?1"), ("/api", "/list?2"), ("/b", ""), ("/b", "/b")}


@pytest.mark.parametrize("waves", [1, 2])
@pytest.mark.parametrize("jobdir", [False, True])
async def test_a_late_link_that_was_not_answered_stays_owed(
    tmp_path: Path, *, waves: int, jobdir: bool
) -> None:
    """And a later run makes it, whose duplicate filter has met it."""
    answers = ANSWERS | ({"/d": page(13, links=["/list?page=1&x"])} if waves > 1 else {})
    answers["/list?page=1&x"] = page(1, links=["/g"])
    answers["/g"] = page(16)
    job = {"JOBDIR": str(tmp_path / "job")} if jobdir else {}
    settings = {**LATE, **job, "RETRY_ENABLED": False}
    with serve(answers) as site:
        site.answers["/c"] = Answer(b"", status=503)
        store = tmp_path / "store"
        await crawl_list(store, site, **settings)
        assert list_kept(store, site) == ["/c"]
        site.answers["/c"] = Answer(page(12).encode())
        done = await crawl(store, [site.url("/a")], FollowingSpider, **settings)
        assert "/c" in done.paths
        assert list_kept(store, site) == []


class BreakingSpider(FollowingSpider):
    """Fails on one page."""

    name = FollowingSpider.name

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/c"):
            raise ValueError("as a callback may")
        yield from super().parse(response)


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
async def test_a_late_link_whose_callback_fails_stays_owed(tmp_path: Path, kind: str) -> None:
    """Also if nobody judges its page."""
    with serve(ANSWERS) as site:
        site.answers["/c"] = Answer(page(12).encode(), content_type=kind)
        urls = [site.url("/list?page=1")]
        await crawl(tmp_path, urls, BreakingSpider, **LATE)
        assert site.asked.count("/c") == 1
        assert list_kept(tmp_path, site) == ["/c"]


class SkippingSpider(PagesSpider):
    """Exempts all but lists from being judged."""

    name = "skipping"

    def parse(self, response: Response) -> Iterator[Any]:
        for link in response.css("a::attr(href)").getall():
            yield Request(response.urljoin(link), meta={"simhash_skip": "list" not in link})


async def test_a_late_link_that_nobody_judges_is_made_once(site: Site, tmp_path: Path) -> None:
    await crawl(tmp_path, [site.url("/list?page=1")], SkippingSpider, **LATE)
    assert site.asked.count("/c") == 1
    assert list_kept(tmp_path, site) == []


class CompletingSpider(PagesSpider):
    """Has all links of a list complete one item."""

    name = "completing"

    def parse(self, response: Response) -> Iterator[Any]:
        links = response.css("a::attr(href)").getall()
        parts: list[str] = []
        for link in links:
            needed = {"parts": parts, "number": len(links) - 1}
            url = response.urljoin(link)
            is_list = "list" in link
            yield Request(url) if is_list else Request(url, self.parse_part, cb_kwargs=needed)

    def parse_part(self, response: Response, parts: list[str], number: int) -> Iterator[Any]:
        parts.append(path_of(response.url))
        if len(parts) == number:
            yield {"path": " ".join(sorted(parts))}


async def test_late_requests_share_their_arguments_as_others_do(tmp_path: Path) -> None:
    answers = {
        "/list?1": page(1, links=["/a", "/b", "/list?2"]),
        "/list?2": page(1, links=["/c", "/d", "/list?1"]),
        **{f"/{name}": page(10 + n) for n, name in enumerate("abcd")},
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url("/list?1")], CompletingSpider, **LATE)
    assert done.counted[REQUESTED] == 2
    assert done.paths == ["/a /b", "/c /d"]


async def test_links_that_scrapy_turns_away_do_not_use_up_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To other domains, or by robots.txt, which may change; what got no page is tried last."""
    monkeypatch.setattr(owed, "MOST_LATE", 3)
    others = [f"http://elsewhere.example/{number}" for number in range(10)]
    excluded = [f"/no/{number}" for number in range(3)]
    failing = [f"/failing/{number}" for number in range(3)]
    answers: dict[str, Answer | str | bytes] = {
        "/robots.txt": Answer(b"User-agent: *\nDisallow: /no\n", content_type="text/plain"),
        "/list?1": page(1, links=["/a", "/list?2"]),
        "/list?2": page(1, links=[*others, "/b", "/c", "/d", *excluded, *failing]),
        **{f"/{name}": page(10 + n) for n, name in enumerate("abcd")},
        **dict.fromkeys(failing, Answer(status=503)),
    }
    settings = LATE | {"ROBOTSTXT_OBEY": True}
    local = type("Local", (FollowingSpider,), {"allowed_domains": ["127.0.0.1"]})
    with serve(answers) as site:
        urls = [site.url("/list?1")]
        paths: list[str] = []
        for _ in range(3):
            done = await crawl(tmp_path, urls, local, **settings)
            paths += done.paths
            urls = [site.url("/a")]
        assert {"/b", "/c", "/d"} <= set(paths)
        assert set(list_kept(tmp_path, site)) == {*excluded, *failing}


async def test_what_another_spider_got_is_still_owed(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as bounded:
        bounded.setattr(owed, "MOST_LATE", 1)
        first = await crawl_list(tmp_path, site, **LATE)
    left = list_kept(tmp_path, site)
    other = type("Other", (PagesSpider,), {"name": "other"})
    await crawl(tmp_path, [site.url(path) for path in left], other)
    again = await crawl(tmp_path, [site.url("/a")], FollowingSpider, **LATE)
    assert set(first.paths) | set(again.paths) >= DOCUMENTS


async def test_jobdir_goes_on_with_what_was_lost_before(site: Site, tmp_path: Path) -> None:
    settings = {**LATE, "JOBDIR": str(tmp_path / "job")}
    first = await crawl_list(tmp_path, site, CLOSESPIDER_PAGECOUNT=4, **settings)
    assert first.stats["finish_reason"] == "closespider_pagecount"
    assert "/c" not in site.asked
    second = await crawl_list(tmp_path, site, **settings)
    assert set(first.paths) | set(second.paths) == DOCUMENTS
    assert len(site.asked) == len(set(site.asked)), "a page was fetched twice"
    assert list_kept(tmp_path, site) == []


class RuledSpider(CrawlSpider):
    """Follows lists without a callback, and documents with one."""

    name = "ruled"
    rules = (
        Rule(LinkExtractor(allow=r"/list\?page=", deny=r"print")),
        Rule(LinkExtractor(r"/documents/", (r"/no", r"\.pdf")), "parse_document", follow=True),
    )

    def parse_document(self, response: Response) -> Iterator[Any]:
        yield describe(response)


async def test_requests_are_like_those_of_the_spider(tmp_path: Path) -> None:
    """Each link gets the callback and the rule that links like it had; filters hold."""
    answers = {
        "/list?page=1": page(1, links=["/documents/a", "/documents/b", "/list?page=2"]),
        "/list?page=2": page(1, links=["/documents/c", "/print", "/list?page=3"]),
        "/list?page=3": page(1, links=["/documents/d", "/documents/no", "/documents/x.pdf"]),
        **{f"/documents/{name}": page(10 + n) for n, name in enumerate("abcd")},
    }
    with serve(answers) as site:
        starts = {"start_urls": [site.url("/list?page=1")]}
        spider = type("Ruled", (RuledSpider,), starts)
        done = await crawl(tmp_path, (), spider, **LATE)
        assert set(site.asked) == set(answers)
    assert sorted(done.paths) == [f"/documents/{name}" for name in "abcd"]
    assert "log_count/ERROR" not in done.stats


class ToldSpider(PagesSpider):
    """Tells each callback something of the page that led there, and leaves out some links."""

    name = "told"

    def parse(self, response: Response, title: str = "") -> Iterator[Any]:
        yield {**describe(response), "title": title}
        for number, link in enumerate(response.css("a::attr(href)").getall()):
            if link != "/d":
                told = {"title": f"{number} of {path_of(response.url)}"}
                headers = {"Authorization": "secret"} if link == "/c" else {"X-Key": "k"}
                yield Request(response.urljoin(link), cb_kwargs=told, headers=headers)


async def test_what_waits_is_the_request_that_the_spider_made(site: Site, tmp_path: Path) -> None:
    """With arguments, headers and cookies of its own; what its callback leaves out is not made."""
    done = await crawl(tmp_path, [site.url("/list?page=1")], ToldSpider, **LATE)
    titles = {item["path"]: item["title"] for item in done.items}
    assert titles["/c"] == "2 of /list?page=2"
    assert titles["/e"] == "2 of /list?page=3"
    assert "/d" not in site.asked
    assert done.counted[REQUESTED] == len(LOST)


async def test_the_limit_of_the_depth_holds(tmp_path: Path) -> None:
    answers = {
        "/one": page(1, links=["/copy", "/a"]),
        "/copy": page(1, links=["/b", "/a"]),
        "/a": page(2),
        "/b": page(3, links=["/too/deep"]),
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url("/one")], FollowingSpider, DEPTH_LIMIT=2, **LATE)
        assert set(site.asked) == set(answers)
    assert done.counted[REQUESTED] == 1
