"""Walls in real crawls: logins, "not found" pages that answer 200, and what is like them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import Request
from twisted.python.failure import Failure

from scrapy_simhash import NearDuplicate
from scrapy_simhash.crawl import followers
from scrapy_simhash.signals import sink_found
from scrapy_simhash.stores.opening import open_store
from tests.helpers.commanding import Run
from tests.helpers.crawling import Crawl, FollowingSpider, PagesSpider, crawl
from tests.helpers.pages import make_page, make_words, page
from tests.helpers.server import Answer, Site, serve

pytestmark = pytest.mark.usefixtures("warm_worker")

MEMBERS = 12
# From this one on the site shows its login; the fifth page that does is recognised.
WALL_BEGINS, RECOGNISED = 3, 7


def login(path: str) -> str:
    """Make a login page as sites do: it says where one wanted to go."""
    words = [*make_words(99, 120), "to", "continue", "with", path]
    return make_page(words, title="Log in", links=[path, f"/register?next={path}"])


def members(number: int) -> str:
    return f"/members/{number}"


# Members' pages, of which the first three are shown and the others ask to log in.
ANSWERS = {
    members(n): page(n, title=f"Member {n}") if n < WALL_BEGINS else login(members(n))
    for n in range(MEMBERS)
}


def sinks(done: Crawl) -> list[str]:
    """List the paths of the decisions that name a wall."""
    return [each["url"].partition("/members")[2] for each in done.decisions if each["sink"]]


async def test_a_wall_in_mid_crawl_is_named(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = await crawl(tmp_path, site.urls())
    assert done.paths == [members(n) for n in range(WALL_BEGINS + 1)]
    assert sinks(done) == [f"/{n}" for n in range(RECOGNISED, MEMBERS)]
    assert done.counted["dropped"] == MEMBERS - WALL_BEGINS - 1
    assert done.counted["sink"] == MEMBERS - RECOGNISED
    assert done.counted["sinks_found"] == 1
    assert done.stats["finish_reason"] == "finished"
    (told,) = [r.getMessage() for r in caplog.records if "nothing in common" in r.getMessage()]
    assert repr(site.url(members(WALL_BEGINS))) in told
    assert f"`scrapy simhash undo --sink {site.url(members(WALL_BEGINS))}` lists" in told
    with open_store(str(tmp_path), readonly=True) as store:
        (wall,) = store.list_walls()
        assert wall.title == "Log in"
        assert store.check() == []


async def test_a_wall_in_a_template_that_changes_is_none(tmp_path: Path) -> None:
    """A fifth of each page is an advertisement of its own, which may as well be an entry's text."""
    answers = {
        f"/members/{n}/": make_page(
            make_words(99, 120), title="Log in", menu=" ".join(make_words(1_000 + n, 30))
        )
        for n in range(MEMBERS)
    }
    with serve(answers) as site:
        done = await crawl(tmp_path, site.urls())
    assert done.paths == [*answers]
    assert "sinks_found" not in done.counted


async def test_many_walls_are_counted_but_not_all_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "_MOST_WALLS_NAMED", 2)
    copies = {f"/{wall}-{n}": page(wall) for wall in range(4) for n in range(RECOGNISED)}
    with serve(copies) as site:
        done = await crawl(tmp_path, site.urls())
    assert done.counted["sinks_found"] == 4
    told = [t for t in caplog.messages if "More walls" in t or "nothing in common" in t]
    assert len(told) == 3
    assert "More walls are not named here" in told[2]


class ListeningSpider(PagesSpider):
    """Notes each signal, and each failure that its errback gets."""

    async def start(self) -> AsyncIterator[Request]:
        self.found: list[dict[str, Any]] = []
        self.failures: list[NearDuplicate] = []
        self.crawler.signals.connect(self.wall_found, sink_found)
        async for request in super().start():
            yield request.replace(errback=self.fail)

    async def wall_found(self, **arguments: Any) -> None:
        self.found.append(arguments)

    def fail(self, failure: Failure) -> None:
        assert isinstance(failure.value, NearDuplicate)
        self.failures.append(failure.value)


