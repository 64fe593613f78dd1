"""Links of near-duplicates that lead to new pages: counted, or followed at once."""

import logging
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Request, Response

from scrapy_simhash.judge import links
from tests.helpers.commanding import Run
from tests.helpers.crawling import Crawl, FollowingSpider, PagesSpider, crawl, crawl_pages, describe
from tests.helpers.pages import make_page, make_words, page
from tests.helpers.reporting import report
from tests.helpers.server import Answer, Site, serve

ONLY = "links/only_on_dropped_pages"
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


@pytest.mark.parametrize(
    ("link", "leads"),
    [
        *(("http://a.example/x?y=1", True), ("http://a.example/x", False)),
        # As a login does; whole, without the host, or a page that the first one was redirected to.
        ("http://a.example/login?lang=en&next=http%3A%2F%2Fa.example%2Fx%3Fy%3D1", True),
        *(("/login?next=/x%3Fy%3D1", True), ("/login?next=/z", True)),
        *(("/login?next=/", False), ("/login?/x%3Fy%3D1", False), ("/login?next=", False)),
    ],
)
def test_links_that_lead_back_to_their_page(link: str, leads: bool) -> None:
    pages = "http://a.example/x?y=1", "http://b.example/z", ""
    assert links.leads_back(link, *pages) is leads


async def crawl_list(store: Path, site: Site, **settings: Any) -> Crawl:
    return await crawl(store, [site.url("/list?page=1")], FollowingSpider, **settings)


def list_left(done: Crawl) -> list[str]:
    return [path for path, verdict in done.verdicts.items() if verdict == "not_followed"]


async def test_a_loss_is_seen(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "scrapy_simhash")
    done = await crawl_list(tmp_path, site)
    assert (set(done.paths), done.counted[ONLY]) == ({"/list?page=1", "/a", "/b"}, len(LOST))
    told = "Not followed: 3 links that only dropped pages had (SIMHASH_FOLLOW_NEW_LINKS = True "
    (said,) = [each for each in caplog.records if each.getMessage() == f"{told}would follow 3)."]
    assert (said.levelno, list_left(done)) == (logging.WARNING, LOST)
    noted = {each["match_url"] for each in done.decisions if each["status"] == "not_followed"}
    assert noted == {site.url("/list?page=2")}


class Sessions(dict[str, Answer]):
    """Pages whose links have a new session in each answer; copies have a link more."""

    def get(self, path: str, default: Any = None) -> Any:  # noqa: ARG002
        page = path.partition("?")[0]
        links = [f"/p{n}?sid={len(self):04}f00d1a" for n in range(8)] + ["/late"] * (page in self)
        number = 9 if page == "/late" else int(page[2:])
        self[path] = self[page] = Answer(make_page(make_words(number), links=links).encode())
        return self[path]


@pytest.mark.parametrize("follows", [False, True])
async def test_links_that_differ_in_a_session_only_are_told_apart_and_followed_to_an_end(
    tmp_path: Path, *, follows: bool
) -> None:
    with serve({}) as site:
        site.answers = Sessions()
        start = [site.url("/p0")]
        settings = {"SIMHASH_FOLLOW_NEW_LINKS": follows, "CLOSESPIDER_PAGECOUNT": 400}
        done = await crawl(tmp_path, start, FollowingSpider, **settings)
    assert done.stats["finish_reason"] == "finished"
    assert done.counted[ONLY] == 1  # `/late`, beside eight that came


# Reported of other crawlers: which document an address is, and its links.
TRAPS: dict[str, Callable[[str], tuple[str, list[str]]]] = {
    "pager": lambda path: (path[-1], [f"{path}{'?&'['?' in path]}p={n}" for n in (2, 3)]),
    "soft 404": lambda path: (path if path in {"/", "/a/", "/b/"} else "", ["a/", "b/"]),
    "facets": lambda path: ("".join(sorted(path)), [path + n for n in "abcd" if n not in path]),
}


class Trap(dict[str, Answer]):
    """A site that has a page for each address."""

    def __init__(self, trap: str) -> None:
        self.lead = TRAPS[trap]

    def get(self, path: str, default: Any = None) -> Any:  # noqa: ARG002
        document, links = self.lead(path)
        return Answer(make_page(make_words(zlib.crc32(document.encode())), links=links).encode())


@pytest.mark.parametrize(("trap", "documents"), [("pager", 3), ("soft 404", 4), ("facets", 16)])
async def test_a_trap_ends(tmp_path: Path, trap: str, documents: int) -> None:
    with serve({}) as site:
        site.answers = Trap(trap)
        done = await crawl(tmp_path, [site.url("/")], FollowingSpider, CLOSESPIDER_PAGECOUNT=60)
    assert (done.stats["finish_reason"], len(done.paths)) == ("finished", documents)
    assert len({TRAPS[trap](path)[0] for path in done.paths}) == documents


