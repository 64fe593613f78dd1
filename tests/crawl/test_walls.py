"""Walls in real crawls: logins, "not found" pages that answer 200, and what is like them."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from scrapy_simhash.downloadermiddlewares import SimhashDownloaderMiddleware
from tests.helpers.commanding import Run
from tests.helpers.crawling import Crawl, FollowingSpider, crawl, crawl_pages, path_of
from tests.helpers.pages import make_page, make_words, page
from tests.helpers.server import Answer, Site, serve

MEMBERS = 12
# From this one on the site shows its login; the fifth page that does is recognised.
WALL_BEGINS, RECOGNISED = 3, 7


def login(path: str) -> str:
    """Make a login page as sites do: it leads to where one wanted to go."""
    return make_page(make_words(99, 120), title="Log in", links=[path, f"/register?next={path}"])


def members(number: int) -> str:
    return f"/members/{number}"


# Members' pages, of which the first three are shown and the others ask to log in.
ANSWERS = {
    members(n): page(n, title=f"Member {n}") if n < WALL_BEGINS else login(members(n))
    for n in range(MEMBERS)
}


def find_walls(done: Crawl) -> dict[str, int]:
    """Find the walls that a crawl names, by path; how many pages repeat each."""
    judging = done.crawler.get_downloader_middleware(SimhashDownloaderMiddleware)
    assert judging
    told = judging.summary.alerts.list_told()
    return {path_of(each["url"]): each["pages"] for each in told if each["url"]}


async def test_a_wall_in_mid_crawl_is_named(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, run: Run
) -> None:
    done = await crawl(tmp_path, site.urls())
    assert done.paths == [members(n) for n in range(WALL_BEGINS + 1)]
    wall = site.url(members(WALL_BEGINS))
    assert run.answer("explain", wall, "--store", tmp_path)["verdict"].endswith(
        "; 8 pages repeat it"
    )
    dropped = [site.url(members(n)) for n in range(WALL_BEGINS + 1, MEMBERS)]
    listed = run("undo", "--original", wall, "--dry-run", "--store", tmp_path)
    assert (listed.out.split(), listed.err) == (dropped, "8 pages listed, nothing undone\n")
    assert find_walls(done) == {members(WALL_BEGINS): 8}
    assert done.counted["dropped"] == MEMBERS - WALL_BEGINS - 1
    assert done.stats["finish_reason"] == "finished"
    first = site.url(members(WALL_BEGINS))
    said = f"Look at: 8 near-duplicates at unlike addresses repeating {first!r}."
    assert said in caplog.messages
    # Once the wall is gone.
    site.answers[members(5)] = Answer(page(5).encode())
    again = await crawl(tmp_path, dropped)
    assert again.paths == [members(4), members(5)]  # the first copy in this crawl


async def test_a_login_whose_links_have_a_session_of_each_answer_is_a_wall(
    tmp_path: Path, run: Run
) -> None:
    """Nothing of it leads on; and pages say of the parameter that it makes no difference."""
    menu = [f"/menu{n}" for n in range(6)]

    def link(n: int, paths: list[str]) -> list[str]:
        session = hashlib.sha256(b"%d" % n).hexdigest()[:8] + "f00d1a"
        return ["/help", *(f"{path}?sid={session}" for path in paths)]

    form = make_words(99, 120)
    answers = {
        members(n): make_page(form, title="Log in", links=link(n, menu)) for n in range(MEMBERS)
    }
    for n, path in enumerate(2 * menu):
        answers[link(100 + n, [path])[1]] = page(n % 6, links=link(n, menu))
    done = await crawl_pages(tmp_path, answers)
    assert find_walls(done) == {members(0): MEMBERS - 1}
    assert run("urls", "--store", tmp_path, "--json").answers[0]["same"] == len(menu)


@pytest.mark.parametrize("shown", ["Your ray: {:x}.", '<img src="/captcha/{:x}.jpg">'])
async def test_a_wall_with_an_id_of_each_answer_is_named(tmp_path: Path, shown: str) -> None:
    """Reported of challenges; one under 32 words would be a page whenever the id is another."""
    text = " ".join(make_words(99, 40))

    def ask(number: int) -> str:
        return f"<title>Are you a robot?</title><p>{text} {shown.format(number * 7919**5)}"

    walls: dict[str, Any] = {f"/{'/'.join(make_words(n, 2))}": ask for n in range(12)}
    done = await crawl_pages(tmp_path, {f"/news/{n}": page(n) for n in range(6)} | walls)
    assert find_walls(done) == {next(iter(walls)): len(walls) - 1}


FIRE = page(1).replace("</head>", '<link rel="canonical" href="/wiki/Fire"></head>')
PERMALINKS = {
    f"/t/{thread}/post/{10 * thread + post}": page(thread)
    for thread in range(6)
    for post in range(6)
}


@pytest.mark.parametrize(
    ("answers", "walls"),
    [
        # Those of one thread have its number in common, which others have not.
        ({**{f"/t/{thread}": page(thread) for thread in range(6)}, **PERMALINKS}, {}),
        ({f"/reply?post={n}&t={n % 6}": login("/") for n in range(12)}, {"/reply?post=0&t=0": 11}),
        ({f"/login?next={n}": login("/") for n in range(12)}, {"/login?next=0": 11}),
        ({f"/{n % 2}?sid={n}": page(n % 2) for n in range(12)}, {}),
        ({f"/cal/{n % 6}/{n}": page(1) for n in range(12)}, {"/cal/0/0": 11}),
        # Titles under which a wiki shows one page, which says where it belongs.
        ({f"/wiki/{name}": FIRE for name in "abcdefghij"}, {}),
        # Two topics are one; 39 of 40 others were lost for a login, and nothing was said.
        (
            {f"/topic?t={n}": page(n % 6, title=f"Topic {n % 6}") for n in range(7)}
            | {f"/topic?t={n}": login("/") for n in range(100, 140)},
            {"/topic?t=100": 39},
        ),
    ],
    ids=["permalinks", "reply", "login", "sessions", "calendar", "wiki", "topics"],
)
async def test_addresses_of_a_wall_have_nothing_in_common(
    tmp_path: Path, answers: dict[str, str], walls: dict[str, int]
) -> None:
    done = await crawl_pages(tmp_path, answers)
    assert (find_walls(done), done.counted["new"]) == (walls, len(set(answers.values())))


@pytest.mark.parametrize("how", [False, True])
async def test_lists_of_one_text_with_rows_of_their_own_are_no_wall(
    tmp_path: Path, *, how: bool
) -> None:
    """Ten galleries differ in nothing but their pictures, and in where these lead."""
    answers = {f"/{n}": page(99, links=["/", f"/{n}/a", f"/{n}/b"]) for n in range(10)}
    rows = [f"/{n}/{row}" for n in range(10) for row in "ab"]
    answers |= {path: page(number) for number, path in enumerate(["/", *rows])}
    answers["/"] = make_page(make_words(98), links=[f"/{n}" for n in range(10)])
    settings: dict[str, Any] = {"SIMHASH_FOLLOW_NEW_LINKS": how}
    with serve(answers) as site:
        for turn in range(2):
            done = await crawl(tmp_path, [site.url("/")], FollowingSpider, **settings)
            assert (done.stats["finish_reason"], find_walls(done)) == ("finished", {})
            unseen = done.counted.get("links/only_on_dropped_pages", 0)
            # The first one was kept.
            assert (unseen, len(set(rows) - set(done.paths))) == ((0, 0) if how else (18, 18)), turn


async def test_a_short_login_with_a_secret_of_each_answer(tmp_path: Path) -> None:
    form = "<form action=/login>Name <input name=name><input type=hidden name={} value={}></form>"
    for folder, name, seen in (("secret", "csrf_token", 1), ("asked", "wanted", 0)):
        answers = {
            members(n): f"<html><body>{form.format(name, f'{n}f8Kx3vPzq0wQ2bH7')}</body></html>"
            for n in range(MEMBERS)
        }
        done = await crawl_pages(tmp_path / folder, answers)
        assert (len(find_walls(done)), len(done.paths)) == (seen, 1 if seen else MEMBERS)


async def test_a_redirect_to_a_login_page(tmp_path: Path, run: Run) -> None:
    """The address of each login page is alike, and those that were asked for are not.

    These are what may be fetched again.
    """
    answers: dict[str, Answer | str] = {
        members(n): Answer(location=f"/login?next={members(n)}") for n in range(MEMBERS)
    }
    answers |= {f"/login?next={members(n)}": login(members(n)) for n in range(MEMBERS)}
    asked = [members(n) for n in range(MEMBERS)]
    done = await crawl_pages(tmp_path, answers, asked)
    assert find_walls(done) == {f"/login?next={members(0)}": MEMBERS - 1}
    wall = f"{done.root}/login?next={members(0)}"
    listed = run("undo", "--original", wall, "--store", tmp_path)
    assert listed.out.split() == [done.root + path for path in asked[1:]]
    assert "11 drops undone" in listed.err


async def test_undo_lists_what_was_asked_for_last(tmp_path: Path, run: Run) -> None:
    with serve({"/one": page(1), "/copy": page(1, menu="Other")}) as site:
        site.answers["/old"] = Answer(location="/copy")
        await crawl(tmp_path, site.urls("/one", "/old"))
        site.answers["/old"] = Answer(b"", 404)
        await crawl(tmp_path, site.urls("/one", "/copy"))
        listed = run("undo", "--original", site.url("/one"), "--dry-run", "--store", tmp_path)
        assert site.url("/copy") in listed.out.splitlines()
        assert site.url("/old") not in listed.out