async def test_signal_and_errback(site: Site, tmp_path: Path) -> None:
    done = await crawl(tmp_path, site.urls(), ListeningSpider)
    (found,) = done.spider.found
    url = site.url(members(RECOGNISED))
    assert (found["response"].url, found["request"].url, found["verdict"]["url"]) == (url,) * 3
    assert found["spider"] is done.spider
    assert found["verdict"]["match_url"] == site.url(members(WALL_BEGINS))
    assert [failure.sink for failure in done.spider.failures] == [False] * 3 + [True] * 5
    assert [failure.verdict["sink"] for failure in done.spider.failures] == [False] * 3 + [True] * 5


@pytest.mark.parametrize("action", ["flag", "ignore-outlinks"])
async def test_drop_drops_walls_under_any_action_and_nothing_else(
    site: Site, tmp_path: Path, action: str
) -> None:
    flagged = await crawl(tmp_path / "other", site.urls(), SIMHASH_ACTION=action)
    assert flagged.paths == [members(n) for n in range(MEMBERS)]
    assert sinks(flagged) == [f"/{n}" for n in range(RECOGNISED, MEMBERS)]
    settings: dict[str, Any] = {"SIMHASH_ACTION": action, "SIMHASH_SINK_ACTION": "drop"}
    *requests, last = site.urls()
    asked = Request(last, meta={"simhash_action": "flag"})
    done = await crawl(tmp_path, [*requests, asked], **settings)
    assert done.paths == [*map(members, range(RECOGNISED)), members(MEMBERS - 1)]
    assert [each["action"] for each in done.decisions if each["sink"]] == ["drop"] * 4 + ["flag"]
    assert done.counted["dropped"] == MEMBERS - RECOGNISED - 1


@pytest.mark.parametrize("how", [False, True, "late"])
async def test_a_wall_gives_no_links(site: Site, tmp_path: Path, how: str | bool) -> None:
    """Those of a document that an earlier crawl kept would be followed once."""
    settings: dict[str, Any] = {"SIMHASH_FOLLOW_NEW_LINKS": how}
    *requests, last = site.urls()
    await crawl(tmp_path, requests, **settings)
    again = await crawl(tmp_path, [last], **settings)
    assert [each["action"] for each in again.decisions] == ["drop"]


@pytest.mark.parametrize("at_once", [1, 16])
async def test_close_ends_the_crawl(site: Site, tmp_path: Path, at_once: int) -> None:
    settings: dict[str, Any] = {"SIMHASH_SINK_ACTION": "close", "CONCURRENT_REQUESTS": at_once}
    settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = at_once
    done = await crawl(tmp_path, site.urls(), **settings)
    assert done.stats["finish_reason"] == "simhash_sink"
    assert "log_count/ERROR" not in done.stats
    with open_store(str(tmp_path), readonly=True) as store:
        assert store.stats()["pending"] == 0
    if at_once == 1:
        assert done.counted["sinks_found"] == 1
        # As long as the wall is there, so does the next crawl.
        again = await crawl(tmp_path, site.urls()[5:], **settings)
        assert again.stats["finish_reason"] == "simhash_sink"
        assert members(MEMBERS - 1) not in site.asked


async def test_walls_of_one_site_end_no_crawl_of_others(tmp_path: Path) -> None:
    copies = {members(n): page(99) for n in range(MEMBERS)}
    settings: dict[str, Any] = {"SIMHASH_SINK_ACTION": "close"}
    with serve({**copies, "/a": page(1), "/b": page(2)}) as site:
        others = [site.url(path).replace("127.0.0.1", "localhost") for path in ("/a", "/b")]
        done = await crawl(tmp_path, [*map(site.url, copies), *others], **settings)
        assert (done.stats["finish_reason"], done.paths[-2:]) == ("finished", ["/a", "/b"])
        # Once it is the only one, it does.
        again = await crawl(tmp_path, list(map(site.url, copies)), **settings)
        assert again.stats["finish_reason"] == "simhash_sink"


async def test_what_close_left_is_crawled_when_the_wall_is_gone(site: Site, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"SIMHASH_SINK_ACTION": "close", "JOBDIR": str(tmp_path / "job")}
    await crawl(tmp_path / "s", site.urls(), **settings)
    before = len(site.asked)
    for number in range(MEMBERS):
        site.answers[members(number)] = Answer(page(number).encode())
    done = await crawl(tmp_path / "s", [], **settings)
    assert done.stats["finish_reason"] == "finished"
    assert done.paths == site.asked[before:]
    assert members(MEMBERS - 1) in done.paths