@pytest.mark.parametrize(
    ("allowed", "paths", "unseen"),
    [
        *(((), [], 0), ((), ["/wanted"], 1)),
        ((), ["/moved"], 1),  # all pages of that host move to this one
        (("127.0.0.1",), ["/wanted"], 0),
    ],
)
async def test_links_to_hosts_of_which_no_page_came_are_no_loss(
    tmp_path: Path, allowed: tuple[str, ...], paths: list[str], unseen: int
) -> None:
    """A spider that wants a host has requested it: others are of advertisers, say."""
    with serve({"/wanted": page(2)}) as site:
        other = site.root.replace("127.0.0.1", "localhost")
        both = [other + path for path in paths]
        site.answers["/list"] = Answer(page(1, links=["/copy", *both]).encode())
        site.answers["/copy"] = Answer(page(1, links=[*both, f"{other}/lost"]).encode())
        site.answers["/moved"] = Answer(location=site.url("/wanted"))
        spider = type("Staying", (FollowingSpider,), {"allowed_domains": list(allowed)})
        done = await crawl(tmp_path, [site.url("/list")], spider)
    assert done.counted.get(ONLY, 0) == unseen


@pytest.mark.parametrize("shared", [False, True])
async def test_what_makes_no_difference_on_first_pages_may_on_second_ones(
    tmp_path: Path, *, shared: bool
) -> None:
    """Lists whose first page is one for all colours, and their second pages are not, or are."""
    colours, lists = ("red", "green", "blue"), range(8)
    answers = {}
    for n in lists:
        for place, colour in enumerate(colours):
            address = f"/list{n}?color={colour}"
            answers[address] = page(n, links=[f"{address}&page=2"])
            answers[f"{address}&page=2"] = page(100 + 10 * n + place * (not shared))
    start = [f"/list{n}?color={colour}" for n in lists for colour in colours]
    done = await crawl_pages(tmp_path, answers, start, FollowingSpider)
    assert (done.counted["dropped"], done.counted[ONLY]) == (16, 16)


async def test_what_a_mirror_has_beside_its_pages_came_with_the_original(tmp_path: Path) -> None:
    paths = [f"/{n}.html" for n in range(24)]
    answers = {path: page(n, links=[paths[n ^ 1]]) for n, path in enumerate(paths)}
    mirrored = {
        f"/mirror{path}": page(n, menu="Mirror", links=[f"/mirror{paths[n ^ 1]}", f"/new{n}"])
        for n, path in enumerate(paths)
    }
    start = [*paths, *[*mirrored][::2]]
    done = await crawl_pages(tmp_path, answers | mirrored, start, FollowingSpider)
    assert done.counted["dropped"] == 12
    assert sorted(list_left(done)) == sorted(f"/new{n}" for n in range(0, 24, 2))


async def test_links_beyond_the_remembered_ones_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_MOST_REMEMBERED", 1)
    answers = {"/list": page(1, links=["/copy"]), "/copy": page(1, links=["/lost", "/lost-too"])}
    done = await crawl_pages(tmp_path, answers, ["/list"], FollowingSpider, SIMHASH_PROCESSES=0)
    assert done.counted[ONLY] == 2


async def test_what_a_depth_limit_cuts_off_is_no_loss_of_links(site: Site, tmp_path: Path) -> None:
    done = await crawl_list(tmp_path, site, DEPTH_LIMIT=1)
    assert done.counted["dropped"] == 2
    assert ONLY not in done.counted


@pytest.mark.parametrize("follows", [False, True])
async def test_what_a_depth_limit_cut_off_an_original_its_copy_may_have(
    tmp_path: Path, *, follows: bool
) -> None:
    linked = {
        "/start": ["/copy", "/first", "/way"],  # the last one in comes out first
        "/way": ["/original"],
        "/original": ["/more"],
        "/first": [],
        "/more": [],
    }
    answers = {path: page(n, links=to) for n, (path, to) in enumerate(linked.items())}
    answers["/copy"] = page(2, menu="Other", links=["/more"])
    settings = {"DEPTH_LIMIT": 2, "SIMHASH_FOLLOW_NEW_LINKS": follows}
    done = await crawl_pages(tmp_path, answers, ["/start"], FollowingSpider, **settings)
    assert done.verdicts["/copy"] == "near_duplicate"
    assert ("/more" in done.paths, done.counted.get(ONLY, 0)) == (follows, int(not follows))


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"SIMHASH_ACTION": "flag"}, [*LOST, "/e"]),  # would be
        ({"SIMHASH_ACTION": "ignore-outlinks"}, LOST),
        # Of the links of the third page of the list, only one in three is new.
        ({"SIMHASH_FOLLOW_NEW_LINKS": True}, ["/e"]),
        ({"SIMHASH_FOLLOW_NEW_LINKS": True, "SIMHASH_ACTION": "ignore-outlinks"}, ["/e"]),
    ],
)
async def test_what_is_lost_under_other_settings(
    site: Site,
    tmp_path: Path,
    settings: dict[str, Any],
    kept: list[str],
    run: Run,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "scrapy_simhash")
    done = await crawl_list(tmp_path, site, **settings)
    assert done.counted.get(ONLY, 0) == len(kept)
    told = {each["url"].rpartition("/")[2]: each["new_links"] for each in done.decisions}
    assert (told["list?page=2"], told["print"]) == (0.6, 0.0)
    follows = "SIMHASH_FOLLOW_NEW_LINKS" in settings
    if len(kept) > len(LOST):
        said = "Would not be followed: 4 links that only near-duplicates had"
        assert any(text.startswith(said) for text in caplog.messages)
        assert report(tmp_path, tmp_path)["said"]["links"].startswith(said)
    if kept == ["/e"]:  # no setting helps; that page may pass
        assert "Not followed: 1 link that only dropped pages had." in caplog.messages
        answer = run.answer("explain", site.url("/e"), "--store", tmp_path)
        undo = f"scrapy simhash undo '{site.url('/list?page=3')}'"
        assert answer["advice"] == f"{undo}\nlets that page pass, with all its links"
    assert ("/c" in done.paths) == (follows or settings["SIMHASH_ACTION"] == "flag")
    # Under `drop` the items of a page whose links are followed are dropped, and only these.
    passes = settings.get("SIMHASH_ACTION", "drop") != "drop"
    assert ("/list?page=2" in done.paths) == passes


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


