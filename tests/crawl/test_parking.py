"""Requests that URL rules lead to a known page: parked, sampled, released, checked."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec import structs
from scrapy import Spider
from scrapy.http import Request, Response
from scrapy.http.request import NO_CALLBACK
from scrapy.link import Link
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from twisted.python.failure import Failure

from scrapy_simhash.crawl import followers, owed, parking
from scrapy_simhash.crawl.policy import find_reader
from scrapy_simhash.detector.detector import Detector
from scrapy_simhash.judging.documents import Reader
from scrapy_simhash.judging.rows import Owed, Sink, Why, Witness, pack_row
from scrapy_simhash.judging.sinks import WITNESSES
from scrapy_simhash.stores.documents import Documents
from scrapy_simhash.stores.opening import open_store
from scrapy_simhash.stores.owed import put
from scrapy_simhash.stores.rulebook import Form, RuleAction, note_form
from scrapy_simhash.stores.store import Store
from scrapy_simhash.urls.applying import name_form
from scrapy_simhash.urls.rules import RuleState, UrlRule, parse_rule
from tests.crawl.test_kills import mend_job
from tests.helpers.crawling import (
    Crawl,
    FollowingSpider,
    PagesSpider,
    crawl,
    describe,
    path_of,
    read_lines,
)
from tests.helpers.crawlscript import finish_crawl, start_crawl
from tests.helpers.owing import list_owed
from tests.helpers.pages import make_page, make_words, page
from tests.helpers.parking import prove as let_act
from tests.helpers.parking import read_rule
from tests.helpers.processes import wait_until
from tests.helpers.server import Answer, Site

pytestmark = pytest.mark.usefixtures("warm_worker")

PAGES = 8
SKIP: dict[str, Any] = {"SIMHASH_URL_RULES": "skip"}


PATHS = [f"/a/p{number}" for number in range(PAGES)]


def session_of(path: str) -> str:
    return f"{path}?sid=s{path[-1]}"


SESSIONS = list(map(session_of, PATHS))
# Pages of one directory; each links to itself with a session, and to the next one.
ANSWERS = {
    shown: page(
        n, links=[session_of(path), *PATHS[n + 1 : n + 2]], menu="Menu" + "s" * (shown != path)
    )
    for n, path in enumerate(PATHS)
    for shown in (path, session_of(path))
}


@pytest.fixture
def no_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the first requests of a rule are sampled."""
    monkeypatch.setattr(parking, "_FIRST_SAMPLED", 0)