async def test_commands_show_walls_and_undo_their_drops(
    site: Site, tmp_path: Path, run: Run
) -> None:
    store = tmp_path / "s"
    await crawl(store, site.urls())
    for number, wall in ((0, False), (WALL_BEGINS, True), (MEMBERS - 1, True)):
        done = run("explain", site.url(members(number)), "--store", store)
        assert ("a wall: perhaps a login" in done.out) is wall
    shown = run("stats", "--store", store).out
    wall_shown = shown.partition("\nwalls:\n")[2]
    assert f"  near duplicates: 8\n  url: {site.url(members(WALL_BEGINS))}\n" in wall_shown
    assert f"\n  addresses:\n    {site.url('/')}" in wall_shown
    (stats,) = run("stats", "--store", store, "--json").answers
    assert (stats["sinks"], stats["walls"][0]["near_duplicates"]) == (1, 8)
    assert run("log", "--store", store).out.count(", a wall\n") == MEMBERS - RECOGNISED
    dropped = [site.url(members(n)) for n in range(WALL_BEGINS + 1, MEMBERS)]
    for shows in (WALL_BEGINS, MEMBERS - 1):
        url = site.url(members(shows))
        done = run("undo", "--sink", url, "-o", "urls.txt", "--overwrite", "--store", store)
        assert (done.exit_code, done.err) == (0, f"{len(dropped)} pages listed, nothing undone\n")
        assert done.out.split() == dropped == (tmp_path / "urls.txt").read_text().split()
    (one,) = run("undo", "--sink", *dropped[:2], "--store", store).out.split()
    assert one == dropped[1]
    for url, said in (
        (site.url(members(0)), f"{site.url(members(0))} shows no wall"),
        ("http://no.example/", "http://no.example/ is not in the store"),
    ):
        done = run("undo", "--sink", url, "--store", store)
        assert (done.exit_code, done.out) == (1, "")
        assert said in done.err
    # Nothing passes because of it but what is behind the wall.
    site.answers[members(5)] = Answer(page(5).encode())
    again = await crawl(store, dropped)
    assert again.paths == [members(5)]
    assert {each["sink"] for each in again.decisions if each["status"] != "new"} == {True}


@pytest.mark.parametrize("how", [False, "late"])
async def test_lists_of_one_text_with_rows_of_their_own_are_no_wall(
    tmp_path: Path, how: str | bool
) -> None:
    """Ten galleries differ in nothing but their pictures, and in where these lead."""
    answers = {f"/{n}": page(99, links=["/", f"/{n}/a", f"/{n}/b"]) for n in range(10)}
    rows = [f"/{n}/{row}" for n in range(10) for row in "ab"]
    answers |= {path: page(number) for number, path in enumerate(["/", *rows])}
    answers["/"] = make_page(make_words(98), links=[f"/{n}" for n in range(10)])
    settings: dict[str, Any] = {"SIMHASH_SINK_ACTION": "close", "SIMHASH_FOLLOW_NEW_LINKS": how}
    with serve(answers) as site:
        for turn in range(2):
            done = await crawl(tmp_path, [site.url("/")], FollowingSpider, **settings)
            assert done.stats["finish_reason"] == "finished"
            assert "sink" not in done.counted
            unseen = done.counted.get("links/only_on_dropped_pages", 0)
            # The first one was kept.
            assert (unseen, len(set(rows) - set(done.paths))) == ((0, 0) if how else (18, 18)), turn