async def test_what_a_callback_does_not_follow_of_a_page_is_not_known(tmp_path: Path) -> None:
    related = ["/item/5", "/item/6"]
    answers = {
        "/list?1": page(1, links=["/item/1", "/item/2", "/list?2"]),
        "/list?2": page(1, links=related),
        **{f"/item/{n}": page(10 + n, links=[*related, "/review"]) for n in (1, 2, 5, 6)},
        "/review": page(20),
    }
    done = await crawl_pages(tmp_path, answers, ["/list?1"], ShopSpider)
    assert done.counted[ONLY] == len(related)


async def test_what_a_callback_leaves_out_where_it_follows_is_known(tmp_path: Path) -> None:
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

    done = await crawl_pages(tmp_path, answers, ["/list?1"], Leaving)
    assert ONLY not in done.counted


LEAVES = [f"/leaf{number}" for number in range(12)]
MENU = ["/menu0", "/menu1"]


class LeavesSpider(PagesSpider):
    """Follows all links of the home page, and of other pages those to leaves only."""

    name = "leaves"

    async def start(self) -> Any:
        async for request in super().start():
            yield request.replace(callback=self.parse_home)

    def parse_home(self, response: Response) -> Iterator[Any]:
        for number, link in enumerate(response.css("a::attr(href)").getall()):
            yield response.follow(link, priority=number)

    def parse(self, response: Response) -> Iterator[Any]:
        yield describe(response)
        yield from response.follow_all(response.css("a[href*=leaf]::attr(href)").getall())


@pytest.mark.parametrize("spider", [FollowingSpider, LeavesSpider])
@pytest.mark.parametrize("copy", ["/copy/list", f"/copy/list?{'a' * 2_005}"])
async def test_links_count_whatever_the_address_of_their_page_and_its_callback(
    tmp_path: Path, spider: type[PagesSpider], copy: str
) -> None:
    """A long address; a callback that made no request yet, because no kept page has such links."""
    answers = {
        "/": page(90, links=[copy, "/list", *MENU]),
        "/list": page(1, links=MENU),
        copy: page(1, links=[*LEAVES, *MENU]),
        **{path: page(10 + n, links=MENU) for n, path in enumerate([*LEAVES, *MENU])},
    }
    done = await crawl_pages(tmp_path, answers, ["/"], spider)
    assert (done.counted["dropped"], done.counted[ONLY]) == (1, len(LEAVES))


async def test_pages_behind_the_end_of_a_list_hide_no_page_of_another(tmp_path: Path) -> None:
    """There `page` makes no difference; the crawl said nothing of eight pages it never got."""
    nothing = make_page(make_words(99), title="Nothing found")
    lost = [f"/b?page={n}" for n in range(2, 10)]
    answers = {f"/a?page={n}": page(n) if n < 4 else nothing for n in range(1, 20)}
    answers |= {"/b": page(50), "/hub": page(60, links=["/b"]), "/print": page(60, links=lost)}
    done = await crawl_pages(tmp_path, answers, spider=FollowingSpider)
    assert (done.counted["dropped"], done.counted[ONLY]) == (16, len(lost))


async def test_what_the_index_of_a_mirror_leads_to_came_with_the_original(tmp_path: Path) -> None:
    paths = [f"/{n}.html" for n in range(12)]
    answers = {path: page(n) for n, path in enumerate(paths)}
    answers["/index.html"] = page(50, links=paths)
    links = [f"/mirror{path}" for path in paths]
    answers["/mirror/index.html"] = page(50, menu="Mirror", links=[*links, "/mirror/new.html"])
    start = ["/index.html", "/mirror/index.html"]
    done = await crawl_pages(tmp_path, answers, start, FollowingSpider)
    assert (done.counted["dropped"], list_left(done)) == (1, ["/mirror/new.html"])