@pytest.fixture(autouse=True)
def no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request is sampled by chance."""
    monkeypatch.setattr(parking, "SAMPLE_SHARE", 0.0)
    monkeypatch.setattr(parking, "_MOST_CHECKED", 0)


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch, no_sample: None) -> None:
    """At the end of a crawl some requests are checked, as always."""
    del no_sample
    monkeypatch.setattr(parking, "_MOST_CHECKED", 1_000)


def open_here(folder: Path) -> Store:
    return open_store(str(folder), 7, confirm=0.8)


def pin(folder: Path, site: Site, kind: str = "drop-parameter sid") -> UrlRule:
    """Make a store with a rule that acts from the beginning."""
    rule = parse_rule(f"{site.root.removeprefix('http://')} {kind}")
    with open_here(folder) as store:
        store.add_url_rules([rule])
        store.change_url_rule(rule.id, "pin")
    return rule


def prove(folder: Path, site: Site, spider: str = "following") -> UrlRule:
    """Make a store with a rule that acts until a page speaks against it, as all forms voted."""
    rule = pin(folder, site)
    names = [name_form(site.url(path), Reader(spider, "parse")) for path in PATHS]

    def work(stored: Documents) -> None:
        for name in names:
            note_form(stored, name, Form(0, (rule.id,)))

    with open_here(folder) as store:
        let_act(store, rule, "/a/*")
        store.write(work)
    return rule


def list_parked(folder: Path) -> list[str]:
    with open_here(folder) as store:
        assert store.check() == []
        return sorted(path_of(each.url) for each in list_owed(store, Why.PARKED))


async def follow(folder: Path, site: Site, **settings: Any) -> Crawl:
    return await crawl(folder, [site.url(PATHS[0])], FollowingSpider, **SKIP | settings)


def closing_line(caplog: pytest.LogCaptureFixture) -> str:
    return [text for text in caplog.messages if "decisions in" in text][-1]


async def test_requests_for_known_pages_are_not_made(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    rule = pin(tmp_path, site)
    done = await follow(tmp_path, site)
    made, parked = SESSIONS[:3], sorted(SESSIONS[3:])  # the first three are always made
    assert sorted(site.asked) == sorted([*PATHS, *made])
    assert done.paths == PATHS
    assert list_parked(tmp_path) == parked
    lines = [line for line in done.decisions if line["status"] == "not_fetched"]
    assert sorted(path_of(line["url"]) for line in lines) == parked
    for line in lines:
        assert line["match_url"] == line["url"].partition("?")[0]
        assert line["rule"] == rule.text
        assert line["crawl"]
        assert line["match_document"]
    counted = {key: n for key, n in done.counted.items() if key.startswith("urls/")}
    assert counted == {"urls/parked": 5, "urls/sampled/same": 3}
    assert f"; 5 requests not made by 1 URL rule ({rule.text}); 3 checked, all the same; " in (
        closing_line(caplog)
    )
    with open_here(tmp_path) as store:
        record = read_rule(store, rule)
        assert store.owed.count_parked() == {rule.id: 5}
        assert (record.sampled, record.sampled_same, record.sampled_different) == (3, 3, 0)


async def test_a_later_crawl_makes_fewer_requests(site: Site, tmp_path: Path) -> None:
    """What was dropped once for its original need not be fetched again for that."""
    await crawl(tmp_path, [site.url(PATHS[0])], FollowingSpider)
    pin(tmp_path, site)
    before = len(site.asked)
    done = await follow(tmp_path, site)
    assert sorted(site.asked[before:]) == sorted([*PATHS, *SESSIONS[:3]])
    assert done.counted["revisit/unchanged"] == PAGES


async def test_learning_only_tells_what_it_would_save(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pin(tmp_path, site)
    done = await follow(tmp_path, site, SIMHASH_URL_RULES="learn")
    assert sorted(site.asked) == sorted([*PATHS, *SESSIONS])
    assert done.counted["urls/would_park"] == PAGES
    assert list_parked(tmp_path) == []
    assert "; SIMHASH_URL_RULES = 'skip' would have saved 8 requests; " in closing_line(caplog)


@pytest.mark.parametrize(("action", "rules"), [("retire", "skip"), ("ban", "off")])
async def test_what_a_rule_parked_is_made_by_the_next_crawl_when_it_acts_no_more(
    site: Site, tmp_path: Path, action: RuleAction, rules: str
) -> None:
    """By that of its spider, whether rules are asked now or not."""
    rule = pin(tmp_path, site)
    await follow(tmp_path, site)
    parked = list_parked(tmp_path)
    assert len(parked) == PAGES - 3
    with open_here(tmp_path) as store:
        store.change_url_rule(rule.id, action)

    async def ask(spider: type[PagesSpider]) -> tuple[list[str], Crawl]:
        before = len(site.asked)
        done = await crawl(tmp_path, [site.url(PATHS[0])], spider, SIMHASH_URL_RULES=rules)
        return sorted(site.asked[before:]), done

    # Another spider has other callbacks.
    assert (await ask(PagesSpider))[0] == PATHS[:1]
    asked, done = await ask(YieldingNothing)
    assert asked == sorted([PATHS[0], *parked])
    assert done.counted["urls/released"] == len(parked)
    assert list_parked(tmp_path) == []
    assert (await ask(YieldingNothing))[0] == PATHS[:1]


class YieldingSpider(PagesSpider):
    """Asks for more from its first callback, in the way of a test."""

    name = "yielding"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.errors: list[Failure] = []

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        if path_of(response.url) == PATHS[0]:
            yield from self.ask(response)

    def ask(self, response: Response) -> Iterator[Request]:
        raise NotImplementedError

    def parse_other(self, response: Response) -> Iterator[Any]:
        yield describe(response)

    def handle(self, failure: Failure) -> Iterator[Request] | None:
        self.errors.append(failure)
        return None


def asking(**given: Any) -> type[YieldingSpider]:
    """Make a spider whose callback asks for the first session so."""

    class Asking(YieldingSpider):
        def ask(self, response: Response) -> Iterator[Request]:
            fields = dict(given)
            if name := fields.pop("method_name", ""):
                fields["callback"] = getattr(self, name)
            yield Request(response.urljoin(SESSIONS[0]), errback=self.handle, **fields)

    return Asking


# Of the request, and of the crawl.
NEVER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dont_filter": ({"dont_filter": True}, {}),
    "simhash_urls": ({"meta": {"simhash_urls": False}}, {}),
    "unknown simhash_urls": ({"meta": {"simhash_urls": "no"}}, {}),
    "simhash_urls that is no key": ({"meta": {"simhash_urls": []}}, {}),
    "simhash_action": ({"meta": {"simhash_action": "flag"}}, {}),
    "item": ({"meta": {"item": {"name": "a"}}}, {}),
    "items": ({"meta": {"items": [{"name": "a"}]}}, {}),
    "simhash_skip": ({"meta": {"simhash_skip": True}}, {}),
    "retry": ({"meta": {"retry_times": 1}}, {}),
    "verbatim_url": ({"meta": {"verbatim_url": True}}, {}),
    "POST": ({"method": "POST"}, {}),
    "HEAD": ({"method": "HEAD"}, {}),
    "body": ({"body": b"query"}, {}),
    "cookies": ({"cookies": {"user": "me"}}, {}),
    "credentials": ({"headers": {"Authorization": "Basic bWU6bWU="}}, {}),
    "another callback": ({"method_name": "parse_other"}, {}),
    "cannot be packed": ({"callback": lambda _: None}, {}),
    "no callback": ({"callback": NO_CALLBACK}, {}),
    "no rules": ({}, {"SIMHASH_URL_RULES": "off"}),
    "flag": ({}, {"SIMHASH_ACTION": "flag"}),
    "ignore-outlinks": ({}, {"SIMHASH_ACTION": "ignore-outlinks"}),
    "read-only": ({}, {"SIMHASH_READONLY": True}),
    "never drop": ({}, {"SIMHASH_NEVER_DROP": [r"sid="]}),
}


@pytest.mark.usefixtures("no_first")
@pytest.mark.parametrize(("given", "settings"), NEVER.values(), ids=NEVER)
async def test_requests_that_are_never_parked(
    site: Site, tmp_path: Path, given: dict[str, Any], settings: dict[str, Any]
) -> None:
    pin(tmp_path, site)
    done = await crawl(tmp_path, [site.url(PATHS[0])], asking(**given), **SKIP | settings)
    assert done.stats["downloader/request_count"] == 2
    assert "urls/parked" not in done.counted
    assert list_parked(tmp_path) == []


@pytest.mark.usefixtures("no_first")
@pytest.mark.parametrize("how", ["skip", "learn"])
async def test_requests_that_cannot_be_packed_are_counted_and_told(
    site: Site, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    pin(tmp_path, site)
    settings = SKIP | {"SIMHASH_URL_RULES": how}
    done = await crawl(tmp_path, [site.url(PATHS[0])], asking(meta={"thing": object()}), **settings)
    assert done.counted["urls/unpackable"] > 0
    assert "urls/would_park" not in done.counted
    told = [each for each in caplog.messages if "its callback, arguments or meta cannot" in each]
    assert len(told) == (how == "skip")


@pytest.mark.usefixtures("no_first")
async def test_a_plain_request_is_parked_once(site: Site, tmp_path: Path) -> None:
    """Though it is yielded again, and other rules come to act; the dupefilter does not see it."""
    meta = {"simhash_urls": True, "simhash_action": "drop", "page": 2}

    class Asking(YieldingSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            path = path_of(response.url)
            if path == PATHS[1]:
                pin(tmp_path, site, "drop-parameter print")
            else:
                for session in (SESSIONS[0], f"{SESSIONS[0]}#fragment"):
                    yield response.follow(session, meta=meta, errback=self.handle)
            if path != PATHS[2]:
                yield response.follow(PATHS[PATHS.index(path) + 1])

    pin(tmp_path, site)
    done = await crawl(tmp_path, [site.url(PATHS[0])], Asking, **SKIP)
    assert site.asked == PATHS[:3]
    assert done.counted["urls/parked"] == 1
    assert list_parked(tmp_path) == SESSIONS[:1]
    assert [line["status"] for line in done.decisions].count("not_fetched") == 1
    assert done.spider.errors == []
    assert "log_count/WARNING" not in done.stats


@pytest.mark.usefixtures("no_first")
async def test_requests_are_made_if_rules_cannot_be_asked(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Detector, "commit", fail)
    pin(tmp_path, site)
    done = await follow(tmp_path, site)
    assert sorted(site.asked) == sorted([*PATHS, *SESSIONS])
    assert done.counted["failed/urls"] == 2 * PAGES  # when they are yielded, and when made
    assert sum("without asking URL rules" in text for text in caplog.messages) == 1


@pytest.mark.usefixtures("no_first")
async def test_what_no_callback_yielded_is_never_parked(site: Site, tmp_path: Path) -> None:
    """Start requests, redirects and inline downloads, whose callback would get the exception."""

    class Asking(YieldingSpider):
        async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
            yield describe(response)
            if path_of(response.url) == PATHS[2]:
                yield response.follow("/moved")
            elif path_of(response.url) == PATHS[1]:
                request = Request(response.urljoin(SESSIONS[1]), meta=response.meta)
                assert self.crawler.engine
                yield describe(await self.crawler.engine.download_async(request))

    pin(tmp_path, site)
    site.answers["/moved"] = Answer(location=SESSIONS[2])
    urls = [site.url(path) for path in (PATHS[0], SESSIONS[0], *PATHS[1:3])]
    done = await crawl(tmp_path, urls, Asking, **SKIP)
    assert sorted(site.asked) == sorted([*PATHS[:3], *SESSIONS[:3], "/moved"])
    assert SESSIONS[1] in done.paths
    assert "urls/parked" not in done.counted
    assert "spider_exceptions/count" not in done.stats


@pytest.mark.usefixtures("no_first")
async def test_the_backlog_is_parked_when_it_is_about_to_be_made(
    site: Site, tmp_path: Path
) -> None:
    """When it was queued, its page was not known; nobody is told that it is not made."""

    class Asking(YieldingSpider):
        def ask(self, response: Response) -> Iterator[Request]:
            for path in (SESSIONS[1], PATHS[1]):
                yield response.follow(path, priority=path == PATHS[1], errback=self.handle)

    pin(tmp_path, site)
    done = await crawl(tmp_path, [site.url(PATHS[0])], Asking, **SKIP)
    assert site.asked == PATHS[:2]
    assert list_parked(tmp_path) == SESSIONS[1:2]
    assert done.counted["urls/parked"] == 1
    assert done.spider.errors == []
    assert not any(key.startswith("spider_exceptions") for key in done.stats)
    assert done.stats["finish_reason"] == "finished"


class AskingAgain(YieldingSpider):
    """Gets a session from its first page, and another one from the next."""

    name = "again"

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        path, _, session = path_of(response.url).partition("?sid=")
        if not session:
            yield response.follow(f"{PATHS[0]}?sid={path[-1]}")
        elif len(session) == 1:
            yield response.follow(f"{PATHS[0]}?sid={session * 2}")


@pytest.mark.usefixtures("no_first")
@pytest.mark.parametrize(("days", "changed"), [(None, True), (1.0, False), (1.0, True)])
async def test_new_sessions_in_a_crawl_two_days_later(
    site: Site, tmp_path: Path, days: float | None, *, changed: bool
) -> None:
    """Each page is fetched once: at once if the earlier one expired, else in the end."""
    rule = prove(tmp_path, site, AskingAgain.name)
    shown = site.answers[PATHS[0]]
    site.answers |= {f"/start-{each}": Answer(page(ord(each)).encode()) for each in "xy"}
    site.answers |= {f"{PATHS[0]}?sid={each}": shown for each in ("x", "xx", "y", "yy")}
    await crawl(tmp_path, [site.url("/start-x")], AskingAgain, **SKIP)
    first = ["/start-x", f"{PATHS[0]}?sid=x"]
    assert site.asked == first  # `xx` is parked for `x`
    name = name_form(site.url(PATHS[0]), Reader(AskingAgain.name, "parse"))
    with open_here(tmp_path) as store:
        store.write(make_older)
        store.write(lambda stored: note_form(stored, name, Form(2, (rule.id,))))
    if changed:
        new = Answer(page(77).encode())
        site.answers |= {f"{PATHS[0]}?sid={each}": new for each in ("y", "yy")}
    settings = SKIP | {"SIMHASH_EXPIRE_DAYS": days}
    done = await crawl(tmp_path, [site.url("/start-y")], AskingAgain, **settings)
    assert site.asked == [*first, "/start-y", f"{PATHS[0]}?sid=y"]
    assert done.counted["urls/parked"] == (2 if days is None else 1)
    assert (f"{PATHS[0]}?sid=y" in done.paths) == (changed or days is not None)
    assert list_parked(tmp_path) == [f"{PATHS[0]}?sid=xx", f"{PATHS[0]}?sid=yy"]


class AskingOften(AskingAgain):
    """Gets many sessions from its first page."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        if "sid" not in response.url:
            for number in range(9):
                yield response.follow(f"{PATHS[0]}?sid={number}")