@pytest.mark.parametrize("how", [False, "late"])
async def test_links_that_only_pages_of_a_wall_have_are_counted_or_followed(
    tmp_path: Path, how: str | bool
) -> None:
    """Towns with one text, whose own shops are few beside a menu, and that name themselves."""
    menu = ["/", *(f"/menu/{n}" for n in range(20))]
    shops = [f"/shop/{n}-{k}" for n in range(MEMBERS) for k in range(3)]
    answers = {
        f"/town{n}/": page(99, links=[*menu, f"/town{n}/", *shops[3 * n : 3 * n + 3]])
        for n in range(MEMBERS)
    }
    answers |= {path: page(number) for number, path in enumerate([*menu, *shops])}
    answers["/"] = make_page(make_words(98), links=[*menu, *(f"/town{n}/" for n in range(MEMBERS))])
    settings: dict[str, Any] = {"SIMHASH_FOLLOW_NEW_LINKS": how}
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url("/")], FollowingSpider, **settings)
    assert len(sinks(done)) == MEMBERS - 4
    unseen = done.counted.get("links/only_on_dropped_pages", 0)
    lost = 0 if how else len(shops) - 3
    assert (unseen, len(set(shops) - set(done.paths))) == (lost, lost)


async def test_soft_404(tmp_path: Path) -> None:
    """Pages that are gone answer 200, beside others that are there."""
    gone = make_page(make_words(98, 100), title="Page not found")
    answers = {f"/shop/{name}/{n}": gone for name in ("shoes", "hats") for n in range(6)}
    answers |= {f"/shop/{n}.html": page(n) for n in range(5)}
    with serve(answers) as site:
        done = await crawl(tmp_path, site.urls())
    assert len(done.paths) == 1 + 5
    assert done.counted["sinks_found"] == 1
    # /shop/shoes/0 and /shop/hats/0 have a last segment in common: six unlike addresses in all.
    assert done.counted["sink"] == 8


async def test_a_short_login_with_a_secret_of_each_answer(tmp_path: Path) -> None:
    form = "<form action=/login>Name <input name=name><input type=hidden name={} value={}></form>"
    for folder, name, seen in (("secret", "csrf_token", 8), ("asked", "wanted", 0)):
        answers = {
            members(n): f"<html><body>{form.format(name, f'{n}f8Kx3vPzq0wQ2bH7')}</body></html>"
            for n in range(MEMBERS)
        }
        with serve(answers) as site:
            done = await crawl(tmp_path / folder, site.urls())
        assert done.counted.get("sink", 0) == seen
        assert len(done.paths) == (1 if seen else MEMBERS)


async def test_a_redirect_to_a_login_page(tmp_path: Path) -> None:
    """The address of each login page is alike, and those that were asked for are not."""
    answers: dict[str, Answer | str] = {
        members(n): Answer(location=f"/login?next={members(n)}") for n in range(MEMBERS)
    }
    answers |= {f"/login?next={members(n)}": login(members(n)) for n in range(MEMBERS)}
    with serve(answers) as site:
        done = await crawl(tmp_path, [site.url(members(n)) for n in range(MEMBERS)])
    assert [each["sink"] for each in done.decisions] == [False] * 4 + [True] * 8


async def test_an_article_that_names_its_address_is_no_wall(tmp_path: Path) -> None:
    """Titles under which a wiki shows one page, which says where it belongs."""
    canonical = '<link rel="canonical" href="/wiki/Fire"></head>'
    article = page(1).replace("</head>", canonical)
    with serve({f"/wiki/{name}": article for name in "abcdefghij"}) as site:
        done = await crawl(tmp_path, site.urls())
    assert done.counted["dropped"] == 9
    assert "sinks_found" not in done.counted


class PatientSpider(PagesSpider):
    """The recipe of the documentation: logs in again, and asks again."""

    site: Site

    async def start(self) -> AsyncIterator[Request]:
        async for request in super().start():
            yield request.replace(errback=self.wait)

    def wait(self, failure: Failure) -> Request | None:
        dropped = failure.value
        if not (isinstance(dropped, NearDuplicate) and dropped.sink):
            return None
        request = dropped.response.request
        assert request is not None
        number = int(request.url.rpartition("/")[2])
        self.site.answers[members(number)] = Answer(page(number).encode())
        return get_retry_request(request, spider=self, reason="wall")


async def test_an_errback_may_wait_and_ask_again(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientSpider, "site", site, raising=False)
    settings: dict[str, Any] = {"RETRY_TIMES": 1}
    done = await crawl(tmp_path, site.urls(), PatientSpider, **settings)
    assert {members(n) for n in range(RECOGNISED, MEMBERS)} <= set(done.paths)
    assert done.counted["sink"] == MEMBERS - RECOGNISED
    assert done.stats["retry/count"] == MEMBERS - RECOGNISED