@pytest.mark.usefixtures("no_first")
async def test_what_waits_for_a_page_is_made_until_one_answers(site: Site, tmp_path: Path) -> None:
    """The page of an earlier crawl is not asked for under its own address."""
    rule = prove(tmp_path, site, AskingOften.name)
    same = type("SameSpider", (PagesSpider,), {"name": AskingOften.name})
    await crawl(tmp_path, [site.url(PATHS[0])], same)
    shown = site.answers[PATHS[0]]
    site.answers |= {"/start": Answer(page(99).encode()), f"{PATHS[0]}?sid=0": Answer(status=404)}
    site.answers |= {f"{PATHS[0]}?sid={number}": shown for number in range(1, 9)}
    name = name_form(site.url(PATHS[0]), Reader(AskingOften.name, "parse"))
    with open_here(tmp_path) as store:
        store.write(lambda stored: note_form(stored, name, Form(1, (rule.id,))))
    before = len(site.asked)
    await crawl(tmp_path, [site.url("/start")], AskingOften, **SKIP)
    assert site.asked[before:] == ["/start", *(f"{PATHS[0]}?sid={number}" for number in (0, 1))]
    assert list_parked(tmp_path) == [f"{PATHS[0]}?sid={number}" for number in range(2, 9)]


async def know(folder: Path, site: Site, urls: list[str], spider: type[Spider]) -> None:
    """Let a crawl get pages, and the first one stand for its sessions, as a rule says that acts."""
    rule = prove(folder, site)
    await crawl(folder, [site.url(url) for url in urls], spider)
    name = name_form(site.url(urls[0]), Reader(spider.name, "parse"))
    with open_here(folder) as store:
        store.write(lambda stored: note_form(stored, name, Form(1, (rule.id,))))
    site.asked.clear()


@pytest.mark.usefixtures("no_first")
@pytest.mark.parametrize("page_first", [True, False])
async def test_what_is_parked_for_a_page_whose_links_the_limit_of_the_depth_cut_off_is_made(
    site: Site, tmp_path: Path, *, page_first: bool
) -> None:
    """Its session lies less deep."""
    shown = Answer(page(0, links=["/leaf"]).encode())
    site.answers |= {PATHS[0]: shown, SESSIONS[0]: shown, "/leaf": Answer(page(50).encode())}
    site.answers["/go"] = Answer(page(51, links=[SESSIONS[0]]).encode())
    await know(tmp_path, site, [PATHS[0]], YieldingNothing)
    deep, other = Request(site.url(PATHS[0]), meta={"depth": 3}), Request(site.url("/go"))
    starts = [deep, other] if page_first else [other, deep]
    done = await crawl(tmp_path, starts, FollowingSpider, **SKIP, DEPTH_LIMIT=3)
    assert (done.counted["urls/parked"], site.asked[2:]) == (1, [SESSIONS[0], "/leaf"])


@pytest.mark.usefixtures("no_first")
async def test_a_wall_answers_for_no_page(site: Site, tmp_path: Path) -> None:
    """The first session that is made shows a login, so the next one is made."""
    asked = [f"{PATHS[0]}?sid={name}" for name in "abc"]
    wall, shown = Answer(page(90).encode()), Answer(page(0).encode())
    site.answers |= {"/wall": wall, "/go": Answer(page(92, links=asked).encode())}
    site.answers |= dict.fromkeys([PATHS[0], *asked], shown) | {asked[0]: wall}
    await know(tmp_path, site, [PATHS[0], "/wall"], YieldingNothing)
    host = site.root.removeprefix("http://")
    sink = Sink(tuple(Witness(f"{site.root}/{n}", host, str(n)) for n in range(WITNESSES)), 1.0)
    key = (2).to_bytes(8, "big")
    with open_here(tmp_path) as store:
        store.write(lambda stored: stored.put_row("sinks", key, pack_row(key, sink)))
    done = await crawl(tmp_path, [site.url("/go")], FollowingSpider, **SKIP)
    assert site.asked == ["/go", *asked[:2]]
    walls = [each["sink"] for each in done.decisions if each["status"] == "near_duplicate"]
    assert walls == [True, False]


@pytest.mark.usefixtures("no_first")
async def test_what_is_parked_for_a_change_is_made_if_its_callback_fails(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page was delivered before, with another text."""
    monkeypatch.setattr(followers, "_MOST_HELD", 1)

    class Failing(YieldingNothing):
        async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
            for entry in FollowingSpider.parse(self, response):
                if isinstance(entry, Request) or "sid" in response.url:
                    yield entry
            if response.url.endswith(PATHS[0]):
                raise ValueError("as a callback may")

    await know(tmp_path, site, [PATHS[0]], YieldingNothing)
    shown = Answer(page(93, links=[SESSIONS[0]]).encode())
    site.answers |= {PATHS[0]: shown, SESSIONS[0]: shown}
    done = await crawl(tmp_path, [site.url(PATHS[0])], Failing, **SKIP)
    assert done.counted["urls/parked"] == 1
    assert done.paths == SESSIONS[:1]


@pytest.mark.usefixtures("no_first")
async def test_two_spiders_of_one_store_are_not_spared_each_others_pages(
    site: Site, tmp_path: Path
) -> None:
    """Though the callbacks of both are called `parse`, and all their pages are near-duplicates."""
    prove(tmp_path, site)
    await follow(tmp_path, site)
    before = len(site.asked)

    class Other(FollowingSpider):
        name = "other"

    await crawl(tmp_path, [site.url(PATHS[0])], Other, **SKIP)
    assert PATHS[0] in site.asked[before:]
    assert len(list_parked(tmp_path)) == PAGES


def make_older(stored: Documents) -> None:
    """Make all pages two days older."""
    for number, record in list(stored):
        stored.put(number, structs.replace(record, time=record.time - 2 * 86_400))


@pytest.mark.usefixtures("no_first")
async def test_a_known_page_whose_callback_fails_is_none(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost that it yielded before: parked, and made when the crawl is idle, or made."""
    monkeypatch.setattr(followers, "_MOST_HELD", 8)
    number = 2 * followers._MOST_HELD + 5

    class Failing(YieldingSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            if response.url.endswith(PATHS[0]):
                for each in range(number):
                    yield response.follow(f"{PATHS[0]}?sid={each}")
                raise RuntimeError
            yield describe(response)

    sessions = {f"{PATHS[0]}?sid={each}" for each in range(number)}
    site.answers |= dict.fromkeys(sessions, site.answers[PATHS[0]])
    pin(tmp_path, site)
    done = await crawl(tmp_path, [site.url(PATHS[0])], Failing, **SKIP)
    assert set(site.asked) == {PATHS[0], *sessions}
    assert len(site.asked) == 1 + number
    # Those of the last group come after the failure.
    assert done.counted["urls/parked"] == done.counted["urls/released"] == number - 5
    assert len(done.paths) == 1
    assert list_parked(tmp_path) == []


@pytest.mark.usefixtures("no_first")
async def test_the_spider_has_no_such_callback_any_more(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule = pin(tmp_path, site)
    await crawl(tmp_path, [site.url(PATHS[0])], asking(), **SKIP)
    with open_here(tmp_path) as store:
        store.change_url_rule(rule.id, "retire")

    class Renamed(PagesSpider):
        name = YieldingSpider.name

    await crawl(tmp_path, [site.url(PATHS[2])], Renamed, **SKIP)
    assert list_parked(tmp_path) == SESSIONS[:1]
    assert "1 request that is owed cannot be made" in caplog.text


@pytest.mark.usefixtures("no_first")
async def test_requests_that_cannot_be_made_do_not_hold_up_the_others(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = pin(tmp_path, site)
    await crawl(tmp_path, [site.url(PATHS[0])], asking(), **SKIP)
    with open_here(tmp_path) as store:
        store.change_url_rule(rule.id, "retire")
        broken = Owed("http://none.example/", Why.LINK, YieldingSpider.name, "", released=True)
        store.write(lambda stored: put(stored, [broken]))
    monkeypatch.setattr(owed, "_MOST_MADE", 1)
    await crawl(tmp_path, [site.url(PATHS[2])], asking(), **SKIP)
    assert SESSIONS[0] in site.asked


def test_rules_of_a_crawl_spider_are_different_callbacks() -> None:
    class Following(CrawlSpider):
        name = "following"
        rules = (
            Rule(LinkExtractor(), callback="parse_item"),
            Rule(LinkExtractor(), callback="parse_item", follow=True),
            Rule(LinkExtractor()),
        )

        def parse_item(self, response: Response) -> None:
            pass

    spider = Following()
    requests = [spider._build_request(place, Link("http://a.example/")) for place in range(3)]
    odd = requests[0].replace(meta={"rule": ["mine"]})
    names = [find_reader(spider, each).callback for each in (*requests, odd)]
    assert names == ["parse_item", "parse_item, follow", "follow", ""]


class Copying(YieldingSpider):
    """Asks for another page with the meta of what it got, or did not get."""

    handle_httpstatus_list = (503,)

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        if path_of(response.url) == SESSIONS[0]:
            yield Request(response.urljoin(PATHS[3]), meta=response.meta)

    def handle(self, failure: Failure) -> Iterator[Request]:
        request = failure.request  # type: ignore[attr-defined]  # Scrapy sets it
        yield Request(request.url.partition("?")[0] + "?elsewhere", meta=request.meta)


@pytest.mark.usefixtures("no_first")
@pytest.mark.parametrize(
    ("answer", "other"),
    [
        pytest.param(Answer(status=503), PATHS[3], id="a status"),
        pytest.param(Answer(b"<p>", missing_bytes=9), "/a/p0?elsewhere", id="a failure"),
    ],
)
async def test_what_was_not_answered_stays_parked(
    site: Site, tmp_path: Path, answer: Answer, other: str
) -> None:
    """Whatever another request copied from it."""
    rule = pin(tmp_path, site)
    await crawl(tmp_path, [site.url(PATHS[0])], asking(), **SKIP)
    with open_here(tmp_path) as store:
        store.change_url_rule(rule.id, "retire")
    whole = site.answers[SESSIONS[0]]
    site.answers |= {SESSIONS[0]: answer, "/a/p0?elsewhere": site.answers[PATHS[4]]}
    settings = SKIP | {"DOWNLOAD_FAIL_ON_DATALOSS": True}
    done = await crawl(tmp_path, [site.url(PATHS[2])], Copying, **settings)
    assert site.asked == [PATHS[0], PATHS[2], SESSIONS[0], other]
    assert done.verdicts[other] == "new"
    assert list_parked(tmp_path) == SESSIONS[:1]
    site.answers[SESSIONS[0]] = whole
    await crawl(tmp_path, [site.url(PATHS[1])], asking(), **SKIP)
    assert site.asked[4:] == [PATHS[1], SESSIONS[0]]
    assert list_parked(tmp_path) == []


class YieldingNothing(FollowingSpider):
    """The spider `following`, on a day on which there are no links."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)


@pytest.mark.usefixtures("sampled")
async def test_some_of_what_is_parked_is_checked_at_the_end(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is drawn for the sample while the crawl is at work: here nothing."""
    caplog.set_level("INFO")
    pin(tmp_path, site)
    done = await follow(tmp_path, site)
    checked = done.counted["urls/sampled/same"] - 3
    assert 1 <= checked < PAGES - 3
    assert len(list_parked(tmp_path)) == PAGES - 3 - checked
    assert len(site.asked) == PAGES + 3 + checked
    assert f"; {PAGES - 3 - checked} requests not made" in closing_line(caplog)
    assert f"; {3 + checked} checked, all the same" in closing_line(caplog)


@pytest.mark.usefixtures("no_first")
async def test_each_crawl_draws_other_requests(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a page that begins to differ is seen sooner or later."""
    monkeypatch.setattr(parking, "SAMPLE_SHARE", 0.5)
    pin(tmp_path, site)
    for _ in range(30):
        await follow(tmp_path, site)
        if set(SESSIONS) <= set(site.asked):
            return
    pytest.fail(f"{set(SESSIONS).difference(site.asked)} were never requested")


@pytest.mark.usefixtures("sampled")
async def test_a_rule_that_a_sample_proves_wrong_loses_nothing(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A hostile site: first the session means nothing, then it means another page."""
    caplog.set_level("INFO")
    for number, path in enumerate(SESSIONS[3:]):
        site.answers[path] = Answer(page(100 + number).encode())
    prove(tmp_path, site)
    done = await follow(tmp_path, site)
    # Which of them were sampled depends on the secret of the store.
    assert done.counted["urls/retired"] == 1
    assert {*PATHS, *SESSIONS[3:]} <= set(done.paths)
    assert list_parked(tmp_path) == []
    assert "all the same" not in closing_line(caplog)
    assert "(1 rule was wrong)" in closing_line(caplog)
    assert any("is retired" in text for text in caplog.messages)


async def test_a_pinned_rule_that_is_wrong_is_kept_and_shouted_about(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    rule = pin(tmp_path, site)
    site.answers[SESSIONS[0]] = Answer(page(100).encode())
    done = await follow(tmp_path, site)
    assert SESSIONS[0] in done.paths
    assert any(f"URL rule '{rule.text}' is pinned: different pages" in m for m in caplog.messages)
    assert "; 3 checked (2 the same, 1 different)" in closing_line(caplog)
    with open_here(tmp_path) as store:
        record = read_rule(store, rule)
        assert record.acts
        assert record.sampled_different == 1


def make_long(seed: int) -> str:
    """Make a page that is longer than SIMHASH_MAX_BYTES of a test."""
    return make_page(make_words(seed, 3_000))


def make_list(seed: int) -> str:
    """Make a page with the text of another one, and links of its own."""
    return page(seed, links=[f"/item/{seed}-{each}" for each in range(12)])


PDF = Answer(b"%PDF-1.4 text", content_type="application/pdf")
OTHERS: dict[str, Any] = {
    "a PDF": lambda _: PDF,
    "JSON": lambda _: Answer(b"{}", content_type="application/json"),
    "a feed": lambda _: Answer(b"<rss/>", content_type="application/rss+xml"),
    "a page that is too large": lambda number: Answer(make_long(number).encode()),
    "a page without text": lambda _: Answer(b"<html><body><img src=x></body></html>"),
    "a short page": lambda number: Answer(make_page([f"Photo {number}"], title="").encode()),
    "a redirect to another text": lambda number: Answer(location=f"/other/{number}"),
    "a list": lambda number: Answer(make_list(number).encode()),
}


def answer_sessions(site: Site, make: Callable[[int], Answer]) -> None:
    """Let the sessions be other pages than the ones without them."""
    for number, path in enumerate(SESSIONS):
        site.answers[path] = make(number)
        site.answers[f"/other/{number}"] = Answer(page(100 + number).encode())


@pytest.mark.parametrize("what", OTHERS)
async def test_a_sample_that_is_no_such_page_retires_its_rule(
    site: Site, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of other pages such ones have no vote; those that are not made would be lost for ever."""
    caplog.set_level("INFO")
    answer_sessions(site, OTHERS[what])
    rule = prove(tmp_path, site)
    done = await follow(tmp_path, site, SIMHASH_MAX_BYTES=10_000)
    assert {*PATHS, *SESSIONS} <= set(site.asked)
    assert list_parked(tmp_path) == []
    assert done.counted["urls/retired"] == 1
    assert done.counted["urls/sampled/different"] >= 1
    assert "urls/sampled/same" not in done.counted
    assert "(1 rule was wrong)" in closing_line(caplog)
    with open_here(tmp_path) as store:
        record = read_rule(store, rule)
        assert record.state == RuleState.RETIRED
        assert record.sampled == record.sampled_different == done.counted["urls/sampled/different"]
        first, second = record.conflicts[0]
    assert second == first.partition("?")[0]


NO_ANSWERS = (
    Answer(b"<p>Later", status=503),
    Answer(b"{}", status=503, content_type="application/json"),
    Answer(b"<p>Gone", status=404),
    Answer(b""),
)


async def test_a_sample_that_the_site_did_not_answer_has_no_vote(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(parking, "_FIRST_SAMPLED", len(NO_ANSWERS))
    site.answers |= dict(zip(SESSIONS, NO_ANSWERS, strict=False))
    rule = prove(tmp_path, site)
    done = await follow(tmp_path, site)
    assert list_parked(tmp_path) == sorted(SESSIONS[4:])
    assert done.counted["urls/sampled/grey"] == 4
    assert "; 4 checked (4 undecided); " in closing_line(caplog)
    with open_here(tmp_path) as store:
        record = read_rule(store, rule)
        assert (record.state, record.sampled) == (RuleState.ACTING, 0)


CHILD: dict[str, Any] = SKIP | {"SPIDER": "tests.helpers.crawling.UnsampledSpider"}


def hold(site: Site, path: str) -> Event:
    """Let a page wait until this is set."""
    gate = Event()
    site.answers[path] = replace(site.answers[path], gate=gate)
    return gate


async def test_nothing_parked_is_forgotten_by_a_crawl_that_is_killed(
    site: Site, tmp_path: Path
) -> None:
    store, urls = tmp_path / "store", [site.url(PATHS[0])]
    rule = pin(store, site)
    job = {"JOBDIR": str(tmp_path / "job")}
    gate = hold(site, PATHS[6])
    killed = start_crawl(tmp_path, urls, "killed", **CHILD, **job)
    wait_until(lambda: PATHS[6] in site.asked)
    killed.kill()
    finish_crawl(killed, tmp_path, "killed")
    gate.set()
    log = read_lines(store / "log.jsonl")
    logged = {path_of(line["url"]) for line in log if line["status"] == "not_fetched"}
    parked = set(list_parked(store))
    # A line of the log may be lost with the process, a request may not.
    assert logged <= parked == set(SESSIONS[3:6])
    mend_job(tmp_path / "job")
    await follow(store, site, **job)
    assert set(list_parked(store)) >= parked
    with open_here(store) as opened:
        opened.change_url_rule(rule.id, "retire")
    parked = set(list_parked(store))
    before = len(site.asked)
    last = await follow(store, site)
    assert last.counted["urls/released"] == len(parked)
    assert parked <= set(site.asked[before:])
    assert list_parked(store) == []


@pytest.mark.slow
def test_another_process_retires_the_rule_that_a_crawl_uses(site: Site, tmp_path: Path) -> None:
    store = tmp_path / "store"
    rule = pin(store, site)
    gate = hold(site, PATHS[6])
    running = start_crawl(tmp_path, [site.url(PATHS[0])], "running", **CHILD)
    wait_until(lambda: PATHS[6] in site.asked)
    with open_here(store) as opened:
        assert not opened.change_url_rule(rule.id, "retire").acts
    gate.set()
    done = finish_crawl(running, tmp_path, "running")
    assert done.exit_code == 0
    assert sorted(site.asked) == sorted([*PATHS, *SESSIONS])
    assert done.counted["urls/released"] == done.counted["urls/parked"] == 3
    assert list_parked(store) == []
    assert "log_count/ERROR" not in done.stats
